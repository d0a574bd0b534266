//! `tidy`: checks the rules of this workspace that no compiler checks.
//!
//! The rules themselves are pure functions of texts; this file reads the tree.

mod features;
pub(crate) mod manifest;
mod source;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::workspace::Workspace;
use manifest::Manifest;
use words::Finding;

/// The least number of files in each package that are marked `//! Pure:`, tested without a server, a clock or a disk.
///
/// Raise it when a file is added; lower it only when a pure file is deleted or merged.
const PURE_FILES: &[(&str, usize)] = &[
    ("crates/zk-barrier", 2),
    ("crates/zk-cache", 5),
    ("crates/zk-config", 6),
    ("crates/zk-core", 12),
    ("crates/zk-counter", 2),
    ("crates/zk-discovery", 12),
    ("crates/zk-fault-proxy", 20),
    ("crates/zk-group", 4),
    ("crates/zk-harness", 5),
    ("crates/zk-history", 21),
    ("crates/zk-id", 5),
    ("crates/zk-lock", 6),
    ("crates/zk-provision", 2),
    ("crates/zk-queue", 11),
    ("crates/zk-sim", 19),
    ("crates/zk-wire", 31),
    ("crates/zk-zookeeper-client", 1),
    ("examples/master-workers", 2),
];

/// The files of a published crate besides its sources and its README.
const PACKAGED: [&str; 3] = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// What may name the client crate: the adapter, and the references of benchmarks.
const ADAPTER: [&str; 2] = ["crates/zk-zookeeper-client/", "tools/zk-bench/"];

/// The findings in the whole tree.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Broken rules, as `file:line: problem and remedy`.
    pub(crate) problems: Vec<String>,
}

impl Report {
    /// Adds the problems of a file or directory. One of a line begins with the line's number.
    fn add(&mut self, at: &str, problems: impl IntoIterator<Item = String>) {
        for problem in problems {
            let is_of_a_line = problem.starts_with(|c: char| c.is_ascii_digit());
            let separator = if is_of_a_line { ":" } else { ": " };
            self.problems.push(format!("{at}{separator}{problem}"));
        }
    }
}

/// Prints the findings and returns whether there are none.
pub(crate) fn command(workspace: &Workspace) -> anyhow::Result<bool> {
    let report = look(&workspace.root)?;
    for problem in &report.problems {
        eprintln!("error: {problem}");
    }
    match report.problems.len() {
        0 => println!("tidy: no problems"),
        count => println!("tidy: {count} problems"),
    }
    Ok(report.problems.is_empty())
}

/// Checks the whole tree below `root`.
pub(crate) fn look(root: &Path) -> anyhow::Result<Report> {
    let mut report = Report::default();
    let mut tests = BTreeSet::new();
    let mut pure_files: BTreeMap<String, usize> = BTreeMap::new();

    for dir in packages(root)? {
        let name = dir.rsplit('/').next().unwrap_or(&dir).to_owned();
        let at = format!("{dir}/Cargo.toml");
        let text = read(root, &at)?;
        let is_published = !text.contains("\npublish = false\n");
        let packaged = PACKAGED.iter().filter(|_| is_published);
        let needed = packaged.chain(&["README.md"]);
        let missing = needed.filter(|file| !root.join(&dir).join(file).is_file());
        report.add(&dir, missing.map(|file| format!("a {file} is needed")));
        report.add(&at, Manifest::parse(&text).problems(&name));
    }

    let mut files = Vec::new();
    for dir in ["crates", "examples", "tests", "tools", "xtask"] {
        files_below(root, Path::new(dir), "rs", &mut files)?;
    }
    let mut stated_packages = BTreeSet::new();
    for lib in files.iter().filter(|file| file.ends_with("src/lib.rs")) {
        let at = lib.to_string_lossy();
        if source::states_cancel_safety(&read(root, &at)?) {
            stated_packages.insert(package(&at));
        }
    }
    for path in files {
        let at = path.to_string_lossy().into_owned();
        let text = read(root, &at)?;
        if at != WORDS {
            report.add(&at, words::in_rust(&text).iter().map(Finding::problem));
        }
        // The rules name what they forbid.
        if !at.starts_with("xtask/src/tidy") {
            report.add(&at, source::everywhere(&text));
            report.add(&at, source::imports(&text));
        }
        let is_code = ["crates/", "examples/", "tools/"]
            .iter()
            .any(|dir| at.starts_with(dir));
        if is_code && !source::is_test_file(&at) {
            let is_stated = stated_packages.contains(&package(&at));
            report.add(&at, source::in_crates(&text, &at, is_stated));
        }
        if is_code && !ADAPTER.iter().any(|adapter| at.starts_with(adapter)) {
            report.add(&at, source::outside_adapter(&text));
        }
        if source::is_marked_pure(&text) {
            report.add(&at, source::pure(&text));
            *pure_files.entry(package(&at)).or_default() += 1;
        }
        tests.extend(features::tests(&at, &text));
    }
    let mut texts = Vec::new();
    files_below(root, Path::new(""), "md", &mut texts)?;
    for path in texts {
        let at = path.to_string_lossy().into_owned();
        let findings = words::in_markdown(&read(root, &at)?);
        report.add(&at, findings.iter().map(Finding::problem));
    }
    for (package, least) in PURE_FILES {
        let found = pure_files.get(*package).copied().unwrap_or_default();
        let problem = format!(
            "there are {found} files with the mark `//! Pure:`, and xtask/src/tidy.rs asks for {least}: \
             keep decisions apart from effects, or lower that number if such a file was deleted"
        );
        report.add(package, (found < *least).then_some(problem));
    }
    let page = read(root, features::PAGE)?;
    report.add(features::PAGE, features::problems(&page, &tests));
    Ok(report)
}

/// Returns the directory of the package of a file, such as `crates/zk-lock`.
fn package(file: &str) -> String {
    file.split('/').take(2).collect::<Vec<_>>().join("/")
}

/// Returns the directories of the packages below `crates` and `tools`, such as `crates/zk-lock`, in order.
fn packages(root: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut packages = BTreeSet::new();
    for dir in ["crates", "tools"] {
        let Ok(entries) = fs::read_dir(root.join(dir)) else {
            continue;
        };
        for entry in entries {
            let entry = entry?;
            if entry.path().join("Cargo.toml").is_file() {
                packages.insert(format!("{dir}/{}", entry.file_name().to_string_lossy()));
            }
        }
    }
    anyhow::ensure!(!packages.is_empty(), "no packages below {}", root.display());
    Ok(packages)
}

/// Collects the files below `dir` whose name ends in `extension`, as paths from `root`, in order.
fn files_below(
    root: &Path,
    dir: &Path,
    extension: &str,
    to: &mut Vec<PathBuf>,
) -> anyhow::Result<()> {
    let Ok(entries) = fs::read_dir(root.join(dir)) else {
        return Ok(());
    };
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| Ok(dir.join(entry?.file_name())))
        .collect::<anyhow::Result<_>>()?;
    paths.sort();
    for path in paths {
        if root.join(&path).is_dir() {
            let is_hidden = path
                .file_name()
                .is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
            if !path.ends_with("target") && !is_hidden {
                files_below(root, &path, extension, to)?;
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            to.push(path);
        }
    }
    Ok(())
}

fn read(root: &Path, path: &str) -> anyhow::Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))
}

/// The list of avoided words, which contains them.
const WORDS: &str = "xtask/src/tidy/words.rs";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_keeps_its_rules() {
        let report = look(&Workspace::root()).unwrap();
        assert!(
            report.problems.is_empty(),
            "\n{}",
            report.problems.join("\n")
        );
    }

    #[test]
    fn each_broken_rule_of_a_tree_is_reported() {
        let root = std::env::temp_dir().join(format!("xtask-tidy-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "crates/zk-harness/Cargo.toml",
            "[dependencies]\nzk-core.workspace = true\n",
        );
        write(
            "crates/zk-harness/src/spec.rs",
            "//! Spec.\n//!\n//! Pure: no I/O.\nuse std::fs;\n",
        );
        write("crates/zk-lock/Cargo.toml", "[package]\n");
        for file in PACKAGED.iter().chain(&["README.md"]) {
            write(&format!("crates/zk-lock/{file}"), "");
        }
        write(
            "crates/zk-lock/src/lib.rs",
            "//! Locks.\n\nuse zookeeper_client::Client;\n/// Waits.\npub async fn wait() {}\n",
        );
        write("crates/zk-lock/src/order.rs", "fn order() {}\n");
        write("crates/zk-id/Cargo.toml", "[package]\n");
        write(
            "crates/zk-id/src/lib.rs",
            "//! Ids.\n//!\n//! # Cancel safety\n//!\n//! Nothing is left.\n",
        );
        write(
            "crates/zk-id/src/next.rs",
            "//! Next.\npub async fn next() {}\n",
        );
        write(
            "crates/zk-lock/src/vigil.rs",
            "//! Watches.\nstruct Vigil;\n",
        );
        write("README.md", &["Who", "ever\n"].concat());
        write(
            "crates/zk-lock/tests/it/queue.rs",
            "#[test]\nfn a() {}\nfn b() {}\n",
        );
        write(
            features::PAGE,
            "| | tests |\n|---|---|\n| L1 | `zk_lock::it::queue::a` |\n| L2 | `zk_lock::it::queue::b` |\n| L3 | |\n",
        );
        let report = look(&root);
        fs::remove_dir_all(&root).unwrap();
        let report = report.unwrap();
        for expected in [
            "crates/zk-harness: a README.md",
            "crates/zk-harness: a LICENSE-MIT",
            "crates/zk-harness/Cargo.toml: zk-core",
            "crates/zk-harness/src/spec.rs:4: std::fs",
            "crates/zk-harness: there are 1 files",
            "crates/zk-lock/src/lib.rs:3: zookeeper_client",
            "crates/zk-lock/src/lib.rs:5: ",
            "crates/zk-lock/src/order.rs: module documentation",
            "crates/zk-lock/src/vigil.rs:2: avoid \"vigil\"",
            "README.md:1: avoid ",
            "docs/features.md:4: zk_lock::it::queue::b is not a test",
            "docs/features.md:5: a row needs a test",
        ] {
            assert!(
                report
                    .problems
                    .iter()
                    .any(|problem| problem.starts_with(expected)),
                "{expected}: {report:#?}"
            );
        }
        assert!(
            !report
                .problems
                .iter()
                .any(|problem| problem.contains("zk-lock: a ")
                    || problem.starts_with("docs/features.md:3")),
            "{report:#?}"
        );
        assert!(
            !report
                .problems
                .iter()
                .any(|problem| problem.starts_with("crates/zk-id/src")),
            "its documentation says it for all functions: {report:#?}"
        );
    }
}
