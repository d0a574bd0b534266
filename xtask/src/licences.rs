//! The offline part of what cargo-deny checks, for machines that have no cargo-deny: the licences of all
//! dependencies, their sources, and that none is at any version.

use std::fs;

use anyhow::Context as _;
use anyhow::ensure;

use crate::workspace::Workspace;

/// Prints each broken rule and returns whether there is none.
pub(crate) fn check(workspace: &Workspace) -> anyhow::Result<bool> {
    let read = |path: &str| {
        fs::read_to_string(workspace.root.join(path)).with_context(|| format!("cannot read {path}"))
    };
    let allowed = allowed(&read("deny.toml")?);
    ensure!(
        !allowed.is_empty(),
        "deny.toml has no list `allow` in its section [licenses]"
    );

    let mut tree = workspace.cargo(&[
        "tree",
        "--workspace",
        "--all-features",
        "--target",
        "all",
        "--locked",
    ]);
    tree.args([
        "--edges",
        "normal,build,dev",
        "--prefix",
        "none",
        "--format",
        "{p}\t{l}",
    ]);
    let output = tree
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(output.status.success(), "cargo tree failed");
    let listing = String::from_utf8_lossy(&output.stdout);

    let mut problems = licences(&listing, &allowed);
    ensure!(
        listing.lines().count() > 10,
        "cargo tree lists hardly a package:\n{listing}"
    );
    problems.extend(sources(&read("Cargo.lock")?));
    problems.extend(wildcards("Cargo.toml", &read("Cargo.toml")?));
    for entry in fs::read_dir(workspace.root.join("crates")).context("cannot list crates")? {
        let path = format!("crates/{}/Cargo.toml", entry?.file_name().display());
        if workspace.root.join(&path).is_file() {
            problems.extend(wildcards(&path, &read(&path)?));
        }
    }
    problems.sort();
    problems.dedup();
    for problem in &problems {
        eprintln!("error: {problem}");
    }
    Ok(problems.is_empty())
}

/// The licences that `deny.toml` allows.
fn allowed(deny: &str) -> Vec<String> {
    let section = deny.split("\n[licenses]").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    let list = section.split("\nallow = [").nth(1).unwrap_or_default();
    let list = list.split(']').next().unwrap_or_default();
    list.split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// Packages, one a line with its licence behind a tab, that are not under an allowed licence.
fn licences(listing: &str, allowed: &[String]) -> Vec<String> {
    listing
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .filter_map(|(package, licence)| {
            let package = package.trim();
            // A package listed before is marked so.
            let licence = licence.trim().trim_end_matches("(*)").trim();
            if permits(licence, allowed) {
                return None;
            }
            let named = if licence.is_empty() {
                "no licence"
            } else {
                licence
            };
            Some(format!(
                "{package} is under {named}, which the list in deny.toml does not allow"
            ))
        })
        .collect()
}

/// Whether an SPDX expression can be met with allowed licences only.
fn permits(expression: &str, allowed: &[String]) -> bool {
    // `/` is how `OR` was written once.
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut tokens = spaced.split_whitespace().peekable();
    any_of(&mut tokens, allowed) == Some(true) && tokens.next().is_none()
}

type Tokens<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

/// `a OR b`; `None` if this is no expression.
fn any_of(tokens: &mut Tokens<'_>, allowed: &[String]) -> Option<bool> {
    let mut met = all_of(tokens, allowed)?;
    while tokens.next_if_eq(&"OR").is_some() {
        met |= all_of(tokens, allowed)?;
    }
    Some(met)
}

/// `a AND b`, which binds more tightly.
fn all_of(tokens: &mut Tokens<'_>, allowed: &[String]) -> Option<bool> {
    let mut met = one(tokens, allowed)?;
    while tokens.next_if_eq(&"AND").is_some() {
        met &= one(tokens, allowed)?;
    }
    Some(met)
}

/// A licence, one with an exception, or an expression in parentheses.
fn one(tokens: &mut Tokens<'_>, allowed: &[String]) -> Option<bool> {
    match tokens.next()? {
        "(" => {
            let met = any_of(tokens, allowed)?;
            tokens.next_if_eq(&")")?;
            Some(met)
        }
        ")" | "OR" | "AND" | "WITH" => None,
        licence => {
            let mut licence = licence.to_owned();
            if tokens.next_if_eq(&"WITH").is_some() {
                licence = format!("{licence} WITH {}", tokens.next()?);
            }
            Some(allowed.contains(&licence))
        }
    }
}

/// Packages in a lock file that come from elsewhere than the registry.
fn sources(lock: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut package = "";
    for line in lock.lines() {
        if let Some(name) = line.strip_prefix("name = ") {
            package = name.trim_matches('"');
        } else if let Some(source) = line.strip_prefix("source = ") {
            let source = source.trim_matches('"');
            if !source.starts_with("registry+") && !source.starts_with("sparse+") {
                problems.push(format!(
                    "{package} comes from {source}: only packages from the registry are taken"
                ));
            }
        }
    }
    problems
}

/// Dependencies in a manifest at any version.
fn wildcards(path: &str, manifest: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (at, line) in manifest.lines().enumerate() {
        let compact: String = line
            .split('#')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        if compact.ends_with("=\"*\"") || compact.contains("version=\"*\"") {
            problems.push(format!(
                "{path}:{}: a version is needed instead of *",
                at + 1
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn expressions_are_met_as_spdx_says() {
        let allowed = list(&["MIT", "Apache-2.0", "Unicode-3.0"]);
        for expression in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "MIT OR GPL-3.0 AND GPL-2.0",
            "Apache-2.0 WITH LLVM-exception OR MIT",
        ] {
            assert!(permits(expression, &allowed), "{expression}");
        }
        for expression in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR Apache-2.0) AND GPL-3.0",
            "Apache-2.0 WITH LLVM-exception",
            "(MIT",
            "MIT)",
            "MIT MIT",
            "OR",
            "MIT OR",
            "MIT WITH",
        ] {
            assert!(!permits(expression, &allowed), "{expression}");
        }
    }

    #[test]
    fn packages_under_other_licences_are_named() {
        let listing =
            "a v1.0.0\tMIT\nb v2.0.0 (*)\tGPL-3.0 (*)\nc v3.0.0\t\nd v4.0.0 (/src/d)\tMIT (*)\n";
        assert_eq!(
            licences(listing, &list(&["MIT"])),
            [
                "b v2.0.0 (*) is under GPL-3.0, which the list in deny.toml does not allow",
                "c v3.0.0 is under no licence, which the list in deny.toml does not allow",
            ]
        );
    }

    #[test]
    fn the_allowed_licences_are_those_of_deny_toml() {
        let deny = "[bans]\nallow = [\"other\"]\n\n[licenses]\nconfidence-threshold = 0.9\nallow = [\n    \"MIT\",\n    \"ISC\", # why\n]\n\n[sources]\n";
        assert_eq!(allowed(deny), ["MIT", "ISC"]);
        assert_eq!(allowed("[licenses]\n"), [""; 0]);
    }

    #[test]
    fn sources_other_than_the_registry_are_named() {
        let lock = "[[package]]\nname = \"ours\"\nversion = \"1\"\n\n[[package]]\nname = \"a\"\nsource = \"registry+x\"\n\n\
                    [[package]]\nname = \"b\"\nsource = \"git+y\"\n";
        assert_eq!(
            sources(lock),
            ["b comes from git+y: only packages from the registry are taken"]
        );
    }

    #[test]
    fn wildcards_are_told_with_their_line() {
        for line in [
            "a = \"*\"",
            "a = { version = \"*\" }",
            "a={version = \"*\", features = []} # why",
        ] {
            assert_eq!(
                wildcards("Cargo.toml", &format!("[dependencies]\n{line}\n")),
                ["Cargo.toml:2: a version is needed instead of *"],
                "{line}"
            );
        }
        assert_eq!(
            wildcards(
                "Cargo.toml",
                "members = [\"crates/*\"]\nb = \"1\" # not \"*\"\n"
            ),
            [""; 0]
        );
    }
}
