//! Curator's and kazoo's groups and persistent nodes, and ours, on one path.

use std::collections::BTreeMap;
use std::time::Duration;

use zk_core::{PersistentNode, PersistentNodeOptions, PersistentNodeProblem, Session};
use zk_group::partitioner::{Allocation, ItemGuard, Partitioner, PartitionerOptions};
use zk_group::{Group, Layout, Members, Membership};
use zk_harness::Ensemble;
use zk_sim::wait::soon;
use zk_tests::peers::{Curator, CuratorProcess, Kazoo, KazooMember};

use crate::lock::{observer, three_servers};

const MAX_WAIT: Duration = Duration::from_secs(60);

async fn shows(group: &Group, expected: &[(&str, &str)]) {
    let is_so = |members: &Members| {
        let found = members.iter().map(|one| (&*one.id, &*one.payload));
        let expected = expected
            .iter()
            .map(|(id, payload)| (*id, payload.as_bytes()));
        members.is_synchronized() && found.eq(expected)
    };
    let shown = soon(&format!("the group is {expected:?}"), group.wait_for(is_so)).await;
    shown.expect("the view goes on");
}

/// Asks until the other client lists exactly these: its view and its server may lag behind ours.
async fn lists(mut list: impl AsyncFnMut() -> String, expected: &str) {
    // Nothing reports when the other client has caught up.
    let mut reads = tokio::time::interval(Duration::from_millis(50));
    let looking = async {
        loop {
            reads.tick().await;
            if list().await == expected {
                return;
            }
        }
    };
    soon(&format!("it lists {expected:?}"), looking).await;
}

async fn peer(curator: &Curator, ensemble: &Ensemble) -> CuratorProcess {
    let connect = ensemble.connect_string();
    let peer = CuratorProcess::start(curator, "GroupPeer", &[connect.as_str()]).await;
    peer.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_we_are_members_of_one_group() {
    let ensemble = three_servers().await;
    let curator = Curator::find().await.unwrap();
    let session = observer(&ensemble).await;
    let mut java = peer(&curator, &ensemble).await;
    let group = Group::start(&session, "/group").unwrap();
    java.does("join /group java 1", "joined").await.unwrap();
    shows(&group, &[("java", "1")]).await;
    let rust = Membership::join(&session, "/group", "rust", "2").unwrap();
    shows(rust.group(), &[("java", "1"), ("rust", "2")]).await;
    lists(
        async || java.does("list", "found").await.unwrap(),
        "java=1 rust=2",
    )
    .await;
    rust.set_payload("3").await.unwrap();
    lists(
        async || java.does("list", "found").await.unwrap(),
        "java=1 rust=3",
    )
    .await;
    java.does("payload 4", "written").await.unwrap();
    shows(&group, &[("java", "4"), ("rust", "3")]).await;
    // A node without data.
    java.does("null /group/null", "made").await.unwrap();
    shows(&group, &[("java", "4"), ("null", ""), ("rust", "3")]).await;
    rust.leave().await.unwrap();
    java.does("leave", "left").await.unwrap();
    shows(&group, &[("null", "")]).await;
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoo_and_we_are_members_of_one_party() {
    let ensemble = three_servers().await;
    let kazoo = Kazoo::find().await.unwrap();
    let session = observer(&ensemble).await;
    let connect = ensemble.connect_string();
    for (kind, layout) in [
        ("party", Layout::KazooParty),
        ("shallow", Layout::KazooShallowParty),
    ] {
        let path = format!("/{kind}");
        let python = KazooMember::party(&kazoo, &connect, &path, kind, "python-1").await;
        let mut python = python.unwrap();
        python.does("join", "joined").await.unwrap();
        let rust = Membership::join_with(&session, &path, "rust-1", "", layout).unwrap();
        shows(rust.group(), &[("python-1", ""), ("rust-1", "")]).await;
        lists(
            async || python.does("list", "found").await.unwrap(),
            "python-1 rust-1",
        )
        .await;
        python.does("leave", "left").await.unwrap();
        shows(rust.group(), &[("rust-1", "")]).await;
        lists(
            async || python.does("list", "found").await.unwrap(),
            "rust-1",
        )
        .await;
        rust.leave().await.unwrap();
        lists(async || python.does("list", "found").await.unwrap(), "").await;
    }
    ensemble.down().await.unwrap();
}

const ITEMS: [&str; 5] = ["a", "b", "c", "d", "e"];

fn partitioner(session: &Session, id: &str) -> Partitioner {
    let options = PartitionerOptions::default()
        .with_settle_time(Duration::from_millis(200))
        .with_allocation(Allocation::Kazoo);
    Partitioner::start_with(session, "/set", id, ITEMS, options).unwrap()
}

/// Waits until a member owns these items as well.
async fn owns(member: &Partitioner, owned: &mut BTreeMap<String, ItemGuard>, items: &[&str]) {
    for _ in items {
        let guard = soon(&format!("it owns {items:?}"), member.next()).await;
        let guard = guard.expect("its session lives");
        assert!(items.contains(&guard.item()), "{items:?}: {guard:?}");
        owned.insert(guard.item().to_owned(), guard);
    }
}

/// Releases these items when that is requested.
async fn releases(owned: &mut BTreeMap<String, ItemGuard>, items: &[&str]) {
    for item in items {
        let guard = owned.remove(*item).expect("it has the item");
        let requested = guard.release_requested();
        soon(&format!("{item} is to be released"), requested).await;
        assert!(guard.is_valid());
        guard.release().await.unwrap();
    }
    assert!(
        owned
            .values()
            .all(|guard| guard.is_valid() && !guard.is_release_requested())
    );
}

/// Stock kazoo's members and ours: each waits for an item until the other one has released it.
#[tokio::test(flavor = "multi_thread")]
async fn kazoo_and_we_share_a_set() {
    let ensemble = three_servers().await;
    let kazoo = Kazoo::find().await.unwrap();
    let session = observer(&ensemble).await;
    let rust = partitioner(&session, "rust");
    let mut ours = BTreeMap::new();
    owns(&rust, &mut ours, &ITEMS).await;
    let connect = ensemble.connect_string();
    let python = KazooMember::partitioner(&kazoo, &connect, "/set", "python", &ITEMS).await;
    let mut python = python.unwrap();
    python.does("start", "started").await.unwrap();
    // It waits for the first of its items, which are still ours.
    let count = async || {
        session
            .list("/set/locks/a")
            .await
            .unwrap()
            .0
            .len()
            .to_string()
    };
    lists(count, "2").await;
    let mut reads = tokio::time::interval(Duration::from_millis(100));
    for _ in 0..20 {
        reads.tick().await;
        assert_eq!(python.does("items", "owns").await.unwrap(), "");
    }
    releases(&mut ours, &["a", "c", "e"]).await;
    let mut owned = async || python.does("items", "owns").await.unwrap();
    lists(&mut owned, "a c e").await;

    // kazoo releases all its items, and gets back those that it keeps.
    let second = partitioner(&session, "second");
    let mut theirs = BTreeMap::new();
    releases(&mut ours, &["d"]).await;
    owns(&rust, &mut ours, &["e"]).await;
    owns(&second, &mut theirs, &["c"]).await;
    lists(&mut owned, "a d").await;

    python.does("finish", "finished").await.unwrap();
    releases(&mut ours, &["b"]).await;
    releases(&mut theirs, &["c"]).await;
    owns(&rust, &mut ours, &["a", "c"]).await;
    owns(&second, &mut theirs, &["b", "d"]).await;
    ensemble.down().await.unwrap();
}

fn start(session: &Session, path: &str, options: PersistentNodeOptions) -> PersistentNode {
    PersistentNode::start(session, path, "rust", options).unwrap()
}

/// Ours waits for Curator's ephemeral node, and each uses the other's node that is not ephemeral.
#[tokio::test(flavor = "multi_thread")]
async fn curator_and_we_keep_nodes_at_one_path() {
    let ensemble = three_servers().await;
    let curator = Curator::find().await.unwrap();
    let session = observer(&ensemble).await;
    let mut java = peer(&curator, &ensemble).await;

    // Curator overwrites the data of our ephemeral node; we wait for theirs.
    java.does("keep EPHEMERAL /e java", "kept /e")
        .await
        .unwrap();
    session.sync("/").with_quorum().await.unwrap();
    let ours = start(&session, "/e", PersistentNodeOptions::ephemeral());
    let mut state = ours.state();
    while ours.problem().is_none() {
        soon("it is reported", state.changed()).await;
    }
    assert!(matches!(
        ours.problem(),
        Some(PersistentNodeProblem::Taken { owner: Some(_), .. })
    ));
    assert_eq!(session.get("/e").await.unwrap().0, "java");
    java.does("close", "closed").await.unwrap();
    soon("it is created", ours.ready()).await.unwrap();
    assert_eq!(session.get("/e").await.unwrap().0, "rust");

    java.does("keep CONTAINER /c java", "kept /c")
        .await
        .unwrap();
    session.sync("/").with_quorum().await.unwrap();
    let container = session.stat("/c").await.unwrap();
    let ours = start(&session, "/c", PersistentNodeOptions::container());
    let found = soon("it is found", ours.ready()).await.unwrap();
    assert_eq!(found.stat.czxid, container.czxid);
    assert_eq!(session.get("/c").await.unwrap().0, "rust");
    // Both create it again when it is gone, and it is one node.
    session.delete("/c").await.unwrap();
    session
        .wait_for_creation("/c")
        .timeout(MAX_WAIT)
        .await
        .unwrap();
    java.does("close", "closed").await.unwrap();

    // The child that both touch.
    java.does("touch 10000 /t java", "kept /t").await.unwrap();
    session
        .wait_for_creation("/t/touch")
        .timeout(MAX_WAIT)
        .await
        .unwrap();
    let before = session.stat("/t").await.unwrap();
    let ours = start(
        &session,
        "/t",
        PersistentNodeOptions::ttl(Duration::from_secs(10)),
    );
    soon("it is found", ours.ready()).await.unwrap();
    java.does("close", "closed").await.unwrap();
    let nothing = std::future::pending::<()>();
    drop(tokio::time::timeout(Duration::from_secs(25), nothing).await);
    assert_eq!(session.stat("/t").await.unwrap().czxid, before.czxid);
    assert_eq!(session.list("/t").await.unwrap().0, ["touch"]);
    drop(ours);
    session
        .wait_for_deletion("/t")
        .timeout(MAX_WAIT)
        .await
        .unwrap();
    ensemble.down().await.unwrap();
}
