//! Adapts, prunes and measures trees of unpacked files.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Component;
use std::path::Path;
use std::path::PathBuf;

/// Makes absolute links whose target is inside the tree relative, so that the tree works where it is.
///
/// An absolute link to something outside the tree stays: it means the machine's own file.
pub(super) fn relink(root: &Path) -> io::Result<()> {
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            let kind = fs::symlink_metadata(&path)?.file_type();
            if kind.is_dir() {
                dirs.push(path);
            } else if kind.is_symlink() {
                let target = fs::read_link(&path)?;
                let Ok(inside) = target.strip_prefix("/") else {
                    continue;
                };
                if fs::symlink_metadata(root.join(inside)).is_ok() {
                    let here = dir.strip_prefix(root).map_err(io::Error::other)?;
                    fs::remove_file(&path)?;
                    symlink(relative(here, inside), &path)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the path from a directory to a file, both relative to the same root.
pub(super) fn relative(from: &Path, to: &Path) -> PathBuf {
    let shared = from
        .components()
        .zip(to.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

/// Removes everything below `root` that is not below one of `kept`.
pub(super) fn keep(root: &Path, kept: &[&str]) -> io::Result<()> {
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            let path = entry.path();
            let relative = path.strip_prefix(root).map_err(io::Error::other)?;
            if kept.iter().any(|kept| relative == Path::new(kept)) {
                continue;
            }
            let is_dir = entry.file_type()?.is_dir();
            if is_dir
                && kept
                    .iter()
                    .any(|kept| Path::new(kept).starts_with(relative))
            {
                dirs.push(path);
            } else if is_dir {
                fs::remove_dir_all(path)?;
            } else {
                fs::remove_file(path)?;
            }
        }
    }
    Ok(())
}

/// Returns the bytes that apt downloaded directly into these directories. It ignores unreadable files, and the
/// package lists that apt decompressed next to the downloaded ones.
pub(super) fn bytes_in(dirs: &[&Path]) -> u64 {
    dirs.iter()
        .filter_map(|dir| fs::read_dir(dir).ok())
        .flatten()
        .filter_map(Result::ok)
        .filter(|entry| is_download(&entry.file_name().to_string_lossy()))
        .filter_map(|entry| entry.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|metadata| metadata.len())
        .sum()
}

fn is_download(name: &str) -> bool {
    const ENDINGS: [&str; 8] = [
        "Release", ".deb", ".xz", ".gz", ".bz2", ".lzma", ".lz4", ".zst",
    ];
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests;
