//! Lives of the other locks.

use zk_core::Session;
use zk_lock::{
    CohortLock, FairLock, Inspector, Lock, LockGuard as _, MultiLock, RaceLock, ReentrantLock,
};
use zk_sweep::{Scene, no_contender_is_left, until_one_waits};

/// A free lock is taken and given back; one that is held is tried for, then waited for and given back. At the end there
/// is no contender and no node at the path.
async fn life_of_a_lock<L>(scene: &Scene, lock: fn(&Session, &str) -> L)
where
    L: Lock + 'static,
{
    let what = &scene.what;
    let ours = lock(&scene.struck, &scene.path);
    let theirs = lock(&scene.observer, &scene.path);

    let guard = ours.acquire().await.expect(what);
    guard.release().await.expect(what);

    let held = theirs.acquire().await.expect(what);
    assert!(ours.try_acquire().await.expect(what).is_none(), "{what}");
    let waiting = tokio::spawn(async move { ours.acquire().await });
    let inspector = Inspector::new(&scene.observer, scene.path.as_str()).expect("it is a path");
    until_one_waits(&inspector).await;
    held.release().await.expect("nothing strikes this one");
    let guard = waiting.await.expect("it does not panic").expect(what);
    assert!(guard.held().is_valid(), "{what}");
    guard.release().await.expect(what);

    no_contender_is_left(scene, &inspector).await;
}

/// Two locks are taken as one and given back; while one of them is held, both are tried for, then waited for and given
/// back.
pub(super) async fn life_of_several_locks(scene: Scene) {
    let what = &scene.what;
    let of = |session: &Session, number: u32| {
        let path = format!("{}/{number}", scene.path);
        FairLock::new(session, path).unwrap()
    };
    let [first, second] = [1, 2].map(|number| of(&scene.struck, number));
    let ours = MultiLock::new([first, second]).unwrap();
    let [theirs_first, theirs] = [1, 2].map(|number| of(&scene.observer, number));

    let guard = ours.acquire().await.expect(what);
    let free = guard.fencing_tokens();
    guard.release().await.expect(what);

    let held = theirs.acquire().await.expect("nothing strikes this one");
    assert!(Some(held.fencing_token()) > free[1], "{what}");
    assert!(ours.try_acquire().await.expect(what).is_none(), "{what}");
    let waiting = tokio::spawn(async move { ours.acquire().await });
    until_one_waits(&theirs.inspector()).await;
    assert!(!waiting.is_finished(), "{what}: two hold a lock");
    let token = held.fencing_token();
    held.release().await.expect("nothing strikes this one");
    let guard = waiting.await.expect("it does not panic").expect(what);
    assert!(guard.is_valid(), "{what}");
    assert!(guard.fencing_tokens()[1] > Some(token), "{what}");
    guard.release().await.expect(what);

    for lock in [theirs_first, theirs] {
        no_contender_is_left(&scene, &lock.inspector()).await;
    }
}

pub(super) async fn cohort(scene: Scene) {
    let lock = |session: &Session, path: &str| CohortLock::new(session, path).unwrap();
    life_of_a_lock(&scene, lock).await;
}

pub(super) async fn reentrant(scene: Scene) {
    let lock = |session: &Session, path: &str| ReentrantLock::new(session, path).unwrap();
    life_of_a_lock(&scene, lock).await;
}

pub(super) async fn race(scene: Scene) {
    let lock = |session: &Session, path: &str| RaceLock::new(session, path).unwrap();
    life_of_a_lock(&scene, lock).await;
    let left = scene.observer.exists(scene.path.as_str()).await;
    let left = left.expect("nothing strikes this one");
    assert_eq!(left, None, "{}: left behind", scene.what);
}
