//! Reads the environment: the directory of runs, the seed, and the commands that repeat and judge a run.

use std::env;
use std::io;
use std::path::{Path, PathBuf};

use super::error::RunError;

/// Returns the directory of all runs: `$ZK_RUNS_DIR`, or else one in the build's target directory.
pub(super) fn runs_directory() -> PathBuf {
    if let Some(named) = env::var_os("ZK_RUNS_DIR").filter(|named| !named.is_empty()) {
        return PathBuf::from(named);
    }
    let program = env::current_exe().unwrap_or_default();
    let target = program
        .ancestors()
        .find(|directory| directory.join("CACHEDIR.TAG").is_file());
    target
        .map_or_else(env::temp_dir, Path::to_owned)
        .join("zk-runs")
}

/// Creates a new directory for a run.
pub(super) fn new_directory(root: &Path, name: &str, seed: u64) -> io::Result<PathBuf> {
    std::fs::create_dir_all(root)?;
    let name = format!("{}-{seed}-{}", file_name(name), std::process::id());
    let mut directory = root.join(&name);
    for more in 2_u32.. {
        match std::fs::create_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                directory = root.join(format!("{name}-{more}"));
            }
            made => return made.map(|()| directory),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Converts a name into a part of a file name.
pub(super) fn file_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut name: String = name
        .chars()
        .map(|c| if plain(c) { c } else { '_' })
        .collect();
    if name.is_empty() || name.starts_with('.') {
        name.insert(0, '_');
    }
    name
}

/// Returns the seed in the environment variable `SEED`, or a random one.
pub(super) fn seed() -> Result<u64, RunError> {
    let Some(value) = env::var_os("SEED").filter(|value| !value.is_empty()) else {
        return Ok(fastrand::u64(..));
    };
    let value = value.to_string_lossy().into_owned();
    parsed(&value).ok_or(RunError::Seed { value })
}

fn parsed(seed: &str) -> Option<u64> {
    match seed.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => seed.parse().ok(),
    }
}

/// Returns the command that repeats the test of this thread; empty if it runs none.
pub(super) fn command(seed: u64) -> String {
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main");
    let package = env::var("CARGO_PKG_NAME").ok();
    let nextest = env::var_os("NEXTEST").is_some();
    command_of(seed, test, package.as_deref(), nextest)
}

fn command_of(seed: u64, test: Option<&str>, package: Option<&str>, nextest: bool) -> String {
    let (Some(test), Some(package)) = (test, package) else {
        return String::new();
    };
    if nextest {
        format!("SEED={seed} cargo nextest run -p {package} -E 'test(={test})'")
    } else {
        format!("SEED={seed} cargo test -p {package} -- --exact {test}")
    }
}

/// Returns the command that judges a run: the workspace's if it has one, or else the program itself.
pub(super) fn judge_command() -> &'static str {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let workspace = manifest.as_deref().into_iter().flat_map(Path::ancestors);
    let mut xtasks = workspace.map(|directory| directory.join("xtask/src/main.rs"));
    if xtasks.any(|xtask| xtask.is_file()) {
        "cargo xtask check"
    } else {
        "zk-check"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_parts_of_file_names() {
        for (name, file) in [
            ("lock-nemesis", "lock-nemesis"),
            ("a/b c", "a_b_c"),
            ("..", "_.."),
            ("", "_"),
            ("größe", "gr__e"),
        ] {
            assert_eq!(file_name(name), file);
        }
    }

    #[test]
    fn a_seed_is_a_whole_number() {
        assert_eq!(parsed("17"), Some(17));
        assert_eq!(parsed("0xff"), Some(255));
        assert_eq!(parsed("18446744073709551615"), Some(u64::MAX));
        assert_eq!(parsed("-1"), None);
        assert_eq!(parsed("seven"), None);
    }

    #[test]
    fn a_test_is_run_again_by_its_name() {
        assert_eq!(
            command_of(7, Some("lock::nemesis"), Some("zk-tests"), true),
            "SEED=7 cargo nextest run -p zk-tests -E 'test(=lock::nemesis)'"
        );
        assert_eq!(
            command_of(7, Some("lock::nemesis"), Some("zk-tests"), false),
            "SEED=7 cargo test -p zk-tests -- --exact lock::nemesis"
        );
        assert_eq!(command_of(7, None, Some("zk-tests"), true), "");
        let name = "run::environment::tests::a_test_is_run_again_by_its_name";
        assert!(command(7).contains(name), "{}", command(7));
    }

    #[test]
    fn runs_are_kept_in_the_target_directory() {
        if env::var_os("ZK_RUNS_DIR").is_none() {
            let runs = runs_directory();
            let target = runs.parent().unwrap();
            assert!(target.join("CACHEDIR.TAG").is_file(), "{}", runs.display());
            assert!(env::current_exe().unwrap().starts_with(target));
        }
        assert_eq!(judge_command(), "cargo xtask check");
    }

    #[test]
    fn two_runs_of_one_name_have_two_directories() {
        let root = tempfile::tempdir().unwrap();
        let first = new_directory(root.path(), "a", 7).unwrap();
        let second = new_directory(root.path(), "a", 7).unwrap();
        assert_ne!(first, second);
        assert!(first.is_dir() && second.is_dir());
    }
}
