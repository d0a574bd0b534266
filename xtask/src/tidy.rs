//! `tidy`: the rules of this workspace that no compiler checks.
//!
//! The rules themselves are pure and look at texts; this file reads the tree.

mod coverage;
mod manifest;
mod source;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context as _;

use crate::workspace::Workspace;
use coverage::Coverage;
use coverage::Rows;
use manifest::Manifest;

/// Files that decide and do nothing else, so that they can be tested without a server, a clock or a disk.
const PURE: &[&str] = &[
    "crates/zk-config/src/life.rs",
    "crates/zk-config/src/outcome.rs",
    "crates/zk-config/src/plan.rs",
    "crates/zk-config/src/problem.rs",
    "crates/zk-config/src/subtree.rs",
    "crates/zk-cache/src/node.rs",
    "crates/zk-cache/src/reducer.rs",
    "crates/zk-cache/src/scope.rs",
    "crates/zk-cache/src/snapshot.rs",
    "crates/zk-cache/src/store.rs",
    "crates/zk-discovery/src/admission.rs",
    "crates/zk-discovery/src/book.rs",
    "crates/zk-discovery/src/claim.rs",
    "crates/zk-discovery/src/curator.rs",
    "crates/zk-discovery/src/doubt.rs",
    "crates/zk-discovery/src/dubbo.rs",
    "crates/zk-discovery/src/dubbo/encoding.rs",
    "crates/zk-discovery/src/layout.rs",
    "crates/zk-discovery/src/ledger.rs",
    "crates/zk-discovery/src/pick.rs",
    "crates/zk-discovery/src/roster.rs",
    "crates/zk-discovery/src/shown.rs",
    "crates/zk-discovery/src/uri.rs",
    "crates/zk-core/src/acl.rs",
    "crates/zk-core/src/codec.rs",
    "crates/zk-core/src/codec/gzip.rs",
    "crates/zk-core/src/codec/json.rs",
    "crates/zk-core/src/codec/toml.rs",
    "crates/zk-core/src/connect_string.rs",
    "crates/zk-core/src/engine/hub/book.rs",
    "crates/zk-core/src/outcome.rs",
    "crates/zk-core/src/path.rs",
    "crates/zk-core/src/retry.rs",
    "crates/zk-core/src/sequence.rs",
    "crates/zk-harness/src/admin/cons.rs",
    "crates/zk-harness/src/admin/mntr.rs",
    "crates/zk-harness/src/admin/srvr.rs",
    "crates/zk-harness/src/admin/stat.rs",
    "crates/zk-harness/src/admin/text.rs",
    "crates/zk-harness/src/admin/wchs.rs",
    "crates/zk-harness/src/check/checker.rs",
    "crates/zk-harness/src/check/counter.rs",
    "crates/zk-harness/src/check/fenced_register.rs",
    "crates/zk-harness/src/check/holds.rs",
    "crates/zk-harness/src/check/linear.rs",
    "crates/zk-harness/src/check/linear/models.rs",
    "crates/zk-harness/src/check/linearizable.rs",
    "crates/zk-harness/src/check/mutex.rs",
    "crates/zk-harness/src/check/order.rs",
    "crates/zk-harness/src/check/picture.rs",
    "crates/zk-harness/src/check/progress.rs",
    "crates/zk-harness/src/check/queue.rs",
    "crates/zk-harness/src/check/queue/fifo.rs",
    "crates/zk-harness/src/check/read_write.rs",
    "crates/zk-harness/src/check/reentrant.rs",
    "crates/zk-harness/src/check/report.rs",
    "crates/zk-harness/src/check/semaphore.rs",
    "crates/zk-harness/src/check/set.rs",
    "crates/zk-harness/src/check/unique_ids.rs",
    "crates/zk-harness/src/check/verdict.rs",
    "crates/zk-harness/src/check/versions.rs",
    "crates/zk-harness/src/config.rs",
    "crates/zk-harness/src/dist/apt/parse.rs",
    "crates/zk-harness/src/dist/version.rs",
    "crates/zk-harness/src/health.rs",
    "crates/zk-harness/src/links/conditions.rs",
    "crates/zk-harness/src/links/election.rs",
    "crates/zk-harness/src/nemesis/draw.rs",
    "crates/zk-harness/src/proxy/core.rs",
    "crates/zk-harness/src/proxy/dialogue.rs",
    "crates/zk-harness/src/proxy/event.rs",
    "crates/zk-harness/src/proxy/journal.rs",
    "crates/zk-harness/src/proxy/matching.rs",
    "crates/zk-harness/src/proxy/pattern.rs",
    "crates/zk-harness/src/proxy/rules.rs",
    "crates/zk-harness/src/proxy/splitter.rs",
    "crates/zk-harness/src/proxy/steering.rs",
    "crates/zk-harness/src/history/answer.rs",
    "crates/zk-harness/src/history/call.rs",
    "crates/zk-harness/src/history/line.rs",
    "crates/zk-harness/src/history/op.rs",
    "crates/zk-harness/src/history/parse.rs",
    "crates/zk-harness/src/spec.rs",
    "crates/zk-harness/src/wire/frame.rs",
    "crates/zk-harness/src/wire/jute.rs",
    "crates/zk-harness/src/wire/op.rs",
    "crates/zk-harness/src/wire/record.rs",
    "crates/zk-harness/src/wire/request.rs",
    "crates/zk-id/src/id.rs",
    "crates/zk-id/src/line.rs",
    "crates/zk-id/src/pace.rs",
    "crates/zk-id/src/run.rs",
    "crates/zk-id/src/slots.rs",
    "crates/zk-lock/src/layout.rs",
    "crates/zk-lock/src/cohort/tally.rs",
    "crates/zk-lock/src/order.rs",
    "crates/zk-lock/src/owner.rs",
    "crates/zk-lock/src/revoke/note.rs",
    "crates/zk-lock/src/semaphore/room.rs",
    "crates/zk-queue/src/clock.rs",
    "crates/zk-queue/src/fit.rs",
    "crates/zk-queue/src/frame.rs",
    "crates/zk-queue/src/ground.rs",
    "crates/zk-queue/src/layout.rs",
    "crates/zk-queue/src/place.rs",
    "crates/zk-queue/src/shelf.rs",
    "crates/zk-sim/src/access.rs",
    "crates/zk-sim/src/answer.rs",
    "crates/zk-sim/src/chaos/plan.rs",
    "crates/zk-sim/src/chroot.rs",
    "crates/zk-sim/src/digest.rs",
    "crates/zk-sim/src/jobs.rs",
    "crates/zk-sim/src/matching.rs",
    "crates/zk-sim/src/record.rs",
    "crates/zk-sim/src/release.rs",
    "crates/zk-sim/src/script.rs",
    "crates/zk-sim/src/server.rs",
    "crates/zk-sim/src/size.rs",
    "crates/zk-sim/src/watches.rs",
    "crates/zk-sim/src/world.rs",
    "crates/zk-sim/src/world/client.rs",
    "crates/zk-sim/src/world/delivery.rs",
    "crates/zk-sim/src/world/links.rs",
    "crates/zk-sim/src/world/quorum.rs",
    "crates/zk-sim/src/world/service.rs",
    "examples/master-workers/src/plan.rs",
    "examples/master-workers/src/tree.rs",
];

/// What a published crate has beside its sources and its README.
const PACKAGED: [&str; 3] = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// The one module that may name the client crate, as a file and as a directory, and the references of benchmarks.
const TRANSPORT: [&str; 3] = [
    "crates/zk-core/src/transport.rs",
    "crates/zk-core/src/transport/",
    "crates/zk-bench/",
];

/// What a look at the whole tree found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Broken rules, as `place: what is wrong and what would be right`.
    pub(crate) problems: Vec<String>,
    /// Which tests show which feature rows.
    pub(crate) rows: Rows,
}

/// Prints what was found and returns whether no rule is broken.
pub(crate) fn command(workspace: &Workspace) -> anyhow::Result<bool> {
    let report = look(&workspace.root)?;
    for problem in &report.problems {
        eprintln!("error: {problem}");
    }
    for (heading, rows) in [
        (
            "feature rows that need a real server and have only simulated or pure tests",
            &report.rows.weak,
        ),
        ("feature rows not built yet", &report.rows.not_built),
    ] {
        if !rows.is_empty() {
            println!("{heading}: {}", rows.join(" "));
        }
    }
    match report.problems.len() {
        0 => println!("tidy: every rule is kept"),
        broken => println!("tidy: {broken} broken"),
    }
    Ok(report.problems.is_empty())
}

/// Prints every feature row with the tests that show it.
pub(crate) fn print_rows(workspace: &Workspace) -> anyhow::Result<bool> {
    print!("{}", look(&workspace.root)?.rows.list());
    Ok(true)
}

/// Looks at the whole tree below `root`.
pub(crate) fn look(root: &Path) -> anyhow::Result<Report> {
    let mut report = Report::default();
    let mut coverage = Coverage::default();
    let mut seen = BTreeSet::new();

    for name in crates(root)? {
        let dir = format!("crates/{name}");
        if !root.join(&dir).join("README.md").is_file() {
            report.problems.push(format!(
                "{dir}: a README.md is needed: what the crate is, in a page"
            ));
        }
        let at = format!("{dir}/Cargo.toml");
        let text = read(root, &at)?;
        if !text.contains("\npublish = false\n") {
            for file in PACKAGED {
                if !root.join(&dir).join(file).is_file() {
                    report
                        .problems
                        .push(format!("{dir}: a {file} is needed in the crate's package"));
                }
            }
        }
        report
            .problems
            .extend(prefixed(&at, Manifest::parse(&text).problems(&name)));
    }

    let mut files = Vec::new();
    for dir in ["crates", "examples", "tests", "xtask"] {
        rust_files(root, Path::new(dir), &mut files)?;
    }
    for path in files {
        let at = path.to_string_lossy().into_owned();
        let text = read(root, &at)?;
        // The rules name what they forbid.
        if !at.starts_with("xtask/src/tidy") {
            report
                .problems
                .extend(prefixed(&at, source::everywhere(&text)));
        }
        let is_code = at.starts_with("crates/") || at.starts_with("examples/");
        if is_code && !source::is_test_file(&at) {
            report
                .problems
                .extend(prefixed(&at, source::in_crates(&text, &at)));
        }
        if is_code && !TRANSPORT.iter().any(|transport| at.starts_with(transport)) {
            report
                .problems
                .extend(prefixed(&at, source::outside_transport(&text)));
        }
        if PURE.contains(&at.as_str()) {
            report.problems.extend(prefixed(&at, source::pure(&text)));
        }
        report
            .problems
            .extend(prefixed(&at, coverage.add(&at, &text)));
        seen.insert(at);
    }
    for gone in PURE.iter().filter(|pure| !seen.contains(**pure)) {
        report.problems.push(format!(
            "{gone}: listed as a pure file in xtask/src/tidy.rs, but not there"
        ));
    }
    let mut rows = coverage.rows();
    report.problems.append(&mut rows.problems);
    for row in &rows.uncovered {
        report.problems.push(format!(
            "feature row {row}: a test that asserts something is needed, with the mark `// covers: {row}`"
        ));
    }
    if coverage::REAL_TESTS_ARE_REQUIRED {
        for row in &rows.weak {
            report.problems.push(format!(
                "feature row {row}: a test on a real server is needed; `cargo xtask tidy --rows` lists those there are"
            ));
        }
    }
    report.rows = rows;
    Ok(report)
}

fn prefixed(at: &str, problems: Vec<String>) -> impl Iterator<Item = String> {
    // A problem in a certain line begins with its number.
    problems.into_iter().map(move |problem| {
        let separator = if problem.starts_with(|c: char| c.is_ascii_digit()) {
            ":"
        } else {
            ": "
        };
        format!("{at}{separator}{problem}")
    })
}

/// The names of the directories below `crates`, in order.
fn crates(root: &Path) -> anyhow::Result<BTreeSet<String>> {
    let entries = fs::read_dir(root.join("crates"))
        .with_context(|| format!("cannot list {}/crates", root.display()))?;
    let mut names = BTreeSet::new();
    for entry in entries {
        let entry = entry?;
        if entry.path().join("Cargo.toml").is_file() {
            names.insert(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

/// Collects the `.rs` files below `dir`, as paths from `root`, in order.
fn rust_files(root: &Path, dir: &Path, to: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let Ok(entries) = fs::read_dir(root.join(dir)) else {
        return Ok(());
    };
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| Ok(dir.join(entry?.file_name())))
        .collect::<anyhow::Result<_>>()?;
    paths.sort();
    for path in paths {
        if root.join(&path).is_dir() {
            if !path.ends_with("target") {
                rust_files(root, &path, to)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            to.push(path);
        }
    }
    Ok(())
}

fn read(root: &Path, path: &str) -> anyhow::Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))
}

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
    fn a_tree_that_breaks_every_rule_is_told_so() {
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
        write("crates/zk-harness/src/spec.rs", "//! Spec.\nuse std::fs;\n");
        write("crates/zk-lock/Cargo.toml", "[package]\n");
        for file in PACKAGED.iter().chain(&["README.md"]) {
            write(&format!("crates/zk-lock/{file}"), "");
        }
        write(
            "crates/zk-lock/src/lib.rs",
            "//! Locks.\n\nuse zookeeper_client::Client;\n/// Waits.\npub async fn wait() {}\n",
        );
        write("crates/zk-lock/src/order.rs", "fn order() {}\n");
        write(
            "tests/it/main.rs",
            &[
                "// covers: L1 L99\n#[test]\nfn a() { std::thread::sleep(D); assert!(true) }\n",
                "// covers: L2\n#[test]\nfn b() {}\n// covers: L3\nfn c() {}\n",
            ]
            .concat(),
        );
        let report = look(&root);
        fs::remove_dir_all(&root).unwrap();
        let report = report.unwrap();
        for expected in [
            "crates/zk-harness: a README.md",
            "crates/zk-harness: a LICENSE-MIT",
            "crates/zk-harness/Cargo.toml: zk-core",
            "crates/zk-harness/src/spec.rs:2: std::fs",
            "crates/zk-harness/src/config.rs: listed as a pure file",
            "crates/zk-lock/src/lib.rs:3: zookeeper_client",
            "crates/zk-lock/src/lib.rs:5: ",
            "crates/zk-lock/src/order.rs: module documentation",
            "tests/it/main.rs:1: L99",
            "tests/it/main.rs:3: a bare sleep",
            "tests/it/main.rs:4: a covers mark stands above a test that asserts nothing: b",
            "tests/it/main.rs:7: a covers mark stands directly above a test",
            "feature row L2: a test",
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
                .any(|problem| problem.contains("zk-lock: ")),
            "{report:#?}"
        );
        assert!(!report.rows.uncovered.contains(&"L1".to_owned()));
    }
}
