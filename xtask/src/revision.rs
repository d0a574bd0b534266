//! Checks out another revision of this workspace below the target directory, and builds it there.

use std::ffi::OsStr;
use std::fs;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_without_a_commit_is_an_error() {
        let root = Workspace::root();
        let error = commit(&root, OsStr::new("no-such-revision")).unwrap_err();
        assert_eq!(error.to_string(), "git knows no commit no-such-revision");
    }
}
