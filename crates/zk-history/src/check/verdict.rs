//! What a checker found.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::Call;

/// What one checker says of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// Which checker.
    pub checker: String,
    /// In a word.
    pub judgement: Judgement,
    /// What is wrong, at most [`LISTED`] of it.
    pub violations: Vec<Violation>,
    /// How much is wrong, whether listed or not.
    pub found: u64,
    /// What was counted: grants, items, outcomes that nobody knows.
    pub counts: BTreeMap<String, u64>,
    /// What a reader should know, and why nothing was judged if so.
    pub notes: Vec<String>,
}

/// What a checker, or all of them, say in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Judgement {
    /// Nothing is wrong.
    Valid,
    /// The history has too little to judge: no operation of the kind, no full drain, no end of a search.
    CannotJudge,
    /// Something is wrong.
    Violated,
    /// The servers lost writes that they had acknowledged; what else is wrong may come of that.
    RolledBack,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// Which rule is broken, in a word or two.
    pub rule: &'static str,
    /// What happened, as a sentence.
    pub sentence: String,
    /// The operations that show it.
    pub evidence: Vec<Evidence>,
}

/// An operation that shows what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Evidence {
    /// The operation.
    pub call: Call,
    /// For which time it counts: of a grant, as long as the holder relied on it.
    pub span: Span,
}

/// A time between two moments, in nanoseconds of the host's monotonic clock; the second one is not part of it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, serde::Deserialize,
)]
#[non_exhaustive]
pub struct Span {
    /// When it began.
    pub from: u64,
    /// When it ended.
    pub to: u64,
}

/// How many violations a verdict lists.
pub const LISTED: usize = 20;

impl Verdict {
    /// Whether nothing is wrong, and there was something to judge.
    pub fn is_valid(&self) -> bool {
        self.judgement == Judgement::Valid
    }
}

impl Evidence {
    pub(super) fn of(call: &Call) -> Self {
        let span = Span::new(call.invoked, call.returned.unwrap_or(call.invoked));
        Self::with_span(call, span)
    }

    pub(super) fn with_span(call: &Call, span: Span) -> Self {
        Self {
            call: call.clone(),
            span,
        }
    }
}

impl Span {
    /// Makes the span between two moments; empty if the second one is not later.
    pub const fn new(from: u64, to: u64) -> Self {
        Self { from, to }
    }

    /// Whether it contains no moment.
    pub const fn is_empty(self) -> bool {
        self.to <= self.from
    }

    /// The time that two spans have in common.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self::new(self.from.max(other.from), self.to.min(other.to))
    }

    /// How long it is.
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.nanos())
    }

    pub(super) const fn nanos(self) -> u64 {
        self.to.saturating_sub(self.from)
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Valid => "valid",
            Self::CannotJudge => "cannot judge",
            Self::Violated => "violated",
            Self::RolledBack => "rolled back",
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.checker, self.judgement)?;
        for (what, count) in &self.counts {
            write!(f, ", {what} {count}")?;
        }
        for note in &self.notes {
            write!(f, "\n  {note}")?;
        }
        for violation in &self.violations {
            write!(f, "\n  {}: {}", violation.rule, violation.sentence)?;
        }
        Ok(())
    }
}

/// A verdict in the making.
#[derive(Debug, Default)]
pub(super) struct Findings {
    violations: Vec<Violation>,
    found: u64,
    counts: BTreeMap<String, u64>,
    notes: Vec<String>,
    unjudged: bool,
}

impl Findings {
    pub(super) fn count(&mut self, what: &str, more: usize) {
        let count = self.counts.entry(what.to_owned()).or_default();
        *count += more as u64;
    }

    /// Keeps the highest of all that is told.
    pub(super) fn at_most(&mut self, what: &str, value: u64) {
        let most = self.counts.entry(what.to_owned()).or_default();
        *most = value.max(*most);
    }

    pub(super) fn counted(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// There is too little to judge; what is found to be wrong nevertheless counts.
    pub(super) fn cannot_judge(&mut self, why: impl Into<String>) {
        self.unjudged = true;
        self.note(why);
    }

    pub(super) fn violation(
        &mut self,
        rule: &'static str,
        sentence: impl FnOnce() -> String,
        evidence: impl IntoIterator<Item = Evidence>,
    ) {
        self.found += 1;
        if self.violations.len() < LISTED {
            self.violations.push(Violation {
                rule,
                sentence: sentence(),
                evidence: evidence.into_iter().collect(),
            });
        }
    }

    pub(super) fn verdict(self, checker: &str) -> Verdict {
        Verdict {
            checker: checker.to_owned(),
            judgement: match (self.found, self.unjudged) {
                (0, false) => Judgement::Valid,
                (0, true) => Judgement::CannotJudge,
                _ => Judgement::Violated,
            },
            violations: self.violations,
            found: self.found,
            counts: self.counts,
            notes: self.notes,
        }
    }
}
