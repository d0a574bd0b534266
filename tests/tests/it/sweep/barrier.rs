//! Every request of the rounds of a double barrier, in both layouts: both members pass both rounds, and leave no node.

use std::num::NonZeroU32;

use zk_barrier::DoubleBarrier;
use zk_barrier::Layout;
use zk_core::Session;

use super::Scene;
use super::Stage;
use super::settled;
use super::sweep;
use crate::lock::names;

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

async fn rounds(scene: Scene) {
    let path = format!("{}/round", scene.path);
    meets(scene, Layout::Rounds, path).await;
}

async fn recipe(scene: Scene) {
    let path = scene.path.clone();
    meets(scene, Layout::Recipe, path).await;
}

macro_rules! swept {
    ($($test:ident: $story:ident;)+) => {$(
        // covers: M5 H7
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            let stage = Stage::new().await;
            let struck = sweep(&stage, stringify!($story), $story).await;
            println!(concat!(stringify!($story), ": {} requests struck"), struck);
            stage.ensemble.down().await.unwrap();
        }
    )+};
}

swept! {
    members_meet_in_every_round: rounds;
    members_meet_in_the_layout_of_the_recipe: recipe;
}
