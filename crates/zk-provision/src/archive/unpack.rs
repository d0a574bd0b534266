//! Unpacks a release archive, and refuses paths and links that leave its directory.

use std::fs::{self, File};
use std::path::{Component, Path};

use flate2::read::GzDecoder;
use tar::{Archive, EntryType};

/// Directories of a release that no server needs.
const SKIPPED: [&str; 1] = ["docs"];

/// Unpacks the contents of the archive's top directory into `tree`.
pub(super) fn unpack(archive: &Path, tree: &Path) -> Result<(), String> {
    let broken = |error: std::io::Error| format!("it cannot be unpacked: {error}");
    fs::create_dir_all(tree).map_err(broken)?;
    let file = File::open(archive).map_err(broken)?;
    let mut archive = Archive::new(GzDecoder::new(file));
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let path = entry.path().map_err(broken)?.into_owned();
        let relative = below_top(&path).ok_or_else(|| outside(&path))?;
        let kind = entry.header().entry_type();
        match kind {
            EntryType::Regular | EntryType::Continuous | EntryType::Directory => {}
            EntryType::Symlink => {
                let target = entry
                    .link_name()
                    .map_err(broken)?
                    .unwrap_or_default()
                    .into_owned();
                if !is_plain(&target) {
                    return Err(outside(&target));
                }
            }
            EntryType::XGlobalHeader => continue,
            other => {
                return Err(format!(
                    "it is refused: {} has the type {other:?}",
                    path.display()
                ));
            }
        }
        let skipped = SKIPPED.iter().any(|skipped| relative.starts_with(skipped));
        if relative.as_os_str().is_empty() || skipped {
            continue;
        }
        let target = tree.join(relative);
        if kind.is_dir() {
            fs::create_dir_all(&target).map_err(broken)?;
            continue;
        }
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(broken)?;
            // A link unpacked before could lead out of the tree.
            let real = fs::canonicalize(parent).map_err(broken)?;
            if !real.starts_with(fs::canonicalize(tree).map_err(broken)?) {
                return Err(outside(&path));
            }
        }
        entry.unpack(&target).map_err(broken)?;
    }
    Ok(())
}

/// Returns the path without its first component; `None` if it leaves the directory.
fn below_top(path: &Path) -> Option<&Path> {
    if !is_plain(path) {
        return None;
    }
    let path = path.strip_prefix(".").unwrap_or(path);
    let mut components = path.components();
    components.next();
    Some(components.as_path())
}

fn is_plain(path: &Path) -> bool {
    path.components()
        .all(|component| matches!(component, Component::Normal(_) | Component::CurDir))
}

fn outside(path: &Path) -> String {
    format!(
        "it is refused: {} leads out of the archive's own directory",
        path.display()
    )
}

#[cfg(test)]
mod tests;
