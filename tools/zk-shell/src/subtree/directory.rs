//! A subtree as a directory: a directory for each node, with its data and its attributes in files.
//!
//! ```text
//! =subtree.json      the header
//! tree/              the root of the subtree
//! ├── =data          its data, unless it is empty
//! ├── =node.json     its access rules and whether it is ephemeral, unless it is persistent and open to all
//! └── child/         a child; see `file_name` for the names
//! =end.json          the trailer; without it the export was interrupted
//! ```
//!
//! No name of a node begins with `=` here.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use zk_core::Bytes;

use super::archive::{MAX_DATA, OnNode};
use super::file_name;
use super::format_error::FormatError;
use super::node::{RelativePath, SubtreeNode};
use super::node_line::{Attributes, Header, Trailer, to_json};
use super::validator::{Summary, Validator};

/// Creates the directory, which must not exist, and writes the header.
pub(super) fn begin(directory: &Path, header: &Header) -> io::Result<()> {
    make(directory)?;
    write(&directory.join(HEADER), to_json(header).as_bytes())
}

/// Writes a node.
pub(super) fn add(directory: &Path, node: &SubtreeNode) -> io::Result<()> {
    let below = path_of(&node.path);
    if let Some(length) = below
        .iter()
        .map(std::ffi::OsStr::len)
        .find(|length| *length > MAX_NAME)
    {
        let (path, help) = (
            &node.path,
            "export to a tar or JSON file, which has no such limit",
        );
        return Err(io::Error::new(
            io::ErrorKind::InvalidFilename,
            format!(
                "the node {path:?} has a name of {length} bytes as a file, and files have at most {MAX_NAME}; {help}"
            ),
        ));
    }
    let location = directory.join(below);
    make(&location)?;
    if !node.data.is_empty() {
        write(&location.join(DATA), &node.data)?;
    }
    let attributes = Attributes::of(node);
    if !attributes.are_default() {
        write(&location.join(ATTRIBUTES), to_json(&attributes).as_bytes())?;
    }
    Ok(())
}

/// The longest name of a file on most file systems, in bytes.
const MAX_NAME: usize = 255;

/// Writes the trailer, once everything else is on the disk.
pub(super) fn finish(directory: &Path, summary: &Summary) -> io::Result<()> {
    sync_tree(directory)?;
    let trailer = directory.join(TRAILER);
    write(&trailer, to_json(&summary.trailer()).as_bytes())?;
    File::open(trailer)?.sync_all()?;
    File::open(directory)?.sync_all()
}

/// Has all files below a directory written to its disk: with one call for the whole of it, because one for each of many
/// files takes minutes.
#[cfg(target_os = "linux")]
fn sync_tree(directory: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(directory)?)?)
}

/// Has all files below a directory written to its disk.
#[cfg(not(target_os = "linux"))]
fn sync_tree(directory: &Path) -> io::Result<()> {
    let mut next = vec![directory.to_owned()];
    while let Some(location) = next.pop() {
        for entry in fs::read_dir(&location)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                next.push(entry.path());
            } else {
                File::open(entry.path())?.sync_all()?;
            }
        }
        File::open(&location)?.sync_all()?;
    }
    Ok(())
}

/// Reads the nodes of a directory, and checks them.
pub(super) fn read(
    directory: &Path,
    on_node: OnNode<'_>,
) -> Result<(Header, Summary), FormatError> {
    let header = read_file(&directory.join(HEADER), HEADER)?.ok_or_else(|| {
        FormatError::whole("it is no export of `zk`: it has no file `=subtree.json`")
    })?;
    let header = Header::parse(&header).map_err(|problem| FormatError::new(HEADER, problem))?;
    let trailer = read_file(&directory.join(TRAILER), TRAILER)?.ok_or_else(FormatError::cut)?;
    let trailer: Trailer = serde_json::from_slice(&trailer)
        .map_err(|error| FormatError::new(TRAILER, error.to_string()))?;
    let mut validator = Validator::default();
    // The nodes whose directories are still to be read, the next one last.
    let mut next = vec![RelativePath::root()];
    while let Some(path) = next.pop() {
        let location = path_of(&path);
        let (node, mut names) = read_node(directory, &location, path)?;
        names.sort_unstable_by(|a, b| b.cmp(a));
        next.extend(names.iter().map(|name| node.path.child(name)));
        validator.accept(&location.display().to_string(), &node)?;
        on_node(node)?;
    }
    Ok((header, validator.finish(&trailer)?))
}

/// Returns the path of a node's directory; it consists of encoded names only.
pub(super) fn path_of(path: &RelativePath) -> PathBuf {
    let names = path.names().map(file_name::encode);
    std::iter::once(TREE.to_owned()).chain(names).collect()
}

fn read_node(
    directory: &Path,
    location: &Path,
    path: RelativePath,
) -> Result<(SubtreeNode, Vec<String>), FormatError> {
    let said = |file: &str| location.join(file).display().to_string();
    let absolute = directory.join(location);
    let io_error = |error: io::Error| FormatError::io(said(""), &error);
    // Links are not followed: they could lead out of the directory, or in circles.
    if !fs::symlink_metadata(&absolute).map_err(io_error)?.is_dir() {
        return Err(FormatError::new(said(""), "it is not a directory"));
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(&absolute).map_err(io_error)? {
        let name = entry.map_err(io_error)?.file_name();
        let name = name.to_str().map(|name| (name, file_name::decode(name)));
        match name {
            Some((DATA | ATTRIBUTES, _)) => {}
            Some((_, Some(name))) => names.push(name),
            _ => {
                return Err(FormatError::new(
                    said(""),
                    "it contains a file that is not of an export",
                ));
            }
        }
    }
    for name in &names {
        RelativePath::parse(path.child(name).as_str())
            .map_err(|error| FormatError::new(said(""), error.to_string()))?;
    }
    let data = read_file(&absolute.join(DATA), &said(DATA))?.unwrap_or_default();
    let attributes = match read_file(&absolute.join(ATTRIBUTES), &said(ATTRIBUTES))? {
        Some(json) => parse_attributes(&said(ATTRIBUTES), &json)?,
        None => Attributes::default(),
    };
    let node = attributes
        .into_node(path, Bytes::from(data))
        .map_err(|problem| FormatError::new(said(ATTRIBUTES), problem))?;
    Ok((node, names))
}

pub(super) fn parse_attributes(location: &str, json: &[u8]) -> Result<Attributes, FormatError> {
    serde_json::from_slice(json).map_err(|error| FormatError::new(location, error.to_string()))
}

/// Reads a regular file; `None` if there is none.
fn read_file(file: &Path, location: &str) -> Result<Option<Vec<u8>>, FormatError> {
    let io_error = |error: io::Error| FormatError::io(location, &error);
    match fs::symlink_metadata(file) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(FormatError::new(location, "it is not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(error)),
    }
    let mut data = Vec::new();
    let opened = File::open(file).map_err(io_error)?;
    opened
        .take(MAX_DATA + 1)
        .read_to_end(&mut data)
        .map_err(io_error)?;
    if data.len() as u64 > MAX_DATA {
        return Err(FormatError::new(
            location,
            format!("it is longer than {MAX_DATA} bytes, and no node is"),
        ));
    }
    Ok(Some(data))
}

/// Data and access rules are for the person who exports them.
fn make(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(directory)
}

fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600);
    options.open(file)?.write_all(bytes)
}

pub(super) const HEADER: &str = "=subtree.json";
pub(super) const TREE: &str = "tree";
pub(super) const DATA: &str = "=data";
pub(super) const ATTRIBUTES: &str = "=node.json";
pub(super) const TRAILER: &str = "=end.json";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subtree::archive::tests::nodes;

    fn exported(at: &Path) {
        begin(at, &Header::new("/app")).unwrap();
        let mut validator = Validator::default();
        for node in nodes(&[("", ""), ("..a", "1"), ("b", "")]) {
            validator.accept("", &node).unwrap();
            add(at, &node).unwrap();
        }
        finish(at, &validator.summary()).unwrap();
    }

    fn problem(at: &Path) -> String {
        let mut read_nodes = 0;
        let read = read(at, &mut |_| {
            read_nodes += 1;
            Ok(())
        });
        read.unwrap_err().to_string()
    }

    #[test]
    fn a_name_that_no_file_can_have_is_refused_with_the_node_and_the_remedy() {
        let temporary = tempfile::tempdir().unwrap();
        let at = temporary.path().join("export");
        begin(&at, &Header::new("/app")).unwrap();
        let (fits, long) = ("x".repeat(255), "é".repeat(60));
        for node in nodes(&[("", ""), (&fits, "")]) {
            add(&at, &node).unwrap();
        }
        let error = add(&at, &nodes(&[(&long, "")])[0]).unwrap_err().to_string();
        assert!(
            error.contains(&long) && error.contains("a tar or JSON file"),
            "{error}"
        );
    }

    #[test]
    fn links_and_foreign_files_in_a_directory_are_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let change = |name: &str, change: &dyn Fn(&Path)| {
            let at = temporary.path().join(name);
            exported(&at);
            assert!(read(&at, &mut |_| Ok(())).is_ok());
            change(&at);
            problem(&at)
        };
        let linked = change("linked", &|at| {
            std::os::unix::fs::symlink("/etc", at.join("tree/etc")).unwrap();
        });
        assert!(
            linked.contains("tree/etc") && linked.contains("not a directory"),
            "{linked}"
        );
        let linked_data = change("linked-data", &|at| {
            std::os::unix::fs::symlink("/etc/hostname", at.join("tree/b/=data")).unwrap();
        });
        assert!(linked_data.contains("not a regular file"), "{linked_data}");
        let foreign = change("foreign", &|at| {
            fs::write(at.join("tree/.git"), "").unwrap();
        });
        assert!(foreign.contains("not of an export"), "{foreign}");
        let escaping = change("escaping", &|at| {
            fs::create_dir(at.join("tree/%2E.")).unwrap();
        });
        assert!(escaping.contains(".."), "{escaping}");
        let changed = change("changed", &|at| {
            fs::write(at.join("tree/b/=data"), "x").unwrap();
        });
        assert!(changed.contains("checksum"), "{changed}");
        let fewer = change("fewer", &|at| fs::remove_dir(at.join("tree/b")).unwrap());
        assert!(fewer.contains("2 nodes, and 3 were exported"), "{fewer}");
        let cut = change("cut", &|at| fs::remove_file(at.join(TRAILER)).unwrap());
        assert!(cut.contains("its end is missing"), "{cut}");
        let none = problem(temporary.path());
        assert!(none.contains("no export of `zk`"), "{none}");
    }

    #[test]
    fn an_export_is_readable_by_its_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let temporary = tempfile::tempdir().unwrap();
        let at = temporary.path().join("export");
        exported(&at);
        let mode = |path: &str| fs::metadata(at.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (mode(""), mode("tree/%2E.a"), mode("tree/%2E.a/=data")),
            (0o700, 0o700, 0o600)
        );
    }
}
