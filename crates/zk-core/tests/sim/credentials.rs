//! Credentials that are added to a session, and waiting for a connection.

use std::time::Duration;

use futures_util::FutureExt as _;
use zk_core::{Acl, AclEntry, ErrorKind, Permissions};
use zk_sim::Ensemble;

#[tokio::test(start_paused = true)]
async fn later_requests_have_the_identities_that_were_added() {
    let sim = Ensemble::new(3);
    let owner = sim.connect().digest("ann", "secret").await;
    let ours = Acl::new([AclEntry::new(Permissions::ALL, "auth", "")]);
    owner.create("/private", "x").acl(ours).await.unwrap();
    let session = sim.connect().await;
    session.get("/private").await.unwrap_err();
    session.add_digest_auth("bob", "other").await.unwrap();
    session.get("/private").await.unwrap_err();
    session.add_auth("digest", "ann:secret").await.unwrap();
    assert_eq!(session.get("/private").await.unwrap().0, "x");
    sim.session(session.id()).cut_for(Duration::from_millis(10));
    assert_eq!(session.get("/private").await.unwrap().0, "x");

    for (user, kind) in [
        ("", ErrorKind::InvalidArgument),
        ("a:b", ErrorKind::InvalidArgument),
    ] {
        let refused = session.add_digest_auth(user, "secret").await.unwrap_err();
        assert_eq!(refused.kind(), kind);
    }
    let refused = session.add_auth("x509", "ann").await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "add credentials: the server does not support it (simulated servers know the scheme digest only)"
    );
}

#[tokio::test(start_paused = true)]
async fn the_next_connection_has_only_the_credentials_that_replaced_others() {
    let sim = Ensemble::new(3);
    let session = sim.connect().digest("ann", "old").await;
    session
        .create("/old", "")
        .acl(Acl::creator_only())
        .await
        .unwrap();
    session.replace_auth("digest", "ann:new").await.unwrap();
    session
        .create("/both", "")
        .acl(Acl::creator_only())
        .await
        .unwrap();
    session.get("/old").await.unwrap();
    sim.session(session.id()).cut();
    let refused = session.get("/old").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoAuth);
    session.get("/both").await.unwrap();
    let refused = session.replace_auth("x509", "ann").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
}

#[tokio::test(start_paused = true)]
async fn connected_waits_for_a_link_or_the_end() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    assert_eq!(
        session.connected().now_or_never().map(|it| it.is_ok()),
        Some(true)
    );
    sim.session(session.id()).cut_for(Duration::from_secs(1));
    let begun = tokio::time::Instant::now();
    session.connected().await.unwrap();
    assert!(
        begun.elapsed() >= Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    sim.session(session.id()).cut_for(Duration::from_secs(5));
    let (waited, closed) = tokio::join!(
        async {
            let begun = tokio::time::Instant::now();
            let over = session.connected().await.unwrap_err();
            (over.kind(), begun.elapsed())
        },
        session.close(),
    );
    closed.unwrap();
    assert_eq!(waited, (ErrorKind::SessionClosed, Duration::ZERO));
    let over = session.connected().await.unwrap_err();
    assert_eq!(over.kind(), ErrorKind::SessionClosed);
    assert_eq!(
        over.to_string(),
        "wait for a connection: the session is closed"
    );
}
