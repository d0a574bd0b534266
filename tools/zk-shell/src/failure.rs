//! Failures of a command: one line with the problem, and one with the remedy.

use std::borrow::Cow;
use std::fmt;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use zk_core::{ConnectError, ErrorKind, Operation};

use crate::escape;
use crate::signals::EndSignal;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    cause: Cause,
    /// Empty if nothing is to be printed.
    problem: String,
    help: Option<Cow<'static, str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// The command was not understood.
    Usage,
    /// The command was understood and failed.
    Operation,
    /// The ensemble refused it, or did not answer.
    Ensemble(ErrorKind),
    /// The reader of the output has closed it.
    ReaderGone,
    Signal(EndSignal),
}

impl Failure {
    /// The command was not understood.
    pub(crate) fn usage(problem: impl Into<String>, help: &'static str) -> Self {
        Self {
            cause: Cause::Usage,
            problem: problem.into(),
            help: Some(help.into()),
        }
    }

    /// The command was understood and failed.
    pub(crate) fn operation(problem: impl Into<String>, help: Option<&'static str>) -> Self {
        Self {
            cause: Cause::Operation,
            problem: problem.into(),
            help: help.map(Cow::Borrowed),
        }
    }

    /// The time limit of the command has elapsed.
    pub(crate) fn too_slow(limit: Duration) -> Self {
        Self::operation(
            format!("the time limit of the command, {limit:?}, had passed"),
            Some("try again, or give it longer with --timeout"),
        )
    }

    /// The reader of the output has closed it, as in `zk ls -R / | head`.
    pub(crate) fn reader_gone() -> Self {
        Self {
            cause: Cause::ReaderGone,
            ..Self::silent()
        }
    }

    /// A signal has ended the command.
    pub(crate) fn interrupted(signal: EndSignal) -> Self {
        Self {
            cause: Cause::Signal(signal),
            ..Self::silent()
        }
    }

    /// Nothing is printed; the exit status is the result.
    pub(crate) fn silent() -> Self {
        Self::operation("", None)
    }

    /// Returns whether the command was not understood.
    pub(crate) fn is_usage(&self) -> bool {
        self.cause == Cause::Usage
    }

    /// Returns whether no further command may follow: a signal has come, or the reader of the output has closed it.
    pub(crate) fn is_end(&self) -> bool {
        self.cause == Cause::ReaderGone || self.is_interrupted()
    }

    /// Returns whether a signal has ended the command.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.signal().is_some()
    }

    /// Returns the signal that has ended the command.
    pub(crate) fn signal(&self) -> Option<EndSignal> {
        match self.cause {
            Cause::Signal(signal) => Some(signal),
            _ => None,
        }
    }

    /// Says what the failure is about, in front of the problem.
    #[must_use]
    pub(crate) fn about(mut self, subject: &str) -> Self {
        if self.problem.is_empty() {
            "the result is negative".clone_into(&mut self.problem);
        }
        self.problem = format!("{subject}: {}", self.problem);
        self
    }

    /// Replaces the remedy.
    #[must_use]
    pub(crate) fn with_help(mut self, help: impl Into<Cow<'static, str>>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Prints the failure, as JSON or as text, and turns it into the exit status.
    pub(crate) fn report(&self, is_json: bool) -> ExitCode {
        write_stderr(&self.lines(is_json));
        ExitCode::from(self.exit_status())
    }

    /// Returns what [`Self::report`] prints.
    pub(crate) fn lines(&self, is_json: bool) -> String {
        if self.problem.is_empty() {
            String::new()
        } else if is_json {
            self.json()
        } else {
            self.text()
        }
    }

    /// What was wrong.
    #[cfg(feature = "top")]
    pub(crate) fn problem(&self) -> &str {
        &self.problem
    }

    fn exit_status(&self) -> u8 {
        match self.cause {
            Cause::Usage => 2,
            Cause::Signal(signal) => signal.exit_status(),
            Cause::Operation | Cause::Ensemble(_) | Cause::ReaderGone => 1,
        }
    }

    /// Returns what is printed: the problem, and the remedy if there is one.
    pub(crate) fn text(&self) -> String {
        let help = self
            .help
            .as_ref()
            .map(|help| format!("help: {}\n", escape::block(help)))
            .unwrap_or_default();
        // Both may name nodes, whose names others have chosen.
        format!("error: {}\n{help}", escape::block(&self.problem))
    }

    fn json(&self) -> String {
        let kind = match self.cause {
            // By the name that it has in the code.
            Cause::Ensemble(kind) => Some(format!("{kind:?}")),
            _ => None,
        };
        let document = json!({
            "error": self.problem,
            "kind": kind,
            "help": self.help,
            "exit": self.exit_status(),
        });
        escape::json(&format!("{document}\n")).into_owned()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl From<zk_core::ParsePathError> for Failure {
    fn from(error: zk_core::ParsePathError) -> Self {
        Self {
            cause: Cause::Usage,
            problem: error.to_string(),
            help: None,
        }
    }
}

impl From<zk_core::Error> for Failure {
    fn from(error: zk_core::Error) -> Self {
        let help = match (error.kind(), error.operation()) {
            (ErrorKind::NoNode, Operation::Create) => Some("add -p to create the parents too"),
            (ErrorKind::NodeExists, _) => {
                Some("use `zk set` to change its data, or add -s for a numbered name")
            }
            (ErrorKind::NotEmpty, _) => {
                Some("use `zk deleteall` to delete everything below it too")
            }
            (ErrorKind::BadVersion, _) => {
                Some("`zk stat` prints the version it has, as dataVersion")
            }
            (ErrorKind::NoAuth, _) => {
                Some("put the credentials into the environment: ZK_AUTH=user:password")
            }
            (ErrorKind::NotConnected | ErrorKind::TimedOut, _) => {
                Some("try again, or give it longer with --timeout")
            }
            (ErrorKind::TooLarge, _) => Some(TOO_LARGE),
            (ErrorKind::OutcomeUnknown, _) => Some("read the node before doing it again"),
            (ErrorKind::Unsupported, _) => Some(
                "containers need servers of 3.5.1 or later, -t also extendedTypesEnabled; set --assume-release or ZK_ASSUME_RELEASE for servers before 3.6",
            ),
            _ => None,
        };
        Self {
            cause: Cause::Ensemble(error.kind()),
            ..Self::operation(chain(&error), help)
        }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        match &error {
            ConnectError::ConnectString(problem) => Self::usage(
                problem.to_string(),
                "as in --connect 127.0.0.1:2181,127.0.0.1:2182",
            ),
            ConnectError::Unanswered(_) => Self::operation(
                chain(&error),
                Some("start the servers, or correct --connect or ZK_CONNECT"),
            ),
            _ => Self::operation(chain(&error), None),
        }
    }
}

/// What helps with data that does not fit into a request.
pub(crate) const TOO_LARGE: &str = "store it in pieces, or elsewhere and its place in the node; if jute.maxbuffer of the servers is higher, set --max-buffer or ZK_MAX_BUFFER to it";

/// Writes to standard error, and ignores failures.
pub(crate) fn write_stderr(text: &str) {
    // Even to write nothing, it would wait for another thread that writes.
    if !text.is_empty() {
        // If standard error is closed, nothing is left to report to.
        drop(std::io::stderr().write_all(text.as_bytes()));
    }
}

/// The message and those of its causes.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}
