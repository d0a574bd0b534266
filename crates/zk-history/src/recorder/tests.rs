use std::fs::File;
use std::path::PathBuf;

use super::*;
use crate::{History, ReturnValue};

fn file() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("history.jsonl");
    (directory, file)
}

#[test]
fn recorded_calls_are_read_again() {
    let (_directory, file) = file();
    let before = now();
    let recorder = Recorder::open(&file, "a").unwrap();
    let task = recorder.task("7");
    let held = task
        .invoke(Op::acquire("/x"))
        .granted(ReturnValue::token(3).with_sequence(1));
    let id = held.id();
    held.release().ok(());
    recorder.invoke(Op::read("/y")).failed("no node");
    recorder.invoke(Op::take("/q")).unknown("timed out");
    drop(recorder.fault("pause", "b"));
    drop((recorder, task));

    let history = History::read(&file).unwrap();
    let lines: Vec<String> = history
        .calls
        .iter()
        .map(|call| format!("{}: {}: {}", call.client, call.op, call.outcome))
        .collect();
    assert_eq!(
        lines,
        [
            "a/7: acquire /x: ok, token 3, sequence 1",
            "a/7: release /x: ok",
            "a: read /y: failed: no node",
            "a: take from /q: unknown: timed out",
        ]
    );
    let of = Some(id);
    assert_eq!(
        history.calls[1].op,
        Op::Release {
            path: "/x".into(),
            of
        }
    );
    assert!(history.faults[0].ended.unwrap() >= history.faults[0].begun);
    assert!(history.processes[0].ended);
    let mut last = before;
    for call in &history.calls {
        assert!(call.invoked >= last, "{call:?}");
        last = call.returned.unwrap_or(call.invoked);
    }
    assert!(last <= now());
}

#[test]
fn a_drop_records_unknown_and_the_end_of_the_hold() {
    let (_directory, file) = file();
    let recorder = Recorder::open(&file, "a").unwrap();
    drop(recorder.invoke(Op::acquire("/x")));
    let held = recorder.invoke(Op::acquire("/x")).granted(());
    drop(held);
    let held = recorder.invoke(Op::acquire("/x")).granted(());
    held.believed_until(9);
    held.believed_until(5);
    held.forget();
    let held = recorder.invoke(Op::acquire("/x")).granted(());
    let id = held.id();
    held.release().ok(());
    recorder.relied_until(id, 7);
    drop(recorder);
    let calls = History::read(&file).unwrap().calls;
    assert_eq!(calls[0].outcome.to_string(), "unknown: dropped");
    assert_eq!(calls[0].believed_until, None);
    let until = calls[1].believed_until.unwrap();
    assert!(until >= calls[1].returned.unwrap());
    assert_eq!(calls[2].believed_until, Some(5), "the last record counts");
    assert_eq!(calls[3].believed_until, Some(7), "after its release");
}

#[test]
fn threads_and_recorders_share_a_file_without_mixing_lines() {
    const THREADS: usize = 4;
    const CALLS: usize = 500;
    let (_directory, file) = file();
    std::thread::scope(|scope| {
        for name in ["a", "b"] {
            let recorder = Recorder::open(&file, name).unwrap();
            for task in 0..THREADS {
                let recorder = recorder.task(task.to_string());
                scope.spawn(move || {
                    for item in 0..CALLS {
                        let item = i64::try_from(item).unwrap();
                        recorder.invoke(Op::offer("/q", item)).ok(());
                    }
                });
            }
        }
    });
    let history = History::read(&file).unwrap();
    assert_eq!(history.calls.len(), 2 * THREADS * CALLS);
    assert!(history.calls.iter().all(|call| call.outcome.is_ok()));
    assert!(history.processes.iter().all(|process| process.ended));
    assert_eq!(history.torn, []);
}

#[test]
fn a_partial_line_does_not_spoil_the_next_one() {
    let (_directory, file) = file();
    drop(Recorder::open(&file, "a").unwrap());
    let mut text = std::fs::read_to_string(&file).unwrap();
    text.push_str(r#"{"type":"invo"#);
    std::fs::write(&file, text).unwrap();
    let recorder = Recorder::open(&file, "a").unwrap();
    recorder.invoke(Op::take("/q")).ok(());
    drop(recorder);
    let history = History::read(&file).unwrap();
    assert_eq!(history.torn.len(), 1);
    assert_eq!(history.calls.len(), 1);
}

#[test]
fn a_full_disk_is_reported() {
    let full = File::options().append(true).open("/dev/full").unwrap();
    let recorder = Recorder {
        file: Arc::new(HistoryFile::new(full, "a")),
        task: None,
    };
    recorder.check().unwrap();
    recorder.invoke(Op::take("/q")).ok(());
    let error = recorder.check().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}
