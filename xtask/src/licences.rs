//! Checks licences and sources of all dependencies on machines without cargo-deny, which takes minutes to install.
//!
//! The check is stricter than cargo-deny: it may refuse an unusual licence expression that cargo-deny accepts.

use std::fs;

use anyhow::{Context as _, ensure};

use crate::workspace::Workspace;

/// Prints each broken rule and returns whether there is none.
pub(crate) fn check(workspace: &Workspace) -> anyhow::Result<bool> {
    let read = |path: &str| {
        fs::read_to_string(workspace.root.join(path)).with_context(|| format!("cannot read {path}"))
    };
    let output = workspace
        .cargo(&["tree", "--workspace", "--all-features", "--locked"])
        .args(["--target", "all", "--prefix", "none"])
        .args(["--format", "{p}\t{l}"])
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(output.status.success(), "cargo tree failed");
    let mut problems = licences(
        &String::from_utf8_lossy(&output.stdout),
        &allowed(&read("deny.toml")?),
    );
    problems.extend(sources(&read("Cargo.lock")?));
    problems.sort();
    problems.dedup();
    for problem in &problems {
        eprintln!("error: {problem}");
    }
    Ok(problems.is_empty())
}

/// Returns the licences in the list `allow` of the section `[licenses]`.
fn allowed(deny: &str) -> Vec<&str> {
    let section = deny.split("\n[licenses]").nth(1).unwrap_or_default();
    let list = section.split("\nallow = [").nth(1).unwrap_or_default();
    let list = list.split(']').next().unwrap_or_default();
    list.split('"').skip(1).step_by(2).collect()
}

/// Returns the packages, one per line with the licence after a tab, whose licence is not allowed.
fn licences(listing: &str, allowed: &[&str]) -> Vec<String> {
    // What is marked stands without the mark, too. Without marks the listing has millions of lines.
    let lines = listing.lines().filter(|line| !line.ends_with("(*)"));
    let packages = lines.filter_map(|line| line.split_once('\t'));
    packages
        .filter(|(_, licence)| !permits(licence, allowed))
        .map(|(package, licence)| {
            format!("{package} is under {licence:?}: it needs a licence from the list in deny.toml")
        })
        .collect()
}

/// Returns whether allowed licences satisfy an expression, read as alternatives joined by `AND`.
fn permits(expression: &str, allowed: &[&str]) -> bool {
    // Old manifests write `/` for `OR`.
    let expression = expression.replace('/', " OR ");
    expression.split(" AND ").all(|alternatives| {
        let mut licences = alternatives.trim_matches(['(', ')', ' ']).split(" OR ");
        licences.any(|licence| allowed.contains(&licence.trim()))
    })
}

/// Returns the packages of a lock file that do not come from a registry.
fn sources(lock: &str) -> Vec<String> {
    let sources = lock
        .lines()
        .filter_map(|line| line.strip_prefix("source = "));
    sources
        .filter(|source| !source.starts_with("\"registry+"))
        .map(|source| format!("a dependency comes from {source}: take it from the registry"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_needs_allowed_licences() {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"];
        for expression in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR MIT",
        ] {
            assert!(permits(expression, &allowed), "{expression}");
        }
        for expression in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR Apache-2.0) AND GPL-3.0",
            "(MIT AND GPL-3.0) OR GPL-2.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(!permits(expression, &allowed), "{expression}");
        }
    }

    #[test]
    fn a_package_under_another_licence_is_named() {
        assert_eq!(
            licences(
                "a v1.0.0\tMIT\nb v2.0.0\tGPL-3.0\n\na v1.0.0\tMIT (*)\nb v2.0.0\tGPL-3.0 (*)\n",
                &["MIT"]
            ),
            ["b v2.0.0 is under \"GPL-3.0\": it needs a licence from the list in deny.toml"]
        );
    }

    #[test]
    fn the_allowed_licences_are_those_of_deny_toml() {
        let deny = "[bans]\nallow = [\"other\"]\n\n[licenses]\nunused = 1\nallow = [\n    \"MIT\",\n    \"ISC\", # why\n]\n";
        assert_eq!(allowed(deny), ["MIT", "ISC"]);
    }

    #[test]
    fn a_source_other_than_the_registry_is_named() {
        let lock = "name = \"ours\"\n\nname = \"a\"\nsource = \"registry+x\"\n\nname = \"b\"\nsource = \"git+y\"\n";
        assert_eq!(
            sources(lock),
            ["a dependency comes from \"git+y\": take it from the registry"]
        );
    }
}
