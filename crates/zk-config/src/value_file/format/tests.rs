//! Files that are written, damaged, and of something else.

use std::sync::Arc;

use super::*;

fn path(text: &str) -> NodePath {
    text.parse().expect("a valid path")
}

fn subtree() -> Subtree {
    let nodes: [(&str, &[u8]); 3] = [
        ("/app", b""),
        ("/app/host", b"db\n1 2\n\xff"),
        ("/app/pool/size \u{e9}", b"8"),
    ];
    Subtree::new(path("/app"), nodes)
}

#[test]
fn a_file_has_the_nodes_and_the_revision() {
    let subject = FileSubject::new(path("/app"), &Extent::Subtree);
    for revision in [None, Some(0), Some(i64::MAX), Some(-1)] {
        let data = subject.encode(revision, &subtree());
        assert_eq!(subject.decode(&data), Ok((revision, subtree())));
    }
    let none = Subtree::new(path("/app"), []);
    let data = subject.encode(None, &none);
    assert_eq!(subject.decode(&data), Ok((None, none)));
    assert_eq!(crc32fast::hash(b"123456789"), 0xCBF4_3926);
}

#[test]
fn a_file_that_was_changed_anywhere_is_refused() {
    let subject = FileSubject::new(path("/app"), &Extent::Subtree);
    let data = subject.encode(Some(7), &subtree());
    for length in 0..data.len() {
        assert!(subject.decode(&data[..length]).is_err(), "{length} bytes");
    }
    for at in 0..data.len() {
        let mut changed = data.clone();
        changed[at] ^= 1;
        let error = subject.decode(&changed).unwrap_err();
        let is_first_line = at <= FORMAT.len();
        assert_eq!(
            matches!(error, FormatError::OtherSubject(_)),
            is_first_line,
            "at {at}: {error:?}"
        );
    }
    let longer = [data, b"x".to_vec()].concat();
    assert!(subject.decode(&longer).is_err());
    assert!(matches!(
        subject.decode(b""),
        Err(FormatError::OtherSubject(_))
    ));
}

#[test]
fn a_file_of_something_else_is_refused_and_named() {
    let profiles = |names: &[&str]| {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        Extent::Children(Arc::from(names))
    };
    let written = FileSubject::new(path("/app"), &profiles(&["a", "b"]));
    let data = written.encode(Some(7), &subtree());
    for (other, found, expected) in [
        (
            FileSubject::new(path("/apps"), &profiles(&["a", "b"])),
            "\"/app\"",
            "\"/apps\"",
        ),
        (
            FileSubject::new(path("/app"), &Extent::Subtree),
            "\"profiles a/b\"",
            "\"subtree\"",
        ),
        (
            FileSubject::new(path("/app"), &Extent::Node),
            "\"profiles a/b\"",
            "\"node\"",
        ),
        (
            FileSubject::new(path("/app"), &profiles(&["b", "a"])),
            "a/b",
            "b/a",
        ),
    ] {
        match other.decode(&data) {
            Err(FormatError::OtherSubject(reason)) => {
                assert!(
                    reason.contains(found) && reason.contains(expected),
                    "{reason}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
}
