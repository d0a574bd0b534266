//! Every operation, as a server of the newest release carries it out.

use std::time::Duration;

use bytes::Bytes;
use zk_wire::{
    Acl, Client, CreateMode, Credentials, ErrorCode, MultiOp, MultiRead, MultiRefusal, MultiResult,
    NodeData, ReadResult, Reply, Request, RequestErrorKind, WatchEventKind, WatchKind,
};

use crate::{connect, expected, node, path, request, start};

async fn reply(client: &Client, sent: Request) -> Reply {
    let what = format!("{sent:?}");
    match request(client, sent).await {
        Ok(answer) => answer.reply,
        Err(error) => panic!("{what}: {error}"),
    }
}

async fn refusal(client: &Client, sent: Request) -> ErrorCode {
    match request(client, sent).await.map_err(|error| error.kind) {
        Err(RequestErrorKind::Refused { code, .. }) => code,
        other => panic!("it is not refused: {other:?}"),
    }
}

#[tokio::test]
async fn every_operation_is_understood_by_a_server() {
    let ensemble = start(1, false).await;
    let client = connect(&ensemble, Duration::from_secs(10)).await;

    // Creates, in every mode.
    let mut created = Vec::new();
    let ttl = Duration::from_mins(1);
    for mode in [
        CreateMode::Persistent,
        CreateMode::PersistentSequential,
        CreateMode::Ephemeral,
        CreateMode::EphemeralSequential,
        CreateMode::Container,
        CreateMode::PersistentWithTtl(ttl),
        CreateMode::PersistentSequentialWithTtl(ttl),
    ] {
        for with_stat in [false, true] {
            let prefix = format!("/{mode:?}-{with_stat}").replace(['(', ')'], "-");
            let new = node(&prefix, "data", mode);
            let create = if with_stat {
                Request::Create2(new)
            } else {
                Request::Create(new)
            };
            let Reply::Created { path, stat } = reply(&client, create).await else {
                panic!("a create answers what it created");
            };
            assert!(path.as_str().starts_with(&prefix), "{path}");
            let is_sequential = format!("{mode:?}").contains("Sequential");
            let is_longer = path.as_str().len() > prefix.len();
            assert_eq!(is_longer, is_sequential, "{path}");
            if let Some(stat) = stat {
                assert_eq!((stat.data_length, stat.version), (4, 0));
            }
            assert!(stat.is_some() || !with_stat, "{mode:?}");
            created.push(path);
        }
    }
    let exists = refusal(
        &client,
        Request::Create(node(created[0].as_str(), "", CreateMode::Persistent)),
    );
    assert_eq!(exists.await, ErrorCode::NODE_EXISTS);

    // Data, access rules and children.
    let a = path("/a");
    reply(
        &client,
        Request::Create2(node("/a", "one", CreateMode::Persistent)),
    )
    .await;
    reply(
        &client,
        Request::Create2(node("/a/b", "", CreateMode::Persistent)),
    )
    .await;
    let two = || NodeData::from(&b"two"[..]);
    let set = |version| Request::SetData {
        path: path("/a"),
        data: two(),
        version,
    };
    assert_eq!(refusal(&client, set(Some(7))).await, ErrorCode::BAD_VERSION);
    let Reply::Stat(stat) = reply(&client, set(Some(0))).await else {
        panic!("a set answers a stat");
    };
    assert_eq!((stat.version, stat.num_children), (1, 1));
    let get = Request::GetData {
        path: a.clone(),
        watch: false,
    };
    let data = two();
    assert_eq!(reply(&client, get).await, Reply::Data { data, stat });
    let exists = |at: &str| Request::Exists {
        path: path(at),
        watch: false,
    };
    assert_eq!(reply(&client, exists("/a")).await, Reply::Stat(stat));
    assert_eq!(refusal(&client, exists("/no")).await, ErrorCode::NO_NODE);
    let (path_of_none, watch) = (path("/no"), true);
    let get_none = Request::GetData {
        path: path_of_none.clone(),
        watch,
    };
    let exists_none = Request::Exists {
        path: path_of_none,
        watch,
    };
    for (request, sets_watch) in [(get_none, false), (exists_none, true)] {
        let error = client
            .request(&request)
            .await
            .expect_err("there is no node");
        assert_eq!(error.watch.is_some(), sets_watch, "{request:?}");
    }
    let (names, watch) = (vec!["b".to_owned()], false);
    let children = Request::GetChildren {
        path: a.clone(),
        watch,
    };
    let expected_names = names.clone();
    let listed = reply(&client, children).await;
    assert_eq!(listed, Reply::Children { names, stat: None });
    let children = Request::GetChildren2 {
        path: a.clone(),
        watch,
    };
    let (names, stat) = (expected_names, Some(stat));
    assert_eq!(
        reply(&client, children).await,
        Reply::Children { names, stat }
    );
    let acl = Acl::open();
    let set_acl = Request::SetAcl {
        path: a.clone(),
        acl: acl.clone(),
        version: Some(0),
    };
    let Reply::Stat(stat) = reply(&client, set_acl).await else {
        panic!("a change of access rules answers a stat");
    };
    assert_eq!(stat.aversion, 1);
    let rules = reply(&client, Request::GetAcl { path: a.clone() }).await;
    assert_eq!(rules, Reply::Acl { acl, stat });
    assert_eq!(
        reply(&client, Request::Sync { path: a.clone() }).await,
        Reply::Empty
    );

    // Transactions.
    let multi = |version| {
        Request::Multi(vec![
            MultiOp::Check {
                path: path("/a"),
                version: None,
            },
            MultiOp::Create(node("/a/plain", "", CreateMode::Persistent)),
            MultiOp::Create2(node("/a/n-", "", CreateMode::PersistentSequential)),
            MultiOp::Create2(node("/a/container", "", CreateMode::Container)),
            MultiOp::Create(node("/a/ttl", "", CreateMode::PersistentWithTtl(ttl))),
            MultiOp::SetData {
                path: path("/a"),
                data: NodeData::default(),
                version,
            },
            MultiOp::Delete {
                path: path("/a/b"),
                version: Some(0),
            },
        ])
    };
    let code = ErrorCode::BAD_VERSION;
    let refused = reply(&client, multi(Some(9))).await;
    assert_eq!(refused, Reply::Multi(Err(MultiRefusal { index: 5, code })));
    let Reply::Multi(Ok(results)) = reply(&client, multi(Some(1))).await else {
        panic!("the transaction is refused");
    };
    let created = |at: usize, with_stat| matches!(&results[at], MultiResult::Created { stat, .. } if stat.is_some() == with_stat);
    assert!(created(1, false) && created(2, true) && created(3, true) && created(4, true));
    assert!(
        matches!(&results[2], MultiResult::Created { path, .. } if path.as_str() == "/a/n-0000000002")
    );
    assert_eq!(
        (&results[0], &results[6]),
        (&MultiResult::Checked, &MultiResult::Deleted)
    );
    assert!(matches!(results[5], MultiResult::Set(stat) if stat.version == 2));
    let reads = Request::MultiRead(vec![
        MultiRead::GetData { path: a.clone() },
        MultiRead::GetChildren { path: path("/no") },
        MultiRead::GetChildren {
            path: path("/a/n-0000000002"),
        },
    ]);
    let Reply::MultiRead(results) = reply(&client, reads).await else {
        panic!("several reads answer several results");
    };
    assert!(matches!(&results[0], Ok(ReadResult::Data { stat, .. }) if stat.version == 2));
    assert_eq!(
        results[1..],
        [Err(ErrorCode::NO_NODE), Ok(ReadResult::Children(vec![]))]
    );

    // Watches.
    let removal = |kind| Request::RemoveWatches {
        path: path("/a"),
        kind,
    };
    assert_eq!(refusal(&client, removal(None)).await, ErrorCode::NO_WATCHER);
    let watch = true;
    let watched = Request::Exists {
        path: path("/later"),
        watch,
    };
    let missing = request(&client, watched)
        .await
        .expect_err("there is no node");
    let mut later = missing.watch.expect("an exists sets a watch all the same");
    let list = Request::GetChildren {
        path: a.clone(),
        watch,
    };
    let mut list = request(&client, list).await.unwrap().watch.unwrap();
    let recursive = Request::AddWatch {
        path: path("/"),
        recursive: true,
    };
    let mut recursive = request(&client, recursive).await.unwrap().watch.unwrap();
    reply(
        &client,
        Request::Create(node("/later", "", CreateMode::Persistent)),
    )
    .await;
    reply(
        &client,
        Request::Create(node("/a/more", "", CreateMode::Persistent)),
    )
    .await;
    let event = expected("the creation", later.next()).await.unwrap();
    assert_eq!(
        (event.path.as_str(), event.kind),
        ("/later", Some(WatchEventKind::Created))
    );
    assert!(event.zxid.is_some());
    assert_eq!(later.next().await, None, "it fires once");
    let event = expected("the list", list.next()).await.unwrap();
    assert_eq!(
        (event.path.as_str(), event.kind),
        ("/a", Some(WatchEventKind::ChildrenChanged))
    );
    for expected_path in ["/later", "/a/more"] {
        let event = expected("a creation", recursive.next()).await.unwrap();
        assert_eq!(event.path.as_str(), expected_path);
    }
    let check = |kind| Request::CheckWatches {
        path: path("/"),
        kind,
    };
    let recursive_kind = Some(WatchKind::PersistentRecursive);
    assert_eq!(reply(&client, check(recursive_kind)).await, Reply::Empty);
    drop(recursive);
    assert_eq!(
        refusal(&client, check(recursive_kind)).await,
        ErrorCode::NO_WATCHER
    );

    // The session and the ensemble.
    let auth = Request::Auth(Credentials {
        scheme: "digest".to_owned(),
        data: Bytes::from_static(b"user:secret"),
    });
    assert_eq!(reply(&client, auth).await, Reply::Empty);
    let Reply::Identities(identities) = reply(&client, Request::WhoAmI).await else {
        panic!("whoAmI answers identities");
    };
    assert!(
        identities
            .iter()
            .any(|identity| identity.scheme == "digest" && identity.name == "user")
    );
    let ephemerals = Request::GetEphemerals {
        prefix: "/Ephemeral".to_owned(),
    };
    let Reply::Paths(ephemerals) = reply(&client, ephemerals).await else {
        panic!("getEphemerals answers paths");
    };
    assert_eq!(ephemerals.len(), 4);
    let Reply::Count(below) = reply(&client, Request::GetAllChildrenNumber { path: a }).await
    else {
        panic!("getAllChildrenNumber answers a number");
    };
    assert_eq!(below, 5);
    let reconfig = Request::Reconfig {
        joining: None,
        leaving: Some("9".to_owned()),
        new_members: None,
        version: None,
    };
    let refused = refusal(&client, reconfig).await;
    assert!(
        [ErrorCode::RECONFIG_DISABLED, ErrorCode::UNIMPLEMENTED].contains(&refused),
        "{refused}"
    );
    let delete = Request::Delete {
        path: path("/a"),
        version: None,
    };
    assert_eq!(refusal(&client, delete).await, ErrorCode::NOT_EMPTY);
    let delete = Request::Delete {
        path: path("/later"),
        version: Some(0),
    };
    assert_eq!(reply(&client, delete).await, Reply::Empty);
    assert_eq!(
        expected("the end", client.close()).await,
        zk_wire::SessionEnd::Closed
    );
    ensemble.down().await.expect("the server goes down");
}
