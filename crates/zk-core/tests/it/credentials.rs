//! Several credentials, and a session that another process continues.

use std::time::Duration;

use zk_core::Acl;
use zk_core::AclEntry;
use zk_core::ConnectError;
use zk_core::ErrorKind;
use zk_core::Permissions;
use zk_core::ProtocolClient;
use zk_core::SavedSession;
use zk_core::Session;
use zk_core::SessionEnd;
use zk_harness::Ensemble;

use crate::MAX_WAIT;
use crate::connect;
use crate::with_ensemble;
use crate::within;

// covers: C22
#[tokio::test(flavor = "multi_thread")]
async fn credentials_add_up_and_a_refused_one_ends_the_session() {
    with_ensemble(async |ensemble| {
        let builder = || Session::builder(ensemble.connect_string());
        for user in ["ann", "bob", "eve"] {
            let only_theirs = Acl::new([AclEntry::new(Permissions::ALL, "auth", "")]);
            let session = builder().digest_auth(user, "secret");
            let session = session.connect().await.unwrap();
            let create = session.create(format!("/{user}"), user);
            create.acl(only_theirs).await.unwrap();
        }
        let session = builder()
            .digest_auth("ann", "secret")
            .auth("digest", "bob:secret");
        let session = session.connect().await.unwrap();
        assert_eq!(session.get("/ann").await.unwrap().0, "ann");
        assert_eq!(session.get("/bob").await.unwrap().0, "bob");
        assert_eq!(
            session.get("/eve").await.unwrap_err().kind(),
            ErrorKind::NoAuth
        );
        session.add_digest_auth("eve", "secret").await.unwrap();
        assert_eq!(session.get("/eve").await.unwrap().0, "eve");
        // ip and three users
        assert_eq!(session.whoami().await.unwrap().len(), 4);

        let refused = session.add_auth("no-such-scheme", "x").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AuthFailed, "{refused}");
        let lost = within(MAX_WAIT, "the end of the session", session.lost()).await;
        assert_eq!(lost, SessionEnd::AuthFailed);
    })
    .await;
}

// covers: C22
#[test]
fn a_session_is_resumed_in_another_process_without_a_lease() {
    let ours = tokio::runtime::Runtime::new().expect("a runtime starts");
    let ensemble = ours.block_on(Ensemble::builder().servers(1).start());
    let ensemble = ensemble.expect("a server starts");
    let builder = Session::builder(ensemble.connect_string()).client(ProtocolClient::ZkWire);
    // The end of its runtime is for a session what the end of its process is.
    let theirs = tokio::runtime::Runtime::new().expect("a runtime starts");
    let (first, saved) = theirs.block_on(async {
        let session = builder.clone().connect().await.unwrap();
        session.create("/e", "").ephemeral().await.unwrap();
        let saved = session.saved().expect("there is a session").to_bytes();
        (
            session,
            SavedSession::from_bytes(&saved).expect("it was saved"),
        )
    });
    theirs.shutdown_background();
    ours.block_on(async {
        // Closing it now could still tell the server.
        let end = within(MAX_WAIT, "the end of the first session", first.lost()).await;
        assert_eq!(end, SessionEnd::RuntimeEnded);
        let session = builder
            .clone()
            .resume(saved.clone())
            .connect()
            .await
            .unwrap();
        assert_eq!(session.id(), saved.id());
        assert_eq!(session.ephemerals("/").await.unwrap().len(), 1);
        // It is not known when the leader has last heard of the session.
        let lease = session.keep_lease();
        assert!(!lease.is_valid());
        within(MAX_WAIT, "a proof", lease.renewed(Duration::from_secs(30)))
            .await
            .unwrap();
        assert!(lease.is_valid());
        drop(lease);

        session.close().await.unwrap();
        let other = connect(&ensemble).await;
        assert_eq!(other.exists("/e").await.unwrap(), None);
        let late = builder.resume(saved).connect();
        let late = within(MAX_WAIT, "the refusal", late).await;
        assert!(matches!(late, Err(ConnectError::Expired)), "{late:?}");
        ensemble.down().await.expect("the server goes down");
    });
}
