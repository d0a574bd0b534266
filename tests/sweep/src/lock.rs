//! Stories of a lock.

use std::time::Duration;

use zk_lock::FairLock;

use crate::scene::{Scene, contenders, no_contender_is_left, until_one_waits};
use crate::stage::Stage;

/// A free lock is taken and given back; one that is held is tried for, then waited for and given back.
async fn life(scene: Scene) {
    let what = &scene.what;
    let ours = FairLock::new(&scene.struck, scene.path.as_str()).expect("the path is one");
    let theirs = FairLock::new(&scene.observer, scene.path.as_str()).expect("the path is one");

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
async fn life_alone(scene: Scene) {
    let what = &scene.what;
    let ours = FairLock::new(&scene.struck, scene.path.as_str()).expect("the path is one");
    let theirs = FairLock::new(&scene.observer, scene.path.as_str()).expect("the path is one");

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

/// Sweeps both stories.
pub async fn sweep(stage: &Stage) {
    tokio::join!(
        // Lives have at least so many requests.
        stage.sweep("lock", 9, life),
        stage.sweep("alone", 16, life_alone),
    );
}
