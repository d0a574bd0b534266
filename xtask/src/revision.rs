//! Checks out another revision of this workspace below the target directory, and builds it there.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use crate::workspace::Workspace;

/// A checked-out revision, with a target directory apart from that of the working tree.
#[derive(Clone, Debug)]
pub(crate) struct Revision {
    workspace: Workspace,
    target: PathBuf,
}

impl Revision {
    /// Checks out `revision`, unless an earlier run did.
    pub(crate) fn check_out(workspace: &Workspace, revision: &OsStr) -> anyhow::Result<Self> {
        let commit = commit(&workspace.root, revision)?;
        // Cargo compares times of files, so two revisions share neither sources nor a target directory.
        let directory = workspace.target_dir().join("revisions").join(&commit);
        let source = directory.join("source");
        if !source.exists() {
            let unfinished = directory.join("unfinished");
            unpack(&workspace.root, &commit, &unfinished)?;
            fs::rename(&unfinished, &source).context("cannot rename the checkout")?;
        }
        Ok(Self {
            workspace: workspace.at(source),
            target: directory.join("target"),
        })
    }

    /// Returns a cargo command on this revision.
    pub(crate) fn cargo(&self, subcommand: &[&str]) -> Command {
        let mut cargo = self.workspace.cargo(subcommand);
        cargo.arg("--target-dir").arg(&self.target);
        cargo
    }

    /// Returns the directory of the programs of a debug build.
    pub(crate) fn programs(&self) -> PathBuf {
        self.target.join("debug")
    }
}

/// Resolves a revision to the id of its commit.
pub(crate) fn commit(root: &Path, revision: &OsStr) -> anyhow::Result<String> {
    let mut peeled = revision.to_owned();
    peeled.push("^{commit}");
    let output = Command::new("git")
        .current_dir(root)
        .args(["rev-parse", "--verify", "--quiet"])
        .arg(peeled)
        .output()
        .context("cannot run git")?;
    let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    ensure!(
        output.status.success() && !id.is_empty(),
        "git knows no commit {}",
        revision.display()
    );
    Ok(id)
}

/// Writes the files of a commit to a directory, in place of its former contents.
///
/// They are as old as the call, so that cargo builds again what another commit has left there.
pub(crate) fn unpack(root: &Path, commit: &str, to: &Path) -> anyhow::Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).context("cannot remove an unfinished checkout")?;
    }
    fs::create_dir_all(to)?;
    let mut archive = Command::new("git")
        .current_dir(root)
        .args(["archive", "--format=tar", commit])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run git")?;
    let files = archive.stdout.take().context("git has no output")?;
    let unpacked = Command::new("tar")
        .args(["-x", "--touch"])
        .current_dir(to)
        .stdin(files)
        .status()
        .context("cannot run tar")?;
    let archived = archive.wait()?;
    ensure!(
        archived.success() && unpacked.success(),
        "cannot unpack the files of {commit}"
    );
    Ok(())
}

/// Makes a directory have the files of a commit, and leaves those alone that it has already, so that cargo builds only
/// what differs. `unpacked` is a directory beside it for the files meanwhile.
pub(crate) fn update(root: &Path, commit: &str, to: &Path, unpacked: &Path) -> anyhow::Result<()> {
    unpack(root, commit, unpacked)?;
    fs::create_dir_all(to)?;
    mirror(unpacked, to).with_context(|| format!("cannot update {}", to.display()))?;
    fs::remove_dir_all(unpacked).context("cannot remove a checkout")
}

/// Moves what differs between two directories from the first to the second one.
fn mirror(from: &Path, to: &Path) -> io::Result<()> {
    for old in fs::read_dir(to)? {
        let old = old?;
        let new = from.join(old.file_name());
        let stays = new.symlink_metadata().is_ok_and(|new| {
            old.file_type()
                .is_ok_and(|old| old.is_dir() == new.is_dir())
        });
        match (stays, old.file_type()?.is_dir()) {
            (true, _) => {}
            (false, true) => fs::remove_dir_all(old.path())?,
            (false, false) => fs::remove_file(old.path())?,
        }
    }
    for new in fs::read_dir(from)? {
        let new = new?;
        let old = to.join(new.file_name());
        let is_directory = new.file_type()?.is_dir();
        if is_directory && old.is_dir() {
            mirror(&new.path(), &old)?;
        } else if is_directory || !has_same_contents(&new.path(), &old) {
            fs::rename(new.path(), old)?;
        }
    }
    Ok(())
}

fn has_same_contents(one: &Path, other: &Path) -> bool {
    let permissions = |path: &Path| Some(path.symlink_metadata().ok()?.permissions());
    let is_same = fs::read(one).is_ok_and(|one| fs::read(other).is_ok_and(|other| one == other));
    is_same && permissions(one) == permissions(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_differ_are_replaced() {
        let directory = std::env::temp_dir().join(format!("mirror-{}", std::process::id()));
        let (from, to) = (directory.join("from"), directory.join("to"));
        let write = |path: &Path, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (name, new, old) in [
            ("same", Some("1"), Some("1")),
            ("changed", Some("2"), Some("1")),
            ("a/new", Some("3"), None),
            ("a/gone", None, Some("1")),
            ("b/gone", None, Some("1")),
            ("was-file/x", Some("4"), None),
            ("was-file", None, Some("1")),
        ] {
            for (root, text) in [(&from, new), (&to, old)] {
                if let Some(text) = text {
                    write(&root.join(name), text);
                }
            }
        }
        let written = |name: &str| fs::metadata(to.join(name)).unwrap().modified().unwrap();
        let before = written("same");
        mirror(&from, &to).unwrap();
        let read = |name: &str| fs::read_to_string(to.join(name)).ok();
        assert_eq!(written("same"), before);
        assert_eq!(read("changed").as_deref(), Some("2"));
        assert_eq!(read("a/new").as_deref(), Some("3"));
        assert_eq!(read("was-file/x").as_deref(), Some("4"));
        assert!(read("a/gone").is_none() && !to.join("b").exists());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_revision_without_a_commit_is_an_error() {
        let root = Workspace::root();
        let error = commit(&root, OsStr::new("no-such-revision")).unwrap_err();
        assert_eq!(error.to_string(), "git knows no commit no-such-revision");
    }
}
