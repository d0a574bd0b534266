//! Servers that follow the dynamic configuration of the ensemble.

use std::time::Duration;

use zk_core::wire::{Certificates, Pem};
use zk_core::{ConnectError, Session, SessionBuilder};
use zk_harness::{Ensemble, Server};

use crate::{MAX_WAIT, server_with, until, watches_of, within};

const OPERATION: Duration = Duration::from_secs(30);

async fn reconfigurable() -> Ensemble {
    Ensemble::builder()
        .servers(3)
        .property("reconfigEnabled", "true")
        .property("skipACL", "yes")
        .start()
        .await
        .expect("three servers start")
}

/// A session with a connect string of one server.
fn tracking(server: &Server) -> SessionBuilder {
    Session::builder(server.client_address().to_string())
        .track_servers(|server| server.name == "127.0.0.1")
        .session_timeout(OPERATION)
        .connect_timeout(OPERATION)
        .operation_timeout(OPERATION)
}

async fn connected(builder: &SessionBuilder) -> Session {
    let session = builder.clone().connect().await;
    session.expect("a server grants a session")
}

/// Waits until a tracker has read the configuration that its server has: only it sets a watch here.
async fn is_tracking(ensemble: &Ensemble) {
    until("the tracker watches the configuration", async || {
        watches_of(ensemble).await == 1
    })
    .await;
}

/// Removes a server from the configuration through another one.
async fn remove(through: &Server, removed: &Server) {
    let config = zk_wire::Config::new(OPERATION);
    let address = through.client_address().to_string();
    let client = zk_wire::Client::from_connect_string(&address, config).expect("an address");
    let request = zk_wire::Request::Reconfig {
        joining: None,
        leaving: Some(removed.id().to_string()),
        new_members: None,
        version: None,
    };
    let answer = within(OPERATION, "a new configuration", client.request(&request)).await;
    answer.expect("the servers accept the new configuration");
    client.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_only_the_configuration_names_are_used() {
    let ensemble = reconfigurable().await;
    let server = &ensemble.servers()[0];
    let config = {
        let session = connected(&tracking(server)).await;
        let config = session.config().await.expect("a configuration");
        session.close().await.expect("closed");
        config.client_addresses()
    };
    let servers = ensemble.servers().iter();
    let expected: Vec<_> = servers.map(|s| s.client_address().to_string()).collect();
    assert_eq!(
        config.iter().map(ToString::to_string).collect::<Vec<_>>(),
        expected
    );
    let builder = tracking(server);
    let tracked = connected(&builder).await;
    is_tracking(&ensemble).await;
    let fixed = Session::builder(server.client_address().to_string());
    let fixed = fixed.connect().await.expect("a session");
    server.kill().await.expect("the server is killed");
    tracked
        .create("/moved", "")
        .ephemeral()
        .await
        .expect("another server serves the session");
    // As a successor of a session that was lost.
    connected(&builder).await.close().await.expect("closed");
    let alone = fixed.stat("/").timeout(Duration::from_secs(1)).await;
    assert!(alone.is_err(), "the only server of its list is down");
    ensemble.down().await.expect("the servers go down");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_leaves_a_server_that_is_removed() {
    let ensemble = reconfigurable().await;
    // Without the leader there would be an election, and the outcome of the request unknown.
    let leader = ensemble.wait_leader(MAX_WAIT).await.expect("a leader");
    let mut followers = ensemble.servers().iter();
    let removed = followers.find(|server| server.id() != leader.id());
    let removed = removed.expect("there are three servers");
    let tracked = connected(&tracking(removed)).await;
    let connected = server_with(&ensemble, tracked.id()).await;
    assert_eq!(connected.id(), removed.id());
    is_tracking(&ensemble).await;
    remove(leader, removed).await;
    until("the session has left the removed server", async || {
        let mut elsewhere = false;
        for server in ensemble.servers() {
            let is_here = has(server, &tracked).await;
            if is_here && server.id() == removed.id() {
                return false;
            }
            elsewhere |= is_here;
        }
        elsewhere
    })
    .await;
    tracked.stat("/").await.expect("the session lives");

    ensemble.down().await.expect("the servers go down");
}

async fn has(server: &Server, session: &Session) -> bool {
    let id = u64::from_ne_bytes(session.id().as_i64().to_ne_bytes());
    let cons = server.cons().await;
    cons.is_ok_and(|cons| cons.sessions.contains(&id))
}

#[tokio::test]
async fn tracking_is_refused_where_it_cannot_work() {
    let with_tls = Session::builder("127.0.0.1:1")
        .tls(Certificates::trusting(Pem::Text(String::new())))
        .track_ensemble();
    let refused = with_tls.connect().await.expect_err("must be refused");
    assert!(
        matches!(refused, ConnectError::InvalidOption { .. }),
        "{refused:?}"
    );
    assert!(
        refused.to_string().contains("no encrypted ports"),
        "{refused}"
    );
}
