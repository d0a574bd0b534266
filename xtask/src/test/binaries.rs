//! Builds the test binaries, and holds how many tests each of them has in each scope.
//!
//! A binary that a missing feature has emptied, or a selection that has lost one, would pass unnoticed. So the numbers
//! are in a file, and a run of a whole scope that finds others is an error.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::scope::Scope;
use crate::workspace::Workspace;

/// A binary with tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TestBinary {
    package: String,
    /// The name of the test target, `lib` for unit tests of a library, or the name of a program or an example.
    name: String,
    path: PathBuf,
}

/// Builds the tests of a scope; returns `None` if they do not compile.
pub(super) fn build(
    workspace: &Workspace,
    scope: Scope,
) -> anyhow::Result<Option<Vec<TestBinary>>> {
    let mut build = workspace.cargo(&["test", "--no-run"]);
    build.args(scope.selection());
    // The diagnostics go to stderr, as they would without this.
    build.args(["--message-format", "json-render-diagnostics"]);
    let built = build.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let built = built.context("cannot run cargo")?;
    if !built.status.success() {
        return Ok(None);
    }
    let messages = String::from_utf8(built.stdout).context("cargo's messages are not UTF-8")?;
    Ok(Some(messages.lines().filter_map(of_message).collect()))
}

/// Checks that each binary has as many tests as the file says, or writes the file if `WRITE_COUNTS` is set.
pub(super) fn check(
    workspace: &Workspace,
    scope: Scope,
    binaries: &[TestBinary],
) -> anyhow::Result<()> {
    let mut found = TestCounts::default();
    for binary in binaries {
        found.add(binary, scope, &binary.tests()?);
    }
    let file = workspace.root.join(FILE);
    let text = std::fs::read_to_string(&file);
    let expected = TestCounts::parse(&text.with_context(|| format!("cannot read {FILE}"))?)?;
    if std::env::var_os("WRITE_COUNTS").is_some() {
        let written = std::fs::write(&file, expected.replaced_by(&found, scope).to_string());
        return written.with_context(|| format!("cannot write {FILE}"));
    }
    let differences = expected.differences(&found, scope);
    ensure!(
        differences.is_empty(),
        "the scope has other tests than {FILE} says:\n  {}\nif that is meant, write it anew: WRITE_COUNTS=1 cargo xtask test{}",
        differences.join("\n  "),
        if scope == Scope::Default { "" } else { " all" }
    );
    Ok(())
}

impl TestBinary {
    /// Lists the names of its tests.
    fn tests(&self) -> anyhow::Result<Vec<String>> {
        let mut list = Command::new(&self.path);
        let list = list.args(["--list", "--format", "terse"]).output();
        let list = list.with_context(|| format!("cannot run {}", self.path.display()))?;
        ensure!(
            list.status.success(),
            "{} cannot list its tests",
            self.path.display()
        );
        let lines = String::from_utf8_lossy(&list.stdout);
        let names = lines.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(str::to_owned).collect())
    }
}

/// Reads a message of cargo about a binary with tests.
fn of_message(line: &str) -> Option<TestBinary> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_test = message["profile"]["test"].as_bool()?;
    let path = PathBuf::from(message["executable"].as_str().filter(|_| is_test)?);
    let target = &message["target"];
    let is_lib = target["kind"][0].as_str()?.ends_with("lib");
    let name = if is_lib {
        "lib"
    } else {
        target["name"].as_str()?
    };
    // `path+file:///…/crates/zk-lock#0.1.0`, or `…/tests#zk-tests@0.1.0` if the directory has another name.
    let (source, version) = message["package_id"].as_str()?.rsplit_once('#')?;
    let package = match version.split_once('@') {
        Some((name, _)) => name,
        None => Path::new(source).file_name()?.to_str()?,
    };
    Some(TestBinary {
        package: package.to_owned(),
        name: name.to_owned(),
        path,
    })
}

/// The number of tests of each binary in the default scope and in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TestCounts(BTreeMap<(String, String), [usize; 2]>);

impl TestCounts {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let rows = lines.map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let [package, name, default, all] = words.as_slice() else {
                anyhow::bail!("{FILE}: {line:?} is not a package, a binary and two numbers");
            };
            let counts = [default.parse()?, all.parse()?];
            Ok((((*package).to_owned(), (*name).to_owned()), counts))
        });
        Ok(Self(rows.collect::<anyhow::Result<_>>()?))
    }

    /// Adds the tests that a binary has in this scope.
    fn add(&mut self, binary: &TestBinary, scope: Scope, tests: &[String]) {
        let in_scope = tests.iter().filter(|test| {
            let mut modules = test.split("::");
            !modules.any(|module| scope.left_out().contains(&module))
        });
        let key = (binary.package.clone(), binary.name.clone());
        // An example and a program of one package may have one name.
        self.0.entry(key).or_default()[column(scope)] += in_scope.count();
    }

    /// Returns these counts with the column of a scope replaced.
    fn replaced_by(mut self, found: &Self, scope: Scope) -> Self {
        for counts in self.0.values_mut() {
            counts[column(scope)] = 0;
        }
        for (key, counts) in &found.0 {
            self.0.entry(key.clone()).or_default()[column(scope)] = counts[column(scope)];
        }
        self.0.retain(|_, counts| *counts != [0, 0]);
        self
    }

    /// Returns what differs in the column of a scope.
    fn differences(&self, found: &Self, scope: Scope) -> Vec<String> {
        let of = |counts: &Self, key| counts.0.get(key).map_or(0, |counts| counts[column(scope)]);
        let mut keys: Vec<_> = self.0.keys().chain(found.0.keys()).collect();
        keys.sort();
        keys.dedup();
        let differing = keys.into_iter().filter_map(|key| {
            let (expected, found) = (of(self, key), of(found, key));
            let (package, name) = key;
            (expected != found)
                .then(|| format!("{package} {name}: {found} tests instead of {expected}"))
        });
        differing.collect()
    }
}

impl std::fmt::Display for TestCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "# Tests of each binary: package, binary, in the default scope, in all."
        )?;
        writeln!(
            f,
            "# `WRITE_COUNTS=1 cargo xtask test` writes the first number, `… test all` the second."
        )?;
        for ((package, name), [default, all]) in &self.0 {
            writeln!(f, "{package} {name} {default} {all}")?;
        }
        Ok(())
    }
}

/// Returns the column of a scope; what `deep` adds is not counted.
fn column(scope: Scope) -> usize {
    usize::from(scope != Scope::Default)
}

const FILE: &str = "xtask/src/test/binaries.txt";

#[cfg(test)]
mod tests {
    use super::super::scope::is_in_default;
    use super::*;

    #[test]
    fn binaries_are_read_from_the_messages_of_cargo() {
        let message = |kind: &str, name: &str, package: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"{package}","target":{{"kind":["{kind}"],"name":"{name}"}},"profile":{{"test":{test}}},"executable":"/t/x"}}"#
            )
        };
        let binary = |package: &str, name: &str| {
            Some(TestBinary {
                package: package.to_owned(),
                name: name.to_owned(),
                path: "/t/x".into(),
            })
        };
        let lock = "path+file:///src/crates/zk-lock#0.1.0";
        assert_eq!(
            of_message(&message("lib", "zk_lock", lock, true)),
            binary("zk-lock", "lib")
        );
        assert_eq!(
            of_message(&message("test", "sim", lock, true)),
            binary("zk-lock", "sim")
        );
        assert_eq!(
            of_message(&message(
                "test",
                "it",
                "path+file:///src/tests#zk-tests@0.1.0",
                true
            )),
            binary("zk-tests", "it")
        );
        assert_eq!(of_message(&message("bin", "zk", lock, false)), None);
        assert_eq!(
            of_message(r#"{"reason":"build-finished","success":true}"#),
            None
        );
    }

    #[test]
    fn a_binary_with_other_tests_is_found() {
        let expected = TestCounts::parse("# a comment\na lib 3 4\na sim 2 2\nb it 0 5\n").unwrap();
        let mut found = TestCounts::default();
        let binary = |package: &str, name: &str| TestBinary {
            package: package.to_owned(),
            name: name.to_owned(),
            path: PathBuf::new(),
        };
        let tests = ["x", "m::long::y", "deep::z", "m::longer::y"].map(str::to_owned);
        found.add(&binary("a", "lib"), Scope::Default, &tests);
        found.add(&binary("c", "sim"), Scope::Default, &tests[..1]);
        assert_eq!(
            expected.differences(&found, Scope::Default),
            [
                "a lib: 2 tests instead of 3",
                "a sim: 0 tests instead of 2",
                "c sim: 1 tests instead of 0",
            ]
        );
        let written = expected.replaced_by(&found, Scope::Default).to_string();
        let written = TestCounts::parse(&written).unwrap();
        assert_eq!(
            written,
            TestCounts::parse("a lib 2 4\na sim 0 2\nb it 0 5\nc sim 1 0\n").unwrap()
        );
        assert!(written.differences(&found, Scope::Default).is_empty());
    }

    #[test]
    fn a_row_that_is_none_is_an_error() {
        assert!(TestCounts::parse("a lib 3\n").is_err());
        assert!(TestCounts::parse("a lib 3 many\n").is_err());
    }

    #[test]
    fn every_binary_of_the_default_scope_has_tests() {
        let text = std::fs::read_to_string(Workspace::root().join(FILE)).unwrap();
        let counts = TestCounts::parse(&text).unwrap();
        assert!(!counts.0.is_empty());
        for ((package, name), [default, all]) in &counts.0 {
            assert_eq!(
                is_in_default(package, name),
                *default > 0,
                "{package} {name}"
            );
            assert!(
                default <= all,
                "{package} {name}: the default scope is a part of all"
            );
        }
    }
}
