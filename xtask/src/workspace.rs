//! Finds the workspace, and builds cargo commands on it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

/// The workspace and the directory of its programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Workspace {
    /// The directory of the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// The directory of this program and of the workspace's other programs.
    programs: PathBuf,
}

impl Workspace {
    pub(crate) fn find() -> anyhow::Result<Self> {
        let exe = env::current_exe().context("cannot find the path of this program")?;
        let programs = exe
            .parent()
            .context("this program has no directory")?
            .to_owned();
        Ok(Self {
            root: Self::root(),
            programs,
        })
    }

    /// Returns another checkout of the workspace.
    pub(crate) fn at(&self, root: PathBuf) -> Self {
        Self {
            root,
            programs: self.programs.clone(),
        }
    }

    /// Returns the root of the workspace, which cargo passes to the programs it runs.
    pub(crate) fn root() -> PathBuf {
        let xtask = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        xtask.parent().map_or_else(|| xtask.clone(), Path::to_owned)
    }

    /// Returns the target directory.
    ///
    /// It follows from the path of this program, which respects `CARGO_TARGET_DIR` and cargo's configuration.
    pub(crate) fn target_dir(&self) -> &Path {
        self.programs.parent().unwrap_or(&self.programs)
    }

    /// Returns the path of a program of this workspace.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs
            .join(format!("{name}{}", env::consts::EXE_SUFFIX))
    }

    /// A cargo command on this workspace, in the caller's directory, as that is what a relative `CARGO_TARGET_DIR`
    /// starts from.
    pub(crate) fn cargo(&self, subcommand: &[&str]) -> Command {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .args(subcommand)
            .arg("--manifest-path")
            .arg(self.root.join("Cargo.toml"));
        // `cargo run` has set what is true of this package. A build script that looks at it, as ring's does, would run
        // again whenever builds from here and by hand take turns, and all that stands on it would be built again.
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(is_of_a_package) {
                command.env_remove(name);
            }
        }
        command
    }
}

fn is_of_a_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_does_not_see_the_variables_of_this_package() {
        let workspace = Workspace {
            root: "/src".into(),
            programs: "/src/target/debug".into(),
        };
        let command = workspace.cargo(&["build"]);
        let removed = |name: &str| {
            command
                .get_envs()
                .any(|(set, to)| set == name && to.is_none())
        };
        // Cargo sets both for the tests it runs.
        assert!(removed("CARGO_PKG_NAME") && removed("CARGO_MANIFEST_DIR"));
        assert!(!removed("CARGO") && !removed("PATH"));
    }

    #[test]
    fn programs_and_target_directory_follow_from_this_program() {
        let workspace = Workspace {
            root: "/src".into(),
            programs: "/elsewhere/build/debug".into(),
        };
        assert_eq!(workspace.target_dir(), Path::new("/elsewhere/build"));
        assert_eq!(
            workspace.program("zk"),
            PathBuf::from(format!(
                "/elsewhere/build/debug/zk{}",
                env::consts::EXE_SUFFIX
            ))
        );
    }

    #[test]
    fn the_root_has_this_crate() {
        assert!(Workspace::root().join("xtask/src/workspace.rs").is_file());
    }
}
