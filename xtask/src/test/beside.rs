//! `test beside COMMIT`: runs the tests of several processes, with every second process from an older build.

use std::ffi::OsString;

use anyhow::{Context as _, ensure};

use super::{Outcome, Scope, run};
use crate::revision::Revision;
use crate::workspace::Workspace;

/// The tests whose processes are programs of this workspace.
const TESTS: &str = "package(zk-tests) & test(/^lock::(counter|curator|holders|melee|revoke|servers)::|^queue::soak::/) \
                     | package(master-workers) & test(/^soak::/)";

pub(super) fn beside(workspace: &Workspace, args: &[OsString]) -> anyhow::Result<Outcome> {
    let (commit, args) = args
        .split_first()
        .context("the commit is missing: `test beside COMMIT [ARGS]`")?;
    let older = Revision::check_out(workspace, commit)?;
    let mut build = older.cargo(&["build", "--locked"]);
    build.args(["-p", "zk-tests", "-p", "master-workers", "--bins"]);
    let built = build.status().context("cannot run cargo")?;
    ensure!(built.success(), "{} does not build", commit.display());
    let filter = ["-E", TESTS].map(OsString::from);
    let args: Vec<OsString> = filter.into_iter().chain(args.iter().cloned()).collect();
    let env = [("OLDER_PROGRAMS", older.programs().into_os_string())];
    run(workspace, Scope::All, &args, &env)
}
