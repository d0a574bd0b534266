//! The reports of a process that contends for a lock.

use std::borrow::Borrow;

use serde::{Deserialize, Serialize};
use zk_history::check::Span;
use zk_history::now;

/// One line of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// The name of the process.
    #[serde(rename = "proc")]
    pub process: String,
    /// The time of the report, in nanoseconds of the host's monotonic clock.
    #[serde(rename = "t_mono_ns")]
    pub at: u64,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// An event of a process that contends for a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// It has a session.
    Ready {
        /// The session's id.
        session: i64,
    },
    /// It acquired the lock.
    Acquired {
        /// The fencing token.
        token: u64,
        /// The name of the lock's node.
        node: String,
        /// Whether the guard was valid then.
        #[serde(rename = "trusted")]
        valid: bool,
    },
    /// The acquire timed out.
    TimedOut {
        /// The contender ahead of it.
        message: String,
    },
    /// An acquire failed and is retried, in a new session if the old one was lost.
    Retried {
        /// The error.
        message: String,
    },
    /// It checked whether the guard is valid.
    Checked {
        /// The answer.
        #[serde(rename = "trusted")]
        valid: bool,
    },
    /// The process was suspended between two checks of the guard.
    Resumed {
        /// The duration, in nanoseconds.
        stood: u64,
        /// The result of the first check after that.
        #[serde(rename = "trusted")]
        valid: bool,
    },
    /// `HeldLock::lost` resolved.
    Lost {
        /// The reason.
        loss: String,
    },
    /// Something was written under the lock.
    Wrote {
        /// The reply of the resource.
        message: String,
    },
    /// A write under the lock was refused.
    Refused {
        /// How.
        message: String,
    },
    /// It released the lock, or found that it was lost.
    Released(Turn),
    /// It has finished the command.
    Done,
    /// A command failed.
    Failed {
        /// Why.
        message: String,
    },
    /// It has closed its session and ends.
    Bye,
}

/// A period during which a process had a guard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Turn {
    /// The name of the process.
    pub who: String,
    /// The fencing token.
    pub token: u64,
    /// The number of the lock's node.
    pub sequence: i32,
    /// From the acquisition until directly before the release.
    pub held: Span,
    /// From the first until the last check that found the guard valid.
    ///
    /// A guard that is valid again after an interruption was held all the time, so there is one span.
    #[serde(rename = "trusted")]
    pub valid: Option<Span>,
    /// Whether the release found the lock still held.
    pub kept: bool,
    /// The result of the release.
    pub outcome: String,
}

impl Record {
    /// Creates a record with the current time.
    pub fn now(process: &str, event: Event) -> Self {
        Self {
            process: process.to_owned(),
            at: now(),
            event,
        }
    }
}

impl Turn {
    /// Creates the record of a turn that ended.
    pub fn new(
        who: &str,
        (token, sequence): (u64, i32),
        (held, valid): (Span, Option<Span>),
        (kept, outcome): (bool, String),
    ) -> Self {
        Self {
            who: who.to_owned(),
            token,
            sequence,
            held,
            valid,
            kept,
            outcome,
        }
    }
}

/// Returns the turns that ended, in the order of acquisition.
pub fn turns<R: Borrow<Record>>(records: impl IntoIterator<Item = R>) -> Vec<Turn> {
    let mut turns: Vec<Turn> = records
        .into_iter()
        .filter_map(|record| match &record.borrow().event {
            Event::Released(turn) => Some(turn.clone()),
            _ => None,
        })
        .collect();
    turns.sort_by_key(|turn| turn.held.from);
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_lines_of_json() {
        let turn = Turn::new(
            "a",
            (7, -3),
            (Span::new(1, 9), Some(Span::new(2, 8))),
            (true, "released".into()),
        );
        for event in [
            Event::Done,
            Event::Ready { session: -1 },
            Event::Released(turn.clone()),
        ] {
            let record = Record {
                process: "a".into(),
                at: 12,
                event,
            };
            let line = serde_json::to_string(&record).unwrap();
            assert_eq!(
                serde_json::from_str::<Record>(&line).unwrap(),
                record,
                "{line}"
            );
        }
        let line = serde_json::to_string(&Record::now("a", Event::Released(turn))).unwrap();
        assert!(line.starts_with(r#"{"proc":"a","t_mono_ns":"#), "{line}");
        assert!(
            line.contains(r#""event":"released","who":"a","token":7"#),
            "{line}"
        );
    }

    #[test]
    fn turns_are_in_the_order_of_their_grants() {
        let turn = |at| {
            Turn::new(
                "a",
                (at, 0),
                (Span::new(at, at), None),
                (true, String::new()),
            )
        };
        let records: Vec<Record> = [5, 3, 4]
            .map(|at| Record::now("a", Event::Released(turn(at))))
            .into();
        let tokens: Vec<u64> = turns(&records).iter().map(|turn| turn.token).collect();
        assert_eq!(tokens, [3, 4, 5]);
    }
}
