//! Defines the format of one line of a history.
//!
//! Pure: no I/O and no clock.

use serde::{Deserialize, Serialize};

use super::op::Op;
use super::outcome::{Outcome, ReturnValue};

/// The version of the format that this program writes and reads.
pub(super) const FORMAT_VERSION: u32 = 1;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    Begin {
        #[serde(rename = "proc")]
        process: String,
        #[serde(rename = "t_mono_ns")]
        at: u64,
        version: u32,
        #[serde(default)]
        pid: u32,
    },
    Invoke {
        #[serde(rename = "proc")]
        process: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
        #[serde(rename = "t_mono_ns")]
        at: u64,
        id: u64,
        #[serde(flatten)]
        op: Op,
    },
    Return {
        #[serde(rename = "proc")]
        process: String,
        #[serde(rename = "t_mono_ns")]
        at: u64,
        id: u64,
        outcome: OutcomeName,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        #[serde(flatten)]
        answer: ReturnValue,
    },
    Until {
        #[serde(rename = "proc")]
        process: String,
        #[serde(rename = "t_mono_ns")]
        at: u64,
        id: u64,
        until: u64,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    Fault {
        #[serde(rename = "proc")]
        process: String,
        #[serde(rename = "t_mono_ns")]
        at: u64,
        id: u64,
        phase: Phase,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        name: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        target: String,
    },
    End {
        #[serde(rename = "proc")]
        process: String,
        #[serde(rename = "t_mono_ns")]
        at: u64,
    },
    /// A line of another version of this program.
    #[serde(other)]
    Unrecognised,
}

/// The outcome of an operation in the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OutcomeName {
    Ok,
    Failed,
    Unknown,
}

/// Whether a fault begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    Begin,
    End,
}

impl Line {
    /// Creates the line for the end of an operation.
    pub(super) fn returned(process: &str, at: u64, id: u64, outcome: Outcome) -> Self {
        let (outcome, reason, answer) = match outcome {
            Outcome::Ok(answer) => (OutcomeName::Ok, String::new(), answer),
            Outcome::Failed { reason } => (OutcomeName::Failed, reason, ReturnValue::default()),
            Outcome::Unknown { reason } => (OutcomeName::Unknown, reason, ReturnValue::default()),
        };
        Self::Return {
            process: process.to_owned(),
            at,
            id,
            outcome,
            reason,
            answer,
        }
    }

    /// Formats it as a line of a file, with a newline.
    pub(super) fn to_text(&self) -> String {
        let mut text = serde_json::to_string(self).expect("a line has texts and numbers only");
        text.push('\n');
        text
    }
}

impl OutcomeName {
    pub(super) fn outcome(self, reason: String, answer: ReturnValue) -> Outcome {
        match self {
            Self::Ok => Outcome::Ok(answer),
            Self::Failed => Outcome::Failed { reason },
            Self::Unknown => Outcome::Unknown { reason },
        }
    }
}
