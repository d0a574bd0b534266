//! Servers that are cut off from the quorum and answer reads.

use std::time::Duration;

use zk_core::{ConnectionState, ErrorKind, Session, Update};
use zk_harness::Ensemble;

use crate::{MAX_WAIT, until, within};

#[tokio::test(flavor = "multi_thread")]
async fn session_on_an_isolated_server_is_read_only_then_lost() {
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
    let connect_string = three.client_address().to_string();
    // The server that will be left replies once it has applied the create.
    let session = Session::builder(connect_string.as_str()).connect().await;
    let session = session.unwrap();
    session.create("/a", "data").await.unwrap();
    session.close().await.unwrap();
    one.kill().await.unwrap();
    two.kill().await.unwrap();

    until("the server that is left serves reads only", async || {
        three
            .four_letter("isro")
            .await
            .is_ok_and(|mode| mode == "ro")
    })
    .await;
    let refused = Session::builder(connect_string.as_str())
        .connect_timeout(Duration::from_secs(3))
        .connect()
        .await;
    assert!(refused.is_err(), "not without being asked to");
    let session = Session::builder(connect_string)
        .session_timeout(MAX_WAIT)
        .connect_timeout(MAX_WAIT)
        .allow_read_only()
        .connect()
        .await
        .unwrap();
    assert_eq!(session.state(), ConnectionState::ReadOnly);
    assert_eq!(session.get("/a").await.unwrap().0, "data");
    let mut updates = session.subscribe("/a").await.unwrap();
    let first = within(MAX_WAIT, "the subscription", updates.next()).await;
    assert_eq!(first, Some(Update::Resynchronize));
    let more = tokio::time::timeout(Duration::from_secs(1), updates.next()).await;
    assert!(more.is_err(), "its watch stays: {more:?}");
    drop(updates);
    let errors = [
        session.set("/a", "x").await.unwrap_err(),
        session.create("/b", "").await.unwrap_err(),
        session
            .transaction()
            .check("/a")
            .commit()
            .await
            .unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::ReadOnlyServer, "{error}");
        assert!(!error.is_outcome_unknown());
    }
    // The quorum knows nothing of it.
    let session_lease = session.keep_lease();
    assert!(!session_lease.is_valid());
    session_lease.lapsed().await;
    let error = session_lease
        .renewed(Duration::from_millis(500))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);

    one.start().unwrap();
    two.start().unwrap();
    within(MAX_WAIT, "the session is lost", session.lost()).await;
    assert!(session.state().is_lost());
    assert!(session.get("/a").await.unwrap_err().is_fatal());
    ensemble.down().await.expect("the servers go down");
}
