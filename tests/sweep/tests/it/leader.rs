//! A candidate, and a leader that takes over and resigns.

use std::convert::Infallible;
use std::sync::Mutex;

use zk_core::{Error, Session};
use zk_leader::{Breadcrumb, LeaderLatch, TakeOverError};
use zk_lock::Inspector;
use zk_sweep::{Scene, no_contender_is_left, settled, until_one_waits};

/// Leads and takes over; returns whom it fenced last, and the result of removing the breadcrumb.
async fn takes_over(scene: &Scene, session: &Session, data: &str) -> (String, Result<(), Error>) {
    let what = &scene.what;
    let participant = LeaderLatch::new(session, scene.path.as_str())
        .unwrap()
        .join();
    let fenced = Mutex::new(String::new());
    loop {
        let lease = participant.leading().await.expect(what);
        let fence = async |old| {
            *fenced.lock().unwrap() = String::from_utf8(old).expect(what);
            Ok::<_, Infallible>(())
        };
        match Breadcrumb::take_over(&lease, data, fence).await {
            Ok(breadcrumb) => {
                let removed = breadcrumb.remove().await;
                participant.leave().await;
                return (fenced.into_inner().unwrap(), removed);
            }
            // Silence is longer than a leadership lasts without a reply.
            Err(TakeOverError::Lost(_)) => {}
            Err(error) => panic!("{what}: {error}"),
        }
    }
}

/// A process that acted has died; the next one takes over, and resigns in order.
pub(super) async fn fail_over(scene: Scene) {
    let what = &scene.what;
    let old = LeaderLatch::new(&scene.observer, scene.path.as_str()).unwrap();
    let old = old.join();
    let lease = old.leading().await.expect("nothing strikes this one");
    let fence = async |_| Ok::<_, Infallible>(());
    drop(
        Breadcrumb::take_over(&lease, "old", fence)
            .await
            .expect("nothing strikes this one"),
    );
    old.leave().await;

    let (fenced, removed) = takes_over(&scene, &scene.struck, "struck").await;
    assert_eq!(fenced, "old", "{what}");
    settled(&scene).await;
    let (fenced, last) = takes_over(&scene, &scene.observer, "next").await;
    last.expect("nothing strikes this one");
    match removed {
        Ok(()) => assert_eq!(fenced, "", "{what}"),
        Err(error) if error.is_outcome_unknown() => {}
        Err(error) => assert_eq!(fenced, "struck", "{what}: {error}"),
    }
}

/// A candidate leads and leaves; another one follows a leader, and resigns.
pub(super) async fn life_of_a_candidate(scene: Scene) {
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
