//! `ensemble`, `zk`, `check`, `orphan` and `test mutants`: builds a program of this workspace and replaces this process with it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::revision;
use crate::workspace::Workspace;

/// Runs `zk-ensemble`, or `zk-sim` for a simulated ensemble, in place of this process; returns only on failure.
pub(crate) fn ensemble(workspace: &Workspace, args: &[OsString]) -> anyhow::Result<bool> {
    let state = simulated_state(workspace);
    // A name is that of a real ensemble.
    let is_there = state.join("connect").exists() && env::var_os("ZK_ENSEMBLE").is_none();
    match Simulated::of(args, is_there) {
        Some(wanted) => simulated(workspace, &wanted, &state),
        None => real_ensemble(workspace, args),
    }
}

/// What `zk-sim` is to do.
#[derive(Debug, PartialEq, Eq)]
enum Simulated {
    Up(Vec<OsString>),
    Down,
    /// An error of the user.
    Other,
}

impl Simulated {
    /// Returns what arguments ask of the simulated ensemble; `None` if they are about real servers.
    ///
    /// A `down` without arguments is about the simulated ensemble if there is one.
    fn of(args: &[OsString], is_there: bool) -> Option<Self> {
        let (command, rest) = args.split_first()?;
        let is_simulated = rest.iter().any(|arg| arg == "--simulated");
        if !is_simulated {
            let is_down = command == "down" && rest.is_empty() && is_there;
            return is_down.then_some(Self::Down);
        }
        let options = rest.iter().filter(|arg| *arg != "--simulated").cloned();
        Some(match command.to_str() {
            Some("up") => Self::Up(options.collect()),
            Some("down") if rest.len() == 1 => Self::Down,
            _ => Self::Other,
        })
    }
}

/// Runs `zk-sim` in place of this process; returns only on failure.
fn simulated(workspace: &Workspace, wanted: &Simulated, state: &Path) -> anyhow::Result<bool> {
    let (word, options) = match wanted {
        Simulated::Up(options) => ("up", options.as_slice()),
        Simulated::Down => ("down", [].as_slice()),
        Simulated::Other => anyhow::bail!(
            "--simulated: only `up` and `down` are about a simulated ensemble; `up --simulated --help` has its options"
        ),
    };
    let package = ["-p", "zk-sim", "--features", "cli"];
    if !build(workspace, "zk-sim", &package, false)? {
        return Ok(false);
    }
    let mut sim = Command::new(workspace.program("zk-sim"));
    sim.arg(word).arg("--state").arg(state).args(options);
    become_program(&mut sim)
}

/// Returns the directory that says which process serves the simulated ensemble.
///
/// It is apart from those of real ensembles: `status`, `list` and `env` never take the one for the others.
fn simulated_state(workspace: &Workspace) -> PathBuf {
    workspace.target_dir().join("zk-simulated")
}

/// Runs `zk-ensemble` in place of this process; returns only on failure.
fn real_ensemble(workspace: &Workspace, args: &[OsString]) -> anyhow::Result<bool> {
    let directory = ensembles(workspace, args, env::var_os(DIR));
    let features = if asks_for_containers(args) || has_containers(&directory) {
        "cli,containers"
    } else {
        // Without containers there is much less to build.
        "cli"
    };
    if !build(
        workspace,
        "zk-ensemble",
        &["-p", "zk-harness", "--features", features],
        asks_for_containers(args),
    )? {
        return Ok(false);
    }
    let mut ensemble = command(workspace, "zk-ensemble");
    // So that its messages name commands that a user can type.
    ensemble.env("ZK_ENSEMBLE_CALLED", "cargo xtask ensemble");
    become_program(ensemble.args(args))
}

/// Runs `orphan` in place of this process; returns only on failure.
pub(crate) fn orphan(workspace: &Workspace) -> anyhow::Result<bool> {
    // One of the contenders is a separate program.
    for program in ["wire-contender", "orphan"] {
        if !build(workspace, program, &["-p", "zk-bench"], false)? {
            return Ok(false);
        }
    }
    become_program(&mut command(workspace, "orphan"))
}

/// Runs `zk` in place of this process, by default connected to the running ensemble; returns only on failure.
pub(crate) fn zk(workspace: &Workspace, args: &[OsString]) -> anyhow::Result<bool> {
    if !build(workspace, "zk", &["-p", "zk-shell"], false)? {
        return Ok(false);
    }
    let mut zk = command(workspace, "zk");
    zk.args(args);
    if !says_where(args, env::var_os(CONNECT)) {
        // Without an ensemble `zk` prints its own error.
        if let Some(connect) = running_ensemble(workspace) {
            zk.env(CONNECT, connect);
        }
    }
    become_program(&mut zk)
}

/// Runs `zk-check` in place of this process; returns only on failure.
pub(crate) fn check(workspace: &Workspace, args: &[OsString]) -> anyhow::Result<bool> {
    if !build(
        workspace,
        "zk-check",
        &["-p", "zk-history", "--features", "cli"],
        false,
    )? {
        return Ok(false);
    }
    become_program(command(workspace, "zk-check").args(args))
}

/// Runs `zk-mutants` on the files of the last commit in place of this process; returns only on failure.
pub(crate) fn mutants(workspace: &Workspace, args: &[OsString]) -> anyhow::Result<bool> {
    if !build(workspace, "zk-mutants", &["-p", "zk-mutants"], false)? {
        return Ok(false);
    }
    let commit = revision::commit(&workspace.root, OsStr::new("HEAD"))?;
    let work = workspace.target_dir().join("mutants");
    revision::unpack(&workspace.root, &commit, &work.join("commit"))?;
    let mut mutants = Command::new(workspace.program("zk-mutants"));
    mutants.arg("--root").arg(&workspace.root);
    mutants
        .arg("--work")
        .arg(work)
        .args(["--revision", &commit]);
    become_program(mutants.args(args))
}

/// Returns whether the build succeeded; cargo prints the error. With `watched` cargo prints its progress.
fn build(
    workspace: &Workspace,
    program: &str,
    package: &[&str],
    watched: bool,
) -> anyhow::Result<bool> {
    let mut cargo = workspace.cargo(&["build", "--bin", program]);
    cargo.args(package);
    let is_there = workspace.program(program).exists();
    if is_there && !watched {
        cargo.arg("--quiet");
    } else if !is_there {
        eprintln!("building {program} (first time only: a minute or two)");
    }
    Ok(cargo.status().context("cannot run cargo")?.success())
}

fn command(workspace: &Workspace, program: &str) -> Command {
    let mut command = Command::new(workspace.program(program));
    if env::var_os(DIR).is_none() {
        command.env(DIR, default_ensembles(workspace));
    }
    command
}

fn default_ensembles(workspace: &Workspace) -> PathBuf {
    workspace.target_dir().join("zk-ensembles")
}

/// Returns the directory of the ensembles that the program will use.
fn ensembles(workspace: &Workspace, args: &[OsString], environment: Option<OsString>) -> PathBuf {
    let given = option(args, "--dir").or(environment);
    given.map_or_else(|| default_ensembles(workspace), PathBuf::from)
}

/// Returns whether the arguments ask for servers in containers.
fn asks_for_containers(args: &[OsString]) -> bool {
    option(args, "--backend").is_some_and(|backend| backend == "containers")
}

/// Returns whether servers of an ensemble run in containers, so that every command needs that feature.
fn has_containers(ensembles: &Path) -> bool {
    let entries = fs::read_dir(ensembles).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| fs::read_to_string(entry.path().join("ensemble.json")).ok())
        .any(|state| state.contains("\"containers\":"))
}

/// Returns the value of an option, after it or after a `=`.
fn option(args: &[OsString], name: &str) -> Option<OsString> {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == name {
            return args.next().cloned();
        }
        let value = arg.to_str().and_then(|arg| arg.strip_prefix(name));
        if let Some(value) = value.and_then(|rest| rest.strip_prefix('=')) {
            return Some(value.into());
        }
    }
    None
}

fn become_program(command: &mut Command) -> anyhow::Result<bool> {
    let error = command.exec();
    Err(error).with_context(|| format!("cannot run {}", command.get_program().display()))
}

/// Returns whether the arguments of `zk` or the environment name the servers to connect to.
fn says_where(args: &[OsString], environment: Option<OsString>) -> bool {
    let named = args
        .iter()
        .filter_map(|arg| arg.to_str())
        .take_while(|arg| *arg != "--")
        .any(|arg| arg == "--connect" || arg.starts_with("--connect="));
    named || environment.is_some_and(|connect| !connect.is_empty())
}

/// Returns the connect string of the running ensemble, if there is one.
fn running_ensemble(workspace: &Workspace) -> Option<String> {
    // A missing program means that no ensemble was started. The program reads ZK_ENSEMBLE if there are several.
    let mut env_command = command(workspace, "zk-ensemble");
    env_command.args(["env", "--format", "value"]);
    let output = env_command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    if output.status.success() {
        connect_string(&output.stdout)
    } else {
        None
    }
}

fn connect_string(stdout: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(stdout).ok()?.trim();
    (!text.is_empty() && !text.contains(char::is_whitespace)).then(|| text.to_owned())
}

const CONNECT: &str = "ZK_CONNECT";
const DIR: &str = "ZK_ENSEMBLE_DIR";

#[cfg(test)]
mod tests {
    use super::*;

    fn args(args: &[&str]) -> Vec<OsString> {
        args.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_named_server_is_kept() {
        assert!(says_where(&args(&["--connect", "h:1", "ls", "/"]), None));
        assert!(says_where(&args(&["ls", "--connect=h:1", "/"]), None));
        assert!(says_where(&args(&["ls", "/"]), Some("h:1".into())));
    }

    #[test]
    fn containers_are_built_if_an_argument_or_an_ensemble_needs_them() {
        assert!(asks_for_containers(&args(&[
            "up",
            "--backend",
            "containers"
        ])));
        assert!(asks_for_containers(&args(&["--backend=containers", "up"])));
        for other in [
            &["up"][..],
            &["up", "--backend"],
            &["up", "--backend=processes"],
            &["logs", "containers"],
        ] {
            assert!(!asks_for_containers(&args(other)), "{other:?}");
        }
        let root = env::temp_dir().join(format!("xtask-programs-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            fs::create_dir_all(root.join(name)).unwrap();
            fs::write(root.join(name).join("ensemble.json"), text).unwrap();
        };
        let before = has_containers(&root);
        write("one", r#"{"spec": {"container_check_interval": "1s"}}"#);
        let without = has_containers(&root);
        write("two", r#"{"containers": "zk-harness-1"}"#);
        let with = has_containers(&root);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!((before, without, with), (false, false, true));
    }

    #[test]
    fn a_simulated_ensemble_is_never_chosen_implicitly() {
        let up = |options: &[&str]| Some(Simulated::Up(args(options)));
        for (words, is_there, expected) in [
            (&["up", "--simulated"][..], false, up(&[])),
            (
                &["up", "--seed", "7", "--simulated", "--chaos"],
                true,
                up(&["--seed", "7", "--chaos"]),
            ),
            (&["down", "--simulated"], false, Some(Simulated::Down)),
            (&["down"], true, Some(Simulated::Down)),
            (&["down"], false, None),
            (&["down", "--name", "other"], true, None),
            (&["status", "--simulated"], true, Some(Simulated::Other)),
            (&["up"], true, None),
            (&["status"], true, None),
            (&[], true, None),
        ] {
            assert_eq!(Simulated::of(&args(words), is_there), expected, "{words:?}");
        }
    }

    #[test]
    fn the_directory_is_the_one_that_the_program_uses() {
        let workspace = Workspace::find().unwrap();
        let of = |words: &[&str], environment: Option<&str>| {
            ensembles(&workspace, &args(words), environment.map(OsString::from))
        };
        assert_eq!(of(&["--dir", "/a", "up"], Some("/b")), Path::new("/a"));
        assert_eq!(of(&["up", "--dir=/a"], None), Path::new("/a"));
        assert_eq!(of(&["up"], Some("/b")), Path::new("/b"));
        assert_eq!(of(&["up"], None), default_ensembles(&workspace));
    }

    #[test]
    fn without_a_named_server_the_running_ensemble_is_used() {
        assert!(!says_where(&args(&["ls", "/"]), None));
        assert!(!says_where(&args(&["ls", "/"]), Some(OsString::new())));
        assert!(
            !says_where(&args(&["set", "/a", "--", "--connect"]), None),
            "a value is no option"
        );
        assert!(!says_where(&args(&["get", "--connected"]), None));
    }

    #[test]
    fn only_one_word_is_a_connect_string() {
        assert_eq!(
            connect_string(b"127.0.0.1:1,127.0.0.1:2\n").as_deref(),
            Some("127.0.0.1:1,127.0.0.1:2")
        );
        assert_eq!(connect_string(b"\n"), None);
        assert_eq!(connect_string(b"no ensemble"), None);
        assert_eq!(connect_string(&[0xff, b'a']), None);
    }
}
