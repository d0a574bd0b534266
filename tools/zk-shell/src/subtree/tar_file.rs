//! A subtree as a tar file, with the same entries as a directory.

use std::io::{self, Read, Write};

use tar::EntryType;
use zk_core::Bytes;

use super::archive::{MAX_DATA, OnNode};
use super::directory::{ATTRIBUTES, DATA, HEADER, TRAILER, TREE, parse_attributes, path_of};
use super::file_name;
use super::format_error::FormatError;
use super::node::{RelativePath, SubtreeNode};
use super::node_line::{Attributes, Header, Trailer, to_json};
use super::validator::{Summary, Validator};

/// Writes the header.
pub(super) fn begin<W: Write>(file: &mut tar::Builder<W>, header: &Header) -> io::Result<()> {
    append(
        file,
        HEADER.as_ref(),
        EntryType::Regular,
        to_json(header).as_bytes(),
    )
}

/// Writes a node. The entry of a directory is written only for nodes that have no other one.
pub(super) fn add<W: Write>(file: &mut tar::Builder<W>, node: &SubtreeNode) -> io::Result<()> {
    let location = path_of(&node.path);
    let attributes = Attributes::of(node);
    if !attributes.are_default() {
        append(
            file,
            &location.join(ATTRIBUTES),
            EntryType::Regular,
            to_json(&attributes).as_bytes(),
        )?;
    }
    if !node.data.is_empty() {
        append(file, &location.join(DATA), EntryType::Regular, &node.data)?;
    }
    if attributes.are_default() && node.data.is_empty() {
        append(file, &location, EntryType::Directory, b"")?;
    }
    Ok(())
}

/// Writes the trailer and the end of the file.
pub(super) fn finish<W: Write>(file: &mut tar::Builder<W>, summary: &Summary) -> io::Result<()> {
    append(
        file,
        TRAILER.as_ref(),
        EntryType::Regular,
        to_json(&summary.trailer()).as_bytes(),
    )?;
    file.finish()?;
    file.get_mut().flush()
}

/// Equal subtrees have equal files: there are no times and no owners.
fn append<W: Write>(
    file: &mut tar::Builder<W>,
    path: &std::path::Path,
    kind: EntryType,
    bytes: &[u8],
) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(if kind == EntryType::Directory {
        0o700
    } else {
        0o600
    });
    header.set_size(bytes.len() as u64);
    file.append_data(&mut header, path, bytes)
}

/// The entries of one node.
struct Parts {
    path: RelativePath,
    attributes: Option<Attributes>,
    data: Option<Vec<u8>>,
}

/// Reads the nodes of a file, and checks them up to its end. Nothing is unpacked.
pub(super) fn read(file: impl Read, on_node: OnNode<'_>) -> Result<(Header, Summary), FormatError> {
    let mut archive = tar::Archive::new(file);
    let damaged = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => FormatError::cut(),
        _ => FormatError::whole(format!("it is no export of `zk`, or damaged: {error}")),
    };
    let (mut header, mut trailer): (Option<Header>, Option<Trailer>) = (None, None);
    let mut validator = Validator::default();
    let mut parts: Option<Parts> = None;
    let mut emit = |parts: Parts, validator: &mut Validator| {
        let location = format!("entry {}", path_of(&parts.path).display());
        let node = parts
            .attributes
            .unwrap_or_default()
            .into_node(parts.path, Bytes::from(parts.data.unwrap_or_default()))
            .map_err(|problem| FormatError::new(location.clone(), problem))?;
        validator.accept(&location, &node)?;
        on_node(node)
    };
    let mut long_name = None;
    // The entries as they are: otherwise a long name is read whole, however long, before it is returned.
    for entry in archive.entries().map_err(damaged)?.raw(true) {
        let mut entry = entry.map_err(damaged)?;
        if let Some(name) = name_of_next(&mut entry)? {
            if long_name.replace(name).is_some() {
                return Err(FormatError::whole("an entry has two long names"));
            }
            continue;
        }
        let name = long_name.take();
        let name = name.unwrap_or_else(|| entry.path_bytes().into_owned());
        let name = String::from_utf8_lossy(&name).into_owned();
        let location = format!("entry {name}");
        let refused = |problem: &str| FormatError::new(location.clone(), problem);
        if trailer.is_some() {
            return Err(refused("more follows after the end of the export"));
        }
        let bytes = content(&mut entry, &location)?;
        if header.is_none() {
            if name != HEADER {
                return Err(refused(
                    "it is no export of `zk`: the first entry is not `=subtree.json`",
                ));
            }
            header = Some(Header::parse(&bytes).map_err(|problem| refused(&problem))?);
            continue;
        }
        if name == TRAILER {
            if let Some(parts) = parts.take() {
                emit(parts, &mut validator)?;
            }
            trailer =
                Some(serde_json::from_slice(&bytes).map_err(|error| refused(&error.to_string()))?);
            continue;
        }
        let is_directory = entry.header().entry_type() == EntryType::Directory;
        let (path, file) =
            parse(&name, is_directory).ok_or_else(|| refused("it is not of an export"))?;
        let path = RelativePath::parse(&path).map_err(|error| refused(&error.to_string()))?;
        if let Some(other) = parts.take_if(|parts| parts.path != path) {
            emit(other, &mut validator)?;
        }
        let parts = parts.get_or_insert(Parts {
            path,
            attributes: None,
            data: None,
        });
        let is_first = match file {
            Some(DATA) => parts.data.replace(bytes).is_none(),
            Some(_) => parts
                .attributes
                .replace(parse_attributes(&location, &bytes)?)
                .is_none(),
            None => true,
        };
        if !is_first {
            return Err(refused("it is there twice"));
        }
    }
    let header = header.ok_or_else(FormatError::cut)?;
    let trailer = trailer.ok_or_else(FormatError::cut)?;
    Ok((header, validator.finish(&trailer)?))
}

/// Returns the name that an entry gives to the next one, because it does not fit into a header; `None` if it is an entry
/// of its own.
fn name_of_next(entry: &mut tar::Entry<'_, impl Read>) -> Result<Option<Vec<u8>>, FormatError> {
    let kind = entry.header().entry_type();
    if !matches!(kind, EntryType::GNULongName | EntryType::XHeader) {
        return Ok(None);
    }
    let location = "the name of an entry";
    if entry.size() > MAX_NAME {
        return Err(FormatError::new(
            location,
            format!("it is longer than {MAX_NAME} bytes, and no node has such a path"),
        ));
    }
    let bytes = read_whole(entry, location)?;
    if kind == EntryType::GNULongName {
        let end = bytes.iter().position(|byte| *byte == 0);
        return Ok(Some(bytes[..end.unwrap_or(bytes.len())].to_vec()));
    }
    let mut name = None;
    for record in tar::PaxExtensions::new(&bytes) {
        let record = record.map_err(|error| FormatError::io(location, &error))?;
        match record.key_bytes() {
            b"path" => name = Some(record.value_bytes().to_vec()),
            b"size" => return Err(FormatError::new(location, "a PAX record has another size")),
            // Times and owners.
            _ => {}
        }
    }
    name.map(Some)
        .ok_or_else(|| FormatError::new(location, "a PAX record has no path"))
}

/// Reads the bytes of an entry, which must be a regular file or a directory.
fn content(entry: &mut tar::Entry<'_, impl Read>, location: &str) -> Result<Vec<u8>, FormatError> {
    if !matches!(
        entry.header().entry_type(),
        EntryType::Regular | EntryType::Directory
    ) {
        return Err(FormatError::new(
            location,
            "it is neither a file nor a directory",
        ));
    }
    if entry.size() > MAX_DATA {
        return Err(FormatError::new(
            location,
            format!("it is longer than {MAX_DATA} bytes, and no node is"),
        ));
    }
    read_whole(entry, location)
}

/// Reads the bytes of an entry whose size was checked.
fn read_whole(
    entry: &mut tar::Entry<'_, impl Read>,
    location: &str,
) -> Result<Vec<u8>, FormatError> {
    let mut bytes = Vec::new();
    match entry.read_to_end(&mut bytes) {
        Ok(read) if read as u64 == entry.size() => Ok(bytes),
        Ok(_) => Err(FormatError::cut()),
        Err(error) => Err(FormatError::io(location, &error)),
    }
}

/// Returns the path of an entry's node and which of its files the entry is.
fn parse(name: &str, is_directory: bool) -> Option<(String, Option<&str>)> {
    let name = name.strip_suffix('/').unwrap_or(name);
    let below = name.strip_prefix(TREE)?;
    let mut names: Vec<&str> = match below.strip_prefix('/') {
        Some(below) => below.split('/').collect(),
        None if below.is_empty() => Vec::new(),
        None => return None,
    };
    let file = if is_directory {
        None
    } else {
        Some(
            names
                .pop()
                .filter(|name| [DATA, ATTRIBUTES].contains(name))?,
        )
    };
    let decoded: Option<Vec<String>> = names.into_iter().map(file_name::decode).collect();
    Some((decoded?.join("/"), file))
}

/// The longest name of an entry, in bytes.
const MAX_NAME: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::subtree::archive::tests::nodes;

    fn tar_of(entries: &[(&str, EntryType, &str)]) -> Vec<u8> {
        let mut file = tar::Builder::new(Vec::new());
        for (name, kind, bytes) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o600);
            header.set_size(bytes.len() as u64);
            // As a hostile program writes it: unchecked.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            file.append(&header, bytes.as_bytes()).unwrap();
        }
        file.into_inner().unwrap()
    }

    fn problem(entries: &[(&str, EntryType, &str)]) -> String {
        let mut all = vec![(HEADER, EntryType::Regular, r#"{"zk-subtree":1,"root":"/"}"#)];
        all.extend(entries);
        read(&tar_of(&all)[..], &mut |_| Ok(()))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn hostile_entries_are_refused() {
        let root = ("tree", EntryType::Directory, "");
        for (name, kind, expected) in [
            ("tree/../../etc", EntryType::Directory, "not of an export"),
            ("tree/%2E.", EntryType::Directory, ".."),
            ("/etc/passwd", EntryType::Regular, "not of an export"),
            ("tree//x", EntryType::Directory, "not of an export"),
            ("treex", EntryType::Directory, "not of an export"),
            ("tree/x", EntryType::Regular, "not of an export"),
            (
                "tree/x",
                EntryType::Symlink,
                "neither a file nor a directory",
            ),
            ("tree/x", EntryType::Char, "neither a file nor a directory"),
            (
                "tree/a/b",
                EntryType::Directory,
                "parent of \"a/b\" is missing",
            ),
            (
                "tree/\u{1b}[2J",
                EntryType::Directory,
                "\\u{1b}[2J: it is not of an export",
            ),
        ] {
            let trailer = (TRAILER, EntryType::Regular, "{}");
            let problem = problem(&[root, (name, kind, ""), trailer]);
            assert!(problem.contains(expected), "{name:?}: {problem}");
            assert!(!problem.contains('\u{1b}'));
        }
        let data = ("tree/=data", EntryType::Regular, "x");
        assert!(problem(&[data, data]).contains("twice"));
        let unknown = (
            "tree/=node.json",
            EntryType::Regular,
            r#"{"acl":[],"uid":0}"#,
        );
        assert!(problem(&[unknown]).contains("unknown field"));
    }

    #[test]
    fn an_entry_that_claims_to_be_huge_is_not_read() {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(1 << 40);
        header.as_old_mut().name[..HEADER.len()].copy_from_slice(HEADER.as_bytes());
        header.set_cksum();
        let endless = header.as_bytes().chain(io::repeat(b'{'));
        let error = read(endless, &mut |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("longer than"), "{error}");
    }

    /// An entry that gives a name of this length to the next one.
    fn named(kind: EntryType, size: u64) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.as_old_mut().name[..13].copy_from_slice(b"././@LongLink");
        header.set_cksum();
        header
    }

    #[test]
    fn a_name_that_claims_to_be_huge_is_not_read() {
        let first = [(HEADER, EntryType::Regular, r#"{"zk-subtree":1,"root":"/"}"#)];
        let mut first = tar_of(&first);
        // Without the two blocks of the end.
        first.truncate(first.len() - 2 * BLOCK);
        for kind in [
            EntryType::GNULongName,
            EntryType::GNULongLink,
            EntryType::XHeader,
            EntryType::XGlobalHeader,
        ] {
            let mut read_bytes = 0;
            // Much more than a name may have, and no danger to the machine that a flaw reads it on.
            let endless = io::repeat(b'a').take(16 << 20);
            let mut counted = CountedReader(endless, &mut read_bytes);
            let header = named(kind, 1 << 40);
            let file = first
                .chain(header.as_bytes().as_slice())
                .chain(&mut counted);
            let error = read(file, &mut |_| Ok(())).unwrap_err().to_string();
            assert!(
                error.contains("longer than") || error.contains("neither a file nor a directory"),
                "{kind:?}: {error}"
            );
            assert!(read_bytes < 1 << 20, "{kind:?}: {read_bytes} bytes");
        }
    }

    /// Counts what is read.
    struct CountedReader<'a, R>(R, &'a mut u64);

    impl<R: Read> Read for CountedReader<'_, R> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let read = self.0.read(buffer)?;
            *self.1 += read as u64;
            Ok(read)
        }
    }

    #[test]
    fn long_names_are_read_as_gnu_and_as_pax_write_them() {
        let name = "x".repeat(200);
        let long = format!("tree/{name}");
        let record = format!(" path={long}\n");
        let record = format!("{}{record}", record.len() + 3);
        for (kind, text) in [
            (EntryType::GNULongName, format!("{long}\0")),
            (EntryType::XHeader, record),
        ] {
            let mut found = Vec::new();
            let trailer = r#"{"nodes":2,"bytes":0}"#;
            let entries = [
                (HEADER, EntryType::Regular, r#"{"zk-subtree":1,"root":"/"}"#),
                ("tree", EntryType::Directory, ""),
                ("././@LongLink", kind, &text),
                ("tree/short", EntryType::Directory, ""),
                (TRAILER, EntryType::Regular, trailer),
            ];
            // The trailer has a checksum that is not computed here.
            drop(read(&tar_of(&entries)[..], &mut |node| {
                found.push(node);
                Ok(())
            }));
            assert_eq!(found, nodes(&[("", ""), (&name, "")]), "{kind:?}");
        }
    }

    /// Replaces a byte; if that is in the header of an entry, the header gets the checksum that it needs to be read.
    fn change(file: &mut [u8], at: usize, byte: u8) {
        file[at] = byte;
        let block = &mut file[at / BLOCK * BLOCK..][..BLOCK];
        let mut header = tar::Header::new_old();
        header.as_mut_bytes().copy_from_slice(block);
        if block[257..].starts_with(b"ustar") && !(148..156).contains(&(at % BLOCK)) {
            header.set_cksum();
            block.copy_from_slice(header.as_bytes());
        }
    }

    const BLOCK: usize = 512;

    proptest! {
        #[test]
        fn a_changed_file_is_refused_or_has_the_same_nodes(
            changes in prop::collection::vec((any::<prop::sample::Index>(), 0..160_usize, any::<u8>()), 1..5),
        ) {
            let written = nodes(&[("", "x"), ("a", ""), ("a/b", "yz"), ("c", "1")]);
            let mut archive = tar::Builder::new(Vec::new());
            begin(&mut archive, &Header::new("/app")).unwrap();
            let mut validator = Validator::default();
            for node in &written {
                validator.accept("", node).unwrap();
                add(&mut archive, node).unwrap();
            }
            finish(&mut archive, &validator.summary()).unwrap();
            let mut file = archive.into_inner().unwrap();
            for (block, at, byte) in changes {
                // Most blocks are empty beyond that.
                let block = block.index(file.len() / BLOCK) * BLOCK;
                change(&mut file, block + at, byte);
            }
            let mut found = Vec::new();
            let is_whole = read(&file[..], &mut |node| {
                found.push(node);
                Ok(())
            });
            if is_whole.is_ok() {
                prop_assert_eq!(found, written);
            }
        }
    }
}
