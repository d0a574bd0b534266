//! Each operation of zk-core: the effect comes exactly once, or the caller hears that it is unknown.

use zk_core::{Error, Session};
use zk_sweep::{Scene, settled};

/// What the tree shows of an operation's effect: how often it happened.
async fn effects(observer: &Session, path: &str) -> usize {
    observer
        .sync(path)
        .with_quorum()
        .await
        .expect("nothing strikes this one");
    let (names, _) = observer.list(path).await.expect("the scene has made it");
    names.len()
}

async fn changes(observer: &Session, path: &str) -> i32 {
    observer
        .sync(path)
        .with_quorum()
        .await
        .expect("nothing strikes this one");
    let stat = observer.stat(path).await.expect("the scene has made it");
    stat.version
}

/// An answer of the server means once, or what the operation would find then; no answer may be either.
fn judge<T>(what: &str, outcome: Result<T, Error>, times: usize) {
    match outcome {
        Ok(_) => assert_eq!(times, 1, "{what}: it succeeded"),
        Err(error) => {
            assert!(error.is_outcome_unknown(), "{what}: {error:?}");
            assert!(times <= 1, "{what}: {times} times");
        }
    }
}

async fn parent(scene: &Scene) -> String {
    let parent = scene.observer.create(scene.path.as_str(), "").parents();
    parent.await.expect("nothing strikes this one");
    scene.path.clone()
}

pub(super) async fn create_with_its_parents(scene: Scene) {
    let path = parent(&scene).await;
    let made = scene
        .struck
        .create(format!("{path}/a/b/c"), "data")
        .parents();
    let outcome = made.await;
    let times = effects(&scene.observer, &path).await;
    judge(&scene.what, outcome, times);
}

pub(super) async fn create_protected(scene: Scene) {
    let path = parent(&scene).await;
    let made = scene.struck.create(format!("{path}/n-"), "data");
    let outcome = made.sequential().protected().await;
    assert!(outcome.is_ok(), "{}: {outcome:?}", scene.what);
    settled(&scene).await;
    let times = effects(&scene.observer, &path).await;
    judge(&scene.what, outcome, times);
}

pub(super) async fn create_sequential(scene: Scene) {
    let path = parent(&scene).await;
    let made = scene.struck.create(format!("{path}/n-"), "data");
    let outcome = made.sequential().await;
    // An unprotected node cannot be distinguished from another client's: never repeated.
    let times = effects(&scene.observer, &path).await;
    judge(&scene.what, outcome, times);
}

pub(super) async fn create_owned_and_drop(scene: Scene) {
    let path = parent(&scene).await;
    let made = scene.struck.create(format!("{path}/n-"), "data");
    let owned = made.ephemeral().sequential().owned().await;
    assert_eq!(
        effects(&scene.observer, &path).await,
        usize::from(owned.is_ok()),
        "{}",
        scene.what
    );
    drop(owned.expect(&scene.what));
    settled(&scene).await;
    assert_eq!(effects(&scene.observer, &path).await, 0, "{}", scene.what);
}

pub(super) async fn set_with_a_version(scene: Scene) {
    let path = parent(&scene).await;
    let outcome = scene.struck.set(path.as_str(), "new").version(0).await;
    let times = usize::try_from(changes(&scene.observer, &path).await).expect("it only grows");
    judge(&scene.what, outcome, times);
}

pub(super) async fn set_anything(scene: Scene) {
    let path = parent(&scene).await;
    // What changes after this answer can only be this call's doing or another client's, and there is none.
    let caught_up = scene.struck.sync(path.as_str()).with_quorum().await;
    assert!(caught_up.is_ok(), "{}: {caught_up:?}", scene.what);
    let seen = scene.struck.stat(path.as_str()).await;
    assert!(seen.is_ok(), "{}: {seen:?}", scene.what);
    let outcome = scene.struck.set(path.as_str(), "new").await;
    assert!(outcome.is_ok(), "{}: {outcome:?}", scene.what);
    let times = changes(&scene.observer, &path).await;
    assert_eq!(times, 1, "{}", scene.what);
}

pub(super) async fn delete(scene: Scene) {
    let path = parent(&scene).await;
    let node = format!("{path}/a");
    scene
        .observer
        .create(node.as_str(), "")
        .await
        .expect("nothing strikes this one");
    let outcome = scene.struck.delete(node.as_str()).await;
    let left = effects(&scene.observer, &path).await;
    judge(&scene.what, outcome, 1 - left);
}

pub(super) async fn delete_guaranteed(scene: Scene) {
    let path = parent(&scene).await;
    let node = format!("{path}/a");
    scene
        .observer
        .create(node.as_str(), "")
        .await
        .expect("nothing strikes this one");
    let outcome = scene.struck.delete(node.as_str()).guaranteed().await;
    assert!(outcome.is_ok(), "{}: {outcome:?}", scene.what);
    settled(&scene).await;
    assert_eq!(effects(&scene.observer, &path).await, 0, "{}", scene.what);
}

pub(super) async fn transaction(scene: Scene) {
    let path = parent(&scene).await;
    let both = scene.struck.transaction().check_version(path.as_str(), 0);
    let outcome = both
        .create(format!("{path}/a"), "")
        .set(path.as_str(), "new")
        .commit()
        .await;
    // Both effects from one reply: a transaction without an answer may be carried out between two reads.
    scene
        .observer
        .sync(path.as_str())
        .with_quorum()
        .await
        .expect("nothing strikes this one");
    let (names, stat) = scene
        .observer
        .list(path.as_str())
        .await
        .expect("the scene has made it");
    let changed = usize::try_from(stat.version).expect("it only grows");
    assert_eq!(changed, names.len(), "{}: half of it", scene.what);
    judge(&scene.what, outcome, changed);
}

pub(super) async fn reads(scene: Scene) {
    let path = parent(&scene).await;
    // Another session has made it, perhaps at another server.
    scene
        .struck
        .sync(path.as_str())
        .with_quorum()
        .await
        .expect(&scene.what);
    let (data, stat) = scene.struck.get(path.as_str()).await.expect(&scene.what);
    assert_eq!((data.len(), stat.version), (0, 0), "{}", scene.what);
    assert!(
        scene
            .struck
            .exists(path.as_str())
            .await
            .expect(&scene.what)
            .is_some()
    );
    let (names, _) = scene.struck.list(path.as_str()).await.expect(&scene.what);
    assert!(names.is_empty(), "{}", scene.what);
    scene.struck.sync(path.as_str()).await.expect(&scene.what);
}
