//! Defines the operations that a history records, with their arguments.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An operation with its arguments.
///
/// The functions of this type create one each; [`Recorder::invoke`](super::Recorder::invoke) records it.
/// `path` names the object of the operation. It is compared as text: a node's path or any other name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Op {
    /// Waits for a lock, or for permits of a semaphore. The return value has the fencing token, if there is one.
    Acquire {
        /// The lock.
        path: String,
        /// Whether others may hold it at the same time.
        #[serde(default, skip_serializing_if = "Mode::is_exclusive")]
        mode: Mode,
        /// The number of permits of a semaphore.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        permits: u32,
    },
    /// Releases a grant.
    Release {
        /// The lock.
        path: String,
        /// The id of the acquire. Default: the last grant of the same process and task that is not released yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<u64>,
    },
    /// Reads one value.
    Read {
        /// What is read.
        path: String,
    },
    /// Replaces one value.
    Write {
        /// What is written.
        path: String,
        /// The new value.
        value: Value,
        /// The fencing token, which the resource compares with the highest earlier one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<u64>,
    },
    /// Puts an item into a queue.
    Offer {
        /// The queue.
        path: String,
        /// The item, which must be offered at most once in a history.
        item: Value,
    },
    /// Takes items from a queue; the return value has none if it was empty.
    Take {
        /// The queue.
        path: String,
    },
    /// Acknowledges a taken item, which must not be delivered again.
    Ack {
        /// The queue.
        path: String,
        /// The item.
        item: Value,
    },
    /// Adds to a counter.
    Increment {
        /// The counter.
        path: String,
        /// The difference, which may be negative.
        by: i64,
    },
    /// An operation of another version of this program, which no checker judges.
    #[serde(other)]
    Unrecognised,
}

impl Op {
    /// Waits for a lock.
    pub fn acquire(path: impl Into<String>) -> Self {
        Self::grant(path, Mode::Exclusive, 1)
    }

    /// Waits for a lock that readers share.
    pub fn acquire_shared(path: impl Into<String>) -> Self {
        Self::grant(path, Mode::Shared, 1)
    }

    /// Waits for permits of a semaphore.
    pub fn acquire_permits(path: impl Into<String>, permits: u32) -> Self {
        Self::grant(path, Mode::Exclusive, permits)
    }

    /// Releases the last grant of the same process and task.
    ///
    /// [`Held::release`](super::Held::release) names the grant. Use it where a task may have several.
    pub fn release(path: impl Into<String>) -> Self {
        Self::Release {
            path: path.into(),
            of: None,
        }
    }

    /// Reads one value.
    pub fn read(path: impl Into<String>) -> Self {
        Self::Read { path: path.into() }
    }

    /// Replaces one value.
    pub fn write(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::Write {
            path: path.into(),
            value: value.into(),
            token: None,
        }
    }

    /// Replaces one value of a resource that refuses a token lower than an earlier one.
    pub fn write_fenced(path: impl Into<String>, value: impl Into<Value>, token: u64) -> Self {
        Self::Write {
            path: path.into(),
            value: value.into(),
            token: Some(token),
        }
    }

    /// Puts an item into a queue.
    pub fn offer(path: impl Into<String>, item: impl Into<Value>) -> Self {
        Self::Offer {
            path: path.into(),
            item: item.into(),
        }
    }

    /// Takes items from a queue.
    pub fn take(path: impl Into<String>) -> Self {
        Self::Take { path: path.into() }
    }

    /// Acknowledges a taken item.
    pub fn ack(path: impl Into<String>, item: impl Into<Value>) -> Self {
        Self::Ack {
            path: path.into(),
            item: item.into(),
        }
    }

    /// Adds to a counter.
    pub fn increment(path: impl Into<String>, by: i64) -> Self {
        Self::Increment {
            path: path.into(),
            by,
        }
    }

    /// Returns the path, which is empty for an unknown operation.
    pub fn path(&self) -> &str {
        match self {
            Self::Acquire { path, .. }
            | Self::Release { path, .. }
            | Self::Read { path }
            | Self::Write { path, .. }
            | Self::Offer { path, .. }
            | Self::Take { path }
            | Self::Ack { path, .. }
            | Self::Increment { path, .. } => path,
            Self::Unrecognised => "",
        }
    }

    /// Returns the name in the format.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Acquire { .. } => "acquire",
            Self::Release { .. } => "release",
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Offer { .. } => "offer",
            Self::Take { .. } => "take",
            Self::Ack { .. } => "ack",
            Self::Increment { .. } => "increment",
            Self::Unrecognised => "unrecognised",
        }
    }

    fn grant(path: impl Into<String>, mode: Mode, permits: u32) -> Self {
        Self::Acquire {
            path: path.into(),
            mode,
            permits,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquire {
                path,
                mode,
                permits,
            } => {
                write!(f, "acquire {path}")?;
                if *mode == Mode::Shared {
                    f.write_str(" shared")?;
                }
                if *permits != 1 {
                    write!(f, " {permits} permits")?;
                }
                Ok(())
            }
            Self::Release { path, .. } => write!(f, "release {path}"),
            Self::Read { path } => write!(f, "read {path}"),
            Self::Write { path, value, token } => {
                write!(f, "write {path} = {value}")?;
                token.map_or(Ok(()), |token| write!(f, " with token {token}"))
            }
            Self::Offer { path, item } => write!(f, "offer {item} to {path}"),
            Self::Take { path } => write!(f, "take from {path}"),
            Self::Ack { path, item } => write!(f, "ack {item} of {path}"),
            Self::Increment { path, by } => write!(f, "increment {path} by {by}"),
            Self::Unrecognised => f.write_str("an unrecognised operation"),
        }
    }
}

/// Whether others may hold a lock at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mode {
    /// No other client may: a mutex, or the write side of a read/write lock.
    #[default]
    Exclusive,
    /// Other readers may.
    Shared,
}

impl Mode {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde calls it with a reference"
    )]
    fn is_exclusive(&self) -> bool {
        *self == Self::Exclusive
    }
}

/// A value of a register, or an item of a queue.
///
/// Checkers only compare values.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Value {
    /// A whole number.
    Number(i64),
    /// Text.
    Text(String),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

const fn one() -> u32 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
const fn is_one(permits: &u32) -> bool {
    *permits == 1
}
