//! Combines the verdicts on a history, and formats them as text.
//!
//! Pure: no I/O and no clock.

use std::fmt::Write as _;

use super::checker::Checker;
use super::server_logs::ServerLogs;
use super::timeline;
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

    /// Formats it for a person: a summary, a line per checker, and each violation with a time line.
    pub fn to_text(&self, history: &History) -> String {
        let mut text = summary(history);
        let width = self.verdicts.iter().map(|verdict| verdict.checker.len());
        let width = width.max().unwrap_or(0);
        text.push('\n');
        for verdict in &self.verdicts {
            let counts: Vec<String> = verdict
                .counts
                .iter()
                .filter(|(_, count)| **count > 0)
                .map(|(what, count)| format!("{what} {count}"))
                .collect();
            let (checker, judgement) = (&verdict.checker, verdict.judgement);
            let line = format!("{checker:<width$}  {judgement:<12}  {}", counts.join(", "));
            text.push_str(line.trim_end());
            text.push('\n');
            for note in &verdict.notes {
                let _ = writeln!(text, "{:width$}  note: {note}", "");
            }
        }
        for verdict in self.verdicts.iter().filter(|verdict| verdict.found > 0) {
            for (at, violation) in verdict.violations.iter().enumerate() {
                let Violation { rule, sentence, .. } = violation;
                let (checker, found) = (&verdict.checker, verdict.found);
                let _ = writeln!(
                    text,
                    "\n{checker} {} of {found}: {rule}\n  {sentence}",
                    at + 1
                );
                text += &timeline::of(&violation.evidence, history);
            }
            let more = verdict.found - verdict.violations.len() as u64;
            if more > 0 {
                let _ = writeln!(text, "\n{}: {more} more are not listed", verdict.checker);
            }
        }
        text
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

fn plural(count: usize, what: &str) -> String {
    match (count, what.ends_with('s')) {
        (1, _) => format!("1 {what}"),
        (_, true) => format!("{count} {what}es"),
        (_, false) => format!("{count} {what}s"),
    }
}
