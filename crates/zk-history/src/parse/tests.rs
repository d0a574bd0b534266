use proptest::prelude::*;

use super::*;
use crate::{Mode, ReturnValue, Value};

fn parse(text: &str) -> Result<History, String> {
    History::parse([("h.jsonl", text)]).map_err(|error| error.to_string())
}

const BEGIN: &str = r#"{"type":"begin","proc":"a","t_mono_ns":1,"version":1,"pid":7}"#;

const ACQUIRE: &str =
    r#"{"type":"invoke","proc":"a","t_mono_ns":2,"id":1,"op":"acquire","path":"/x"}"#;
const TAKE: &str = r#"{"type":"invoke","proc":"a","t_mono_ns":5,"id":1,"op":"take","path":"/x"}"#;
const TAKEN: &str = r#"{"type":"return","proc":"a","t_mono_ns":6,"id":1,"outcome":"ok"}"#;

fn begun(lines: &[&str]) -> Result<History, String> {
    parse(&format!("{BEGIN}\n{}\n", lines.join("\n")))
}

#[test]
fn the_example_of_the_documentation_is_a_history() {
    let text: String = include_str!("../lib.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("//! "))
        .filter(|line| line.starts_with('{'))
        .flat_map(|line| [line, "\n"])
        .collect();
    let history = parse(&text).unwrap();
    assert_eq!(history.calls.len(), 1);
    let call = &history.calls[0];
    assert_eq!(call.client.to_string(), "a/3");
    assert_eq!(call.op, Op::acquire("/locks/x"));
    assert_eq!((call.invoked, call.returned), (200, Some(300)));
    assert_eq!(
        call.outcome,
        Outcome::Ok(ReturnValue::token(4_294_967_299).with_sequence(0))
    );
    assert_eq!(call.believed_until, Some(400));
    let fault = &history.faults[0];
    assert_eq!((fault.begun, fault.ended), (600, Some(700)));
    assert_eq!(fault.to_string(), "pause b");
    let process = &history.processes[0];
    assert_eq!(
        (process.pid, process.last, process.ended),
        (4711, 800, true)
    );
    assert_eq!(history.unrecognised, 0);
}

#[test]
fn every_operation_survives_writing_and_reading() {
    let ops = [
        Op::acquire("/a"),
        Op::acquire_shared("/a"),
        Op::acquire_permits("/a", 3),
        Op::release("/a"),
        Op::Release {
            path: "/a".into(),
            of: Some(9),
        },
        Op::read("/a"),
        Op::write("/a", 5),
        Op::write_fenced("/a", "x", u64::MAX),
        Op::offer("/a", "i"),
        Op::take("/a"),
        Op::ack("/a", 3),
        Op::increment("/a", -5),
    ];
    for (id, op) in (1..).zip(ops) {
        let line = Line::Invoke {
            process: "a".into(),
            task: None,
            at: 5,
            id,
            op: op.clone(),
        };
        let text = line.to_text();
        let history = begun(&[text.trim_end()]).unwrap();
        assert_eq!(history.calls[0].op, op, "{text}");
        assert_eq!(op.path(), "/a");
        assert!(text.contains(&format!(r#""op":"{}""#, op.name())), "{text}");
    }
}

#[test]
fn defaults_are_left_out_of_lines_and_filled_in() {
    let history = begun(&[ACQUIRE]).unwrap();
    let op = &history.calls[0].op;
    assert_eq!(
        op,
        &Op::Acquire {
            path: "/x".into(),
            mode: Mode::Exclusive,
            permits: 1
        }
    );
    let written = Line::Invoke {
        process: "a".into(),
        task: None,
        at: 2,
        id: 1,
        op: op.clone(),
    };
    assert_eq!(written.to_text().trim_end(), ACQUIRE);
}

#[test]
fn unknown_fields_operations_and_lines_are_ignored() {
    let history = begun(&[
        r#"{"type":"invoke","proc":"a","t_mono_ns":2,"id":1,"op":"read","path":"/x","colour":"red"}"#,
        r#"{"type":"return","proc":"a","t_mono_ns":3,"id":1,"outcome":"ok","value":4,"mood":{"good":true}}"#,
        r#"{"type":"invoke","proc":"a","t_mono_ns":4,"id":2,"op":"teleport","path":"/x","to":5}"#,
        r#"{"type":"return","proc":"a","t_mono_ns":5,"id":2,"outcome":"ok"}"#,
        r#"{"type":"weather","proc":"a","t_mono_ns":6,"rain":true}"#,
    ])
    .unwrap();
    assert_eq!(history.calls.len(), 1);
    assert_eq!(
        history.calls[0].outcome.return_value().unwrap().value,
        Some(Value::Number(4))
    );
    assert_eq!(history.unrecognised, 2);
}

#[test]
fn another_version_is_refused_whatever_else_the_line_has() {
    for line in [
        r#"{"type":"begin","proc":"a","t_mono_ns":1,"version":2,"pid":7}"#,
        r#"{"type":"begin","version":2,"who":{"name":"a"}}"#,
    ] {
        assert_eq!(
            parse(&format!("{line}\n")).unwrap_err(),
            "h.jsonl:1: the format has version 2, and this program reads version 1"
        );
    }
}

#[test]
fn a_torn_last_line_is_ignored_and_listed() {
    let torn = r#"{"type":"return","proc":"a","t_mono_ns":3,"id":1,"outco"#;
    let history = parse(&format!("{BEGIN}\n{ACQUIRE}\n{torn}")).unwrap();
    assert_eq!(history.torn, [SourceLine { file: 0, line: 3 }]);
    assert!(history.calls[0].outcome.is_unknown());
    assert_eq!(history.calls[0].returned, None);
    assert_eq!(history.locate(history.torn[0]), "h.jsonl:3");
}

#[test]
fn a_torn_line_does_not_hide_the_next_one_of_another_process() {
    let torn = r#"{"type":"return","proc":"b","t_mono_ns":3,"id":1,"outco"#;
    let history = parse(&format!("{BEGIN}\n{torn}{ACQUIRE}\n")).unwrap();
    assert_eq!(history.torn.len(), 1);
    assert_eq!(history.calls.len(), 1);
}

#[test]
fn contradicting_lines_are_refused_with_their_number() {
    for (lines, problem) in [
        (&["nonsense"][..], "h.jsonl:2: not a line of a history"),
        (
            &[r#"{"type":"invoke","proc":"a","t_mono_ns":5,"id":1,"op":"offer","path":"/x"}"#],
            "h.jsonl:2: not a line of a history (missing field `item`",
        ),
        (&[TAKEN], "h.jsonl:2: call 1 of a never began"),
        (&[TAKE, TAKE], "h.jsonl:3: a uses the id 1 twice"),
        (
            &[TAKE, TAKEN, TAKEN],
            "h.jsonl:4: call 1 of a returns a second time",
        ),
        (
            &[
                TAKE,
                r#"{"type":"return","proc":"a","t_mono_ns":4,"id":1,"outcome":"ok"}"#,
            ],
            "h.jsonl:3: call 1 of a returns before it began",
        ),
        (
            &[r#"{"type":"end","proc":"b","t_mono_ns":5}"#],
            "h.jsonl:2: b has a line before its `begin` line",
        ),
        (
            &[r#"{"type":"fault","proc":"a","t_mono_ns":5,"id":1,"phase":"end"}"#],
            "h.jsonl:2: fault 1 of a never began",
        ),
    ] {
        let error = begun(lines).unwrap_err();
        assert!(error.starts_with(problem), "{error}");
    }
}

#[test]
fn a_restarted_process_has_new_ids() {
    let history = begun(&[TAKE, BEGIN, TAKE, TAKEN]).unwrap();
    assert_eq!(history.processes.len(), 2);
    assert!(history.calls[0].outcome.is_unknown());
    assert!(history.calls[1].outcome.is_ok());
    assert_eq!(history.processes[0].last, 5);
    assert_eq!(history.processes[1].last, 6);
}

#[test]
fn calls_of_several_files_are_in_the_order_of_their_invokes() {
    let file = |process: &str, at: u64| {
        format!(
            "{}\n{}\n",
            BEGIN.replace("\"a\"", &format!("\"{process}\"")),
            format_args!(
                r#"{{"type":"invoke","proc":"{process}","t_mono_ns":{at},"id":1,"op":"take","path":"/x"}}"#
            )
        )
    };
    let history = History::parse([("one", file("a", 9)), ("two", file("b", 4))]).unwrap();
    let order: Vec<String> = history
        .calls
        .iter()
        .map(|call| format!("{} {}", call.client, history.locate(call.source_line)))
        .collect();
    assert_eq!(order, ["b two:2", "a one:2"]);
}

proptest! {
    #[test]
    fn garbage_is_an_error_and_never_a_panic(text in "(\\PC|\n|\\{\"type\":){0,200}") {
        drop(parse(&text));
        drop(begun(&[&text]));
    }

    #[test]
    fn a_history_may_be_cut_anywhere_after_its_first_line(cut in 0_usize..400) {
        let lines = [
            BEGIN,
            r#"{"type":"invoke","proc":"a","t_mono_ns":2,"id":1,"op":"offer","path":"/ü","item":"ö"}"#,
            r#"{"type":"return","proc":"a","t_mono_ns":3,"id":1,"outcome":"ok"}"#,
            r#"{"type":"end","proc":"a","t_mono_ns":4}"#,
        ];
        let whole = lines.join("\n") + "\n";
        let cut = (BEGIN.len() + 1 + cut).min(whole.len());
        let text = String::from_utf8_lossy(&whole.as_bytes()[..cut]).into_owned();
        let history = parse(&text).unwrap();
        // Every complete line counts. A line that only lacks its newline is complete.
        let newlines = text.matches('\n').count();
        let seen = history.processes.len()
            + history.calls.len()
            + usize::from(history.calls.first().is_some_and(|call| call.returned.is_some()))
            + usize::from(history.processes[0].ended);
        prop_assert!(seen == newlines || (seen == newlines + 1 && history.torn.is_empty()));
    }
}
