//! Defines the outcome and the return value of an operation.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::op::Value;

/// The return value of an operation that succeeded; only the fields that a checker needs are set.
///
/// ```
/// use zk_history::ReturnValue;
///
/// let granted = ReturnValue::token(7).with_sequence(3);
/// let read = ReturnValue::value("blue");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReturnValue {
    /// The fencing token of a grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// The sequence number in the lock's queue: the lower number is granted first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<i64>,
    /// The value read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The items taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<Value>,
}

impl ReturnValue {
    /// Creates the return value of a grant, with its fencing token.
    pub fn token(token: u64) -> Self {
        Self {
            token: Some(token),
            ..Self::default()
        }
    }

    /// Creates one with a value read.
    pub fn value(value: impl Into<Value>) -> Self {
        Self {
            value: Some(value.into()),
            ..Self::default()
        }
    }

    /// Creates one with the items taken.
    pub fn items<V: Into<Value>>(items: impl IntoIterator<Item = V>) -> Self {
        Self {
            items: items.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// Adds the sequence number in the lock's queue.
    #[must_use]
    pub fn with_sequence(mut self, sequence: impl Into<i64>) -> Self {
        self.sequence = Some(sequence.into());
        self
    }
}

impl From<()> for ReturnValue {
    fn from((): ()) -> Self {
        Self::default()
    }
}

/// The known outcome of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It took effect between the invoke and the return.
    Ok(ReturnValue),
    /// It certainly had no effect, and will have none.
    Failed {
        /// Why.
        reason: String,
    },
    /// It may have taken effect, may do so later, or never: the reply was lost, or the caller stopped waiting.
    Unknown {
        /// Why.
        reason: String,
    },
}

impl Outcome {
    /// Returns the return value of an operation that took effect.
    pub fn return_value(&self) -> Option<&ReturnValue> {
        match self {
            Self::Ok(answer) => Some(answer),
            Self::Failed { .. } | Self::Unknown { .. } => None,
        }
    }

    /// Returns whether it took effect.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Ok(_))
    }

    /// Returns whether it certainly had no effect.
    pub fn is_failed(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }

    /// Returns whether it is unknown if it took effect.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = match self {
            Self::Ok(answer) => answer,
            Self::Failed { reason } if reason.is_empty() => return f.write_str("failed"),
            Self::Failed { reason } => return write!(f, "failed: {reason}"),
            Self::Unknown { reason } if reason.is_empty() => return f.write_str("unknown"),
            Self::Unknown { reason } => return write!(f, "unknown: {reason}"),
        };
        f.write_str("ok")?;
        if let Some(token) = answer.token {
            write!(f, ", token {token}")?;
        }
        if let Some(sequence) = answer.sequence {
            write!(f, ", sequence {sequence}")?;
        }
        if let Some(value) = &answer.value {
            write!(f, ", {value}")?;
        }
        list(f, "items", &answer.items)
    }
}

/// Lists the first few items.
fn list(f: &mut fmt::Formatter<'_>, what: &str, items: &[impl fmt::Display]) -> fmt::Result {
    const SHOWN: usize = 5;
    if items.is_empty() {
        return Ok(());
    }
    write!(f, ", {} {what}:", items.len())?;
    for item in items.iter().take(SHOWN) {
        write!(f, " {item}")?;
    }
    f.write_str(if items.len() > SHOWN { " …" } else { "" })
}
