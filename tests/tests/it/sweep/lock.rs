//! Every request of a lock's life.

use zk_lock::FairLock;

use super::Scene;
use super::Stage;
use super::settled;
use super::sweep;
use super::until_or_late;

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
    // Until it waits, or until something keeps it from that: both are of interest.
    until_or_late(|| async {
        let seen = theirs
            .inspector()
            .contenders()
            .await
            .expect("nothing strikes this one");
        seen.len() >= 2
    })
    .await;
    let token = held.fencing_token();
    held.release().await.expect("nothing strikes this one");
    let guard = waiting.await.expect("it does not panic").expect(what);
    assert!(guard.is_valid(), "{what}");
    assert!(guard.fencing_token() > token, "{what}");
    guard.release().await.expect(what);

    settled(&scene).await;
    let caught_up = scene.observer.sync(scene.path.as_str()).with_quorum().await;
    caught_up.expect("nothing strikes this one");
    let left = theirs
        .inspector()
        .contenders()
        .await
        .expect("nothing strikes this one");
    assert!(left.is_empty(), "{what}: left behind: {left:?}");
}

// covers: L1 L3 H7 C3
#[tokio::test(flavor = "multi_thread")]
async fn whichever_request_of_a_lock_is_struck_it_is_granted_and_nothing_is_left() {
    let stage = Stage::new().await;
    let struck = sweep(&stage, "lock", life_of_a_lock).await;
    // Seven strikes at two homes, and no life has fewer requests.
    assert!(struck >= 7 * 9, "{struck} requests struck");
    println!("{struck} requests of a lock's life struck, none left anything");
    stage.ensemble.down().await.unwrap();
}
