//! The state of the connection as a consumer sees it.

use std::time::Duration;

use futures_util::StreamExt;
use zk_core::{ConnectionState, ErrorClass, ErrorKind, SessionEnd};

use crate::{MAX_WAIT, connect_for, passes_through, with_ensemble, with_three, within};

#[tokio::test(flavor = "multi_thread")]
async fn connection_is_suspended_while_the_server_is_down() {
    with_ensemble(async |ensemble| {
        let session = connect_for(ensemble, MAX_WAIT).await;
        session.create("/mine", "").ephemeral().await.unwrap();
        let mut changes = session.state_changes();
        passes_through(&mut changes, &[ConnectionState::Connected]).await;
        let server = ensemble.server(1).unwrap();
        server.kill().await.unwrap();
        passes_through(&mut changes, &[ConnectionState::Suspended]).await;
        assert_eq!(session.state(), ConnectionState::Suspended);
        server.start().unwrap();
        passes_through(&mut changes, &[ConnectionState::Connected]).await;
        let stat = session.stat("/mine").await.unwrap();
        assert_eq!(
            stat.ephemeral_owner,
            Some(session.id()),
            "it is the same session"
        );
        session.close().await.unwrap();
        let rest: Vec<_> = changes.into_stream().collect().await;
        assert_eq!(rest, [ConnectionState::Lost(SessionEnd::Closed)]);
        assert_eq!(session.lost().await, SessionEnd::Closed);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn session_is_lost_once_and_for_ever_when_no_server_comes_back() {
    with_three(async |ensemble| {
        let timeout = Duration::from_secs(6);
        let session = connect_for(ensemble, timeout).await;
        let (_, _, mut watch) = session.get("/").watched().await.unwrap();
        let mut changes = session.state_changes();
        passes_through(&mut changes, &[ConnectionState::Connected]).await;
        let received = tokio::spawn(changes.into_stream().collect::<Vec<_>>());
        for server in ensemble.servers() {
            server.kill().await.unwrap();
        }
        let waiting = session.get("/").timeout(MAX_WAIT).into_future();
        let error = within(MAX_WAIT, "the session is lost", waiting)
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.class()),
            (ErrorKind::SessionExpired, ErrorClass::Fatal)
        );
        assert!(session.state().is_lost());
        assert_eq!(session.valid_until(), None);
        assert_eq!(session.lost().await, SessionEnd::Expired);
        assert_eq!(watch.changed().await, zk_core::WatchEvent::SessionLost);
        let received = within(MAX_WAIT, "the changes end", received).await.unwrap();
        // Between two servers that die it may have been connected for a moment.
        assert_eq!(received.last(), Some(&EXPIRED));
        let lost = received.iter().filter(|state| state.is_lost());
        assert_eq!((received[0], lost.count()), (ConnectionState::Suspended, 1));

        // Servers that come back change nothing.
        ensemble.start_stopped().unwrap();
        ensemble.wait_serving().await.unwrap();
        let error = session.create("/a", "").await.unwrap_err();
        assert_eq!(
            (error.kind(), error.attempts()),
            (ErrorKind::SessionExpired, 0)
        );
        assert_eq!(
            session.close().await.unwrap_err().kind(),
            ErrorKind::SessionExpired
        );
        let late: Vec<_> = session.state_changes().into_stream().collect().await;
        assert_eq!(late, [EXPIRED]);
    })
    .await;
}

const EXPIRED: ConnectionState = ConnectionState::Lost(SessionEnd::Expired);
