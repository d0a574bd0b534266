//! Deserialises subtrees.

use serde::Deserialize;

use super::*;

#[derive(Debug, PartialEq, Deserialize)]
struct Pool {
    size: u16,
    is_on: bool,
    host: String,
    limits: Limits,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Limits {
    wait: f64,
}

fn subtree(root: &str, nodes: &[(&str, &[u8])]) -> Subtree {
    let path = |text: &str| text.parse::<NodePath>().expect("a valid path");
    Subtree::new(path(root), nodes.iter().copied())
}

const GOOD: [(&str, &[u8]); 7] = [
    ("/app", b""),
    ("/app/host", b"db1"),
    ("/app/is_on", b"true"),
    ("/app/limits", b""),
    ("/app/limits/wait", b"1.5"),
    ("/app/size", b"8"),
    ("/app/size.old", b"7"),
];

#[test]
fn nodes_with_children_are_structures_and_leaves_are_texts() {
    let tree = subtree("/app", &GOOD);
    let pool: Pool = tree.deserialize().unwrap();
    assert_eq!(
        pool,
        Pool {
            size: 8,
            is_on: true,
            host: "db1".to_owned(),
            limits: Limits { wait: 1.5 },
        }
    );
    assert_eq!(tree.get("limits/wait"), Some(&b"1.5"[..]));
    assert_eq!(tree.get(""), Some(&b""[..]));
    assert_eq!(tree.iter().count(), 7);
    let top = subtree("/", &[("/", b""), ("/size", b"1")]);
    assert_eq!(top.get("size"), Some(&b"1"[..]));
}

#[test]
fn an_error_names_its_node() {
    let with = |path: &'static str, data: &'static [u8]| {
        let mut nodes = GOOD.to_vec();
        nodes.retain(|(other, _)| *other != path);
        nodes.push((path, data));
        let error = subtree("/app", &nodes).deserialize::<Pool>().unwrap_err();
        error.to_string()
    };
    for (error, named) in [
        (with("/app/size", b"much"), "size"),
        (with("/app/limits", b"x"), "limits"),
        (with("/app/host", b"\xff"), "host"),
    ] {
        assert!(error.contains(named), "{error}");
    }
    assert!(subtree("/app", &[]).deserialize::<Pool>().is_err());
}

#[test]
fn a_subtree_that_is_too_deep_is_refused() {
    let nested = |levels: usize| {
        let below = (1..=levels).map(|level| "/d".repeat(level));
        let paths: Vec<String> = below.map(|path| format!("/app{path}")).collect();
        let mut nodes: Vec<(&str, &[u8])> = vec![("/app", b"")];
        nodes.extend(paths.iter().map(|path| (path.as_str(), &b""[..])));
        subtree("/app", &nodes).deserialize::<serde::de::IgnoredAny>()
    };
    nested(128).expect("128 levels are allowed");
    let error = nested(129).unwrap_err().to_string();
    assert!(error.contains("129 levels"), "{error}");
    assert!(error.contains(&"d/".repeat(128)), "{error}");
}

#[test]
fn the_changes_between_two_subtrees_are_named() {
    let older = subtree("/app", &GOOD);
    let mut nodes = GOOD.to_vec();
    nodes.retain(|(path, _)| *path != "/app/size.old");
    nodes.push(("/app/limits/idle", b"3"));
    for (path, data) in &mut nodes {
        if *path == "/app/size" {
            *data = b"9";
        }
    }
    let newer = subtree("/app", &nodes);
    let changes: Vec<_> = newer.changes_since(&older).collect();
    assert_eq!(
        changes,
        [
            ("limits/idle", KeyChange::Created),
            ("size", KeyChange::Replaced),
            ("size.old", KeyChange::Removed),
        ]
    );
    assert_eq!(newer.changes_since(&newer).count(), 0);
    let none = subtree("/app", &[]);
    let all = older.changes_since(&none);
    assert!(
        all.map(|(_, change)| change)
            .eq([KeyChange::Created; GOOD.len()])
    );
    // An empty node is not the same as none.
    assert_eq!(
        none.changes_since(&older).next(),
        Some(("", KeyChange::Removed))
    );
}
