//! `test --zookeeper VERSION`: runs the tests on a version of ZooKeeper, and writes its column of the table in
//! `docs/compatibility.md`.
//!
//! The version is chosen when a test runs, by a variable that its processes inherit. Tests that need a certain series
//! choose it themselves, whatever the variable says.

use std::ffi::{OsStr, OsString};

use anyhow::{Context as _, bail};

use super::{Counts, Outcome, Runner, Scope, counted};
use crate::workspace::Workspace;

/// Writes the columns of these versions, and with more arguments runs all tests on real servers.
pub(super) fn run(workspace: &Workspace, args: &[OsString]) -> anyhow::Result<Outcome> {
    let (version, args) = args
        .split_first()
        .context("the version is missing: `test --zookeeper VERSION|all [deep] [ARGS]`")?;
    if version == "all" {
        if let Some(arg) = args.first() {
            bail!(
                "unexpected argument {}: `--zookeeper all` takes none",
                arg.display()
            );
        }
        let path = workspace.root.join(DOCUMENT);
        let document = std::fs::read_to_string(&path);
        let document = document.with_context(|| format!("cannot read {}", path.display()))?;
        let mut outcome = Outcome {
            counts: Counts::default(),
            good: true,
            ..Outcome::default()
        };
        for version in versions(&document)? {
            let column = write_column(workspace, version.as_ref())?;
            outcome.counts = outcome.counts + column.counts;
            outcome.good &= column.good;
        }
        return Ok(outcome);
    }
    if args.is_empty() {
        return write_column(workspace, version);
    }
    let (scope, args) = Scope::split(args);
    let mut args = args.to_vec();
    if args.is_empty() {
        args = vec!["-E".into(), filter().into()];
    }
    super::run(workspace, scope, &args, &[(VERSION, version.clone())])
}

/// Runs the rows of the table on one version.
fn write_column(workspace: &Workspace, version: &OsStr) -> anyhow::Result<Outcome> {
    println!("ZooKeeper {}", version.display());
    let mut test = workspace.cargo(&["test", "-p", "zk-tests", "--all-features", "--test", "it"]);
    test.args(["--", "--exact", TEST]);
    let env = [(VERSION, version.to_owned()), (WRITE, "1".into())];
    let (good, counts) = counted(&mut test, &env, Runner::CargoTest)?;
    Ok(Outcome {
        counts,
        good: good && counts.passed == 1,
        ..Outcome::default()
    })
}

/// Returns the filter for the tests on real servers, but for that of the table, which need not have the version.
fn filter() -> String {
    format!("{ON_REAL_SERVERS} - test(={TEST})")
}

/// Returns the versions in the header of the table.
fn versions(document: &str) -> anyhow::Result<Vec<String>> {
    let (_, table) = document.split_once(MARK).context("the table is missing")?;
    let header = table.lines().find(|line| line.starts_with('|'));
    let header = header.context("the table is empty: name a version")?;
    let cells = header.split('|').map(str::trim);
    let cells = cells.filter(|cell| cell.starts_with(|c: char| c.is_ascii_digit()));
    Ok(cells.map(str::to_owned).collect())
}

const DOCUMENT: &str = "docs/compatibility.md";
const MARK: &str = "<!-- written by cargo xtask test --zookeeper -->";
/// The version that `zk-provision` looks for when a test names none.
const VERSION: &str = "ZK_HARNESS_VERSION";
/// Makes the test write.
const WRITE: &str = "WRITE_COMPATIBILITY";
const TEST: &str = "compatibility::the_table_is_true_of_the_default_version";
const ON_REAL_SERVERS: &str = "binary(/^(it|cli)$/)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_are_those_of_the_document() {
        let path = Workspace::root().join(DOCUMENT);
        let document = std::fs::read_to_string(path).unwrap();
        let versions = versions(&document).unwrap();
        for version in ["3.4.13", "3.8.0", "3.9.3", "3.9.6"] {
            assert!(
                versions.iter().any(|found| found == version),
                "{versions:?}"
            );
        }
    }

    #[test]
    fn the_test_and_its_variable_exist() {
        let path = Workspace::root().join("tests/tests/it/compatibility.rs");
        let text = std::fs::read_to_string(path).unwrap();
        let (module, name) = TEST.split_once("::").unwrap();
        assert_eq!(module, "compatibility");
        assert!(text.contains(&format!("async fn {name}(")));
        assert!(text.contains(&format!("\"{WRITE}\"")));
    }

    #[test]
    fn the_table_is_not_checked_on_a_version_it_may_lack() {
        assert_eq!(
            filter(),
            "binary(/^(it|cli)$/) - test(=compatibility::the_table_is_true_of_the_default_version)"
        );
    }

    #[test]
    fn a_document_without_a_table_is_an_error() {
        assert!(versions("no mark").is_err());
        assert!(versions(&format!("{MARK}\nnothing")).is_err());
        let table = format!("{MARK}\n\n| feature | 3.4.13 | 3.9.6 |\n|---|---|---|\n");
        assert_eq!(versions(&table).unwrap(), ["3.4.13", "3.9.6"]);
    }
}
