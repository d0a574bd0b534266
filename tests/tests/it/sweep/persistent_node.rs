//! Every request of a persistent node.

use std::time::Duration;

use zk_core::{PersistentNode, PersistentNodeOptions};

use super::{Scene, Stage, settled, sweep};

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

#[tokio::test(flavor = "multi_thread")]
async fn a_persistent_node_is_there_once_whichever_request_is_struck() {
    let stage = Stage::new().await;
    let with = |options: PersistentNodeOptions| move |scene| comes_back(scene, options.clone());
    let (ephemeral, sequential, ttl) = tokio::join!(
        sweep(
            &stage,
            "ephemeral",
            with(PersistentNodeOptions::ephemeral())
        ),
        sweep(
            &stage,
            "persistent sequential",
            with(PersistentNodeOptions::persistent_sequential())
        ),
        sweep(&stage, "ttl", with(PersistentNodeOptions::ttl(TTL))),
    );
    // Seven strikes, and no story has fewer requests.
    for struck in [ephemeral, sequential, ttl] {
        assert!(struck >= 7 * 10, "{struck} requests struck");
    }
    println!(
        "requests struck: {ephemeral} ephemeral, {sequential} sequential, {ttl} with a time to live"
    );
    stage.ensemble.down().await.unwrap();
}

/// Longer than a story.
const TTL: Duration = Duration::from_secs(300);
