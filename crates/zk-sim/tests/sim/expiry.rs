//! The end of sessions, for all causes.

use std::time::Duration;

use tokio::time::Instant;
use zk_core::{ErrorKind, WatchEvent};
use zk_sim::Ensemble;

const TIMEOUT: Duration = Duration::from_secs(10);
/// It hears at once of the sessions that are connected to it.
const LEADER: usize = 3;

#[tokio::test(start_paused = true)]
async fn an_idle_session_that_is_connected_never_expires() {
    let sim = Ensemble::new(3);
    let session = sim.connect().timeout(TIMEOUT).await;
    session.create("/e", "").ephemeral().await.unwrap();
    tokio::time::advance(TIMEOUT * 20).await;
    session.get("/e").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_session_cut_off_expires_at_the_leader_after_the_timeout_and_is_given_up_after_7_5_of_it()
{
    let sim = Ensemble::new(3);
    let session = sim.connect().server(LEADER).timeout(TIMEOUT).await;
    session.create("/e", "").ephemeral().await.unwrap();
    let (_, _, mut watch) = session.get("/e").watched().await.unwrap();
    let begin = Instant::now();
    let handle = sim.session(session.id());
    handle.partition();
    let edge = Duration::from_millis(1);
    // The leader has received the last request this long before the reply.
    tokio::time::advance(TIMEOUT.saturating_sub(2 * edge)).await;
    assert_eq!(sim.tree().paths(), ["/e"]);
    tokio::time::advance(edge).await;
    assert!(sim.tree().paths().is_empty());
    assert!(!handle.is_alive());
    session.lost().await;
    assert_eq!(begin.elapsed(), TIMEOUT * 7 / 5);
    assert_eq!(watch.changed().await, WatchEvent::SessionLost);
    let error = session.get("/").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionExpired);
    assert_eq!(sim.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_reconnects_in_time_continues() {
    let sim = Ensemble::new(3);
    let session = sim.connect().timeout(TIMEOUT).await;
    session.create("/e", "").ephemeral().await.unwrap();
    sim.session(session.id()).partition();
    tokio::time::advance(TIMEOUT * 9 / 10).await;
    sim.session(session.id()).heal();
    tokio::time::advance(TIMEOUT).await;
    session.get("/e").await.unwrap();
    tokio::time::advance(TIMEOUT).await;
    assert_eq!(sim.tree().paths(), ["/e"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_reconnects_too_late_is_expired() {
    let sim = Ensemble::new(3);
    let session = sim.connect().server(LEADER).timeout(TIMEOUT).await;
    sim.session(session.id()).partition();
    tokio::time::advance(TIMEOUT * 11 / 10).await;
    let begin = Instant::now();
    sim.session(session.id()).heal();
    session.lost().await;
    assert!(begin.elapsed() < Duration::from_millis(50));
}

#[tokio::test(start_paused = true)]
async fn an_expired_session_reads_on_at_a_lagging_server_and_writes_nothing() {
    let sim = Ensemble::new(2);
    let session = sim.connect().server(2).await;
    let (own, _) = session.create("/e", "").ephemeral().await.unwrap();
    sim.server(2).lag();
    sim.expire(session.id());
    assert!(sim.tree().paths().is_empty());
    // The server still shows the deleted node, with the session as its owner.
    let (_, stat) = session.get(&own).await.unwrap();
    assert_eq!(stat.ephemeral_owner, Some(session.id()));
    let error = session.create("/late", "").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionExpired);
    assert!(sim.tree().paths().is_empty());
    session.lost().await;
}

#[tokio::test(start_paused = true)]
async fn an_expired_session_learns_it_from_its_server() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let begin = Instant::now();
    sim.expire(session.id());
    session.lost().await;
    assert!(begin.elapsed() < Duration::from_millis(50));
}
