//! A holder that takes a lease and renews it.

use std::time::Duration;

use zk_core::Session;
use zk_lock::{OneShotLease, OneShotLeaseOptions};
use zk_sweep::{Scene, settled};

/// Longer than any scene.
const DURATION: Duration = Duration::from_secs(600);

async fn take(scene: &Scene, session: &Session, holder: &str) -> Option<OneShotLease> {
    let options = OneShotLeaseOptions::new(holder, DURATION);
    let taken = OneShotLease::try_take(session, scene.path.as_str(), &options).await;
    taken.expect(&scene.what)
}

/// A lease is taken and renewed; another holder does not get it. Each write was applied once, and only the record is left.
pub(super) async fn take_and_renew(scene: Scene) {
    let what = &scene.what;
    let first = take(&scene, &scene.struck, "struck").await.expect(what);
    assert!(first.is_valid(), "{what}");
    let none = take(&scene, &scene.observer, "other").await;
    assert_eq!(none, None, "{what}");
    let second = take(&scene, &scene.struck, "struck").await.expect(what);
    assert!(second.is_valid(), "{what}");
    assert!(second.end() >= first.end(), "{what}");

    settled(&scene).await;
    let caught_up = scene.observer.sync(scene.path.as_str()).with_quorum().await;
    caught_up.expect("nothing strikes this one");
    let left = scene.observer.list(scene.path.as_str()).await;
    let (left, _) = left.expect("nothing strikes this one");
    assert_eq!(left, ["lease_holder"], "{what}: left behind");
    let record = format!("{}/lease_holder", scene.path);
    let record = scene.observer.get(record).await;
    let (data, stat) = record.expect("nothing strikes this one");
    let text = String::from_utf8_lossy(&data);
    assert!(text.contains(r#""holder": "struck""#), "{what}: {text}");
    assert_eq!(stat.version, 1, "{what}: {text}");
    let none = take(&scene, &scene.observer, "other").await;
    assert_eq!(none, None, "{what}");
}
