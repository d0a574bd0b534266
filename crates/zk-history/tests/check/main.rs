//! Tests the `zk-check` program with its output.
#![cfg(test)]

mod killed;

use std::path::{Path, PathBuf};
use std::process::Command;

use zk_history::check::NAMES;

/// Two processes that hold one lock at the same time; one was killed while writing.
const A: &str = r#"{"type":"begin","proc":"a","t_mono_ns":1000000000,"version":1,"pid":41}
{"type":"invoke","proc":"a","t_mono_ns":1010000000,"id":1,"op":"acquire","path":"/locks/x"}
{"type":"return","proc":"a","t_mono_ns":1015000000,"id":1,"outcome":"ok","token":7}
{"type":"invoke","proc":"a","t_mono_ns":1055000000,"id":2,"op":"release","path":"/locks/x"}
{"type":"ret"#;
const B: &str = r#"{"type":"begin","proc":"b","t_mono_ns":1000000000,"version":1,"pid":42}
{"type":"invoke","proc":"b","t_mono_ns":1020000000,"id":1,"op":"acquire","path":"/locks/x"}
{"type":"return","proc":"b","t_mono_ns":1043000000,"id":1,"outcome":"ok","token":9}
{"type":"invoke","proc":"b","t_mono_ns":1080000000,"id":2,"op":"release","path":"/locks/x"}
{"type":"return","proc":"b","t_mono_ns":1082000000,"id":2,"outcome":"ok"}
{"type":"end","proc":"b","t_mono_ns":1090000000}
"#;

const DESCRIPTION: &str = r#"{
  "version": 1,
  "name": "lock",
  "seed": 7,
  "checkers": [{"checker": "fenced-mutex"}, {"checker": "progress"}],
  "again": "SEED=7 make test"
}"#;

#[derive(Debug)]
struct Printed {
    out: String,
    err: String,
    code: Option<i32>,
}

struct TestRuns {
    root: tempfile::TempDir,
}

impl TestRuns {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    /// A kept run with these files of a history.
    fn run(&self, files: &[(&str, &str)]) -> PathBuf {
        let number = std::fs::read_dir(self.root.path()).unwrap().count() + 1;
        let directory = self.root.path().join(format!("run-{number}"));
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("run.json"), DESCRIPTION).unwrap();
        for (name, text) in files {
            std::fs::write(directory.join(format!("history-{name}.jsonl")), text).unwrap();
        }
        directory
    }

    fn check(&self, args: &[&str]) -> Printed {
        let output = Command::new(env!("CARGO_BIN_EXE_zk-check"))
            .args(args)
            .env("ZK_RUNS_DIR", self.root.path())
            .output()
            .unwrap();
        let root = self.root.path().display().to_string();
        let plain = |bytes| String::from_utf8(bytes).unwrap().replace(&root, "RUNS");
        Printed {
            out: plain(output.stdout),
            err: plain(output.stderr),
            code: output.status.code(),
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_violation_is_shown_with_its_records_on_a_line_of_time() {
    let runs = TestRuns::new();
    let run = runs.run(&[("a", A), ("b", B)]);
    let printed = runs.check(&[text(&run)]);
    assert_eq!(printed.code, Some(1), "{printed:?}");
    insta::assert_snapshot!(printed.out, @r"
    lock with seed 7
    RUNS/run-1
    4 operations (1 with an unknown outcome) of 2 processes in 90.0 ms, 0 faults
    note: history-a.jsonl:5 is a partial line of a killed process; it was ignored

    fenced-mutex  violated      grants 2
    progress      valid         operations 4, succeeded 3

    fenced-mutex 1 of 1: overlap
      b (token 9) was granted /locks/x while a (token 7) still relied on it: both did for 12.0 ms
        a: acquire /locks/x: ok, token 7  ·█████████████████████████                    history-a.jsonl:2
        b: acquire /locks/x: ok, token 9      ··············███████████████████████     history-b.jsonl:2
                        at the same time                    ▔▔▔▔▔▔▔▔
                                          +11.7 ms                            +83.2 ms

    run it again: SEED=7 make test
    ");
    // Without an argument, it judges the newest run.
    assert_eq!(runs.check(&[]).out, printed.out);
}

#[test]
fn a_rollback_of_the_servers_is_not_a_violation() {
    let runs = TestRuns::new();
    let later = A.replace("\"token\":7", "\"token\":4294967303");
    let run = runs.run(&[("a", &later)]);
    let server = run.join("ensemble/server-2");
    std::fs::create_dir_all(&server).unwrap();
    let log = "New election. My id = 2, proposed zxid=0x100000006\nLEADING - LEADER ELECTION TOOK - 12 MS\n\
               Have quorum of supporters; starting up and setting last processed zxid: 0x200000000\n";
    std::fs::write(server.join("server.log"), log).unwrap();
    let printed = runs.check(&[text(&run)]);
    assert_eq!(printed.code, Some(3), "{printed:?}");
    insta::assert_snapshot!(printed.out, @r"
    lock with seed 7
    RUNS/run-1
    2 operations (1 with an unknown outcome) of 1 process in 55.0 ms, 0 faults
    note: history-a.jsonl:5 is a partial line of a killed process; it was ignored

    fenced-mutex  valid         grants 1
    progress      valid         operations 2, succeeded 1
    servers       rolled back   leaders 1
                  note: the servers rolled back acknowledged writes, which some releases of ZooKeeper are known to do (see docs/compatibility.md); other violations may be a consequence

    servers 1 of 1: rollback
      server 2 took the lead with a log that ends at 0x100000006 although 0x100000007 had been acknowledged
        a: acquire /locks/x: ok, token 4294967303   ████████████████████████████████████████     history-a.jsonl:2
                                                   +9.7 ms                             +15.2 ms

    run it again: SEED=7 make test
    ");
}

#[test]
fn the_exit_status_is_that_of_the_judgement() {
    let runs = TestRuns::new();
    let fine = runs.run(&[("b", B)]);
    assert_eq!(runs.check(&[text(&fine)]).code, Some(0));
    let spec = "semaphore:permits=2";
    let wrong = runs.run(&[("a", A), ("b", B)]);
    let printed = runs.check(&["-c", spec, "-c", "fenced-register", text(&wrong)]);
    assert_eq!(printed.code, Some(2), "{printed:?}");
    insta::assert_snapshot!(printed.out, @r"
    lock with seed 7
    RUNS/run-2
    4 operations (1 with an unknown outcome) of 2 processes in 90.0 ms, 0 faults
    note: history-a.jsonl:5 is a partial line of a killed process; it was ignored

    semaphore        valid         grants 2, most permits at a time 2
    fenced-register  cannot judge
                     note: the history has no write with a token that was accepted

    run it again: SEED=7 make test
    ");
    let other = "fenced-mutex:path=/other/*";
    assert_eq!(runs.check(&["-c", other, text(&wrong)]).code, Some(2));
    let one = text(&wrong.join("history-a.jsonl")).to_owned();
    assert_eq!(runs.check(&["-c", "fenced-mutex", &one]).code, Some(0));
}

#[test]
fn the_reason_for_no_judgement_is_printed() {
    let runs = TestRuns::new();
    let error = |args: &[&str]| {
        let printed = runs.check(args);
        assert_eq!(printed.code, Some(2), "{printed:?}");
        printed.err
    };
    insta::assert_snapshot!(error(&[]), @"error: no run is kept in RUNS; name one");
    insta::assert_snapshot!(error(&["/no/such/run"]), @"error: /no/such/run does not exist");
    let bare = runs.root.path().join("bare");
    std::fs::create_dir(&bare).unwrap();
    insta::assert_snapshot!(error(&[text(&bare)]), @"error: RUNS/bare has no run.json with checkers; name a checker with --checker, --list prints them");
    insta::assert_snapshot!(error(&["-c", "counter", text(&bare)]), @"error: RUNS/bare has no file named history*.jsonl");
    let later = runs.run(&[("a", &A.replace(r#""version":1"#, r#""version":9"#))]);
    insta::assert_snapshot!(error(&[text(&later)]), @"error: history-a.jsonl:1: the format has version 9, and this program reads version 1");
    let usage = error(&["-c", "mutex", text(&later)]);
    assert!(
        usage.contains("unknown checker \"mutex\"; choose one of fenced-mutex,"),
        "{usage}"
    );
}

#[test]
fn the_list_names_every_checker_and_the_help_every_exit_status() {
    let runs = TestRuns::new();
    let list = runs.check(&["--list"]).out;
    let names: Vec<&str> = list
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(names, NAMES);
    // Each listed setting is valid.
    let mut name = "";
    for line in list.lines() {
        let word = line.split_whitespace().next().unwrap();
        if line.starts_with(' ') {
            let needed = if name == "semaphore" && !word.starts_with("permits") {
                ",permits=1"
            } else {
                ""
            };
            let word = word.trim_end_matches(',');
            let spec = format!("{name}:{word}{needed}");
            let printed = runs.check(&["-c", &spec, "--list"]);
            assert_eq!(printed.code, Some(0), "{spec}: {printed:?}");
        } else {
            name = word;
        }
    }
    let help = runs.check(&["--help"]).out;
    assert!(
        help.contains("Exit status: 0 if nothing is wrong"),
        "{help}"
    );
}
