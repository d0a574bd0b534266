//! The life of a semaphore.

use zk_lock::Semaphore;
use zk_sweep::{Scene, settled, until_or_late};

/// Two leases are made and given back; then one of them is taken, and both are waited for.
pub(super) async fn life_of_leases(scene: Scene) {
    let what = &scene.what;
    let ours = Semaphore::new(&scene.struck, scene.path.as_str(), 2).unwrap();
    let theirs = Semaphore::new(&scene.observer, scene.path.as_str(), 2).unwrap();

    let lease = ours.with_count(2).acquire().await.expect(what);
    lease.release().await.expect(what);
    let held = theirs.acquire().await.expect("nothing strikes this one");
    let waiting = tokio::spawn(async move { ours.with_count(2).acquire().await });
    // Until it waits, or until something keeps it from that: both are of interest.
    until_or_late(|| async {
        let seen = theirs
            .inspector()
            .contenders()
            .await
            .expect("nothing strikes this one");
        seen.len() >= 3
    })
    .await;
    held.release().await.expect("nothing strikes this one");
    let lease = waiting.await.expect("it does not panic").expect(what);
    assert!(lease.is_valid(), "{what}");
    lease.release().await.expect(what);

    settled(&scene).await;
    let caught_up = scene.observer.sync(scene.path.as_str()).with_quorum().await;
    caught_up.expect("nothing strikes this one");
    let left = theirs
        .inspector()
        .contenders()
        .await
        .expect("nothing strikes this one");
    assert!(left.is_empty(), "{what}: left behind: {left:?}");
    let left = theirs
        .waiters()
        .contenders()
        .await
        .expect("nothing strikes this one");
    assert!(left.is_empty(), "{what}: left behind: {left:?}");
}
