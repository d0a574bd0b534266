//! Sessions that are ended by force, although their clients reconnect at once.

use std::time::Duration;

use tokio::task::JoinSet;
use zk_core::Session;
use zk_harness::{Ensemble, Error};

use crate::lock::SOON;

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_when_asked_although_its_client_takes_it_back_at_once() {
    const SESSIONS: usize = 30;
    // The client has no other server to reconnect to than the one that the session is ended at.
    let ensemble = Ensemble::builder()
        .servers(1)
        .proxied(true)
        .start()
        .await
        .expect("a server starts");
    let session = connect(&ensemble).await;
    session.create("/expire", "").await.unwrap();
    for at in 0..SESSIONS {
        let victim = connect(&ensemble).await;
        let node = format!("/expire/{at}");
        victim.create(node.as_str(), "").ephemeral().await.unwrap();
        // One whose requests bring its connection back as soon as it breaks.
        let mut asking = JoinSet::new();
        asking.spawn({
            let victim = victim.clone();
            async move { while victim.exists("/expire").await.is_ok() {} }
        });
        let id = victim.id().as_i64();
        let ended = ensemble.expire(id).await;
        ended.unwrap_or_else(|error| panic!("session {at}: {error:?}"));
        // What it left is gone with it, not later.
        assert_eq!(session.exists(node.as_str()).await.unwrap(), None);
        let lost = tokio::time::timeout(SOON, victim.lost()).await;
        lost.expect("its client hears of it");
        assert!(victim.state().is_lost());
        let quiet = tokio::time::timeout(SOON, asking.join_all()).await;
        quiet.expect("its requests fail");
        // Not before: a client that still asks for its session back breaks the connection that would end it once more.
        let again = ensemble.expire(id).await.unwrap_err();
        assert!(matches!(again, Error::NoSuchSession { .. }), "{again:?}");
    }
    drop(session);
    ensemble.down().await.unwrap();
}

async fn connect(ensemble: &Ensemble) -> Session {
    Session::builder(ensemble.connect_string())
        .session_timeout(Duration::from_secs(10))
        .operation_timeout(SOON)
        .connect()
        .await
        .expect("the server grants a session")
}
