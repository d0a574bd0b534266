//! Servers that serve reads only, and servers that are silent.

use std::time::Duration;

use zk_sim::Ensemble;
use zk_wire::session::Outcome;
use zk_wire::{CreateMode, ErrorCode, Reply, Request};

use crate::byte_stream::{Client, PlantedBug, SESSION_TIMEOUT, config};
use crate::{node, node_path};

fn client(ensemble: &Ensemble, read_only: bool) -> Client {
    let mut config = config();
    config.read_only = read_only;
    Client::with_config(ensemble, 1 << 16, PlantedBug::None, config)
}

fn get(path: &str) -> Request {
    Request::GetData {
        path: node_path(path),
        watch: false,
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_quorum_is_read_until_there_is_one() {
    let ensemble = Ensemble::builder().servers(3).read_only().build();
    let observer = ensemble.connect().await;
    observer.create("/a", "").await.unwrap();
    ensemble.server(1).stop();
    ensemble.server(2).stop();
    let mut client = client(&ensemble, true);
    client
        .until("read-only session", |client| {
            client.is_read_only() == Some(true)
        })
        .await;
    let id = client.session.id();
    assert!(matches!(client.call(&get("/a")).await, Reply::Data { .. }));
    let write = client.submit(&Request::Create(node("/b", CreateMode::Persistent)));
    client
        .until("refusal", |client| client.outcome(write).is_some())
        .await;
    assert!(matches!(
        client.outcome(write),
        Some(Outcome::Refused { code, .. }) if *code == ErrorCode::NOT_READ_ONLY
    ));
    assert_eq!(
        client.session.saved(),
        None,
        "the ensemble has no such session"
    );

    ensemble.server(1).start();
    client
        .until("writable session", |client| {
            client.is_read_only() == Some(false)
        })
        .await;
    assert_ne!(client.session.id(), id, "that session was of one server");
    let create = Request::Create(node("/b", CreateMode::Ephemeral));
    client.call(&create).await;
    assert_eq!(ensemble.tree().paths(), ["/a", "/b"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_quorum_serves_only_who_asks_for_it() {
    let ensemble = Ensemble::builder().servers(3).read_only().build();
    let mut before = client(&ensemble, true);
    before
        .until("session", |client| client.is_read_only().is_some())
        .await;
    let id = before.session.id();
    ensemble.server(1).stop();
    ensemble.server(2).stop();
    let mut writer = client(&ensemble, false);
    let sessions = ensemble.sessions();
    // Less than after what a client takes its session for expired.
    let pass = Duration::from_secs(5);
    for client in [&mut before, &mut writer] {
        let epochs = client.epochs();
        let driven = tokio::time::timeout(pass, client.until("nothing", |_| false)).await;
        assert!(driven.is_err());
        assert_eq!(client.epochs(), epochs, "no server has granted a session");
        assert_eq!(ensemble.sessions(), sessions, "nor one that is refused");
    }
    ensemble.heal();
    for client in [&mut before, &mut writer] {
        let epochs = client.epochs();
        client
            .until("session", |client| client.epochs() > epochs)
            .await;
        assert_eq!(client.is_read_only(), Some(false));
    }
    assert_eq!(before.session.id(), id, "the ensemble has it still");
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_left_before_the_session_ends() {
    let ensemble = Ensemble::new(3);
    let mut client = client(&ensemble, false);
    let own = Request::Create(node("/own", CreateMode::Ephemeral));
    client.call(&own).await;
    let id = zk_core::SessionId::from_i64(client.session.id());
    let server = ensemble.session(id).server().unwrap();
    ensemble.server(server).pause();
    let paused = ensemble.now();
    let read = client.submit(&get("/own"));
    client
        .until("another connection", |client| client.epochs() == 2)
        .await;
    let took = ensemble.now().saturating_sub(paused);
    assert!(took <= SESSION_TIMEOUT, "it took {took:?}");
    assert!(
        took >= SESSION_TIMEOUT * 2 / 3,
        "the server could still have answered after {took:?}"
    );
    assert!(matches!(
        client.outcome(read),
        Some(Outcome::Unknown { .. })
    ));
    assert_ne!(ensemble.session(id).server(), Some(server));
    assert!(matches!(
        client.call(&get("/own")).await,
        Reply::Data { .. }
    ));

    // What it has been sent meanwhile, it carries out on a connection that is over.
    ensemble.server(server).resume();
    client.until_idle().await;
    assert_eq!(client.epochs(), 2);
    assert_eq!(ensemble.tree().paths(), ["/own"]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_passed_over_by_a_new_session() {
    let mut slow = 0;
    for silent in 1..=3 {
        let ensemble = Ensemble::new(3);
        ensemble.server(silent).pause();
        let mut client = client(&ensemble, false);
        client.until("session", |client| client.epochs() == 1).await;
        let id = zk_core::SessionId::from_i64(client.session.id());
        assert_ne!(ensemble.session(id).server(), Some(silent));
        let took = ensemble.now();
        assert!(took < SESSION_TIMEOUT / 2, "it took {took:?}");
        slow += usize::from(took > Duration::from_secs(1));
    }
    assert_eq!(slow, 1, "one of them is asked first");
}
