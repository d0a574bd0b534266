//! One performance of a story, and what stories wait for.

use std::collections::BTreeSet;
use std::time::Duration;

use zk_core::Session;
use zk_lock::Inspector;

use crate::SOON;

/// What a story has to play with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Scene {
    /// Which strike, where, and on which request.
    pub what: String,
    /// A path that no other scene uses.
    pub path: String,
    /// The session that is struck.
    pub struck: Session,
    /// A session that nothing strikes.
    pub observer: Session,
}

/// Waits until it is so, for at most two seconds: a strike may keep it from that.
pub async fn until_or_late<F: Future<Output = bool>>(is_so: impl Fn() -> F) {
    let looking = async {
        let mut looks = tokio::time::interval(Duration::from_millis(50));
        while !is_so().await {
            looks.tick().await;
        }
    };
    drop(tokio::time::timeout(Duration::from_secs(2), looking).await);
}

/// Waits until one contender waits, or until something keeps it from that: both are of interest.
pub async fn until_one_waits(inspector: &Inspector) {
    until_or_late(|| async { contenders(inspector).await >= 2 }).await;
}

/// Counts the contenders that a session sees which nothing strikes.
///
/// # Panics
///
/// If they cannot be read.
pub async fn contenders(inspector: &Inspector) -> usize {
    let seen = inspector.contenders().await;
    seen.expect("nothing strikes this one").len()
}

/// Checks that no contender is left after the session has cleaned up.
///
/// # Panics
///
/// If one is left.
pub async fn no_contender_is_left(scene: &Scene, inspector: &Inspector) {
    let what = &scene.what;
    settled(scene).await;
    let caught_up = scene.observer.sync(scene.path.as_str()).with_quorum().await;
    caught_up.expect("nothing strikes this one");
    let left = inspector.contenders().await;
    let left = left.expect("nothing strikes this one");
    assert!(left.is_empty(), "{what}: left behind: {left:?}");
}

/// Waits until the session has nothing left to clean up.
///
/// # Panics
///
/// If something is left after a minute.
pub async fn settled(scene: &Scene) {
    let settled = tokio::time::timeout(SOON, scene.struck.settled()).await;
    assert!(settled.is_ok(), "{}: it does not settle", scene.what);
}

/// The children of `path` after all that was done, seen by a session that nothing strikes; none if it does not exist.
///
/// # Panics
///
/// If they cannot be read.
pub async fn names(observer: &Session, path: &str) -> BTreeSet<String> {
    let caught_up = observer.sync(path).with_quorum().await;
    caught_up.expect("nothing strikes this one");
    match observer.list(path).await {
        Ok((names, _)) => names.into_iter().collect(),
        Err(error) if error.is_no_node() => BTreeSet::new(),
        Err(error) => panic!("nothing strikes this one: {error}"),
    }
}
