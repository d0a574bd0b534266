//! What a process that contends for a lock tells of it.

use std::borrow::Borrow;

use serde::Deserialize;
use serde::Serialize;
use zk_harness::check::Span;
use zk_harness::history::now;

/// One line of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// The name of the process.
    #[serde(rename = "proc")]
    pub process: String,
    /// When it was said, in nanoseconds of the host's monotonic clock.
    #[serde(rename = "t_mono_ns")]
    pub at: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened to a process that contends for a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// It has a session.
    Ready {
        /// The session's id.
        session: i64,
    },
    /// It was granted the lock.
    Acquired {
        /// The fencing token.
        token: u64,
        /// The name of the lock's node.
        node: String,
        /// Whether the guard was trusted right then.
        trusted: bool,
    },
    /// It waited for the lock as long as it was told to.
    TimedOut {
        /// Who was ahead.
        message: String,
    },
    /// An acquire failed, and is tried again, in a new session if the old one was over.
    Retried {
        /// Why it failed.
        message: String,
    },
    /// It was asked whether the guard is trusted.
    Checked {
        /// The answer.
        trusted: bool,
    },
    /// Between two looks at the guard the process had stood still.
    Resumed {
        /// For how long, in nanoseconds.
        stood: u64,
        /// What the first look after that saw.
        trusted: bool,
    },
    /// `Guard::lost` resolved.
    Lost {
        /// What it said.
        loss: String,
    },
    /// Something was written under the lock.
    Wrote {
        /// What the resource said.
        message: String,
    },
    /// A write under the lock was refused.
    Refused {
        /// How.
        message: String,
    },
    /// It gave the lock back, or found that it was lost.
    Released(Turn),
    /// All that it was told to do is done.
    Done,
    /// A command failed.
    Failed {
        /// Why.
        message: String,
    },
    /// It has closed its session and ends.
    Bye,
}

/// One time for which a process had a guard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Turn {
    /// The name of the process.
    pub who: String,
    /// The fencing token.
    pub token: u64,
    /// The number of the lock's node.
    pub sequence: i32,
    /// From when it was granted until it was about to be released.
    pub held: Span,
    /// From the first until the last time that the guard was seen trusted.
    ///
    /// A guard that is trusted again after it was not was held all the time, so that there is one span.
    pub trusted: Option<Span>,
    /// Whether the release found the lock still held.
    pub kept: bool,
    /// How the release went.
    pub outcome: String,
}

impl Record {
    /// Makes a record of now.
    pub fn now(process: &str, event: Event) -> Self {
        Self {
            process: process.to_owned(),
            at: now(),
            event,
        }
    }
}

impl Turn {
    /// Makes the record of a turn that ended.
    pub fn new(
        who: &str,
        (token, sequence): (u64, i32),
        (held, trusted): (Span, Option<Span>),
        (kept, outcome): (bool, String),
    ) -> Self {
        Self {
            who: who.to_owned(),
            token,
            sequence,
            held,
            trusted,
            kept,
            outcome,
        }
    }
}

/// The turns that ended, in the order in which they were granted.
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
