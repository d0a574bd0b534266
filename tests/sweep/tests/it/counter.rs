//! A counter and a shared value: each change is made once.

use std::time::Duration;

use zk_counter::{AtomicCounter, CounterOptions, SharedValue, TrySetOutcome};
use zk_sweep::{SOON, Scene};

/// The first write creates the node, and the second one is behind a write of another session.
pub(super) async fn counts(scene: Scene) {
    let (path, what) = (scene.path.as_str(), &scene.what);
    let options = CounterOptions::default().with_timeout(SOON);
    let ours = AtomicCounter::new(&scene.struck, path, &options).unwrap();
    let theirs = AtomicCounter::new(&scene.observer, path, &options).unwrap();
    assert_eq!(ours.increment().await.expect(what), 1, "{what}");
    let added = theirs.add(10).await;
    assert_eq!(added.expect("nothing strikes this one"), 11, "{what}");
    assert_eq!(ours.add(2).await.expect(what), 13, "{what}");
    drop(ours);
    let expected = (13_i64.to_be_bytes().to_vec(), 3);
    assert_eq!(left(&scene).await, expected, "{what}");
}

/// A value that another session has replaced is not replaced. It is then changed, and what is seen of that is replaced.
pub(super) async fn shares(scene: Scene) {
    let (path, what) = (scene.path.as_str(), &scene.what);
    let start = |session| SharedValue::start(session, path, "a").unwrap();
    let ours = start(&scene.struck).with_timeout(SOON);
    let theirs = start(&scene.observer).with_timeout(SOON);
    let seen = ours.synchronized().await.expect(what);
    let updated = theirs.update(|data| Some([data, b"b"].concat())).await;
    assert_eq!(updated.expect("nothing strikes this one").data, "ab");
    let replaced = ours.try_set(&seen, "x").await.expect(what);
    assert_eq!(replaced, TrySetOutcome::ChangedMeanwhile, "{what}");
    let updated = ours.update(|data| Some([data, b"c"].concat())).await;
    assert_eq!(updated.expect(what).data, "abc", "{what}");
    let mut changes = ours.changes();
    let seen = loop {
        let now = changes.next().await.expect("the session lives");
        if let Some(now) = now.filter(|now| now.value == "abc") {
            break now;
        }
    };
    let replaced = ours.try_set(&seen, "d").await.expect(what);
    assert_eq!(replaced, TrySetOutcome::Done, "{what}");
    drop((ours, changes));
    assert_eq!(left(&scene).await, (b"d".to_vec(), 3), "{what}");
}

/// Waits until only the token of the session that nothing strikes is left. Returns the data and its version.
async fn left(scene: &Scene) -> (Vec<u8>, i32) {
    let (path, observer) = (scene.path.as_str(), &scene.observer);
    let reading = async {
        let mut reads = tokio::time::interval(Duration::from_millis(50));
        loop {
            reads.tick().await;
            let synced = observer.sync(path).with_quorum().await;
            synced.expect("nothing strikes this one");
            let (data, stat) = observer.get(path).await.expect("the node exists");
            if stat.num_children == 1 {
                return (data.to_vec(), stat.version);
            }
        }
    };
    let read = tokio::time::timeout(SOON, reading).await;
    read.unwrap_or_else(|_| panic!("{}: its token is left after {SOON:?}", scene.what))
}
