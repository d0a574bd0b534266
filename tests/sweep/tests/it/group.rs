//! A member of a group: it joins, changes its payload, and leaves.

use zk_group::{Members, Membership};
use zk_sweep::{Scene, settled};

/// It joins a group with a member, changes its payload, and leaves.
pub(super) async fn joins_and_leaves(scene: Scene) {
    let (path, what) = (scene.path.as_str(), &scene.what);
    let theirs = Membership::join(&scene.observer, path, "theirs", "").unwrap();
    theirs.ready().await.expect("nothing strikes this one");
    let ours = Membership::join(&scene.struck, path, "ours", "1").unwrap();
    ours.ready().await.expect(what);
    ours.set_payload("2").await.expect(what);
    let has_both = |members: &Members| {
        let is_written = members.get("ours").is_some_and(|ours| ours.payload == "2");
        members.is_synchronized() && members.len() == 2 && is_written
    };
    for group in [ours.group(), theirs.group()] {
        group.wait_for(has_both).await.expect(what);
    }
    ours.leave().await.expect(what);
    let has_one = |members: &Members| members.is_synchronized() && members.len() == 1;
    let left = theirs.group().wait_for(has_one).await;
    assert!(left.expect(what).get("theirs").is_some(), "{what}");

    settled(&scene).await;
    let synced = scene.observer.sync(path).with_quorum().await;
    synced.expect("nothing strikes this one");
    let (left, _) = scene.observer.list(path).await.expect("the group exists");
    assert_eq!(left, ["theirs"], "{what}");
}
