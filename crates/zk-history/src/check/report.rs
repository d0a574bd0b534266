//! Combines the verdicts on a history, and formats them as text or JSON.
//!
//! Pure: no I/O and no clock.

use std::fmt::Write as _;

use serde_json::json;

use super::checker::Checker;
use super::server_logs::ServerLogs;
use super::timeline::{self, Ink};
use super::verdict::{Judgement, Verdict, Violation};
use crate::History;

/// The verdicts of all checkers on a history.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// One per checker.
    pub verdicts: Vec<Verdict>,
}

/// Judges a history with several checkers.
pub fn judge(history: &History, checkers: &[Checker]) -> Report {
    Report {
        verdicts: checkers
            .iter()
            .map(|checker| checker.check(history))
            .collect(),
    }
}

impl Report {
    /// Adds the verdict on the servers, if their logs are available.
    ///
    /// Without a checker, servers that lost nothing do not make a report valid.
    #[must_use]
    pub fn with_servers(mut self, history: &History, logs: &ServerLogs) -> Self {
        let judged = !self.verdicts.is_empty();
        let servers = logs.verdict(history);
        let servers = servers.filter(|verdict| judged || !verdict.is_valid());
        self.verdicts.extend(servers);
        self
    }

    /// Returns the worst judgement; without a checker, [`Judgement::CannotJudge`].
    pub fn judgement(&self) -> Judgement {
        let verdicts = self.verdicts.iter().map(|verdict| verdict.judgement);
        verdicts.max().unwrap_or(Judgement::CannotJudge)
    }

    /// Returns whether each checker found enough to judge and no violation.
    pub fn is_valid(&self) -> bool {
        self.judgement() == Judgement::Valid
    }

    /// Formats it for a person: a summary, a line per checker, and each violation with a time line. `colour` is for a
    /// terminal.
    pub fn to_text(&self, history: &History, colour: bool) -> String {
        let ink = Ink::new(colour);
        let mut text = summary(history);
        let width = self.verdicts.iter().map(|verdict| verdict.checker.len());
        let width = width.max().unwrap_or(0);
        text.push('\n');
        for verdict in &self.verdicts {
            let word = format!("{:<12}", verdict.judgement.to_string());
            let word = match verdict.judgement {
                Judgement::Valid => ink.good(&word),
                Judgement::CannotJudge => ink.doubtful(&word),
                Judgement::Violated | Judgement::RolledBack => ink.bad(&word),
            };
            let counts: Vec<String> = verdict
                .counts
                .iter()
                .filter(|(_, count)| **count > 0)
                .map(|(what, count)| format!("{what} {count}"))
                .collect();
            let line = format!("{:<width$}  {word}  {}", verdict.checker, counts.join(", "));
            text.push_str(line.trim_end());
            text.push('\n');
            for note in &verdict.notes {
                let _ = writeln!(text, "{:width$}  note: {note}", "");
            }
        }
        for verdict in self.verdicts.iter().filter(|verdict| verdict.found > 0) {
            for (at, violation) in verdict.violations.iter().enumerate() {
                let number = format!("{} {} of {}", verdict.checker, at + 1, verdict.found);
                text.push_str(&shown(&number, violation, history, ink));
            }
            let more = verdict.found - verdict.violations.len() as u64;
            if more > 0 {
                let _ = writeln!(text, "\n{}: {more} more are not listed", verdict.checker);
            }
        }
        text
    }

    /// Converts it to an object for a script: `judgement`, and for each checker its `judgement`, `counts`, `notes`, how many violations
    /// were `found`, and of each listed violation the `rule`, the `sentence` and the `records` with file and line.
    pub fn to_json(&self, history: &History) -> serde_json::Value {
        let verdicts: Vec<serde_json::Value> = self
            .verdicts
            .iter()
            .map(|verdict| {
                let violations: Vec<serde_json::Value> = verdict
                    .violations
                    .iter()
                    .map(|violation| {
                        let records: Vec<serde_json::Value> = violation
                            .evidence
                            .iter()
                            .map(|evidence| {
                                json!({
                                    "client": evidence.call.client.to_string(),
                                    "id": evidence.call.id,
                                    "op": evidence.call.op,
                                    "outcome": evidence.call.outcome.to_string(),
                                    "invoked_ns": evidence.call.invoked,
                                    "returned_ns": evidence.call.returned,
                                    "counts_from_ns": evidence.span.from,
                                    "counts_to_ns": evidence.span.to,
                                    "at": history.locate(evidence.call.source_line),
                                })
                            })
                            .collect();
                        json!({
                            "rule": violation.rule,
                            "sentence": violation.sentence,
                            "records": records,
                        })
                    })
                    .collect();
                json!({
                    "checker": verdict.checker,
                    "judgement": verdict.judgement,
                    "counts": verdict.counts,
                    "notes": verdict.notes,
                    "found": verdict.found,
                    "violations": violations,
                })
            })
            .collect();
        json!({
            "judgement": self.judgement(),
            "operations": history.calls.len(),
            "processes": history.processes.len(),
            "faults": history.faults.len(),
            "torn": history.torn.len(),
            "verdicts": verdicts,
        })
    }
}

/// Summarises the recorded operations.
fn summary(history: &History) -> String {
    let (from, to) = history.bounds();
    let unknown = history
        .calls
        .iter()
        .filter(|call| call.outcome.is_unknown());
    let mut text = format!(
        "{} ({} with an unknown outcome) of {} in {}, {}\n",
        plural(history.calls.len(), "operation"),
        unknown.count(),
        plural(history.processes.len(), "process"),
        timeline::seconds(to - from),
        plural(history.faults.len(), "fault"),
    );
    for torn in &history.torn {
        let _ = writeln!(
            text,
            "note: {} is a partial line of a killed process; it was ignored",
            history.locate(*torn)
        );
    }
    if history.unrecognised > 0 {
        let lines = plural(
            usize::try_from(history.unrecognised).unwrap_or(usize::MAX),
            "line",
        );
        let _ = writeln!(
            text,
            "note: {lines} of another version of this program were ignored"
        );
    }
    text
}

fn shown(number: &str, violation: &Violation, history: &History, ink: Ink) -> String {
    let mut text = format!(
        "\n{}: {}\n  {}\n",
        number,
        ink.bad(violation.rule),
        violation.sentence
    );
    text.push_str(&timeline::of(&violation.evidence, history, ink));
    text
}

fn plural(count: usize, what: &str) -> String {
    match (count, what.ends_with('s')) {
        (1, _) => format!("1 {what}"),
        (_, true) => format!("{count} {what}es"),
        (_, false) => format!("{count} {what}s"),
    }
}
