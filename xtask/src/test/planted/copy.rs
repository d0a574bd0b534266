//! A copy of the last commit, in which flaws are planted and tests are run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use super::flaws::Flaw;
use crate::revision;
use crate::test::counts::{Counts, failures};
use crate::test::forwarded;
use crate::workspace::Workspace;

/// The copy.
pub(super) struct FlawedCopy {
    workspace: Workspace,
    target: PathBuf,
}

/// A flaw in the copy. Dropping it mends the file.
pub(super) struct Planted {
    file: PathBuf,
    sound: String,
}

/// What a run of tests said.
pub(super) struct Run {
    /// How many tests ran.
    pub(super) count: u64,
    /// The tests that failed, as `zk-lock::sim chaos::name`.
    pub(super) failed: BTreeSet<String>,
    /// Those of them that were ended because their time was over.
    pub(super) timed_out: BTreeSet<String>,
}

impl FlawedCopy {
    /// Writes the files of a commit to a part of this directory.
    pub(super) fn of(
        workspace: &Workspace,
        commit: &str,
        directory: &Path,
    ) -> anyhow::Result<Self> {
        let source = directory.join("source");
        // Files that the last run has left as they are stay as old as they are: cargo does not build them again.
        revision::update(
            &workspace.root,
            commit,
            &source,
            &directory.join("unpacked"),
        )?;
        Ok(Self {
            workspace: workspace.at(source),
            target: directory.join("target"),
        })
    }

    /// Runs the tests of a package that need no servers, and those that the filters of flaws name.
    pub(super) fn run(&self, package: &str, flaws: &[&Flaw]) -> anyhow::Result<Run> {
        let filters: Vec<_> = filters_of(flaws).collect();
        if needs_servers(&filters) {
            self.build_examples(package)?;
        }
        let mut tests = self.nextest("run", package, &filters)?;
        tests.args(["--no-fail-fast", "--failure-output", "never"]);
        tests.args(["--success-output", "never", "--final-status-level", "fail"]);
        let wanted = format!("not binary(/^({})$/)", WITH_SERVERS.join("|"));
        let wanted = [wanted.as_str()].into_iter().chain(filters);
        let wanted: Vec<_> = wanted.map(|filter| format!("({filter})")).collect();
        tests.args(["-E", &wanted.join(" | ")]);
        let (_, _, report) = forwarded(&mut tests)?;
        let counts = Counts::of_nextest(&report);
        let (mut failed, mut timed_out) = (BTreeSet::new(), BTreeSet::new());
        for failure in failures(&report) {
            if failure.timed_out {
                timed_out.insert(failure.test.clone());
            }
            failed.insert(failure.test);
        }
        ensure!(
            u64::try_from(failed.len())? == counts.failed,
            "nextest reports other failures than it counts: {failed:?}"
        );
        Ok(Run {
            count: counts.passed + counts.failed,
            failed,
            timed_out,
        })
    }

    /// Builds the examples of a package, which its tests with servers start as processes by their names. For tests, cargo
    /// builds them under other names.
    fn build_examples(&self, package: &str) -> anyhow::Result<()> {
        let mut build = self.workspace.cargo(&["build", "--examples"]);
        build.args(["--all-features", "--package", package]);
        build.arg("--target-dir").arg(&self.target);
        let built = build.status().context("cannot run cargo")?;
        ensure!(built.success(), "the examples of {package} do not build");
        Ok(())
    }

    /// Returns the tests of a package that a filter of a flaw accepts.
    pub(super) fn list(
        &self,
        package: &str,
        flaw: &Flaw,
        filter: &str,
    ) -> anyhow::Result<BTreeSet<String>> {
        // With all filters of the flaw, so that nothing is built for this.
        let filters: Vec<_> = filters_of(&[flaw]).collect();
        let mut list = self.nextest("list", package, &filters)?;
        list.args(["--message-format", "oneline", "-E", filter]);
        let listed = list.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let listed = listed.context("cannot run cargo")?;
        ensure!(listed.status.success(), "nextest cannot list {filter}");
        let listed = String::from_utf8_lossy(&listed.stdout);
        Ok(listed.lines().map(str::to_owned).collect())
    }

    fn nextest(
        &self,
        subcommand: &str,
        package: &str,
        filters: &[&str],
    ) -> anyhow::Result<Command> {
        let mut nextest = self.workspace.cargo(&["nextest", subcommand]);
        nextest.args(["--profile", "planted", "--all-features"]);
        nextest.args(["--package", package]);
        let folders = ["crates", "tools"].map(|folder| self.workspace.root.join(folder));
        let mut folders = folders.iter().map(|folder| folder.join(package));
        let tests = folders.find(|folder| folder.exists());
        let tests = tests.with_context(|| format!("there is no package {package}"))?;
        for (source, targets) in [
            ("lib.rs", "--lib"),
            ("main.rs", "--bins"),
            ("bin", "--bins"),
        ] {
            if tests.join("src").join(source).exists() {
                nextest.arg(targets);
            }
        }
        for binary in binaries(&tests.join("tests"))? {
            let needs_servers = WITH_SERVERS.contains(&binary.as_str());
            if !needs_servers || is_named(&binary, filters) {
                nextest.args(["--test", &binary]);
            }
        }
        nextest.arg("--target-dir").arg(&self.target);
        Ok(nextest)
    }

    pub(super) fn plant(&self, flaw: &Flaw) -> anyhow::Result<Planted> {
        let file = self.workspace.root.join(flaw.file);
        let sound = fs::read_to_string(&file);
        let sound = sound.with_context(|| format!("cannot read {}", file.display()))?;
        fs::write(&file, with_flaw(flaw, &sound)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
        Ok(Planted { file, sound })
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.file, &self.sound) {
            eprintln!("the flaw stays in {}: {error}", self.file.display());
        }
    }
}

/// Returns the text of a flaw's file with the flaw.
pub(super) fn with_flaw(flaw: &Flaw, sound: &str) -> anyhow::Result<String> {
    let found = sound.matches(flaw.text).count();
    ensure!(
        found == 1,
        "{} has {found} times, instead of once: {}",
        flaw.file,
        flaw.text
    );
    Ok(sound.replace(flaw.text, flaw.instead))
}

fn filters_of<'a>(flaws: &'a [&Flaw]) -> impl Iterator<Item = &'static str> + 'a {
    flaws.iter().flat_map(|flaw| flaw.found_by).copied()
}

fn needs_servers(filters: &[&str]) -> bool {
    WITH_SERVERS.iter().any(|binary| is_named(binary, filters))
}

fn is_named(binary: &str, filters: &[&str]) -> bool {
    let named = format!("binary({binary})");
    filters.iter().any(|filter| filter.contains(&named))
}

/// Returns the names of the test binaries in a directory, in their order.
fn binaries(tests: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let entries = fs::read_dir(tests).with_context(|| format!("no {}", tests.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.join("main.rs").exists()
            && let Some(name) = path.file_name()
        {
            names.insert(name.to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

/// The test binaries that need servers.
const WITH_SERVERS: &[&str] = &["it", "cli", "provision", "guides"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binaries_of_a_package_are_found() {
        let tests = Workspace::root().join("crates/zk-lock/tests");
        let names: Vec<_> = binaries(&tests).unwrap().into_iter().collect();
        assert_eq!(names, ["it", "sim"]);
    }
}
