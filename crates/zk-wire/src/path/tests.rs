//! Which paths are accepted, and what is said about the others.

use proptest::prelude::*;

use super::*;

fn refusal(path: &str) -> String {
    NodePath::parse(path)
        .expect_err("must be refused")
        .to_string()
}

#[test]
fn ordinary_paths_are_accepted_as_they_are() {
    for path in [
        "/",
        "/a",
        "/a/b",
        "/...",
        "/.a",
        "/a.",
        "/a..b",
        "/..a/b",
        "/ä/日本",
        "/a b",
        "/-_:%",
    ] {
        assert_eq!(NodePath::parse(path).unwrap().as_str(), path);
    }
}

#[test]
fn refusals_say_what_would_be_right() {
    for (path, message) in [
        ("", r#"path is empty; the root is "/""#),
        ("a/b", r#"path "a/b" does not start with '/'; write "/a/b""#),
        ("/a/", r#"path "/a/" ends with '/'; write "/a""#),
        (
            "//",
            r#"path "//" has an empty component at byte 1; write one '/' between names"#,
        ),
        (
            "/a//b",
            r#"path "/a//b" has an empty component at byte 3; write one '/' between names"#,
        ),
        (
            "/a/./b",
            r#"path "/a/./b" has the component "."; write the path out, without "." and "..""#,
        ),
        (
            "/..",
            r#"path "/.." has the component ".."; write the path out, without "." and "..""#,
        ),
        (
            "/a\0b",
            r#"path "/a\0b" has the character U+0000 at byte 2, which ZooKeeper does not allow in names; leave out control, private-use and supplementary characters"#,
        ),
    ] {
        assert_eq!(refusal(path), message);
    }
}

#[test]
fn exactly_the_characters_the_server_refuses_are_refused() {
    for character in (0..=0x1_ffff_u32)
        .filter_map(char::from_u32)
        .filter(|&c| c != '/' && c != '.')
    {
        // The rule of 3.4, over UTF-16 units.
        let refused = character.encode_utf16(&mut [0; 2]).iter().any(|&unit| {
            unit == 0
                || unit > 0 && unit < 0x1f
                || unit > 0x7f && unit < 0x9f
                || unit > 0xd800 && unit < 0xf8ff
                || unit > 0xfff0 && unit < 0xffff
        });
        assert_eq!(
            NodePath::parse(&format!("/{character}")).is_err(),
            refused,
            "{:x}",
            u32::from(character)
        );
    }
}

#[test]
fn every_short_path_is_judged_by_its_components() {
    // All texts of up to six characters of this alphabet, against the rule written another way.
    let alphabet = ['/', '.', 'a'];
    let mut texts = vec![String::new()];
    for _ in 0..6 {
        let longer = texts
            .iter()
            .flat_map(|text| alphabet.map(|character| format!("{text}{character}")));
        texts = texts.iter().cloned().chain(longer).collect();
    }
    for text in texts {
        let fits = text == "/"
            || text.strip_prefix('/').is_some_and(|names| {
                names
                    .split('/')
                    .all(|name| !["", ".", ".."].contains(&name))
            });
        assert_eq!(NodePath::parse(&text).is_ok(), fits, "{text:?}");
    }
}

#[test]
fn parents_end_at_the_root() {
    let path = NodePath::parse("/a/b/c").unwrap();
    let ancestors: Vec<_> = path
        .ancestors()
        .map(|ancestor| ancestor.to_string())
        .collect();
    assert_eq!(ancestors, ["/a/b", "/a", "/"]);
    assert_eq!((path.name(), NodePath::root().name()), (Some("c"), None));
    assert_eq!(NodePath::root().parent(), None);
    assert_eq!(NodePath::root().ancestors().count(), 0);
}

#[test]
fn names_are_paths_of_one_component() {
    for name in ["a", "...", "b c", "\u{7f}", "é-.", "a~"] {
        assert!(NodePath::is_name(name), "{name:?}");
    }
    for name in ["", ".", "..", "a/b", "/", "a\0", "😀"] {
        assert!(!NodePath::is_name(name), "{name:?}");
    }
}

#[test]
fn depth_is_counted_from_the_base() {
    for (base, path, depth) in [
        ("/", "/", Some(0)),
        ("/", "/a", Some(1)),
        ("/", "/a/b", Some(2)),
        ("/a", "/a", Some(0)),
        ("/a", "/a/b/c", Some(2)),
        ("/a", "/ab", None),
        ("/a/b", "/a", None),
        ("/a", "/b/a", None),
        ("/a", "/", None),
    ] {
        let [base, path] = [base, path].map(|path| NodePath::parse(path).unwrap());
        assert_eq!(path.depth_below(&base), depth, "{path} below {base}");
    }
}

#[test]
fn joining_checks_the_name() {
    let root = NodePath::root();
    assert_eq!(
        root.join("a").unwrap().join("b/c").unwrap().as_str(),
        "/a/b/c"
    );
    for name in ["", "/a", "a/", ".."] {
        assert!(root.join(name).is_err(), "{name:?}");
    }
}

#[test]
fn a_path_is_put_below_another_and_taken_from_it() {
    for (base, path, joined) in [
        ("/", "/", "/"),
        ("/", "/a", "/a"),
        ("/", "/a/b", "/a/b"),
        ("/a", "/", "/a"),
        ("/a", "/a", "/a/a"),
        ("/a", "/b/c", "/a/b/c"),
        ("/a/b", "/", "/a/b"),
        ("/a/b", "/c", "/a/b/c"),
    ] {
        let [base, path, joined] = [base, path, joined].map(|path| NodePath::parse(path).unwrap());
        assert_eq!(base.join_path(&path), joined, "{path} below {base}");
        assert_eq!(joined.relative_to(&base), Some(path), "{joined} - {base}");
    }
}

#[test]
fn a_path_that_is_not_below_another_is_not_relative_to_it() {
    for (base, path) in [
        ("/a", "/"),
        ("/a", "/b"),
        // Its name only begins like the other one.
        ("/a", "/ab"),
        ("/a", "/ab/c"),
        ("/a/b", "/a"),
        ("/a/b", "/a/bc"),
        ("/a", "/b/a"),
    ] {
        let [base, path] = [base, path].map(|path| NodePath::parse(path).unwrap());
        assert_eq!(path.relative_to(&base), None, "{path} - {base}");
    }
}

proptest! {
    #[test]
    fn join_and_parent_are_inverse(names in proptest::collection::vec("[a-z0-9_.-]{3,8}x", 1..6)) {
        let mut path = NodePath::root();
        for name in &names {
            let child = path.join(name).unwrap();
            prop_assert_eq!(child.name(), Some(name.as_str()));
            prop_assert_eq!(child.parent(), Some(path));
            path = child;
        }
        prop_assert_eq!(path.ancestors().count(), names.len());
    }

    #[test]
    fn parsing_never_panics(text in ".*") {
        drop(NodePath::parse(&text).map_err(|error| error.to_string()));
    }
}
