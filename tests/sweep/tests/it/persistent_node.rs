//! A persistent node: it comes back once.

use std::time::Duration;

use zk_core::{PersistentNode, PersistentNodeOptions};
use zk_sweep::{Scene, settled};

/// It is created, written, created again after another client has deleted it with its parent, and removed.
async fn comes_back(scene: Scene, options: PersistentNodeOptions) {
    let what = &scene.what;
    let base = format!("{}/x", scene.path);
    let node = PersistentNode::start(&scene.struck, &base, "1", options).expect("a good path");
    let first = node.ready().await.expect(what);
    assert_eq!(
        found(&scene).await,
        [(first.path.to_string(), "1".to_owned())],
        "{what}"
    );
    node.set_data("2").await.expect(what);
    let expected = [(first.path.to_string(), "2".to_owned())];
    assert_eq!(found(&scene).await, expected, "{what}");

    let deleted = scene.observer.delete(&scene.path).recursive().await;
    deleted.expect("nothing strikes this one");
    // The deletion may take a node that was created again, too, and the handle notices that late.
    let mut reads = tokio::time::interval(Duration::from_millis(50));
    while found(&scene).await != expected {
        reads.tick().await;
    }
    node.remove().await.expect(what);
    settled(&scene).await;
    assert_eq!(found(&scene).await, [], "{what}");
}

pub(super) async fn ephemeral(scene: Scene) {
    comes_back(scene, PersistentNodeOptions::ephemeral()).await;
}

pub(super) async fn persistent_sequential(scene: Scene) {
    comes_back(scene, PersistentNodeOptions::persistent_sequential()).await;
}

pub(super) async fn ttl(scene: Scene) {
    comes_back(scene, PersistentNodeOptions::ttl(TTL)).await;
}

/// The children of the scene's node, by path, with their data.
async fn found(scene: &Scene) -> Vec<(String, String)> {
    let observer = &scene.observer;
    let synced = observer.sync(&scene.path).with_quorum().await;
    synced.expect("nothing strikes this one");
    let names = match observer.list(&scene.path).await {
        Ok((names, _)) => names,
        // The servers have deleted the container.
        Err(error) if error.is_no_node() => Vec::new(),
        Err(error) => panic!("nothing strikes this one: {error}"),
    };
    let mut found = Vec::new();
    for name in names {
        let path = format!("{}/{name}", scene.path);
        match observer.get(&path).await {
            Ok((data, _)) => found.push((path, String::from_utf8_lossy(&data).into_owned())),
            Err(error) if error.is_no_node() => {}
            Err(error) => panic!("nothing strikes this one: {error}"),
        }
    }
    found
}

/// Longer than a story.
const TTL: Duration = Duration::from_secs(300);
