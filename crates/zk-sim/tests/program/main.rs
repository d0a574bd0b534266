//! The program `zk-sim`: an ensemble in a process of its own, from `up` to `down`.

#![cfg(test)]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;
use zk_core::transport::{CreateMode, NewNode, Request, TransportError};
use zk_core::{ErrorKind, NodePath, Session};

/// A directory that says which process serves. The process ends when this is dropped.
struct State(TempDir);

/// What a command has printed, and its exit status.
#[derive(Debug)]
struct Printed {
    out: String,
    err: String,
    code: Option<i32>,
}

impl State {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn dir(&self) -> std::path::PathBuf {
        self.0.path().join("simulated")
    }

    fn run(&self, command: &str, options: &[&str]) -> Printed {
        let output = Command::new(env!("CARGO_BIN_EXE_zk-sim"))
            .args([command, "--state"])
            .arg(self.dir())
            .args(options)
            .output()
            .unwrap();
        Printed {
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code(),
        }
    }

    /// Runs `up`, which succeeds; returns the connect string that it prints.
    fn up(&self, options: &[&str]) -> String {
        let printed = self.run("up", options);
        assert_eq!(printed.code, Some(0), "{printed:?}");
        let mut lines = printed.out.lines();
        let connect = lines.find_map(|line| line.strip_prefix("connect string  "));
        connect.expect("it is printed").to_owned()
    }

    /// Runs a command that fails; returns what it prints as an error.
    fn fails(&self, command: &str, options: &[&str]) -> String {
        let printed = self.run(command, options);
        assert_eq!(printed.code, Some(1), "{printed:?}");
        assert_eq!(printed.out, "");
        printed.err
    }

    fn pid(&self) -> Pid {
        let pid = fs::read_to_string(self.dir().join("pid")).unwrap();
        Pid::from_raw(pid.parse().unwrap()).expect("it is not 0")
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // Where it is down already, this fails.
        let _is_down = self.run("down", &[]);
    }
}

fn assert_refused(connect: &str) {
    for address in connect.split(',') {
        let error = TcpStream::connect(address).expect_err("nothing listens");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    }
}

/// Waits until a process runs no more, whether or not its parent has asked for its exit status.
fn wait_until_dead(pid: Pid) {
    let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let is_dead = || match fs::read_to_string(&stat) {
        Ok(stat) => stat.contains(") Z ") || stat.contains(") X "),
        Err(_) => true,
    };
    let deadline = Instant::now() + SOON;
    while !is_dead() {
        assert!(
            Instant::now() < deadline,
            "{pid:?} still runs after {SOON:?}"
        );
        std::thread::yield_now();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_serves_from_up_to_down() {
    // The machine may pause during one of them.
    let quickest = (0..5).map(|_| {
        let (state, begin) = (State::new(), Instant::now());
        state.up(&["--servers", "2"]);
        begin.elapsed()
    });
    let quickest = quickest.min().unwrap();
    println!("up returned after {quickest:?}");
    assert!(quickest < Duration::from_secs(2), "{quickest:?}");

    let state = State::new();
    let connect = state.up(&["--servers", "2"]);
    assert_eq!(connect.split(',').count(), 2);

    let session = Session::builder(connect.as_str()).connect().await.unwrap();
    session.create("/a", "data").await.unwrap();
    let error = state.fails("up", &[]);
    let expected =
        format!("error: a simulated ensemble is already up, at {connect}; take it down first\n");
    assert_eq!(error, expected);
    assert_eq!(session.get("/a").await.unwrap().0, "data");
    session.close().await.unwrap();

    let down = state.run("down", &[]);
    assert_eq!(down.code, Some(0), "{down:?}");
    assert_eq!(down.out, "the simulated ensemble is down\n");
    assert_refused(&connect);
    assert!(!state.dir().exists());
    let error = state.fails("down", &[]);
    assert_eq!(error, "error: no simulated ensemble is up\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn down_after_a_crash_says_so_and_makes_room_for_another() {
    let state = State::new();
    let connect = state.up(&[]);
    let pid = state.pid();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    wait_until_dead(pid);
    assert_refused(&connect);
    let error = state.fails("down", &[]);
    assert_eq!(
        error,
        "error: no simulated ensemble is up: its process had ended\n"
    );
    assert!(!state.dir().exists());

    // Nothing is kept, and `up` needs no `down` before it either.
    for _ in 0..2 {
        let connect = state.up(&["--servers", "1"]);
        let session = Session::builder(connect).connect().await.unwrap();
        assert!(session.exists("/a").await.unwrap().is_none());
        session.create("/a", "").await.unwrap();
        let pid = state.pid();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
        wait_until_dead(pid);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_those_of_the_command_line_and_the_script() {
    let state = State::new();
    let script = state.0.path().join("script");
    fs::write(&script, "# The second one.\nlose-reply:create:/b\n").unwrap();
    let script = script.to_str().unwrap();
    let faults = ["lose-reply:create:/a", "lose-request:create:/c"];
    let connect = state.up(&[
        "--fault", faults[0], "--fault", faults[1], "--script", script,
    ]);
    let transport = Session::builder(connect).transport().await.unwrap();
    for (path, is_lost, is_carried_out) in [
        ("/a", true, true),
        ("/b", true, true),
        ("/c", true, false),
        ("/d", false, true),
    ] {
        let create = Request::Create2(NewNode {
            path: NodePath::parse(path).unwrap(),
            data: zk_core::transport::NodeData::default(),
            mode: CreateMode::Persistent,
            acl: zk_core::Acl::open(),
        });
        let reply = transport.submit(create.clone()).await.result;
        let was_lost = matches!(
            reply,
            Err(TransportError::Lost(_) | TransportError::MaybeTooOld { .. })
        );
        assert_eq!(was_lost, is_lost, "{path}: {reply:?}");
        // No other one fails.
        let again = transport.submit(create).await.result;
        match again {
            Ok(_) => assert!(!is_carried_out, "{path}"),
            Err(TransportError::Refused(ErrorKind::NodeExists, _)) => {
                assert!(is_carried_out, "{path}");
            }
            other => panic!("{path}: {other:?}"),
        }
    }
}

#[test]
fn up_that_fails_says_why_and_leaves_nothing() {
    let state = State::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let script = state.0.path().join("script");
    let script = script.to_str().unwrap();
    for (options, reasons) in [
        (["--port", port.as_str()], [port.as_str(), "in use"]),
        (["--script", script], [script, "No such file"]),
    ] {
        let error = state.fails("up", &options);
        assert!(error.starts_with("error: it has ended: "), "{error}");
        assert!(
            reasons.iter().all(|reason| error.contains(reason)),
            "{error}"
        );
        assert!(!state.dir().exists());
    }
    // These are mistakes of the command line: nothing is started.
    for (options, reason) in [
        (["--fault", "lose:create:/a"], "\"lose\" is no failure"),
        (["--servers", "0"], "0 is not in 1..=9"),
    ] {
        let printed = state.run("up", &options);
        assert_eq!(printed.code, Some(2), "{printed:?}");
        assert!(printed.err.contains(reason), "{printed:?}");
        assert!(!state.dir().exists());
    }
}

const SOON: Duration = Duration::from_secs(60);
