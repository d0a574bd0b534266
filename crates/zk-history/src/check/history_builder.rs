//! Builds histories by hand, for the tests of checkers.

use std::ops::Range;

use super::{Judgement, Verdict};
use crate::line::{FORMAT_VERSION, Line};
use crate::{Fault, History, Op, Outcome, ReturnValue};

/// Builds a history; calls are numbered from one.
#[derive(Default)]
pub(super) struct HistoryBuilder {
    processes: Vec<String>,
    /// After those that begin the processes.
    lines: Vec<Line>,
    last_id: u64,
    pub(super) faults: Vec<Fault>,
}

impl HistoryBuilder {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds a call of `process` or `process/task`; returns its id.
    pub(super) fn call(
        &mut self,
        client: &str,
        op: &Op,
        time: Range<u64>,
        outcome: Outcome,
    ) -> u64 {
        let (process, task) = client
            .split_once('/')
            .map_or((client, None), |(process, task)| (process, Some(task)));
        if !self.processes.iter().any(|known| known == process) {
            self.processes.push(process.to_owned());
        }
        self.last_id += 1;
        let id = self.last_id;
        self.lines.push(Line::Invoke {
            process: process.to_owned(),
            task: task.map(str::to_owned),
            at: time.start,
            id,
            op: op.clone(),
        });
        self.lines
            .push(Line::returned(process, time.end, id, outcome));
        id
    }

    pub(super) fn ok(
        &mut self,
        client: &str,
        op: &Op,
        time: Range<u64>,
        answer: impl Into<ReturnValue>,
    ) -> u64 {
        self.call(client, op, time, Outcome::Ok(answer.into()))
    }

    pub(super) fn failed(&mut self, client: &str, op: &Op, time: Range<u64>) -> u64 {
        let reason = String::new();
        self.call(client, op, time, Outcome::Failed { reason })
    }

    pub(super) fn unknown(&mut self, client: &str, op: &Op, time: Range<u64>) -> u64 {
        let reason = String::new();
        self.call(client, op, time, Outcome::Unknown { reason })
    }

    /// Adds a grant of `/x` with a token.
    pub(super) fn acquire(&mut self, client: &str, time: Range<u64>, token: u64) -> u64 {
        self.ok(client, &Op::acquire("/x"), time, ReturnValue::token(token))
    }

    /// Adds a release of the last grant of `/x`.
    pub(super) fn release(&mut self, client: &str, time: Range<u64>) -> u64 {
        self.ok(client, &Op::release("/x"), time, ())
    }

    /// Records until when the holder of a grant relied on it.
    pub(super) fn until(&mut self, grant: u64, until: u64) {
        let mut invokes = self.lines.iter().filter_map(|line| match line {
            Line::Invoke { process, id, .. } if *id == grant => Some(process.clone()),
            _ => None,
        });
        let process = invokes.next().unwrap();
        self.lines.push(Line::Until {
            process,
            at: 0,
            id: grant,
            until,
            reason: String::new(),
        });
    }

    pub(super) fn fault(&mut self, name: &str, target: &str, begun: u64, ended: Option<u64>) {
        self.faults.push(Fault {
            name: name.to_owned(),
            target: target.to_owned(),
            begun,
            ended,
        });
    }

    pub(super) fn history(&self) -> History {
        let begins = self.processes.iter().map(|process| Line::Begin {
            process: process.clone(),
            at: 0,
            version: FORMAT_VERSION,
            pid: 0,
        });
        let lines = begins.chain(self.lines.iter().cloned());
        let text: String = lines.map(|line| line.to_text()).collect();
        let mut history = History::parse([("builder", text)]).unwrap();
        // Without a process that records them, which would count.
        history.faults.clone_from(&self.faults);
        history.faults.sort_by_key(|fault| fault.begun);
        history
    }
}

/// Returns the violated rules with the ids of the calls that show it.
pub(super) fn broken(verdict: &Verdict) -> Vec<String> {
    verdict
        .violations
        .iter()
        .map(|violation| {
            let ids = violation.evidence.iter().map(|one| one.call.id.to_string());
            let ids: Vec<String> = ids.collect();
            format!("{}: {}", violation.rule, ids.join(" "))
        })
        .collect()
}

/// Asserts that exactly these rules are violated.
#[track_caller]
pub(super) fn violated(verdict: &Verdict, expected: &[&str]) {
    assert_eq!(broken(verdict), expected, "{verdict}");
    assert_eq!(verdict.judgement, Judgement::Violated, "{verdict}");
}

/// Asserts that the verdict is valid.
#[track_caller]
pub(super) fn valid(verdict: &Verdict) {
    assert_eq!(verdict.judgement, Judgement::Valid, "{verdict}");
}

/// Asserts that the history cannot be judged.
#[track_caller]
pub(super) fn unjudged(verdict: &Verdict, why: &str) {
    assert_eq!(verdict.judgement, Judgement::CannotJudge, "{verdict}");
    assert!(
        verdict.notes.iter().any(|note| note.contains(why)),
        "{verdict}"
    );
}
