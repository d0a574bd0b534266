//! Every request of a lock's life.

use std::time::Duration;

use zk_lock::FairLock;

use super::{Scene, Stage, contenders, no_contender_is_left, sweep, until_one_waits};

/// A free lock is taken and given back; one that is held is tried for, then waited for and given back.
async fn life_of_a_lock(scene: Scene) {
    let what = &scene.what;
    let ours = FairLock::new(&scene.struck, scene.path.as_str()).unwrap();
    let theirs = FairLock::new(&scene.observer, scene.path.as_str()).unwrap();

    let guard = ours.acquire().await.expect(what);
    let free = guard.fencing_token();
    guard.release().await.expect(what);

    let held = theirs.acquire().await.expect(what);
    assert!(held.fencing_token() > free, "{what}");
    assert!(ours.try_acquire().await.expect(what).is_none(), "{what}");
    let waiting = tokio::spawn(async move { ours.acquire().await });
    until_one_waits(&theirs.inspector()).await;
    let token = held.fencing_token();
    held.release().await.expect("nothing strikes this one");
    let guard = waiting.await.expect("it does not panic").expect(what);
    assert!(guard.is_valid(), "{what}");
    assert!(guard.fencing_token() > token, "{what}");
    guard.release().await.expect(what);
    no_contender_is_left(&scene, &theirs.inspector()).await;
}

/// A session takes the lock by turns until it needs no list for that; another one takes it in between, and gets it once
/// more when the first one yields it.
async fn life_of_a_lock_used_alone(scene: Scene) {
    let what = &scene.what;
    let ours = FairLock::new(&scene.struck, scene.path.as_str()).unwrap();
    let theirs = FairLock::new(&scene.observer, scene.path.as_str()).unwrap();

    let mut last = None;
    for _ in 0..5 {
        let guard = ours.acquire().await.expect(what);
        assert!(Some(guard.fencing_token()) > last, "{what}");
        last = Some(guard.fencing_token());
        guard.release().await.expect(what);
    }
    let held = theirs.acquire().await.expect("nothing strikes this one");
    assert!(Some(held.fencing_token()) > last, "{what}");
    let waiting = tokio::spawn(async move { ours.acquire().await });
    until_one_waits(&theirs.inspector()).await;
    assert!(!waiting.is_finished(), "{what}: two hold the lock");
    let token = held.fencing_token();
    held.release().await.expect("nothing strikes this one");
    let guard = waiting.await.expect("it does not panic").expect(what);
    assert!(guard.is_valid() && guard.fencing_token() > token, "{what}");

    let token = guard.fencing_token();
    let lock = theirs.clone();
    let next = tokio::spawn(async move { lock.acquire().await });
    while contenders(&theirs.inspector()).await < 2 {
        drop(tokio::time::timeout(Duration::from_millis(20), std::future::pending::<()>()).await);
    }
    // A yield waits for those that its own server shows.
    let caught_up = scene.struck.sync(scene.path.as_str()).with_quorum().await;
    caught_up.expect(what);
    let again = tokio::spawn(guard.yield_now());
    let held = next.await.expect("it does not panic");
    let held = held.expect("nothing strikes this one");
    assert!(!again.is_finished(), "{what}: two hold the lock");
    assert!(held.fencing_token() > token, "{what}");
    let token = held.fencing_token();
    held.release().await.expect("nothing strikes this one");
    let guard = again.await.expect("it does not panic").expect(what);
    assert!(guard.is_valid() && guard.fencing_token() > token, "{what}");
    guard.release().await.expect(what);
    no_contender_is_left(&scene, &theirs.inspector()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whichever_request_of_a_lock_is_struck_it_is_granted_and_nothing_is_left() {
    let stage = Stage::new().await;
    let struck = sweep(&stage, "lock", life_of_a_lock).await;
    // Seven strikes at two homes, and no life has fewer requests.
    assert!(struck >= 7 * 9, "{struck} requests struck");
    println!("{struck} requests of a lock's life struck, none left anything");
    let struck = sweep(&stage, "alone", life_of_a_lock_used_alone).await;
    assert!(struck >= 7 * 16, "{struck} requests struck");
    println!("{struck} requests of a lock used alone and yielded struck, none left anything");
    stage.ensemble.down().await.unwrap();
}
