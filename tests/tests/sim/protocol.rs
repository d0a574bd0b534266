//! What simulated servers answer to each operation, and when sessions end.

use std::time::Duration;

use bytes::Bytes;
use zk_sim::{Ensemble, matching};
use zk_wire::session::Outcome;
use zk_wire::{
    Acl, AclEntry, CreateMode, Credentials, ErrorCode, MultiOp, MultiRead, MultiRefusal,
    MultiResult, NewNode, NodeData, Permissions, ReadResult, Reply, Request, SavedSession,
    WatchKind,
};

use crate::byte_stream::{Client, PlantedBug, config};
use crate::{node, node_path};

fn get(path: &str, watch: bool) -> Request {
    Request::GetData {
        path: node_path(path),
        watch,
    }
}

fn list(path: &str) -> Request {
    Request::GetChildren {
        path: node_path(path),
        watch: false,
    }
}

fn delete(path: &str) -> MultiOp {
    MultiOp::Delete {
        path: node_path(path),
        version: None,
    }
}

async fn client(ensemble: &Ensemble) -> Client {
    let mut client = Client::new(ensemble, 1 << 16, PlantedBug::None);
    client.until("session", |client| client.epochs() == 1).await;
    client
}

/// Returns the code of a refusal.
async fn refusal(client: &mut Client, request: &Request) -> ErrorCode {
    let ticket = client.submit(request);
    client
        .until("a refusal", |client| client.outcome(ticket).is_some())
        .await;
    match client.outcome(ticket) {
        Some(Outcome::Refused { code, .. }) => *code,
        other => panic!("{request:?}: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn every_operation_has_the_reply_of_a_server() {
    let ensemble = Ensemble::new(3);
    let mut client = client(&ensemble).await;
    let created = client
        .call(&Request::Create(node("/a", CreateMode::Persistent)))
        .await;
    assert!(
        matches!(&created, Reply::Created { path, stat: None } if path.as_str() == "/a"),
        "{created:?}"
    );
    let mode = CreateMode::EphemeralSequential;
    let created = client.call(&Request::Create2(node("/a/e-", mode))).await;
    let Reply::Created {
        path,
        stat: Some(stat),
    } = created
    else {
        panic!("{created:?}");
    };
    assert_eq!(path.as_str(), "/a/e-0000000000");
    let owner = zk_core::SessionId::from_i64(client.session.id());
    assert_eq!(stat.ephemeral_owner, Some(owner));
    for mode in [
        CreateMode::Container,
        CreateMode::PersistentWithTtl(Duration::from_secs(60)),
    ] {
        let path = if mode == CreateMode::Container {
            "/c"
        } else {
            "/t"
        };
        let created = client.call(&Request::Create(node(path, mode))).await;
        assert!(matches!(created, Reply::Created { .. }), "{created:?}");
    }

    let Reply::Data { data, stat } = client.call(&get("/a", false)).await else {
        panic!("no data");
    };
    assert_eq!((data.as_slice(), stat.num_children), (&b"data"[..], 1));
    assert!(stat.pzxid > stat.czxid, "it got its child later: {stat:?}");
    let set = |version| Request::SetData {
        path: node_path("/a"),
        data: NodeData::default(),
        version,
    };
    let bad_version = ErrorCode::new(-103).unwrap();
    assert_eq!(refusal(&mut client, &set(Some(7))).await, bad_version);
    let names = client.call(&list("/a")).await;
    assert!(
        matches!(&names, Reply::Children { names, stat: None } if names == &["e-0000000000"]),
        "{names:?}"
    );
    let path = node_path("/a");
    let permissions = Permissions::READ | Permissions::WRITE | Permissions::ADMIN;
    let acl = Acl::new([AclEntry::new(permissions, "world", "anyone")]);
    let set_acl = Request::SetAcl {
        path: path.clone(),
        acl: acl.clone(),
        version: Some(0),
    };
    client.call(&set_acl).await;
    let found = client.call(&Request::GetAcl { path: path.clone() }).await;
    assert!(
        matches!(&found, Reply::Acl { acl: found, stat } if *found == acl && stat.aversion == 1),
        "{found:?}"
    );
    client.call(&Request::Sync { path: path.clone() }).await;
    // It permits no creates.
    client.call(&set(Some(0))).await;
    let create = Request::Create(node("/a/b", CreateMode::Persistent));
    assert_eq!(refusal(&mut client, &create).await, NO_AUTH);

    let own = client
        .call(&Request::GetEphemerals {
            prefix: "/a/".to_owned(),
        })
        .await;
    assert_eq!(own, Reply::Paths(vec![node_path("/a/e-0000000000")]));
    let prefix = "/b".to_owned();
    let none = client.call(&Request::GetEphemerals { prefix }).await;
    assert_eq!(none, Reply::Paths(Vec::new()));
    let root = node_path("/");
    let count = client
        .call(&Request::GetAllChildrenNumber { path: root })
        .await;
    // Four of the client, and three of the servers.
    assert_eq!(count, Reply::Count(7));
    let members = Request::Reconfig {
        joining: None,
        leaving: None,
        new_members: None,
        version: None,
    };
    assert_eq!(refusal(&mut client, &members).await.code(), -123);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_has_a_result_for_each_part_or_names_the_refused_one() {
    let ensemble = Ensemble::new(3);
    let mut client = client(&ensemble).await;
    let both = Request::Multi(vec![
        MultiOp::Create2(node("/a", CreateMode::Persistent)),
        MultiOp::Create(node("/a/b", CreateMode::Persistent)),
        delete("/a/b"),
    ]);
    let Reply::Multi(Ok(results)) = client.call(&both).await else {
        panic!("it is refused");
    };
    assert!(
        matches!(
            &results[..],
            [
                MultiResult::Created { stat: Some(_), .. },
                MultiResult::Created { stat: None, .. },
                MultiResult::Deleted
            ]
        ),
        "{results:?}"
    );
    let refused = Request::Multi(vec![delete("/a"), delete("/b"), delete("/c")]);
    let refusal = MultiRefusal {
        index: 1,
        code: ErrorCode::NO_NODE,
    };
    assert_eq!(client.call(&refused).await, Reply::Multi(Err(refusal)));
    assert_eq!(ensemble.tree().paths(), ["/a"]);
    let reads = Request::MultiRead(vec![
        MultiRead::GetData {
            path: node_path("/b"),
        },
        MultiRead::GetChildren {
            path: node_path("/a"),
        },
    ]);
    let nothing = ReadResult::Children(Vec::new());
    assert_eq!(
        client.call(&reads).await,
        Reply::MultiRead(vec![Err(ErrorCode::NO_NODE), Ok(nothing)])
    );
}

#[tokio::test(start_paused = true)]
async fn watches_are_checked_removed_and_fire_before_the_reply_that_shows_the_change() {
    let ensemble = Ensemble::new(3);
    let observer = ensemble.connect().server(1).await;
    observer.create("/a", "").await.unwrap();
    let mut client = client(&ensemble).await;
    let path = node_path("/a");
    let check = |kind| Request::CheckWatches {
        path: node_path("/a"),
        kind,
    };
    let no_watcher = ErrorCode::new(-121).unwrap();
    assert_eq!(
        refusal(&mut client, &check(Some(WatchKind::Data))).await,
        no_watcher
    );
    let data = client.submit(&get("/a", true));
    let below = client.submit(&Request::AddWatch {
        path: path.clone(),
        recursive: true,
    });
    client.call(&check(Some(WatchKind::Data))).await;
    client.call(&check(None)).await;
    let children = check(Some(WatchKind::Child));
    assert_eq!(refusal(&mut client, &children).await, no_watcher);
    assert_eq!(ensemble.watch_count(), 2);

    // Of the same connection, so that it comes after the write.
    let set = client.submit(&Request::SetData {
        path: path.clone(),
        data: NodeData::default(),
        version: None,
    });
    client
        .until("the reply", |client| client.outcome(set).is_some())
        .await;
    assert_eq!((client.fired(data), client.fired(below)), (1, 1));

    let remove = Request::RemoveWatches { path, kind: None };
    client.call(&remove).await;
    assert_eq!(ensemble.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn credentials_belong_to_a_connection() {
    let ensemble = Ensemble::new(3);
    let mut client = client(&ensemble).await;
    let secret = NewNode {
        acl: Acl::creator_only(),
        ..node("/secret", CreateMode::Persistent)
    };
    let create = Request::Create(secret);
    assert_eq!(
        refusal(&mut client, &create).await,
        ErrorCode::new(-114).unwrap()
    );
    let credentials = Credentials::digest("ann", "pw");
    client.call(&Request::Auth(credentials)).await;
    client.call(&create).await;
    client.call(&get("/secret", false)).await;
    let Reply::Identities(who) = client.call(&Request::WhoAmI).await else {
        panic!("no identities");
    };
    assert_eq!((who.len(), who[0].name.as_str()), (1, "ann"));

    client.break_connection();
    client
        .until("connection", |client| client.epochs() == 2)
        .await;
    let path = node_path("/secret");
    for read in [
        get("/secret", false),
        Request::GetAllChildrenNumber { path },
    ] {
        assert_eq!(refusal(&mut client, &read).await, NO_AUTH, "{read:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_is_resumed_only_with_its_password() {
    let ensemble = Ensemble::new(3);
    let client = client(&ensemble).await;
    let saved = client.session.saved().expect("the ensemble knows it");
    let wrong = SavedSession {
        password: Bytes::from_static(&[0; 16]),
        ..saved.clone()
    };
    for (saved, is_refused) in [(wrong, true), (saved, false)] {
        let mut config = config();
        config.resume = Some(saved);
        let mut client = Client::with_config(&ensemble, 1 << 16, PlantedBug::None, config);
        let is_decided = |client: &Client| client.is_over() || client.epochs() == 1;
        client.until("session or its end", is_decided).await;
        assert_eq!(client.is_over(), is_refused);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_moves_when_its_server_stops_and_expires_when_nobody_is_heard() {
    let ensemble = Ensemble::new(3);
    let mut client = client(&ensemble).await;
    let own = Request::Create(node("/own", CreateMode::Ephemeral));
    client.call(&own).await;
    let id = zk_core::SessionId::from_i64(client.session.id());
    let server = ensemble.session(id).server().unwrap();
    ensemble.server(server).stop();
    client
        .until("another server", |client| client.epochs() == 2)
        .await;
    assert_ne!(ensemble.session(id).server(), Some(server));
    // Longer than the session timeout: pings keep it alive.
    let pass = tokio::time::timeout(Duration::from_secs(30), client.until("nothing", |_| false));
    assert!(pass.await.is_err());
    assert_eq!(ensemble.tree().paths(), ["/own"]);
    assert_eq!(client.epochs(), 2);

    // Nothing is driven now: the connection is up, and silent.
    zk_sim::wait::pass(Duration::from_secs(11)).await;
    assert_eq!(ensemble.tree().paths(), [""; 0]);
    client.until("the end", Client::is_over).await;
}

#[tokio::test(start_paused = true)]
async fn a_scripted_failure_is_that_of_the_library() {
    let ensemble = Ensemble::new(3);
    let mut client = client(&ensemble).await;
    ensemble.on(matching::creates("/lost")).lose_request();
    ensemble.on(matching::creates("/applied")).lose_reply();
    for (path, is_applied) in [("/lost", false), ("/applied", true)] {
        let ticket = client.submit(&Request::Create(node(path, CreateMode::Persistent)));
        client
            .until("an outcome", |client| client.outcome(ticket).is_some())
            .await;
        let outcome = client.outcome(ticket);
        assert!(
            matches!(outcome, Some(Outcome::Unknown { .. })),
            "{path}: {outcome:?}"
        );
        assert_eq!(ensemble.tree().node(path).is_some(), is_applied, "{path}");
    }
    let log = ensemble.requests();
    let outcomes: Vec<bool> = log
        .iter()
        .map(zk_sim::LoggedRequest::is_carried_out)
        .collect();
    assert_eq!(outcomes, [false, true]);
}

const NO_AUTH: ErrorCode = ErrorCode::NO_AUTH;
