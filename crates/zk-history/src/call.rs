//! A history that was read: its calls, faults and processes.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::sync::Arc;

use super::answer::Outcome;
use super::op::Op;

/// What happened in a run, as [`parse`](Self::parse) and [`read`](Self::read) find it.
///
/// Moments are nanoseconds of the host's monotonic clock, which all processes of a host share.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct History {
    /// The operations, in the order in which they were invoked.
    pub calls: Vec<Call>,
    /// What was done to servers, links and processes, in the order in which it began.
    pub faults: Vec<Fault>,
    /// Who recorded; a process that was started again under its name is there twice.
    pub processes: Vec<Process>,
    /// The files it was read from.
    pub files: Vec<String>,
    /// Lines that a process left unfinished when it was killed, and that were left out.
    pub torn: Vec<Place>,
    /// How many lines were left out because a later program wrote them.
    pub unrecognised: u64,
}

/// One operation, from its invoke to its return.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// Who called.
    pub client: Client,
    /// Its number, unique within the process.
    pub id: u64,
    /// What was called.
    pub op: Op,
    /// When it began.
    pub invoked: u64,
    /// When it ended; what is unknown never ends, since it may still take effect.
    pub returned: Option<u64>,
    /// When the caller stopped to wait for something unknown, if it did.
    pub given_up: Option<u64>,
    /// How it ended.
    pub outcome: Outcome,
    /// For a grant: until when the holder believed to hold it, if it said so.
    pub believed_until: Option<u64>,
    /// The line of the invoke.
    pub place: Place,
}

/// A process, or one of the tasks of a process that act on their own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Client {
    /// Which of [`History::processes`].
    pub process: usize,
    /// The name of the process.
    pub name: Arc<str>,
    /// The name of the task.
    pub task: Option<Arc<str>>,
}

/// A process that recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    /// Its name.
    pub name: Arc<str>,
    /// Its id.
    pub pid: u32,
    /// When it began to record.
    pub begun: u64,
    /// When it wrote its last line.
    pub last: u64,
    /// Whether the last line says that it is the last one; it does not after `kill -9`.
    pub ended: bool,
}

/// Something that was done to a server, a link or a process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// What was done, in a word: `kill`, `pause`, `partition`, …
    pub name: String,
    /// To whom.
    pub target: String,
    /// When it began.
    pub begun: u64,
    /// When it was over; there is no such moment if nobody said so.
    pub ended: Option<u64>,
}

/// A line of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub struct Place {
    /// Which of [`History::files`].
    pub file: usize,
    /// The line, from one.
    pub line: usize,
}

impl History {
    /// A place as `file:line`.
    pub fn locate(&self, place: Place) -> String {
        let file = self.files.get(place.file).map_or("?", String::as_str);
        format!("{file}:{}", place.line)
    }

    /// The part of a history that is about paths which `keep` wants; faults and processes stay.
    #[must_use]
    pub fn only(&self, keep: impl Fn(&str) -> bool) -> Self {
        Self {
            calls: self
                .calls
                .iter()
                .filter(|call| keep(call.op.path()))
                .cloned()
                .collect(),
            faults: self.faults.clone(),
            processes: self.processes.clone(),
            files: self.files.clone(),
            torn: self.torn.clone(),
            unrecognised: self.unrecognised,
        }
    }

    /// When the process of a call wrote its last line: until then it certainly was alive.
    pub(crate) fn last_sign_of(&self, client: &Client) -> u64 {
        self.processes
            .get(client.process)
            .map_or(u64::MAX, |process| process.last)
    }

    /// The first and the last moment of all; zero if there is none.
    pub(crate) fn bounds(&self) -> (u64, u64) {
        let begun = self.processes.iter().map(|process| process.begun);
        let last = self.processes.iter().map(|process| process.last);
        (begun.min().unwrap_or(0), last.max().unwrap_or(0))
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.task
            .as_ref()
            .map_or(Ok(()), |task| write!(f, "/{task}"))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.target)
    }
}
