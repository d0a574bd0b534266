//! What is known of the mutants of a crate: kept while a run lasts, so that the same command continues.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

/// What makes two runs the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Key {
    /// The commit.
    pub(crate) revision: String,
    pub(crate) seed: u64,
    pub(crate) count: usize,
}

/// What is known of the mutants of a crate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) key: Key,
    /// The candidates that do not compile, by their place in the order of the draw.
    pub(crate) dropped: BTreeSet<usize>,
    /// The run without a mutant.
    pub(crate) baseline: Option<Baseline>,
    /// The time spent so far, in seconds; that of the build is with one of its crates.
    pub(crate) spent: f64,
    /// By the number of the mutant.
    pub(crate) outcomes: BTreeMap<u32, Outcome>,
}

/// A run without a mutant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Baseline {
    /// In seconds.
    pub(crate) slowest_test: f64,
    pub(crate) all_tests: f64,
    /// The tests that reach each mutant, by its number.
    pub(crate) reached: BTreeMap<u32, BTreeSet<Test>>,
}

/// A test, as nextest names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Test {
    pub(crate) binary: String,
    pub(crate) name: String,
}

/// What became of a mutant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    pub(crate) seconds: f64,
}

/// Whether the tests noticed a mutant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Verdict {
    /// A test failed.
    Caught(Test),
    /// A test, or all of them, took too long.
    TimedOut(Option<Test>),
    /// All tests passed.
    Survived,
    /// No test runs the code.
    NotReached,
}

impl Progress {
    /// Reads what an earlier command has found out with this key, or begins.
    pub(crate) fn open(work: &Path, name: &str, key: Key) -> Self {
        let kept = fs::read_to_string(file(work, name)).ok();
        let kept: Option<Self> = kept.and_then(|text| serde_json::from_str(&text).ok());
        kept.filter(|kept| kept.key == key).unwrap_or(Self {
            key,
            dropped: BTreeSet::new(),
            baseline: None,
            spent: 0.0,
            outcomes: BTreeMap::new(),
        })
    }

    pub(crate) fn save(&self, work: &Path, name: &str) -> anyhow::Result<()> {
        let file = file(work, name);
        let text = serde_json::to_string_pretty(self)?;
        let unfinished = file.with_extension("unfinished");
        fs::create_dir_all(work.join("progress"))
            .and_then(|()| fs::write(&unfinished, text))
            .and_then(|()| fs::rename(&unfinished, &file))
            .with_context(|| format!("cannot write {}", file.display()))
    }
}

fn file(work: &Path, name: &str) -> PathBuf {
    work.join("progress").join(format!("{name}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_run_continues() {
        let work = tempfile::tempdir().unwrap();
        let key = |seed| Key {
            revision: "abc".to_owned(),
            seed,
            count: 5,
        };
        let mut progress = Progress::open(work.path(), "zk-lock", key(1));
        let test = Test {
            binary: "zk-lock::sim".to_owned(),
            name: "waits".to_owned(),
        };
        let outcome = |verdict| Outcome {
            verdict,
            seconds: 0.5,
        };
        let caught = outcome(Verdict::Caught(test.clone()));
        progress.outcomes.insert(7, caught);
        progress.outcomes.insert(8, outcome(Verdict::Survived));
        progress.baseline = Some(Baseline {
            slowest_test: 1.0,
            all_tests: 2.0,
            reached: [(7, [test].into())].into(),
        });
        progress.dropped.insert(3);
        progress.save(work.path(), "zk-lock").unwrap();
        assert_eq!(Progress::open(work.path(), "zk-lock", key(1)), progress);
        let other = Progress::open(work.path(), "zk-lock", key(2));
        assert!(other.outcomes.is_empty() && other.dropped.is_empty());
        let other = Progress::open(work.path(), "zk-queue", key(1));
        assert!(other.outcomes.is_empty());
    }
}
