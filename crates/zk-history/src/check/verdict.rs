//! Defines the verdict of a checker.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::Call;

/// The verdict of one checker on a history.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// The name of the checker.
    pub checker: String,
    /// The judgement.
    pub judgement: Judgement,
    /// The violations, at most [`LISTED`].
    pub violations: Vec<Violation>,
    /// The number of violations, listed or not.
    pub found: u64,
    /// Counts of grants, items, unknown outcomes and so on.
    pub counts: BTreeMap<String, u64>,
    /// Remarks, and the reason if the history cannot be judged.
    pub notes: Vec<String>,
}

/// The judgement of one or all checkers, from the best to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Judgement {
    /// No violation.
    Valid,
    /// The history has too little to judge: no operation of the kind, no full drain, no end of a search.
    CannotJudge,
    /// At least one violation.
    Violated,
    /// The servers lost writes that they had acknowledged; other violations may be a consequence.
    RolledBack,
}

/// A violation of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The name of the rule.
    pub rule: &'static str,
    /// What happened, as a sentence.
    pub sentence: String,
    /// The operations that show it.
    pub evidence: Vec<Evidence>,
}

/// An operation that shows a violation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Evidence {
    /// The operation.
    pub call: Call,
    /// The interval that counts: for a grant, while the holder relied on it.
    pub span: Span,
}

/// A half-open interval in nanoseconds of the host's monotonic clock.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[non_exhaustive]
pub struct Span {
    /// When it began.
    pub from: u64,
    /// When it ended.
    pub to: u64,
}

/// The maximum number of listed violations of a verdict.
pub const LISTED: usize = 20;

impl Verdict {
    /// Returns whether there was enough to judge and no violation.
    pub fn is_valid(&self) -> bool {
        self.judgement == Judgement::Valid
    }

    /// Starts a verdict: valid until something is found.
    pub(super) fn new(checker: &str) -> Self {
        Self {
            checker: checker.to_owned(),
            judgement: Judgement::Valid,
            violations: Vec::new(),
            found: 0,
            counts: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn count(&mut self, what: &str, more: usize) {
        let count = self.counts.entry(what.to_owned()).or_default();
        *count += more as u64;
    }

    /// Keeps the highest value.
    pub(super) fn highest(&mut self, what: &str, value: u64) {
        let most = self.counts.entry(what.to_owned()).or_default();
        *most = value.max(*most);
    }

    pub(super) fn counted(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// Records that there is too little to judge; violations still count.
    pub(super) fn cannot_judge(&mut self, why: impl Into<String>) {
        self.judgement = self.judgement.max(Judgement::CannotJudge);
        self.notes.push(why.into());
    }

    pub(super) fn violation(
        &mut self,
        rule: &'static str,
        sentence: impl FnOnce() -> String,
        evidence: impl IntoIterator<Item = Evidence>,
    ) {
        self.judgement = self.judgement.max(Judgement::Violated);
        self.found += 1;
        if self.violations.len() < LISTED {
            self.violations.push(Violation {
                rule,
                sentence: sentence(),
                evidence: evidence.into_iter().collect(),
            });
        }
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
    /// Creates a span between two times; empty if the second one is not later.
    pub const fn new(from: u64, to: u64) -> Self {
        Self { from, to }
    }

    /// Returns whether it is empty.
    pub const fn is_empty(self) -> bool {
        self.to <= self.from
    }

    /// Returns the intersection of two spans.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self::new(self.from.max(other.from), self.to.min(other.to))
    }

    /// Returns the length.
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
