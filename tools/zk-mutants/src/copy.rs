//! The copy of the workspace that the mutants are written into.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

/// The copy, and the commit that it is a copy of.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    /// The files of the commit, which stay as they are.
    pub(crate) commit: PathBuf,
    pub(crate) source: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// The copy in a working directory, in which the files of the commit are in `commit`.
    pub(crate) fn at(work: &Path) -> Self {
        Self {
            commit: work.join("commit"),
            source: work.join("source"),
            target: work.join("target"),
        }
    }

    /// Returns a cargo command on the copy.
    pub(crate) fn cargo(&self, subcommand: &[&str]) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(subcommand);
        self.prepare(&mut cargo);
        cargo
    }

    /// Sets what every program on the copy needs.
    pub(crate) fn prepare(&self, command: &mut Command) {
        // What cargo has set is true of another package, and build scripts look at it.
        for (name, _) in env::vars_os() {
            let is_of_package =
                |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
            if name.to_str().is_some_and(is_of_package) {
                command.env_remove(name);
            }
        }
        command
            .current_dir(&self.source)
            .env("CARGO_TARGET_DIR", &self.target)
            // Neither is read: a failure is counted, and each build differs from the last one in every crate.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_INCREMENTAL", "0");
    }

    /// Makes the copy equal to the commit but for some files, by their paths from the root.
    ///
    /// Files that have the right contents already keep their times, so that cargo does not build them again.
    pub(crate) fn write(&self, changed: &BTreeMap<PathBuf, String>) -> anyhow::Result<()> {
        let wanted = files_below(&self.commit)?;
        for file in &wanted {
            let (from, to) = (self.commit.join(file), self.source.join(file));
            let context = || format!("cannot write {}", to.display());
            let is_there = fs::read(&to).ok();
            if let Some(text) = changed.get(file) {
                if is_there.as_deref() != Some(text.as_bytes()) {
                    make_parent(&to)?;
                    fs::write(&to, text).with_context(context)?;
                }
            } else if is_there.is_none_or(|is_there| fs::read(&from).ok() != Some(is_there)) {
                make_parent(&to)?;
                let contents = fs::read(&from);
                let contents =
                    contents.with_context(|| format!("cannot read {}", from.display()))?;
                // Not a copy, which could be as old as the commit.
                fs::write(&to, contents).with_context(context)?;
                let permissions = fs::metadata(&from)?.permissions();
                fs::set_permissions(&to, permissions)?;
            }
        }
        for other in files_below(&self.source)?.difference(&wanted) {
            fs::remove_file(self.source.join(other))?;
        }
        Ok(())
    }
}

fn make_parent(file: &Path) -> anyhow::Result<()> {
    let parent = file.parent().context("a file has a directory")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))
}

/// Returns the files below a directory, as paths from it; none if it does not exist.
fn files_below(root: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        let Ok(entries) = fs::read_dir(root.join(&directory)) else {
            continue;
        };
        for entry in entries {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                directories.push(path);
            } else {
                files.insert(path);
            }
        }
    }
    Ok(files)
}

/// Returns the test binaries of a package that start no servers, without its unit tests.
pub(crate) fn test_binaries(package: &Path, with_servers: &[&str]) -> Vec<String> {
    let entries = fs::read_dir(package.join("tests")).into_iter().flatten();
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let path = entry.path();
            let is_test =
                path.join("main.rs").exists() || path.extension() == Some(OsStr::new("rs"));
            let name = path.file_stem()?.to_str()?.to_owned();
            (is_test && !with_servers.contains(&name.as_str())).then_some(name)
        })
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_differ_are_written() {
        let work = tempfile::tempdir().unwrap();
        let copy = Copy::at(work.path());
        let write = |file: PathBuf, text: &str| {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        for name in ["a/same.rs", "a/new.rs", "changed.rs"] {
            write(copy.commit.join(name), name);
        }
        write(copy.source.join("a/same.rs"), "a/same.rs");
        write(copy.source.join("changed.rs"), "of an earlier run");
        write(copy.source.join("b/left.rs"), "written by a test");
        let time = |name: &str| {
            let file = fs::metadata(copy.source.join(name));
            file.and_then(|file| file.modified()).unwrap()
        };
        let before = time("a/same.rs");
        let changed = [(PathBuf::from("changed.rs"), "mutant".to_owned())].into();
        copy.write(&changed).unwrap();
        let text = |name: &str| fs::read_to_string(copy.source.join(name)).ok();
        assert_eq!(text("a/new.rs").as_deref(), Some("a/new.rs"));
        assert_eq!(text("changed.rs").as_deref(), Some("mutant"));
        assert_eq!(text("b/left.rs"), None);
        assert_eq!(time("a/same.rs"), before);
        copy.write(&BTreeMap::new()).unwrap();
        assert_eq!(text("changed.rs").as_deref(), Some("changed.rs"));
    }

    #[test]
    fn tests_on_servers_are_left_out() {
        let package = tempfile::tempdir().unwrap();
        for file in ["it/main.rs", "sim/main.rs", "shared/history.rs", "types.rs"] {
            let file = package.path().join("tests").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        assert_eq!(test_binaries(package.path(), &["it"]), ["sim", "types"]);
    }
}
