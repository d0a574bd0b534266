//! The labels of metrics: kinds of locks, and how waits for them end.

/// The kind of a lock, which is a label of its metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockKind {
    Fair,
    Read,
    Write,
    Reentrant,
    Cohort,
    Race,
    Semaphore,
}

/// How a wait for a lock ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    Acquired,
    /// A `try_acquire` found the lock taken, or an upgrade another writer.
    Taken,
    /// The time limit elapsed, or the caller dropped the future.
    GivenUp,
    Failed,
}

#[cfg(feature = "metrics")]
impl LockKind {
    /// Returns the value of the label `kind`.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Fair => "fair",
            Self::Read => "read",
            Self::Write => "write",
            Self::Reentrant => "reentrant",
            Self::Cohort => "cohort",
            Self::Race => "race",
            Self::Semaphore => "semaphore",
        }
    }
}

#[cfg(feature = "metrics")]
impl WaitOutcome {
    /// Returns the value of the label `outcome`.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Acquired => "acquired",
            Self::Taken => "taken",
            Self::GivenUp => "given_up",
            Self::Failed => "failed",
        }
    }
}
