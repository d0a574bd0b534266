//! Every request in the lives of the other locks, and of a candidate for the leader.

use zk_core::Session;
use zk_leader::LeaderLatch;
use zk_lock::{
    CohortLock, FairLock, Inspector, Lock, LockGuard as _, MultiLock, RaceLock, ReentrantLock,
};

use super::{Scene, Stage, no_contender_is_left, sweep, until_one_waits};

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
async fn life_of_several_locks(scene: Scene) {
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

/// A candidate leads and leaves; another one follows a leader, and resigns.
async fn life_of_a_candidate(scene: Scene) {
    let what = &scene.what;
    let ours = LeaderLatch::new(&scene.struck, scene.path.as_str()).unwrap();
    let theirs = LeaderLatch::new(&scene.observer, scene.path.as_str()).unwrap();

    let participant = ours.join();
    let first = participant.leading().await.expect(what).fencing_token();
    participant.leave().await;

    let leader = theirs.join();
    let lease = leader.leading().await.expect("nothing strikes this one");
    assert!(lease.fencing_token() > first, "{what}");
    let participant = ours.join();
    let inspector = Inspector::new(&scene.observer, scene.path.as_str()).expect("it is a path");
    until_one_waits(&inspector).await;
    leader.leave().await;
    let ours = participant.leading().await.expect(what);
    assert!(ours.fencing_token() > lease.fencing_token(), "{what}");
    participant.leave().await;

    no_contender_is_left(&scene, &inspector).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whichever_request_of_another_lock_is_struck_it_is_granted_and_nothing_is_left() {
    let stage = Stage::new().await;
    let cohort = sweep(&stage, "cohort", |scene| async move {
        let lock = |session: &Session, path: &str| CohortLock::new(session, path).unwrap();
        life_of_a_lock(&scene, lock).await;
    })
    .await;
    let reentrant = sweep(&stage, "reentrant", |scene| async move {
        let lock = |session: &Session, path: &str| ReentrantLock::new(session, path).unwrap();
        life_of_a_lock(&scene, lock).await;
    })
    .await;
    let race = sweep(&stage, "race", |scene| async move {
        let lock = |session: &Session, path: &str| RaceLock::new(session, path).unwrap();
        life_of_a_lock(&scene, lock).await;
        let left = scene.observer.exists(scene.path.as_str()).await;
        let left = left.expect("nothing strikes this one");
        assert_eq!(left, None, "{}: left behind", scene.what);
    })
    .await;
    let several = sweep(&stage, "several", life_of_several_locks).await;
    let leader = sweep(&stage, "leader", life_of_a_candidate).await;
    // Seven strikes at two homes, and no life has fewer requests.
    for struck in [cohort, reentrant, race, several, leader] {
        assert!(struck >= 7 * 5, "{struck} requests struck");
    }
    println!(
        "struck: cohort {cohort}, re-entrant {reentrant}, race {race}, several {several}, leader {leader}"
    );
    stage.ensemble.down().await.unwrap();
}
