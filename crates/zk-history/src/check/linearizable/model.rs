//! Defines the sequential behaviour of a lock with fencing tokens.
//!
//! Pure: no I/O and no clock.

/// The state of a lock: one holder at a time, each with a higher token than the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Mutex {
    /// The current grant.
    holder: Option<usize>,
    /// The highest token so far.
    highest: Option<u64>,
}

/// An operation on a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MutexOp {
    /// It was granted.
    Acquire {
        /// The unique number of the grant.
        grant: usize,
        /// The token; an unknown token is as high as needed.
        token: Option<u64>,
    },
    /// A grant ended by release or loss.
    End {
        /// The number of the grant.
        grant: usize,
    },
}

impl Mutex {
    /// Returns the state after an operation, or `None` if it is not possible in this state.
    pub(super) fn after(self, op: MutexOp) -> Option<Self> {
        match op {
            MutexOp::Acquire { grant, token } => {
                let rises = token.is_none() || self.highest.is_none() || self.highest < token;
                (self.holder.is_none() && rises).then_some(Self {
                    holder: Some(grant),
                    highest: token.or(self.highest),
                })
            }
            MutexOp::End { grant } => (self.holder == Some(grant)).then_some(Self {
                holder: None,
                ..self
            }),
        }
    }
}
