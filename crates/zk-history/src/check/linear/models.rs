//! Defines the models of a mutex and a register.
//!
//! Pure: no I/O and no clock.

use super::Model;

/// A lock with fencing tokens: one holder at a time, each with a higher token than the last.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct MutexModel {}

/// An operation of a [`MutexModel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MutexOp {
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

impl Model for MutexModel {
    /// The current grant, and the highest token so far.
    type State = (Option<usize>, Option<u64>);
    type Op = MutexOp;

    fn initial(&self) -> Self::State {
        (None, None)
    }

    fn step(&self, (holder, highest): &Self::State, op: &MutexOp) -> Option<Self::State> {
        match *op {
            MutexOp::Acquire { grant, token } => {
                let rises = token.is_none() || highest.is_none() || *highest < token;
                (holder.is_none() && rises).then(|| (Some(grant), token.or(*highest)))
            }
            MutexOp::End { grant } => (*holder == Some(grant)).then_some((None, *highest)),
        }
    }
}

/// A value with read, write and compare-and-set.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct RegisterModel {
    /// The value before all operations.
    pub initial: Option<u64>,
}

/// An operation of a [`RegisterModel`]; `None` is a value, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterOp {
    /// A read returned a value.
    Read(Option<u64>),
    /// A write replaced the value.
    Write(Option<u64>),
    /// A compare-and-set replaced the expected value.
    Cas(Option<u64>, Option<u64>),
}

impl Model for RegisterModel {
    type State = Option<u64>;
    type Op = RegisterOp;

    fn initial(&self) -> Option<u64> {
        self.initial
    }

    fn step(&self, state: &Option<u64>, op: &RegisterOp) -> Option<Option<u64>> {
        match *op {
            RegisterOp::Read(value) => (value == *state).then_some(*state),
            RegisterOp::Write(value) => Some(value),
            RegisterOp::Cas(from, to) => (from == *state).then_some(to),
        }
    }
}
