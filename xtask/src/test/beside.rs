//! `test beside COMMIT`: the tests of several processes, with every second process from an older build.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;

use anyhow::Context as _;
use anyhow::ensure;

use super::Outcome;
use super::Scope;
use super::run;
use crate::workspace::Workspace;

/// The tests whose processes are programs of this workspace.
const TESTS: &str = "package(zk-tests) & test(/^lock::(counter|curator|holders|melee|revoke|servers)::|^queue::soak::/) \
                     | package(master-workers) & test(/^soak::/)";

pub(super) fn beside(workspace: &Workspace, args: &[OsString]) -> anyhow::Result<Outcome> {
    let (commit, args) = args
        .split_first()
        .context("which commit? `test beside COMMIT [ARGS]`")?;
    let programs = build(workspace, commit)?;
    let filter = ["-E", TESTS].map(OsString::from);
    let args: Vec<OsString> = filter.into_iter().chain(args.iter().cloned()).collect();
    let env = [("OLDER_PROGRAMS", programs.into_os_string())];
    run(workspace, Scope::Full, &args, &env)
}

/// Builds the programs of the tests as they were at a commit, and returns the directory they lie in.
fn build(workspace: &Workspace, commit: &OsStr) -> anyhow::Result<PathBuf> {
    let directory = workspace.target_dir().join("beside");
    let (source, target) = (directory.join("source"), directory.join("target"));
    check_out(&workspace.root, commit, &source)?;
    let mut build = workspace.at(source).cargo(&["build", "--locked"]);
    build
        .args(["-p", "zk-tests", "-p", "master-workers", "--bins"])
        .arg("--target-dir")
        .arg(&target);
    let built = build.status().context("cannot run cargo")?;
    ensure!(built.success(), "{} does not build", commit.display());
    Ok(target.join("debug"))
}

/// Puts the files of a commit into a directory, in place of those that were there.
fn check_out(root: &Path, commit: &OsStr, to: &Path) -> anyhow::Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).context("cannot remove the last source")?;
    }
    fs::create_dir_all(to)?;
    let mut archive = Command::new("git")
        .current_dir(root)
        .args(["archive", "--format=tar"])
        .arg(commit)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run git")?;
    let files = archive.stdout.take().context("git has an output")?;
    let unpacked = Command::new("tar")
        .arg("-x")
        .current_dir(to)
        .stdin(files)
        .status()
        .context("cannot run tar")?;
    let archived = archive.wait()?;
    ensure!(
        archived.success() && unpacked.success(),
        "cannot get the files of {}",
        commit.display()
    );
    Ok(())
}
