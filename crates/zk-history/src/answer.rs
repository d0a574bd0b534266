//! What came of an operation.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::op::Value;

/// What an operation that succeeded told; only the parts that a checker needs are given.
///
/// ```
/// use zk_history::Answer;
///
/// let granted = Answer::token(7).with_sequence(3);
/// let read = Answer::value("blue").with_version(12);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Answer {
    /// The fencing token of a grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// The place in the queue for the lock: who has the lower number is granted it first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<i64>,
    /// What was read, or the name of what was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The version that was read or written: a number that only grows, such as the transaction id of the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The items that were taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<Value>,
}

impl Answer {
    /// A grant with its fencing token.
    pub fn token(token: u64) -> Self {
        Self {
            token: Some(token),
            ..Self::default()
        }
    }

    /// A value that was read, or the name of what was granted.
    pub fn value(value: impl Into<Value>) -> Self {
        Self {
            value: Some(value.into()),
            ..Self::default()
        }
    }

    /// A version that was read or written.
    pub fn version(version: u64) -> Self {
        Self {
            version: Some(version),
            ..Self::default()
        }
    }

    /// The items that were taken.
    pub fn items<V: Into<Value>>(items: impl IntoIterator<Item = V>) -> Self {
        Self {
            items: items.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// With the place in the queue for the lock.
    #[must_use]
    pub fn with_sequence(mut self, sequence: impl Into<i64>) -> Self {
        self.sequence = Some(sequence.into());
        self
    }

    /// With a version.
    #[must_use]
    pub fn with_version(mut self, version: u64) -> Self {
        self.version = Some(version);
        self
    }

    /// With a value, or the name of what was granted.
    #[must_use]
    pub fn with_value(mut self, value: impl Into<Value>) -> Self {
        self.value = Some(value.into());
        self
    }
}

impl From<()> for Answer {
    fn from((): ()) -> Self {
        Self::default()
    }
}

/// What is known of the end of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It took effect, between the invoke and the return.
    Ok(Answer),
    /// It certainly had no effect, and will have none.
    Failed {
        /// Why.
        reason: String,
    },
    /// It may have taken effect, may do so later, or never: the answer was lost, or nobody waited for it.
    Unknown {
        /// Why.
        reason: String,
    },
}

impl Outcome {
    /// The answer of an operation that took effect.
    pub fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Ok(answer) => Some(answer),
            Self::Failed { .. } | Self::Unknown { .. } => None,
        }
    }

    /// Whether it took effect.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Ok(_))
    }

    /// Whether it certainly had no effect.
    pub fn is_failed(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }

    /// Whether nobody knows.
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
        if let Some(version) = answer.version {
            write!(f, ", version {version}")?;
        }
        list(f, "items", &answer.items)
    }
}

/// The first few of them: a person reads this.
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
