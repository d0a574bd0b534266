//! Tests that the history of a killed process is readable.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use zk_history::{History, Op, Recorder};

#[test]
fn a_process_that_is_killed_loses_nothing_that_it_recorded() {
    if let Some(file) = std::env::var_os(CHILD) {
        record(&PathBuf::from(file));
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("history.jsonl");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("killed::a_process_that_is_killed_loses_nothing_that_it_recorded")
        .env(CHILD, &file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut numbers = said
        .by_ref()
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("recorded ")?.parse::<i64>().ok());
    // While it records.
    assert!(numbers.any(|number| number == 1000), "it ended by itself");
    child.kill().unwrap();
    let last = numbers.last().unwrap_or(1000);
    child.wait().unwrap();

    let history = History::read(&file).unwrap();
    let returned = history.calls.iter().filter(|call| call.outcome.is_ok());
    let returned = i64::try_from(returned.count()).unwrap();
    println!("recorded {returned}, said {last}, torn {:?}", history.torn);
    // The last call may be recorded and not yet printed.
    assert!(
        returned == last || returned == last + 1,
        "{returned} of {last}"
    );
    assert!(!history.processes[0].ended);
}

/// Records until it is killed, and prints the number of calls.
fn record(file: &Path) -> ! {
    let recorder = Recorder::open(file, "child").unwrap();
    let mut output = std::io::stdout();
    for number in 1_i64.. {
        recorder.invoke(Op::offer("/q", number)).ok(());
        writeln!(output, "recorded {number}").unwrap();
        output.flush().unwrap();
    }
    unreachable!("it is killed before it has counted so far")
}

const CHILD: &str = "ZK_TEST_RECORDS_TO";
