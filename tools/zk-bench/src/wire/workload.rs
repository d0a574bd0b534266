//! The workloads, and how a run of one is written as a line of text.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;

/// What a client does, how often at a time, and on which runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Workload {
    /// What is repeated.
    pub operation: Operation,
    /// How many operations each session has in flight: it begins the next one when one of them is done.
    pub in_flight: usize,
    /// The size of the values.
    pub bytes: usize,
    /// The number of sessions, all with the same server.
    pub sessions: usize,
    /// The runtime of asynchronous Rust clients; the others have threads of their own.
    pub runtime: RuntimeKind,
}

/// What is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the program has code for each")]
pub enum Operation {
    /// Reads a node.
    Get,
    /// Writes a node.
    Set,
    /// Creates an ephemeral node, and then deletes it.
    CreateDelete,
    /// As [`CreateDelete`](Self::CreateDelete), with a list of the parent's children in the same flight as the create.
    CreateListDelete,
}

/// The flavours of tokio's runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the program has code for each")]
pub enum RuntimeKind {
    /// One thread.
    CurrentThread,
    /// One thread per core.
    MultiThread,
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Run {
    /// For how long the workload runs before it is measured.
    pub warm_up: Duration,
    /// For how long it is measured.
    pub measured: Duration,
    /// What runs.
    pub workload: Workload,
}

/// The workloads that are measured.
///
/// Each dimension varies where it matters, instead of a full product: a serial get shows the cost of one call, on both
/// runtimes; large values the copies; requests in flight the cost of a batch, at the server's limit of 1,000 as well;
/// sessions the cost of many connections; writes whether the client matters beside a commit. The last two, compared,
/// show whether two requests of one flight share it.
pub const WORKLOADS: [Workload; 12] = {
    use Operation::{CreateDelete, CreateListDelete, Get, Set};
    use RuntimeKind::{CurrentThread, MultiThread};
    [
        serial(Get, CurrentThread),
        serial(Get, MultiThread),
        serial(Get, CurrentThread).of_bytes(LARGE),
        serial(Get, CurrentThread).with_in_flight(64),
        serial(Get, MultiThread).with_in_flight(1000),
        serial(Get, MultiThread).of_bytes(LARGE).with_in_flight(64),
        serial(Get, MultiThread).with_sessions(100),
        serial(Set, CurrentThread),
        serial(Set, MultiThread).with_in_flight(64),
        serial(Set, MultiThread).of_bytes(LARGE),
        serial(CreateDelete, CurrentThread),
        serial(CreateListDelete, CurrentThread),
    ]
};

/// Starts a workload of one session that has one operation in flight.
const fn serial(operation: Operation, runtime: RuntimeKind) -> Workload {
    Workload {
        operation,
        in_flight: 1,
        bytes: SMALL,
        sessions: 1,
        runtime,
    }
}

impl Workload {
    const fn of_bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    const fn with_in_flight(self, in_flight: usize) -> Self {
        Self { in_flight, ..self }
    }

    const fn with_sessions(self, sessions: usize) -> Self {
        Self { sessions, ..self }
    }

    /// Returns whether there is one operation at a time.
    pub(super) const fn is_serial(self) -> bool {
        self.in_flight == 1 && self.sessions == 1
    }

    /// Returns whether the values are small.
    pub(super) const fn is_small(self) -> bool {
        self.bytes == SMALL
    }

    /// Returns the path of the node that is read and written.
    pub fn value_path(self) -> String {
        format!("{PARENT}/value-{}", self.bytes)
    }

    /// Returns its data.
    pub fn value(self) -> Vec<u8> {
        vec![b'x'; self.bytes]
    }

    /// Returns the path of the node that the operations with this number create and delete.
    pub fn created_path(number: usize) -> String {
        format!("{PARENT}/created-{number}")
    }
}

impl Run {
    pub(super) fn new(workload: Workload, warm_up: Duration, measured: Duration) -> Self {
        // Every byte is in the logs of three servers: a fifth of the time is enough.
        let is_small = workload.operation != Operation::Set || workload.is_small();
        let part = if is_small { 1 } else { 5 };
        Self {
            warm_up: warm_up / part,
            measured: measured / part,
            workload,
        }
    }
}

/// The line of text that asks a client for the run.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Workload {
            operation,
            in_flight,
            bytes,
            sessions,
            runtime,
        } = self.workload;
        let (warm_up, measured) = (self.warm_up.as_millis(), self.measured.as_millis());
        let (operation, runtime) = (operation.word(), runtime.word());
        write!(
            f,
            "{warm_up} {measured} {operation} {in_flight} {bytes} {sessions} {runtime}"
        )
    }
}

impl FromStr for Run {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> anyhow::Result<Self> {
        let wrong = || format!("{line:?} is no run");
        let words: Vec<&str> = line.split(' ').collect();
        let &[
            warm_up,
            measured,
            operation,
            in_flight,
            bytes,
            sessions,
            runtime,
        ] = words.as_slice()
        else {
            anyhow::bail!(wrong());
        };
        let millis =
            |word: &str| anyhow::Ok(Duration::from_millis(word.parse().with_context(wrong)?));
        let number = |word: &str| word.parse().with_context(wrong);
        Ok(Self {
            warm_up: millis(warm_up)?,
            measured: millis(measured)?,
            workload: Workload {
                operation: Operation::of(operation).with_context(wrong)?,
                in_flight: number(in_flight)?,
                bytes: number(bytes)?,
                sessions: number(sessions)?,
                runtime: RuntimeKind::of(runtime).with_context(wrong)?,
            },
        })
    }
}

impl Operation {
    const fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Set => "set",
            Self::CreateDelete => "create-delete",
            Self::CreateListDelete => "create-list-delete",
        }
    }

    fn of(word: &str) -> Option<Self> {
        let all = [
            Self::Get,
            Self::Set,
            Self::CreateDelete,
            Self::CreateListDelete,
        ];
        all.into_iter().find(|operation| operation.word() == word)
    }
}

impl RuntimeKind {
    const fn word(self) -> &'static str {
        match self {
            Self::CurrentThread => "current-thread",
            Self::MultiThread => "multi-thread",
        }
    }

    fn of(word: &str) -> Option<Self> {
        let all = [Self::CurrentThread, Self::MultiThread];
        all.into_iter().find(|runtime| runtime.word() == word)
    }
}

/// The name in reports.
impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.operation {
            Operation::Get => "get",
            Operation::Set => "set",
            Operation::CreateDelete => "create + delete",
            Operation::CreateListDelete => "create with list + delete",
        })?;
        if !self.is_small() {
            write!(f, " of {} kB", self.bytes / 1000)?;
        }
        match (self.sessions, self.in_flight) {
            (1, 1) => write!(f, ", serial")?,
            (1, in_flight) => write!(f, ", {in_flight} in flight")?,
            (sessions, _) => write!(f, ", {sessions} sessions")?,
        }
        write!(f, ", {}", self.runtime.word())
    }
}

/// The parent of all nodes.
pub const PARENT: &str = "/wire";
const SMALL: usize = 100;
const LARGE: usize = 100_000;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_run_survives_the_way_to_a_client() {
        for workload in WORKLOADS {
            let (warm_up, measured) = (Duration::from_millis(50), Duration::from_millis(500));
            let run = Run::new(workload, warm_up, measured);
            assert_eq!(run.to_string().parse::<Run>().unwrap(), run, "{run}");
        }
        for wrong in [
            "",
            "1 2 get 1 100 1",
            "1 2 put 1 100 1 current-thread",
            "1 2 get x 100 1 current-thread",
        ] {
            assert!(wrong.parse::<Run>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_workload_has_a_name_of_its_own() {
        let names: BTreeSet<String> = WORKLOADS.iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), WORKLOADS.len());
        assert!(names.contains("get of 100 kB, 64 in flight, multi-thread"));
        assert!(names.contains("get, 100 sessions, multi-thread"));
        assert!(names.contains("create + delete, serial, current-thread"));
    }
}
