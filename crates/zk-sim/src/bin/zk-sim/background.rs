//! `up` and `down`: an ensemble in a process of its own.
//!
//! The process holds a lock on a file as long as it lives, so that no other process is ever mistaken for it.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal};

use crate::args::ServeArgs;

/// Starts `serve` in the background, and prints how to use it.
pub(crate) fn up(state: &Path, options: &ServeArgs) -> anyhow::Result<()> {
    fs::create_dir_all(state).with_context(|| format!("cannot create {}", state.display()))?;
    let lock = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(state.join(LOCK))?;
    if !is_free(&lock)? {
        let connect = fs::read_to_string(state.join(CONNECT)).unwrap_or_default();
        bail!(
            "a simulated ensemble is already up, at {}; take it down first",
            connect.trim()
        );
    }
    let begin = Instant::now();
    let mut child = start(state, &lock, options)?;
    let Some(connect) = first_line(&mut child) else {
        let status = child.wait()?;
        let said = fs::read_to_string(state.join(ERRORS)).unwrap_or_default();
        remove(state);
        bail!("it has ended: {status}\n{}", said.trim());
    };
    fs::write(state.join(PID), child.id().to_string())?;
    fs::write(state.join(CONNECT), &connect)?;
    let took = begin.elapsed().as_millis();
    let servers = options.servers;
    print(&format!(
        "a simulated ensemble of {servers} servers, in memory: for unit tests only, nothing is kept\n\
         connect string  {connect}\n\
         seed            {}\n\
         serves after {took} ms\n",
        options.seed
    ))?;
    Ok(())
}

/// Ends the process that `up` has started.
pub(crate) fn down(state: &Path) -> anyhow::Result<()> {
    let file = state.join(LOCK);
    let Ok(lock) = File::options().read(true).write(true).open(file) else {
        bail!("no simulated ensemble is up");
    };
    let was_up = !is_free(&lock)?;
    if was_up {
        let pid = fs::read_to_string(state.join(PID)).unwrap_or_default();
        let pid = pid.trim().parse().ok().and_then(Pid::from_raw);
        let pid = pid.context("the simulated ensemble is only starting")?;
        rustix::process::kill_process(pid, Signal::TERM)?;
        wait_until_free(&lock)?;
    }
    remove(state);
    if was_up {
        print("the simulated ensemble is down\n")?;
        return Ok(());
    }
    bail!("no simulated ensemble is up: its process had ended")
}

/// Starts `serve` so that it holds the lock, through the descriptor that it inherits as its standard input.
fn start(state: &Path, lock: &File, options: &ServeArgs) -> anyhow::Result<Child> {
    let mut serve = Command::new(std::env::current_exe()?);
    serve.arg("serve");
    serve.args(["--servers", &options.servers.to_string()]);
    serve.args(["--port", &options.port.to_string()]);
    serve.args(["--seed", &options.seed.to_string()]);
    if options.chaos {
        serve.arg("--chaos");
    }
    for fault in &options.faults {
        serve.args(["--fault", &fault.to_string()]);
    }
    if let Some(script) = &options.script {
        serve.arg("--script").arg(script);
    }
    serve
        .stdin(Stdio::from(lock.try_clone()?))
        .stdout(Stdio::piped())
        // A program that reads what `up` prints would wait until this process ends.
        .stderr(File::create(state.join(ERRORS))?)
        // A ctrl-c in this terminal is not for it.
        .process_group(0)
        .spawn()
        .context("cannot start a process")
}

fn first_line(child: &mut Child) -> Option<String> {
    let mut line = String::new();
    let stdout = child.stdout.take()?;
    // It ends with the process, which either listens or fails.
    BufReader::new(stdout).read_line(&mut line).ok()?;
    let line = line.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// Removes what tells of a process that has ended.
fn remove(state: &Path) {
    for file in [CONNECT, PID, ERRORS, LOCK] {
        drop(fs::remove_file(state.join(file)));
    }
    drop(fs::remove_dir(state));
}

/// Takes the lock if no process has it.
fn is_free(lock: &File) -> anyhow::Result<bool> {
    match rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno).context("cannot lock the state of the simulated ensemble"),
    }
}

fn wait_until_free(lock: &File) -> anyhow::Result<()> {
    let deadline = Instant::now() + END_WITHIN;
    while !is_free(lock)? {
        if Instant::now() > deadline {
            bail!("the simulated ensemble has not ended within {END_WITHIN:?}");
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "the pause between two checks that the process has ended"
        )]
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn print(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

const LOCK: &str = "lock";
const PID: &str = "pid";
const CONNECT: &str = "connect";
/// What the process has printed as errors.
const ERRORS: &str = "errors";
const END_WITHIN: Duration = Duration::from_secs(10);
