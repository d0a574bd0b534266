use super::*;

fn path(path: &str) -> NodePath {
    NodePath::parse(path).unwrap()
}

fn at(zxid: i64) -> Moment {
    Moment {
        zxid,
        time: SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(zxid).unwrap()),
    }
}

fn create(tree: &mut Tree, zxid: i64, at_path: &str, counter: i32) -> Vec<Trigger> {
    let effect = Effect::Create {
        path: path(at_path),
        data: NodeData::default(),
        acl: Acl::open(),
        kind: Kind::Persistent,
        counter,
    };
    tree.apply(at(zxid), &effect)
}

#[test]
fn a_new_tree_has_the_nodes_of_a_new_server() {
    let tree = Tree::new(Counters::Stick);
    assert!(tree.paths().is_empty());
    let children: Vec<_> = tree.node("/zookeeper").unwrap().children().collect();
    assert_eq!(children, ["config", "quota"]);
    // A real server reports the same for its root: one child without a create.
    assert_eq!(tree.node("/").unwrap().stat().cversion, -1);
}

#[test]
fn a_create_changes_the_parent_and_triggers_both() {
    let mut tree = Tree::new(Counters::Stick);
    let triggers = create(&mut tree, 7, "/a", 1);
    assert_eq!(
        triggers,
        [
            Trigger::new(&path("/a"), WatchEvent::Created),
            Trigger::new(&path("/"), WatchEvent::ChildrenChanged)
        ]
    );
    let stat = tree.node("/a").unwrap().stat();
    assert_eq!((stat.czxid, stat.mzxid, stat.pzxid), (7, 7, 7));
    assert_eq!((stat.version, stat.cversion, stat.aversion), (0, 0, 0));
    assert_eq!(tree.node("/").unwrap().stat().pzxid, 7);
}

#[test]
fn cversion_counts_creates_and_deletes_while_the_counter_counts_creates() {
    let mut tree = Tree::new(Counters::Stick);
    create(&mut tree, 1, "/a", 1);
    create(&mut tree, 2, "/a/x", 1);
    create(&mut tree, 3, "/a/y", 2);
    let effect = Effect::Delete { path: path("/a/x") };
    let triggers = tree.apply(at(4), &effect);
    assert_eq!(triggers[0].event, WatchEvent::Deleted);
    let node = tree.node("/a").unwrap();
    assert_eq!((node.counter(), node.stat().cversion), (2, 3));
    assert_eq!((node.stat().pzxid, node.stat().num_children), (4, 1));
}

#[test]
fn a_counter_that_sticks_does_not_move_pzxid_either() {
    let mut tree = Tree::new(Counters::Stick);
    create(&mut tree, 1, "/a", 1);
    tree.node_mut(&path("/a")).creations = i32::MAX;
    create(&mut tree, 2, "/a/x", i32::MIN);
    let node = tree.node("/a").unwrap();
    assert_eq!((node.counter(), node.pzxid), (i32::MAX, 1));

    let mut old = Tree::new(Counters::Wrap);
    create(&mut old, 1, "/a", 1);
    create(&mut old, 2, "/a/x", i32::MIN);
    let node = old.node("/a").unwrap();
    assert_eq!((node.counter(), node.pzxid), (i32::MIN, 2));
}

#[test]
fn data_and_rules_are_versioned_apart() {
    let mut tree = Tree::new(Counters::Stick);
    create(&mut tree, 1, "/a", 1);
    let set = Effect::SetData {
        path: path("/a"),
        data: NodeData::from(&b"xyz"[..]),
        version: 1,
    };
    let triggers = tree.apply(at(2), &set);
    assert_eq!(
        triggers,
        [Trigger::new(&path("/a"), WatchEvent::DataChanged)]
    );
    let rules = Effect::SetAcl {
        path: path("/a"),
        acl: Acl::read_only(),
        version: 1,
    };
    assert!(tree.apply(at(3), &rules).is_empty());
    let stat = tree.node("/a").unwrap().stat();
    assert_eq!((stat.version, stat.aversion, stat.mzxid), (1, 1, 2));
    assert_eq!((stat.data_length, stat.mtime), (3, at(2).time));
}

#[test]
fn only_used_containers_and_outlived_nodes_are_left_over() {
    let mut tree = Tree::new(Counters::Stick);
    for (name, kind) in [
        ("/fresh", Kind::Container),
        ("/used", Kind::Container),
        ("/in-use", Kind::Container),
        ("/short", Kind::Ttl(Duration::from_secs(5))),
        ("/long", Kind::Ttl(Duration::from_secs(50))),
    ] {
        create(&mut tree, 1, name, 1);
        tree.node_mut(&path(name)).kind = kind;
    }
    create(&mut tree, 2, "/in-use/x", 1);
    tree.node_mut(&path("/used")).creations = 1;
    assert_eq!(tree.reapable(at(6).time), [path("/used")]);
    assert_eq!(tree.reapable(at(7).time), [path("/short"), path("/used")]);
}
