//! Defines a parsed history: its calls, faults and processes.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::op::Op;
use super::outcome::Outcome;

/// The recorded operations and faults of a run, from [`parse`](Self::parse) or [`read`](Self::read).
///
/// Times are nanoseconds of the host's monotonic clock, which all processes of a host share.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct History {
    /// The operations, in the order in which they were invoked.
    pub calls: Vec<Call>,
    /// Faults injected into servers, links and processes, in the order in which they began.
    pub faults: Vec<Fault>,
    /// The recording processes; one that was restarted under its name occurs twice.
    pub processes: Vec<Process>,
    /// The names of the files.
    pub files: Vec<String>,
    /// Partial lines of killed processes, which were ignored.
    pub torn: Vec<SourceLine>,
    /// The number of ignored lines that another version of this program wrote.
    pub unrecognised: u64,
}

/// One operation, from its invoke to its return.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// The caller.
    pub client: Client,
    /// The id, unique within the process.
    pub id: u64,
    /// The operation.
    pub op: Op,
    /// When it began.
    pub invoked: u64,
    /// When it ended; `None` if the outcome is unknown, since it may still take effect.
    pub returned: Option<u64>,
    /// When the caller stopped waiting for an operation with an unknown outcome.
    pub given_up: Option<u64>,
    /// The outcome.
    pub outcome: Outcome,
    /// For a grant: until when the holder relied on it, if recorded.
    pub believed_until: Option<u64>,
    /// The line of the invoke.
    pub source_line: SourceLine,
}

/// A process, or one of its tasks that act independently.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Client {
    /// The index in [`History::processes`].
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
    /// The name.
    pub name: Arc<str>,
    /// The process id.
    pub pid: u32,
    /// When it began recording.
    pub begun: u64,
    /// When it wrote its last line.
    pub last: u64,
    /// Whether it recorded its end; `kill -9` prevents that.
    pub ended: bool,
}

/// A fault injected into a server, a link or a process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The kind of fault: `kill`, `pause`, `partition`, …
    pub name: String,
    /// The server, link or process.
    pub target: String,
    /// When it began.
    pub begun: u64,
    /// When it ended, if recorded.
    pub ended: Option<u64>,
}

/// A line of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub struct SourceLine {
    /// The index in [`History::files`].
    pub file: usize,
    /// The line number, from one.
    pub line: usize,
}

impl History {
    /// Formats a line as `file:line`.
    pub fn locate(&self, source_line: SourceLine) -> String {
        let file = self.files.get(source_line.file).map_or("?", String::as_str);
        format!("{file}:{}", source_line.line)
    }

    /// Returns a history with only the calls whose path `keep` accepts, and all faults and processes.
    pub(crate) fn only(&self, keep: impl Fn(&str) -> bool) -> Self {
        let mut part = self.clone();
        part.calls.retain(|call| keep(call.op.path()));
        part
    }

    /// Groups the calls by path, and keeps their order.
    pub(crate) fn by_path(&self) -> BTreeMap<&str, Vec<&Call>> {
        let mut paths: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
        for call in &self.calls {
            paths.entry(call.op.path()).or_default().push(call);
        }
        paths
    }

    /// Returns when the client's process wrote its last line: it was certainly alive until then.
    pub(crate) fn last_line_of(&self, client: &Client) -> u64 {
        self.processes
            .get(client.process)
            .map_or(u64::MAX, |process| process.last)
    }

    /// Returns the first and the last time of the history, or zeros.
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
