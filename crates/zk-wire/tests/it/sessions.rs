//! Where a session is, and whose it is: chroots, other processes, read-only servers.

use std::time::Duration;

use zk_harness::Ensemble;
use zk_wire::{
    Client, Config, ConnectionState, CreateMode, ErrorCode, MultiOp, MultiResult, NodeData, Reply,
    Request, RequestErrorKind, SessionEnd, SubmitError, WatchEventKind,
};

use crate::{connect, expected, hosts, hosts_of, node, path, request, start};

async fn reply(client: &Client, sent: Request) -> Reply {
    let what = format!("{sent:?}");
    match request(client, sent).await {
        Ok(answer) => answer.reply,
        Err(error) => panic!("{what}: {error}"),
    }
}

#[tokio::test]
async fn a_chroot_hides_the_rest_of_the_tree() {
    let ensemble = start(1, false).await;
    let outside = connect(&ensemble, Duration::from_secs(10)).await;
    for at in ["/app", "/apple"] {
        reply(
            &outside,
            Request::Create(node(at, "", CreateMode::Persistent)),
        )
        .await;
    }
    let connect_string = format!("{}/app", ensemble.connect_string());
    let config = Config::new(Duration::from_secs(10));
    let client = Client::from_connect_string(&connect_string, config).expect("it is one");

    let recursive = Request::AddWatch {
        path: path("/"),
        recursive: true,
    };
    let watching = request(&client, recursive).await.expect("the watch is set");
    let mut watch = watching.watch.expect("it was asked for");
    let created = reply(
        &client,
        Request::Create2(node("/a", "x", CreateMode::Persistent)),
    )
    .await;
    assert!(
        matches!(&created, Reply::Created { path, .. } if path.as_str() == "/a"),
        "{created:?}"
    );
    let event = expected("the creation", watch.next())
        .await
        .expect("it fires");
    assert_eq!(
        (event.path.as_str(), event.kind),
        ("/a", Some(WatchEventKind::Created))
    );
    // The server would add its number to the name of the chroot.
    let number = Request::Create(node("/", "", CreateMode::PersistentSequential));
    let refused = request(&client, number).await.expect_err("it has no name");
    assert!(
        matches!(refused.kind, RequestErrorKind::Submit(SubmitError::NoName)),
        "{refused}"
    );
    let numbered = Request::Create(node("/n-", "", CreateMode::PersistentSequential));
    let created = reply(&client, numbered).await;
    assert!(
        matches!(&created, Reply::Created { path, .. } if path.as_str() == "/n-0000000001"),
        "{created:?}"
    );
    let multi = Request::Multi(vec![
        MultiOp::Create(node("/a/b", "", CreateMode::Ephemeral)),
        MultiOp::Check {
            path: path("/a"),
            version: Some(0),
        },
    ]);
    let Reply::Multi(Ok(results)) = reply(&client, multi).await else {
        panic!("the transaction is refused");
    };
    assert!(matches!(&results[0], MultiResult::Created { path, .. } if path.as_str() == "/a/b"));
    let prefix = "/".to_owned();
    let ephemerals = reply(&client, Request::GetEphemerals { prefix }).await;
    assert_eq!(ephemerals, Reply::Paths(vec![path("/a/b")]));
    let (root, watch) = (path("/"), false);
    let listed = reply(&client, Request::GetChildren { path: root, watch }).await;
    let Reply::Children { mut names, .. } = listed else {
        panic!("a list answers names");
    };
    names.sort();
    assert_eq!(names, ["a", "n-0000000001"]);
    let config = reply(&client, Request::GetConfig { watch }).await;
    let same = Request::GetData {
        path: path("/zookeeper/config"),
        watch,
    };
    assert_eq!(config, reply(&outside, same).await);
    let data = Request::GetData {
        path: path("/app/a"),
        watch,
    };
    assert!(matches!(reply(&outside, data).await, Reply::Data { .. }));
    client.close().await;
    ensemble.down().await.expect("the server goes down");
}

#[test]
fn a_session_is_resumed_in_another_process() {
    let ours = tokio::runtime::Runtime::new().expect("a runtime starts");
    let ensemble = ours.block_on(start(1, false));
    // The end of its runtime is for a session what the end of its process is.
    let theirs = tokio::runtime::Runtime::new().expect("a runtime starts");
    let (first, saved) = theirs.block_on(async {
        let client = connect(&ensemble, Duration::from_secs(10)).await;
        reply(
            &client,
            Request::Create(node("/e", "", CreateMode::Ephemeral)),
        )
        .await;
        let saved = client.saved_session().expect("there is a session");
        (client, saved)
    });
    theirs.shutdown_background();
    ours.block_on(async {
        // Closing it now could still tell the server.
        let is_over = |state: &ConnectionState| matches!(state, ConnectionState::Over(_));
        let mut states = first.states();
        let over = expected("its end", states.wait_for(is_over)).await;
        assert!(over.is_ok(), "its state is known");
        let mut config = Config::new(Duration::from_secs(10));
        config.resume = Some(saved.clone());
        let client = Client::new(hosts(&ensemble), config.clone());
        let prefix = "/".to_owned();
        let ephemerals = reply(&client, Request::GetEphemerals { prefix }).await;
        assert_eq!(ephemerals, Reply::Paths(vec![path("/e")]));
        assert_eq!(client.saved_session().map(|saved| saved.id), Some(saved.id));
        assert_eq!(
            expected("its end", client.close()).await,
            SessionEnd::Closed
        );
        // Now the ensemble has it no more.
        let late = Client::new(hosts(&ensemble), config.clone());
        assert_eq!(
            expected("the refusal", late.connected()).await,
            Err(SessionEnd::Expired)
        );
        ensemble.down().await.expect("the server goes down");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_quorum_is_read_and_left() {
    let ensemble = Ensemble::builder()
        .servers(3)
        .tick_time(Duration::from_millis(500))
        .read_only_mode(true)
        .start()
        .await
        .expect("three servers start");
    let [one, two, three] = ensemble.servers() else {
        panic!("three servers expected");
    };
    // The server that will be left replies once it has applied the create.
    let left = hosts_of(&three.client_address().to_string());
    let mut config = Config::new(Duration::from_secs(30));
    let client = Client::new(left, config.clone());
    reply(
        &client,
        Request::Create(node("/a", "x", CreateMode::Persistent)),
    )
    .await;
    client.close().await;
    one.kill().await.expect("it is killed");
    two.kill().await.expect("it is killed");
    let cut_off = async {
        let mut pauses = tokio::time::interval(Duration::from_millis(100));
        while three.four_letter("isro").await.ok().as_deref() != Some("ro") {
            pauses.tick().await;
        }
    };
    expected("a server that serves reads alone", cut_off).await;

    config.read_only = true;
    let client = Client::new(hosts(&ensemble), config);
    let connected = |state: &ConnectionState, wanted: bool| matches!(state, ConnectionState::Connected { read_only, .. } if *read_only == wanted);
    let mut states = client.states();
    expected(
        "a read-only session",
        states.wait_for(|state| connected(state, true)),
    )
    .await
    .expect("the client runs");
    let (a, watch) = (path("/a"), false);
    let read = reply(&client, Request::GetData { path: a, watch }).await;
    assert!(matches!(read, Reply::Data { .. }), "{read:?}");
    let set = Request::SetData {
        path: path("/a"),
        data: NodeData::default(),
        version: None,
    };
    let refused = request(&client, set.clone())
        .await
        .expect_err("it cannot write");
    let code = ErrorCode::NOT_READ_ONLY;
    assert!(
        matches!(refused.kind, RequestErrorKind::Refused { code: why, .. } if why == code),
        "{refused}"
    );

    one.start().expect("it starts");
    two.start().expect("it starts");
    let writable = states.wait_for(|state| connected(state, false));
    let writable = expected("a connection to a writable server", writable).await;
    writable.expect("the client runs");
    assert!(matches!(reply(&client, set).await, Reply::Stat(_)));
    expected("the end", client.close()).await;
    ensemble.down().await.expect("the servers go down");
}
