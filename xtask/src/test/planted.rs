//! `test planted`: breaks one rule after the other in a copy of the last commit, and checks that tests notice.
//!
//! Rules of the session lease and of the lock's protocol have flaws here that the simulation and a run on real servers
//! have to find. The models have flaws of their own, beside their rules.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::{Counts, Outcome, Runner, counted};
use crate::revision;
use crate::workspace::Workspace;

/// A rule, and how it is broken.
struct Flaw {
    /// What the code does wrong.
    what: &'static str,
    file: &'static str,
    /// A text that occurs once in the file, and what takes its place.
    text: &'static str,
    instead: &'static str,
    /// Filters of nextest: of the tests of each, simulated or on real servers, at least one has to fail.
    found_by: &'static [&'static str],
}

const LEASE: &str = "crates/zk-core/src/lease_proof.rs";
const UNCONTENDED: &str = "crates/zk-lock/src/queue/uncontended.rs";
const WATCHES: &str = "crates/zk-lock/src/queue/watches.rs";
const WAIT: &str = "crates/zk-lock/src/queue/wait.rs";
const ORDER: &str = "crates/zk-lock/src/order.rs";
const YIELD: &str = "crates/zk-lock/src/guard/yield_now.rs";
const REPLACEMENT: &str = "crates/zk-core/src/operation/create/replacement.rs";

const FLAWS: &[Flaw] = &[
    Flaw {
        what: "a reply counts as if the server had reported the session to the leader by then",
        file: LEASE,
        text: "self.timeout * REPORT_SHARE.0 / REPORT_SHARE.1",
        instead: "Duration::ZERO",
        // On real servers, only a server that dies at one moment would show it.
        found_by: &[
            "package(zk-core) & binary(sim) & test(/^session_lease::no_session_expires/)",
            "package(zk-core) & binary(sim) & test(/^session_lease::proof_/)",
        ],
    },
    Flaw {
        what: "pauses of the leader do not count",
        file: LEASE,
        text: "let gap = answered.saturating_duration_since(self.last_reach);",
        instead: "let gap = Duration::ZERO;",
        found_by: &["package(zk-core) & binary(sim) & test(/^session_lease::/)"],
    },
    Flaw {
        what: "the first write after a lapse proves that the session is alive",
        file: LEASE,
        text: "        answered > self.until()\n",
        instead: "        false && answered > self.until()\n",
        found_by: &["package(zk-core) & binary(sim) & test(/^session_lease::/)"],
    },
    Flaw {
        what: "the timeout stays that of the first server",
        file: LEASE,
        text: "self.timeout = self.timeout.min(granted);",
        instead: "self.timeout = self.timeout.max(granted);",
        found_by: &["package(zk-core) & binary(it) & test(/^session_lease::/)"],
    },
    Flaw {
        what: "a session that was alone relies on the number after its last one, also if the path is a new node",
        file: UNCONTENDED,
        text: "fired.is_none() && self.connection_losses == connection_losses(session)",
        instead: "self.connection_losses == connection_losses(session)",
        found_by: &[
            "package(zk-lock) & binary(sim) & test(/^uncontended::/)",
            "package(zk-lock) & binary(it) & test(/^uncontended::/)",
        ],
    },
    Flaw {
        what: "a session that was alone takes any later number for the next one",
        file: UNCONTENDED,
        text: "            .is_some_and(|last| number.distance_from(last) == 1)",
        instead: "            .is_some_and(|last| number.distance_from(last) >= 1)",
        found_by: &[
            "package(zk-lock) & binary(sim) & test(/^uncontended::/)",
            "package(zk-lock) & binary(it) & test(/^uncontended::/)",
        ],
    },
    Flaw {
        what: "a waiter takes over from its predecessor while others are ahead of that one",
        file: ORDER,
        text: "second_last.map_or(Lookahead::Next, |(_, second)| Lookahead::After(second))",
        instead: "second_last.map_or(Lookahead::Next, |_| Lookahead::Next)",
        found_by: &[
            "package(zk-lock) & binary(sim) & test(/^(chaos|look_ahead)::/)",
            "package(zk-lock) & binary(it) & test(/^queue::/)",
        ],
    },
    Flaw {
        what: "a writer takes over from a writer that becomes a reader",
        file: ORDER,
        text: "if own_kind == Kind::Shared || layout.cannot_downgrade(predecessor) =>",
        instead: "if own_kind == Kind::Shared || !predecessor.is_empty() =>",
        found_by: &[
            "package(zk-lock) & binary(sim) & test(/^rw::/)",
            "package(zk-lock) & binary(it) & test(/^rw::/)",
        ],
    },
    Flaw {
        // Real servers mostly close the connection before they report what they have deleted.
        what: "a waiter takes over when its session ends, with a node that goes with its predecessor's",
        file: WATCHES,
        text: ".is_some_and(|contender| contender.session() != Some(self.session.id()));",
        instead: ".is_some();",
        found_by: &["package(zk-lock) & binary(sim) & test(/^ended::/)"],
    },
    Flaw {
        what: "a waiter takes over without its own node, whose deletion it missed while it was cut off",
        file: WATCHES,
        text: "            && own.is_some_and(|own| own.connection_losses == self.connection_losses())",
        instead: "            && own.is_some()",
        found_by: &[
            "package(zk-lock) & binary(sim) & test(/^ended::/)",
            "package(zk-lock) & binary(it) & test(/^again::/)",
        ],
    },
    Flaw {
        what: "a waiter takes over without its own node, if its predecessor is gone before it is watched",
        file: WATCHES,
        text: "        match own_fired_now(&mut watches.own) {",
        instead: "        match own_fired_now(&mut watches.own).filter(|_| false) {",
        found_by: &[
            "package(zk-lock) & binary(sim) & test(/^ended::/)",
            "package(zk-lock) & binary(it) & test(/^again::/)",
        ],
    },
    Flaw {
        // On real servers, only a waiter's process that is stopped at one moment would show it.
        what: "a lock is granted to a session that may be over",
        file: WAIT,
        text: "            if session_lease.is_lasting() {",
        instead: "            if session_lease.is_lasting() || !enlisted.children.is_empty() {",
        found_by: &["package(zk-lock) & binary(sim) & test(/^(chaos|loss)::/)"],
    },
    Flaw {
        what: "the lock is handed over before its holder is notified",
        file: YIELD,
        text: "        if let Some(loss) = self.node().end(LockLoss::Released) {",
        instead: "        if let Some(loss) = self.final_loss() {",
        found_by: &[
            "package(zk-lock) & binary(sim) & test(/^yielding::/)",
            "package(zk-lock) & binary(it) & test(/^yielding::/)",
        ],
    },
    Flaw {
        what: "a yield whose reply was lost takes no notice of the node that it has created",
        file: REPLACEMENT,
        text: FOUND,
        instead: "            Ok(Some(_)) if is_gone => return Err(error),\n            Ok(Some(_)) => {}",
        found_by: &[
            "package(zk-lock) & binary(sim) & test(/^(chaos|yielding)::/)",
            "package(zk-lock) & binary(it) & test(/^yielding::/)",
        ],
    },
];

const FOUND: &str = r#"            Ok(Some(found)) => {
                tracing::debug!(path = %found.0, "found the node whose creation was in doubt");
                cleanup.job = None;
                return Ok(found);
            }"#;

/// Runs the tests of each flaw, first without any, and counts the runs that noticed as passed.
pub(super) fn planted(workspace: &Workspace, args: &[OsString]) -> anyhow::Result<Outcome> {
    ensure!(args.is_empty(), "`test planted` takes no arguments");
    let directory = workspace.target_dir().join("planted");
    let source = directory.join("source");
    revision::unpack(&workspace.root, "HEAD", &source)?;
    let copy = FlawedCopy {
        workspace: workspace.at(source),
        target: directory.join("target"),
    };
    let filters = FLAWS.iter().flat_map(|flaw| flaw.found_by);
    let all: Vec<_> = filters.map(|filter| format!("({filter})")).collect();
    let (good, counts) = copy.run(&all.join(" | "))?;
    ensure!(good, "the tests do not pass without a flaw: {counts}");
    let (mut total, mut missed) = (Counts::default(), Vec::new());
    for flaw in FLAWS {
        println!("planted: {}", flaw.what);
        let planted = copy.plant(flaw)?;
        for filter in flaw.found_by {
            let (_, counts) = copy.run(filter)?;
            ensure!(
                counts.passed + counts.failed > 0,
                "no test ran with the flaw: {}",
                flaw.what
            );
            if counts.failed > 0 {
                total.passed += 1;
            } else {
                total.failed += 1;
                missed.push(format!("not noticed by {filter}: {}", flaw.what));
            }
        }
        drop(planted);
    }
    for missed in &missed {
        println!("{missed}");
    }
    Ok(Outcome {
        counts: total,
        good: missed.is_empty(),
        ..Outcome::default()
    })
}

/// A copy of the last commit, in which flaws are planted.
struct FlawedCopy {
    workspace: Workspace,
    target: PathBuf,
}

/// A flaw in the copy. Dropping it mends the file.
struct Planted {
    file: PathBuf,
    sound: String,
}

impl FlawedCopy {
    /// Runs the tests that a filter accepts; returns whether all passed, and the counts.
    fn run(&self, filter: &str) -> anyhow::Result<(bool, Counts)> {
        let mut tests = self.workspace.cargo(&["nextest", "run", "--all-features"]);
        tests.args(["--package", "zk-core", "--package", "zk-lock"]);
        tests.args(["--test", "sim", "--test", "it"]);
        tests.args(["--no-fail-fast", "--failure-output", "never"]);
        tests.args(["--success-output", "never", "-E", filter]);
        tests.arg("--target-dir").arg(&self.target);
        counted(&mut tests, &[], Runner::Nextest)
    }

    fn plant(&self, flaw: &Flaw) -> anyhow::Result<Planted> {
        let file = self.workspace.root.join(flaw.file);
        let sound = read(&file)?;
        fs::write(&file, flaw.in_text(&sound)?)
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

impl Flaw {
    /// Returns the text of the file with the flaw.
    fn in_text(&self, sound: &str) -> anyhow::Result<String> {
        let found = sound.matches(self.text).count();
        ensure!(
            found == 1,
            "{} has {found} times, instead of once: {}",
            self.file,
            self.text
        );
        Ok(sound.replace(self.text, self.instead))
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flaw_has_its_place_in_the_code() {
        for flaw in FLAWS {
            let sound = read(&Workspace::root().join(flaw.file)).unwrap();
            assert_ne!(flaw.in_text(&sound).unwrap(), sound, "{}", flaw.what);
        }
    }
}
