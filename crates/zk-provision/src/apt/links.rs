//! Adapts the links of an unpacked package to the directory where it is.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

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
fn relative(from: &Path, to: &Path) -> PathBuf {
    let shared = from
        .components()
        .zip(to.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

#[cfg(test)]
mod tests;
