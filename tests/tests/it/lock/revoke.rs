//! Curator's revocation and ours.

use zk_harness::Ensemble;
use zk_lock::{FairLock, OwnerInfo, Revocation, RevokeError};
use zk_tests::peers::{Curator, CuratorProcess};

use super::{SOON, observer};

#[tokio::test(flavor = "multi_thread")]
async fn curator_asks_for_our_lock_and_we_for_curators() {
    let ensemble = Ensemble::builder().servers(1).start().await.unwrap();
    let curator = Curator::find().await.unwrap();
    let session = observer(&ensemble).await;
    let connect = ensemble.connect_string();
    let arguments = [connect.as_str(), "/lock"];
    let theirs = CuratorProcess::start(&curator, "Revocable", &arguments).await;
    let mut theirs = theirs.unwrap();
    let lock = FairLock::new(&session, "/lock").unwrap();

    // Theirs asks, ours refuses, and then releases.
    let guard = lock.acquire().await.unwrap();
    let asked = tokio::spawn(guard.revocation_requested());
    // Until it watches its data, which it reads before.
    super::until("the holder listens", SOON, async || {
        session.counters().watches > 1
    })
    .await;
    let revoke = format!("revoke {}", guard.path());
    theirs.does(&revoke, "asked").await.unwrap();
    let asked = tokio::time::timeout(SOON, asked)
        .await
        .expect("it is notified");
    let asked = asked.unwrap().unwrap();
    assert_eq!(asked.by(), None);
    asked.refuse("which Curator does not hear").await.unwrap();
    let (data, _) = session.get(guard.path()).await.unwrap();
    assert_eq!(OwnerInfo::parse(&data), Some(OwnerInfo::this_process()));
    theirs.does(&revoke, "asked").await.unwrap();
    let asked = tokio::time::timeout(SOON, guard.revocation_requested()).await;
    let asked = asked.expect("it is notified again").unwrap();
    asked.accept().await.unwrap();
    guard.release().await.unwrap();

    // Ours asks, theirs releases.
    theirs.does("acquire", "acquired").await.unwrap();
    let inspector = lock.inspector();
    let snapshot = inspector.snapshot().await.unwrap();
    let holder = snapshot.holders().next().unwrap().contender().clone();
    // Curator blanks the data of a lock that can be revoked.
    assert_eq!(holder.owner(), b"");
    let error = inspector.revoke(&holder).then_break().await.unwrap_err();
    assert!(
        matches!(error, RevokeError::ForeignData { .. }),
        "{error:?}"
    );
    let revoke = inspector.revoke(&holder).limit(super::LONG);
    let ended = revoke.as_curator().await.unwrap();
    assert_eq!(ended, Revocation::Released);
    theirs.says("revoked").await.unwrap();
    ensemble.down().await.unwrap();
}
