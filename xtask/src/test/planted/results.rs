//! Which tests noticed which flaw, kept below the target directory: an interrupted run is continued.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::flaws::Flaw;

/// The results of one commit.
pub(super) struct Results {
    directory: PathBuf,
}

/// Which tests noticed a flaw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Noticed {
    /// The tests that failed, as `zk-lock::sim chaos::name`.
    pub(super) by: BTreeSet<String>,
    /// Those of them whose time was over.
    pub(super) timed_out: BTreeSet<String>,
    /// The filters of the flaw none of whose tests failed.
    pub(super) silent: BTreeSet<String>,
}

impl Results {
    pub(super) fn of(directory: &Path, commit: &str) -> Self {
        Self {
            directory: directory.join("results").join(commit),
        }
    }

    /// Returns the result of a flaw, in this form of it.
    pub(super) fn known(&self, flaw: &Flaw) -> Option<Noticed> {
        let kept = fs::read_to_string(self.file(flaw)).ok()?;
        Some(Noticed::parse(&kept))
    }

    /// Keeps the result of a flaw, and returns it.
    pub(super) fn keep(&self, flaw: &Flaw, noticed: Noticed) -> anyhow::Result<Noticed> {
        self.write(&self.file(flaw), &noticed.text())?;
        Ok(noticed)
    }

    /// Returns whether the tests that are to notice these flaws pass without one.
    pub(super) fn is_sound(&self, package: &str, flaws: &[&Flaw]) -> bool {
        self.file_of_sound(package, flaws).exists()
    }

    /// Keeps that the tests pass without a flaw.
    pub(super) fn keep_sound(&self, package: &str, flaws: &[&Flaw]) -> anyhow::Result<()> {
        self.write(&self.file_of_sound(package, flaws), "")
    }

    fn write(&self, file: &Path, text: &str) -> anyhow::Result<()> {
        fs::create_dir_all(&self.directory)
            .and_then(|()| fs::write(file, text))
            .with_context(|| format!("cannot write {}", file.display()))
    }

    fn file(&self, flaw: &Flaw) -> PathBuf {
        self.directory.join(hash(flaw))
    }

    fn file_of_sound(&self, package: &str, flaws: &[&Flaw]) -> PathBuf {
        let filters: Vec<_> = flaws.iter().map(|flaw| flaw.found_by).collect();
        self.directory.join(hash((package, filters)))
    }
}

impl Noticed {
    /// Returns what should have noticed and did not.
    pub(super) fn missed(&self, flaw: &Flaw) -> Vec<&'static str> {
        let silent = flaw.found_by.iter().copied();
        let mut missed: Vec<_> = silent
            .filter(|filter| self.silent.contains(*filter))
            .collect();
        if !self.by.iter().any(|test| !is_on_real_servers(test)) {
            missed.insert(0, "any test without servers");
        }
        missed
    }

    fn text(&self) -> String {
        let marked = [
            (FAILED, &self.by),
            (TIMED_OUT, &self.timed_out),
            (SILENT, &self.silent),
        ];
        let lines = marked
            .into_iter()
            .flat_map(|(mark, texts)| texts.iter().map(move |text| [mark, text, "\n"]));
        lines.flatten().collect()
    }

    fn parse(text: &str) -> Self {
        let lines = |mark: &str| {
            let lines = text.lines().filter_map(|line| line.strip_prefix(mark));
            lines.map(str::to_owned).collect()
        };
        Self {
            by: lines(FAILED),
            timed_out: lines(TIMED_OUT),
            silent: lines(SILENT),
        }
    }
}

fn hash(value: impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn is_on_real_servers(test: &str) -> bool {
    let (binary, _) = test.split_once(' ').unwrap_or((test, ""));
    binary.ends_with("::it")
}

const FAILED: &str = "failed ";
const TIMED_OUT: &str = "late ";
const SILENT: &str = "silent ";

#[cfg(test)]
mod tests {
    use super::*;

    const FLAW: Flaw = Flaw {
        what: "it is wrong",
        file: "crates/zk-a/src/lib.rs",
        text: "right",
        instead: "wrong",
        found_by: &["binary(sim)", "binary(it)"],
    };

    fn set(texts: &[&str]) -> BTreeSet<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn a_result_is_read_as_it_was_written() {
        let noticed = Noticed {
            by: set(&["zk-a::sim a::b", "zk-a c::tests::d"]),
            timed_out: set(&["zk-a::sim a::b"]),
            silent: set(&["binary(it) & test(/^x y/)"]),
        };
        assert_eq!(Noticed::parse(&noticed.text()), noticed);
    }

    #[test]
    fn what_should_have_noticed_is_named() {
        let missed = |by: &[&str], silent: &[&str]| {
            let noticed = Noticed {
                by: set(by),
                timed_out: set(&[]),
                silent: set(silent),
            };
            noticed.missed(&FLAW)
        };
        assert!(missed(&["zk-a::sim a", "zk-a::it b"], &[]).is_empty());
        let without = "any test without servers";
        assert_eq!(
            missed(&["zk-a::it b"], &["binary(sim)"]),
            [without, "binary(sim)"]
        );
        assert_eq!(missed(&["zk-a c"], &["binary(it)"]), ["binary(it)"]);
    }

    #[test]
    fn each_form_of_a_flaw_has_its_own_result() {
        let results = Results::of(Path::new("/t"), "abc");
        let changed = Flaw {
            instead: "left",
            ..FLAW
        };
        assert_ne!(results.file(&FLAW), results.file(&changed));
        assert_eq!(results.file(&FLAW), results.file(&FLAW));
    }
}
