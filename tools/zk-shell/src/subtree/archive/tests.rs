use proptest::collection::btree_map;
use proptest::prelude::*;
use zk_core::{Acl, AclEntry, Bytes, Permissions};

use super::*;
use crate::subtree::node::RelativePath;

/// Persistent nodes that are open to all.
pub(crate) fn nodes(nodes: &[(&str, &str)]) -> Vec<SubtreeNode> {
    let node = |(path, data): &(&str, &str)| SubtreeNode {
        path: RelativePath::parse(path).unwrap(),
        data: Bytes::from(data.as_bytes().to_vec()),
        acl: Acl::open(),
        is_ephemeral: false,
    };
    nodes.iter().map(node).collect()
}

/// A subtree of nodes with arbitrary names, data and access rules, in the order of a walk.
fn subtree() -> impl Strategy<Value = Vec<SubtreeNode>> {
    let name = r"[^/\x00-\x1f\x7f-\x9f\x{e000}-\x{f8ff}\x{fff0}-\x{10ffff}]{1,6}";
    let name = name.prop_filter("no name of a node", |name| {
        !matches!(name.as_str(), "." | "..")
    });
    let path = proptest::collection::vec(name, 0..4);
    let data = prop_oneof![
        Just(Vec::new()),
        ".{0,8}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..600),
    ];
    let acl = prop_oneof![
        Just(Acl::open()),
        Just(Acl::read_only()),
        ("[a-z]{1,6}", ".{0,8}").prop_map(|(scheme, id)| {
            let all = AclEntry::new(Permissions::ALL, scheme, id);
            Acl::new([all, AclEntry::new(Permissions::NONE, "ip", "::1")])
        }),
    ];
    btree_map(path, (data, acl, any::<bool>()), 0..12).prop_map(|given| {
        let mut all = std::collections::BTreeMap::new();
        for (names, (data, acl, is_ephemeral)) in given {
            let mut path = RelativePath::root();
            for name in std::iter::once(None).chain(names.iter().map(Some)) {
                path = name.map_or_else(|| path.clone(), |name| path.child(name));
                let empty = || SubtreeNode {
                    path: path.clone(),
                    data: Bytes::new(),
                    acl: Acl::open(),
                    is_ephemeral: false,
                };
                all.entry(path.clone()).or_insert_with(empty);
            }
            let has_children = all
                .keys()
                .any(|other| other.parent().as_ref() == Some(&path));
            all.insert(
                path.clone(),
                SubtreeNode {
                    path,
                    data: data.into(),
                    acl,
                    is_ephemeral: is_ephemeral && !has_children,
                },
            );
        }
        // A later one may have got a child.
        let paths: Vec<_> = all.keys().cloned().collect();
        for node in all.values_mut() {
            node.is_ephemeral &= !paths
                .iter()
                .any(|path| path.parent().as_ref() == Some(&node.path));
        }
        let root = nodes(&[("", "")]);
        if all.is_empty() {
            root
        } else {
            all.into_values().collect()
        }
    })
}

fn write(at: &Path, format: Format, nodes: &[SubtreeNode]) -> Summary {
    let mut writer = ArchiveWriter::create(at, format, &Header::new("/app")).unwrap();
    for node in nodes {
        writer.add(node).unwrap();
    }
    writer.finish(&|| true).unwrap().unwrap()
}

fn read(at: &Path) -> Result<(Vec<SubtreeNode>, Header, Summary), FormatError> {
    let mut nodes = Vec::new();
    let (header, summary) = ArchiveFile::open(at).unwrap().read(&mut |node| {
        nodes.push(node);
        Ok(())
    })?;
    Ok((nodes, header, summary))
}

const FORMATS: [Format; 3] = [Format::Json, Format::Tar, Format::Dir];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_written_is_read_in_every_format(nodes in subtree()) {
        let directory = tempfile::tempdir().unwrap();
        let mut summaries = Vec::new();
        for format in FORMATS {
            let at = directory.path().join(format!("{format:?}"));
            let written = write(&at, format, &nodes);
            let (found, header, summary) = read(&at).map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(&found, &nodes);
            prop_assert_eq!(&header, &Header::new("/app"));
            prop_assert_eq!(&summary, &written);
            summaries.push(summary);
        }
        // The checksum is that of the subtree, not of the file.
        prop_assert!(summaries.iter().all(|summary| *summary == summaries[0]));
    }

    #[test]
    fn a_file_that_was_cut_or_changed_is_refused(nodes in subtree(), at in any::<prop::sample::Index>()) {
        let directory = tempfile::tempdir().unwrap();
        for format in [Format::Json, Format::Tar] {
            let file = directory.path().join(format!("{format:?}"));
            write(&file, format, &nodes);
            let whole = fs::read(&file).unwrap();
            // A tar file ends with two empty blocks, which may be missing.
            let end = match format {
                Format::Tar => whole.len() - 1536,
                _ => whole.len(),
            };
            let cut = at.index(end);
            fs::write(&file, &whole[..cut]).unwrap();
            prop_assert!(read(&file).is_err(), "{:?} cut at {}", format, cut);
            let mut changed = whole.clone();
            changed[cut] ^= 0x20;
            fs::write(&file, &changed).unwrap();
            if let Ok((found, ..)) = read(&file) {
                // Only the form has changed, such as the mode of an entry or the root in the header.
                prop_assert_eq!(&found, &nodes);
            }
        }
    }
}

#[test]
fn an_export_never_replaces_anything() {
    let directory = tempfile::tempdir().unwrap();
    for format in FORMATS {
        let at = directory.path().join(format!("{format:?}"));
        write(&at, format, &nodes(&[("", "x")]));
        let again = ArchiveWriter::create(&at, format, &Header::new("/other"));
        assert_eq!(again.err().unwrap().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(read(&at).unwrap().1.root, "/app");
    }
}

#[test]
fn garbage_is_no_export() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    for garbage in [
        &b""[..],
        b"{",
        b"{}\n",
        b"x",
        &[0; 4096],
        &[0xff; 4096],
        b"\x1f\x8b\x08",
    ] {
        fs::write(&file, garbage).unwrap();
        assert!(read(&file).is_err(), "{garbage:?}");
    }
}

#[test]
fn the_name_of_a_file_shows_the_format() {
    for (name, format) in [
        ("a.json", Some(Format::Json)),
        ("a.jsonl", Some(Format::Json)),
        ("a.tar", Some(Format::Tar)),
        ("a/", Some(Format::Dir)),
        ("a", None),
        ("a.tar.gz", None),
    ] {
        assert_eq!(Format::of(Path::new(name)), format, "{name}");
    }
}

#[test]
fn a_stream_without_an_end_is_not_copied() {
    let error = ArchiveFile::from_limited(io::repeat(b'{'), 1000).unwrap_err();
    assert!(error.to_string().contains("beyond 1000 bytes"), "{error}");
    let whole = ArchiveFile::from_limited(&b"{".repeat(1000)[..], 1000).unwrap();
    assert!(matches!(whole, ArchiveFile::Json(_)));
}
