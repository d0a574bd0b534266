use std::io::Read as _;
use std::process::{Child, Command, Stdio};

use super::*;

const MARKER: &str = "-Dzk.harness.ensemble=/an ensemble/server-1/";

fn process(argument: &str) -> Child {
    let mut child = Command::new("/bin/sh")
        .args(["-c", "echo; read nothing", "decoy", argument])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Before it runs it may have no arguments.
    let mut line = [0];
    child.stdout.take().unwrap().read_exact(&mut line).unwrap();
    child
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_process_without_the_marker_is_not_the_server() {
    let root = tempfile::tempdir().unwrap();
    let pid_file = root.path().join("server.pid");
    let server = process(MARKER);
    fs::write(&pid_file, format!("{}\n", server.id())).unwrap();
    let found = find(&pid_file, MARKER);
    assert_eq!(
        found,
        Some((Pid::from_child(&server), ProcessState::Running))
    );
    assert_eq!(find(&pid_file, "-Dzk.harness.ensemble=/an"), None);
    end(server);
    assert_eq!(find(&pid_file, MARKER), None);

    for argument in [format!("tail -f {MARKER}"), format!("{MARKER}server.log")] {
        let other = process(&argument);
        fs::write(&pid_file, format!("{}\n", other.id())).unwrap();
        assert_eq!(find(&pid_file, MARKER), None, "{argument}");
        end(other);
    }
}

#[test]
fn an_invalid_pid_file_finds_no_process() {
    let root = tempfile::tempdir().unwrap();
    let pid_file = root.path().join("server.pid");
    assert_eq!(find(&pid_file, MARKER), None);
    for text in [
        "",
        "\n",
        "0",
        "-1",
        "-17",
        "+",
        "1 2",
        "99999999999",
        "x\0",
        "2147483647",
    ] {
        fs::write(&pid_file, text).unwrap();
        assert_eq!(find(&pid_file, MARKER), None, "{text:?}");
    }
}
