//! Builds histories by hand, for the tests of checkers.

use std::ops::Range;

use super::{Judgement, Verdict};
use crate::{Call, Fault, History, Op, Outcome, ReturnValue};

/// Builds a history; calls are numbered from one.
pub(super) struct HistoryBuilder {
    lines: Vec<String>,
    clients: Vec<String>,
    last_id: u64,
    outcomes: Vec<(u64, Range<u64>, Outcome)>,
    until: Vec<(u64, u64)>,
    pub(super) faults: Vec<(String, String, u64, Option<u64>)>,
}

impl HistoryBuilder {
    pub(super) fn new() -> Self {
        Self {
            lines: Vec::new(),
            clients: Vec::new(),
            last_id: 0,
            outcomes: Vec::new(),
            until: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// Adds a call of `process` or `process/task`; returns its id.
    pub(super) fn call(
        &mut self,
        client: &str,
        op: &Op,
        time: Range<u64>,
        outcome: Outcome,
    ) -> u64 {
        let (process, task) = client.split_once('/').unwrap_or((client, ""));
        if !self.clients.iter().any(|known| known == process) {
            self.clients.push(process.to_owned());
        }
        self.last_id += 1;
        let id = self.last_id;
        let mut json = serde_json::to_value(op).unwrap();
        json["type"] = "invoke".into();
        json["proc"] = process.into();
        if !task.is_empty() {
            json["task"] = task.into();
        }
        json["t_mono_ns"] = time.start.into();
        json["id"] = id.into();
        self.outcomes.push((id, time, outcome));
        self.lines.push(json.to_string());
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

    pub(super) fn until(&mut self, grant: u64, until: u64) {
        self.until.push((grant, until));
    }

    pub(super) fn fault(&mut self, name: &str, target: &str, begun: u64, ended: Option<u64>) {
        self.faults
            .push((name.to_owned(), target.to_owned(), begun, ended));
    }

    pub(super) fn history(&self) -> History {
        let mut text = String::new();
        for client in &self.clients {
            let begin = serde_json::json!(
                {"type": "begin", "proc": client, "t_mono_ns": 0, "version": 1}
            );
            text += &(begin.to_string() + "\n");
        }
        for line in &self.lines {
            text += &(line.clone() + "\n");
        }
        let mut history = History::parse([("builder", text)]).unwrap();
        for (id, time, outcome) in &self.outcomes {
            let call = of(&mut history, *id);
            if outcome.is_unknown() {
                call.given_up = Some(time.end);
            } else {
                call.returned = Some(time.end);
            }
            call.outcome = outcome.clone();
            let process = call.client.process;
            let last = &mut history.processes[process].last;
            *last = time.end.max(*last);
        }
        for (id, until) in &self.until {
            of(&mut history, *id).believed_until = Some(*until);
        }
        for (name, target, begun, ended) in &self.faults {
            history.faults.push(Fault {
                name: name.clone(),
                target: target.clone(),
                begun: *begun,
                ended: *ended,
            });
        }
        history.faults.sort_by_key(|fault| fault.begun);
        history
    }
}

fn of(history: &mut History, id: u64) -> &mut Call {
    history.calls.iter_mut().find(|call| call.id == id).unwrap()
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

#[track_caller]
pub(super) fn counted(verdict: &Verdict, what: &str) -> u64 {
    verdict.counts.get(what).copied().unwrap_or(0)
}

/// Returns the history without one call.
pub(super) fn without(history: &History, at: usize) -> History {
    let mut other = history.clone();
    other.calls.remove(at);
    other
}
