//! The life of a read/write lock.

use std::time::Duration;

use zk_lock::{ReadGuard, RwLock, WriteGuard};
use zk_sweep::{SOON, Scene, settled};

/// A writer becomes a reader while a writer waits, and then, after that one has given up, a writer again.
pub(super) async fn life_of_a_writer_and_reader(scene: Scene) {
    let what = &scene.what;
    let ours = RwLock::new(&scene.struck, scene.path.as_str()).unwrap();
    let theirs = RwLock::new(&scene.observer, scene.path.as_str()).unwrap();

    let writing = ours.writer().acquire().await.expect(what);
    let token = writing.fencing_token();
    let limit = Duration::from_millis(300);
    let waiting = tokio::spawn({
        let theirs = theirs.clone();
        async move { theirs.writer().acquire_timeout(limit).await }
    });
    let reading = writing.downgrade().await.expect(what);
    assert_eq!(reading.fencing_token(), token, "{what}");
    let waited = tokio::time::timeout(SOON / 2, waiting).await;
    let waited = waited.expect(what).expect("it does not panic");
    if reading.is_valid() {
        assert!(waited.is_err(), "{what}: a writer got in: {waited:?}");
    }
    drop(waited);
    // What is left of the writers is ours, or goes in a moment.
    settled(&scene).await;
    let observer = tokio::time::timeout(SOON / 2, scene.observer.settled()).await;
    assert!(observer.is_ok(), "{what}: the observer does not settle");
    let writing = upgraded(reading, what).await;
    assert!(writing.fencing_token() > token, "{what}");
    assert!(
        theirs.reader().try_acquire().await.expect(what).is_none() || !writing.is_valid(),
        "{what}"
    );
    writing.release().await.expect(what);

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

/// Tries until the node of the writer that gave up is gone, which another session deletes in the background.
async fn upgraded(mut reading: ReadGuard, what: &str) -> WriteGuard {
    let mut tries = tokio::time::interval(Duration::from_millis(20));
    let upgrading = async move {
        loop {
            tries.tick().await;
            match reading.upgrade().await {
                Ok(writing) => return writing,
                Err(error) => {
                    println!("{what}: {error}");
                    reading = error.into_guard().expect(what);
                }
            }
        }
    };
    let upgraded = tokio::time::timeout(SOON, upgrading).await;
    upgraded.unwrap_or_else(|_| panic!("{what}: there is a writer for {SOON:?}"))
}
