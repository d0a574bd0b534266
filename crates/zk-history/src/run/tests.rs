use std::fs;

use super::*;
use crate::check::{FencedMutex, Judgement, Liveness};
use crate::{Op, ReturnValue};

fn begin(root: &Path) -> Run {
    let mut run = Run::begin(root, "a lock", 7).unwrap();
    // Independent of `ZK_RUNS_KEEP`.
    run.keep = false;
    run.judged_by(FencedMutex::default()).unwrap()
}

fn hold(recorder: &Recorder, token: u64) -> crate::Held {
    let pending = recorder.invoke(Op::acquire("/x"));
    pending.granted(ReturnValue::token(token))
}

fn entries(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn a_run_without_a_fault_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let run = begin(root.path());
    let recorder = run.recorder("a").unwrap();
    hold(&recorder, 1).release().ok(());
    assert_eq!(entries(run.directory()), ["history-a.jsonl", "run.json"]);
    let report = run.finish().unwrap();
    assert_eq!(report.judgement(), Judgement::Valid);
    assert_eq!(entries(root.path()), [""; 0]);
}

#[test]
fn a_violation_keeps_the_run_and_prints_the_commands() {
    let root = tempfile::tempdir().unwrap();
    let servers = tempfile::tempdir().unwrap();
    fs::write(servers.path().join("server.log"), "a log").unwrap();
    let run = begin(root.path());
    run.keep_with([servers.path().to_owned(), servers.path().join("gone")]);
    let recorder = run.recorder("a").unwrap();
    let (one, two) = (hold(&recorder, 1), hold(&recorder.task("2"), 2));
    one.release().ok(());
    two.release().ok(());
    let directory = run.directory().to_owned();
    let error = run.finish().unwrap_err();
    let text = error.to_string();
    assert_eq!(format!("{error:?}"), text);
    for part in [
        "the run a lock with seed 7: violated\n",
        "fenced-mutex 1 of 1: overlap\n",
        "a/2 (token 2) was granted /x while a (token 1) still relied on it",
        &format!(
            "judge it again: cargo xtask check {}\n",
            directory.display()
        ),
        "run it again:   SEED=7 cargo ",
        "run::tests::a_violation_keeps_the_run_and_prints_the_commands",
        "gone could not be copied: No such file",
    ] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
    assert_eq!(
        entries(&directory),
        ["ensemble", "history-a.jsonl", "run.json", "verdict.txt"]
    );
    let copied = fs::read_to_string(directory.join("ensemble/server.log"));
    assert_eq!(copied.unwrap(), "a log");
    let saved = fs::read_to_string(directory.join("verdict.txt")).unwrap();
    assert!(text.starts_with(&saved));

    let description = Description::read(&directory).unwrap();
    assert_eq!((description.name.as_str(), description.seed), ("a lock", 7));
    let history = History::read(&directory).unwrap();
    let again = judge(&history, &description.checkers);
    assert_eq!(again.judgement(), Judgement::Violated);
}

#[test]
fn a_panic_keeps_the_run() {
    let root = tempfile::tempdir().unwrap();
    let runs = root.path().to_owned();
    let panicked = std::thread::spawn(move || {
        let run = begin(&runs);
        let recorder = run.recorder("a").unwrap();
        let _held = hold(&recorder, 1);
        panic!("the test fails");
    });
    panicked.join().unwrap_err();
    let kept = root.path().join(&entries(root.path())[0]);
    assert_eq!(
        entries(&kept),
        ["history-a.jsonl", "run.json", "verdict.txt"]
    );
    let history = History::read(&kept).unwrap();
    assert_eq!(history.calls.len(), 1);
    assert!(!history.processes[0].ended, "it did not end normally");
}

#[test]
fn a_run_that_is_not_finished_or_kept_by_request_stays() {
    let root = tempfile::tempdir().unwrap();
    drop(begin(root.path()));
    assert_eq!(entries(root.path()).len(), 1);
    let mut run = begin(root.path());
    run.keep = true;
    hold(&run.recorder("a").unwrap(), 1).release().ok(());
    run.finish().unwrap();
    assert_eq!(entries(root.path()).len(), 2);
}

#[test]
fn a_run_that_cannot_be_judged_fails() {
    let root = tempfile::tempdir().unwrap();
    let run = begin(root.path());
    run.recorder("a").unwrap();
    let error = run.finish().unwrap_err();
    assert!(
        error.to_string().contains("no acquire that was granted"),
        "{error}"
    );
    let run = Run::begin(root.path(), "a lock", 8).unwrap();
    run.recorder("a").unwrap();
    let error = run.finish().unwrap_err();
    assert!(
        error.to_string().contains("no checker was named"),
        "{error}"
    );
    let run = begin(root.path());
    fs::write(run.history_file("b"), "nonsense\n").unwrap();
    let error = format!("{:?}", run.finish().unwrap_err());
    assert!(error.contains("history-b.jsonl:1: not a line"), "{error}");
    assert!(error.contains("kept in: "), "{error}");
}

#[test]
fn another_description_is_refused_with_a_reason() {
    let root = tempfile::tempdir().unwrap();
    let run = Run::begin(root.path(), "a", 1).unwrap();
    let run = run.judged_by(Liveness::default().with_rate(100)).unwrap();
    let read = |text: &str| {
        fs::write(run.directory().join("run.json"), text).unwrap();
        Description::read(run.directory()).map_err(|error| {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            let text = error.to_string() + ": " + &source.unwrap_or_default();
            text.replace(&run.directory().display().to_string(), "DIR")
        })
    };
    let text = fs::read_to_string(run.directory().join("run.json")).unwrap();
    let later = text.replace("\"seed\"", "\"mood\": 3,\n  \"seed\"");
    assert_eq!(read(&later).unwrap(), run.description);
    assert_eq!(
        read(&text.replace("\"version\": 1", "\"version\": 2")).unwrap_err(),
        "DIR/run.json has version 2, and this program reads version 1: "
    );
    assert_eq!(
        read(&text.replace("progress", "regress")).unwrap_err(),
        "DIR/run.json does not describe a run: unknown variant `regress`, expected one of \
         `fenced-mutex`, `read-write-lock`, `semaphore`, `linearizable`, `fenced-register`, \
         `total-queue`, `counter`, `progress` at line 10 column 3"
    );
    drop(run);
}

#[test]
fn a_description_has_the_same_text_in_every_version() {
    let root = tempfile::tempdir().unwrap();
    let text = r#"{
  "version": 1,
  "name": "a lock",
  "seed": 7,
  "checkers": [
    {
      "path": "/locks/*",
      "checker": "fenced-mutex",
      "ordered": true
    },
    {
      "checker": "read-write-lock"
    },
    {
      "checker": "semaphore",
      "permits": 2
    },
    {
      "checker": "linearizable",
      "model": "mutex",
      "budget": 10000000
    },
    {
      "checker": "fenced-register"
    },
    {
      "checker": "total-queue",
      "delivery": "at-least-once"
    },
    {
      "checker": "counter",
      "initial": 0
    },
    {
      "checker": "progress",
      "op": "acquire",
      "rate": 5,
      "after": 1,
      "bound": "1m"
    }
  ],
  "again": "SEED=7 make test"
}
"#;
    let file = root.path().join("run.json");
    fs::write(&file, text).unwrap();
    let description = Description::read(root.path()).unwrap();
    description.write(root.path()).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn servers_that_lost_acknowledged_writes_fail_a_run() {
    let (root, ensemble) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = |zxid: u64| {
        let text = format!(
            "New election. My id = 1, proposed zxid={zxid:#x}\nLEADING - LEADER ELECTION TOOK - 1 MS\n\
             Have quorum of supporters; starting up and setting last processed zxid: 0x200000000\n"
        );
        fs::create_dir_all(ensemble.path().join("server-1")).unwrap();
        fs::write(ensemble.path().join("server-1/server.log"), text).unwrap();
    };
    let run = || {
        let run = begin(root.path());
        run.keep_with([ensemble.path()]);
        let recorder = run.recorder("a").unwrap();
        hold(&recorder, 0x1_0000_0007).release().ok(());
        drop(recorder);
        run.finish()
    };
    log(0x1_0000_0007);
    assert_eq!(run().unwrap().judgement(), Judgement::Valid);

    log(0x1_0000_0006);
    let error = run().unwrap_err();
    let RunError::Failed { text, report } = &error else {
        panic!("{error}")
    };
    assert_eq!(report.judgement(), Judgement::RolledBack);
    let sentence = "server 1 took the lead with a log that ends at 0x100000006 although 0x100000007 had been acknowledged";
    assert!(text.contains(sentence), "{text}");
    // Only the servers are at fault.
    assert!(report.verdicts[0].is_valid(), "{text}");
}

#[test]
fn servers_without_a_loss_do_not_replace_a_checker() {
    let (root, ensemble) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir_all(ensemble.path().join("server-1")).unwrap();
    fs::write(ensemble.path().join("server-1/server.log"), "").unwrap();
    let run = Run::begin(root.path(), "no checker", 7).unwrap();
    run.keep_with([ensemble.path()]);
    run.recorder("a").unwrap();
    let error = run.finish().unwrap_err().to_string();
    assert!(error.contains("cannot judge"), "{error}");
}
