//! Sessions on read-only servers.

use std::time::Duration;

use zk_harness::Ensemble;
use zk_wire::Client;
use zk_wire::Config;
use zk_wire::ConnectionState;
use zk_wire::CreateMode;
use zk_wire::ErrorCode;
use zk_wire::Reply;
use zk_wire::Request;
use zk_wire::RequestErrorKind;

use crate::connect;
use crate::expected;
use crate::hosts;
use crate::node;
use crate::request;

fn path(path: &str) -> String {
    path.to_owned()
}

async fn reply(client: &Client, sent: Request) -> Reply {
    let what = format!("{sent:?}");
    match request(client, sent).await {
        Ok(answer) => answer.reply,
        Err(error) => panic!("{what}: {error}"),
    }
}

// covers: W6
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_quorum_is_read_and_left() {
    let ensemble = Ensemble::builder()
        .servers(3)
        .tick_time(Duration::from_millis(500))
        // A server that is cut off grants local sessions only.
        .property("localSessionsEnabled", "true")
        .property("localSessionsUpgradingEnabled", "true")
        .jvm_flags([
            "-Xshare:auto",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Xmx128m",
            "-Dreadonlymode.enabled=true",
        ])
        .start()
        .await
        .expect("three servers start");
    let client = connect(&ensemble, Duration::from_secs(4)).await;
    reply(
        &client,
        Request::Create(node("/a", "x", CreateMode::Persistent)),
    )
    .await;
    client.close().await;
    let [one, two, three] = ensemble.servers() else {
        panic!("three servers expected");
    };
    one.kill().await.expect("it is killed");
    two.kill().await.expect("it is killed");
    let cut_off = async {
        let mut pauses = tokio::time::interval(Duration::from_millis(100));
        while three.four_letter("isro").await.ok().as_deref() != Some("ro") {
            pauses.tick().await;
        }
    };
    let long = Duration::from_secs(60);
    let cut_off = tokio::time::timeout(long, cut_off).await;
    cut_off.expect("the server that is left serves reads within a minute");

    let mut config = Config::new(Duration::from_secs(4));
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
        data: bytes::Bytes::new(),
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
    let writable = tokio::time::timeout(long, states.wait_for(|state| connected(state, false)));
    writable
        .await
        .expect("a writable server is found within a minute")
        .expect("the client runs");
    assert!(matches!(reply(&client, set).await, Reply::Stat(_)));
    expected("the end", client.close()).await;
    ensemble.down().await.expect("the servers go down");
}
