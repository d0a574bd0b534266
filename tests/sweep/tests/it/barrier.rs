//! A barrier: one call sets it, and a waiter passes only when it is removed. And the rounds of a double barrier, in both
//! layouts: both members pass both rounds, and leave no node.

use std::num::NonZeroU32;
use std::pin::pin;
use std::time::Duration;

use zk_barrier::{Barrier, DoubleBarrier, Layout};
use zk_core::Session;
use zk_sweep::{Scene, names, settled};

/// Enters and leaves two rounds; returns their numbers.
async fn two_rounds(session: &Session, scene: &Scene, layout: Layout) -> Vec<Option<i64>> {
    let two = NonZeroU32::new(2).expect("it is not zero");
    let barrier = DoubleBarrier::new(session, scene.path.as_str(), two).expect("the path is one");
    let barrier = barrier.with_layout(layout);
    let mut rounds = Vec::new();
    for _ in 0..2 {
        let member = barrier.enter().await.expect(&scene.what);
        rounds.push(member.round());
        member.leave().await.expect(&scene.what);
    }
    rounds
}

async fn meets(scene: Scene, layout: Layout, path: String) {
    let (ours, others) = tokio::join!(
        two_rounds(&scene.struck, &scene, layout),
        two_rounds(&scene.observer, &scene, layout)
    );
    assert_eq!(ours, others, "{}", scene.what);
    settled(&scene).await;
    let mut left = names(&scene.observer, &path).await;
    left.remove("state");
    assert!(left.is_empty(), "{}: {left:?}", scene.what);
}

pub(super) async fn rounds(scene: Scene) {
    let path = format!("{}/round", scene.path);
    meets(scene, Layout::Rounds, path).await;
}

pub(super) async fn recipe(scene: Scene) {
    let path = scene.path.clone();
    meets(scene, Layout::Recipe, path).await;
}

/// A barrier is set and removed, while another client waits; then it waits for that one.
pub(super) async fn barrier(scene: Scene) {
    let what = &scene.what;
    let ours = Barrier::new(&scene.struck, scene.path.as_str()).expect("the path is one");
    let theirs = Barrier::new(&scene.observer, scene.path.as_str()).expect("the path is one");

    assert!(ours.set().await.expect(what), "{what}");
    assert!(!theirs.set().await.expect("nothing strikes this one"));
    let mut waiting = pin!(theirs.wait());
    assert!(stays(&mut waiting).await, "{what}: passed while it was set");
    assert!(ours.remove().await.expect(what), "{what}");
    waiting.await.expect("nothing strikes this one");

    assert!(theirs.set().await.expect("nothing strikes this one"));
    assert!(!ours.set().await.expect(what), "{what}");
    assert!(ours.is_set().await.expect(what), "{what}");
    let mut waiting = pin!(ours.wait());
    assert!(stays(&mut waiting).await, "{what}: passed while it was set");
    assert!(theirs.remove().await.expect("nothing strikes this one"));
    waiting.await.expect(what);
    assert!(!ours.is_set().await.expect(what), "{what}");
    // It may say that it has removed it, if its first request is lost.
    ours.remove().await.expect(what);

    settled(&scene).await;
    let is_set = theirs.is_set().await;
    assert!(!is_set.expect("nothing strikes this one"), "{what}");
}

/// Whether a future is not ready for longer than the strikes that only delay.
async fn stays(waiting: impl Future) -> bool {
    let passed = tokio::time::timeout(Duration::from_millis(500), waiting);
    passed.await.is_err()
}
