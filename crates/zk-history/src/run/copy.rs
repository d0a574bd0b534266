//! Copies a directory tree, with holes for blocks of zeros.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

/// Copies a file or directory tree.
///
/// Blocks of zeros become holes, and links stay links. Sockets and other special files are skipped, and so is a file that
/// disappears meanwhile, because a running server deletes old files.
pub(super) fn tree(from: &Path, to: &Path) -> io::Result<()> {
    // The root must exist, and may be a link.
    if fs::metadata(from)?.is_dir() {
        directory(from, to)
    } else {
        file(from, to)
    }
}

fn directory(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, source) = (entry.file_type()?, entry.path());
        let target = to.join(entry.file_name());
        let copied = if kind.is_dir() {
            directory(&source, &target)
        } else if kind.is_symlink() {
            fs::read_link(&source).and_then(|link| std::os::unix::fs::symlink(link, &target))
        } else if kind.is_file() {
            file(&source, &target)
        } else {
            Ok(())
        };
        match copied {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            copied => copied?,
        }
    }
    Ok(())
}

fn file(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut target = File::create(to)?;
    let (mut block, zeros) = (vec![0; BLOCK], vec![0; BLOCK]);
    let mut length = 0;
    loop {
        let read = source.read(&mut block)?;
        if read == 0 {
            break;
        }
        let part = &block[..read];
        if part == &zeros[..read] {
            target.seek(SeekFrom::Start(length + read as u64))?;
        } else {
            target.write_all(part)?;
        }
        length += read as u64;
    }
    target.set_len(length)
}

const BLOCK: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_tree_is_copied_with_its_links() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to/evidence"));
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::write(from.join("a/b/file"), "text").unwrap();
        std::os::unix::fs::symlink("nowhere", from.join("link")).unwrap();
        tree(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("a/b/file")).unwrap(), "text");
        assert_eq!(
            fs::read_link(to.join("link")).unwrap(),
            Path::new("nowhere")
        );
        tree(&from.join("a/b/file"), &root.path().join("one")).unwrap();
        assert_eq!(fs::read(root.path().join("one")).unwrap(), b"text");
        let missing = tree(&root.path().join("missing"), &to).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn zeros_become_holes() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("log"), root.path().join("copy"));
        let mut bytes = b"begin".to_vec();
        bytes.resize(BLOCK * 64, 0);
        bytes.extend(b"end");
        bytes.resize(BLOCK * 128, 0);
        fs::write(&from, &bytes).unwrap();
        tree(&from, &to).unwrap();
        assert!(fs::read(&to).unwrap() == bytes, "the copy differs");
        let allocated = fs::metadata(&to).unwrap().blocks() * 512;
        assert!(allocated <= 4 * BLOCK as u64, "{allocated} bytes");
    }
}
