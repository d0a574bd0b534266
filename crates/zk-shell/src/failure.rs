//! Failures of a command: one line with the problem, and one with the remedy.

use std::borrow::Cow;
use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use serde_json::json;
use zk_core::ConnectError;
use zk_core::ErrorKind;
use zk_core::Operation;

use crate::escape;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    is_usage: bool,
    is_reader_gone: bool,
    /// Empty if nothing is to be printed.
    problem: String,
    help: Option<Cow<'static, str>>,
    /// The kind of an error of the ensemble, by the name it has in the code.
    kind: Option<String>,
}

impl Failure {
    /// The command was not understood.
    pub(crate) fn usage(problem: impl Into<String>, help: &'static str) -> Self {
        Self {
            is_usage: true,
            problem: problem.into(),
            help: Some(help.into()),
            kind: None,
            is_reader_gone: false,
        }
    }

    /// The command was understood and failed.
    pub(crate) fn operation(problem: impl Into<String>, help: Option<&'static str>) -> Self {
        Self {
            is_usage: false,
            problem: problem.into(),
            help: help.map(Cow::Borrowed),
            kind: None,
            is_reader_gone: false,
        }
    }

    /// The time limit of the command has elapsed.
    pub(crate) fn too_slow() -> Self {
        Self::operation(
            "the time for the command was up",
            Some("try again, or give it longer with --timeout"),
        )
    }

    /// The reader of the output has closed it, as in `zk ls -R / | head`.
    pub(crate) fn reader_gone() -> Self {
        Self {
            is_reader_gone: true,
            ..Self::silent()
        }
    }

    /// Nothing is printed; the exit status is the result.
    pub(crate) fn silent() -> Self {
        Self::operation("", None)
    }

    /// Returns whether the command was not understood.
    pub(crate) fn is_usage(&self) -> bool {
        self.is_usage
    }

    /// Returns whether the reader of the output has closed it.
    pub(crate) fn is_reader_gone(&self) -> bool {
        self.is_reader_gone
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
        if !self.problem.is_empty() {
            tell(&if is_json { self.json() } else { self.text() });
        }
        ExitCode::from(self.exit_status())
    }

    /// What was wrong.
    #[cfg(feature = "top")]
    pub(crate) fn problem(&self) -> &str {
        &self.problem
    }

    fn exit_status(&self) -> u8 {
        if self.is_usage { 2 } else { 1 }
    }

    fn text(&self) -> String {
        let help = self
            .help
            .as_ref()
            .map(|help| format!("help: {}\n", escape::block(help)))
            .unwrap_or_default();
        // Both may name nodes, whose names others have chosen.
        format!("error: {}\n{help}", escape::block(&self.problem))
    }

    fn json(&self) -> String {
        let document = json!({
            "error": self.problem,
            "kind": self.kind,
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
            is_usage: true,
            problem: error.to_string(),
            help: None,
            kind: None,
            is_reader_gone: false,
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
            (ErrorKind::OutcomeUnknown, _) => Some("look at the node before doing it again"),
            (ErrorKind::Unsupported, _) => {
                Some("containers need a server of 3.5.1 or later, -t also extendedTypesEnabled")
            }
            _ => None,
        };
        Self {
            kind: Some(format!("{:?}", error.kind())),
            ..Self::operation(chain(&error), help)
        }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        match &error {
            ConnectError::ConnectString(problem) => Self {
                is_usage: true,
                problem: problem.to_string(),
                help: Some("as in --connect 127.0.0.1:2181,127.0.0.1:2182".into()),
                kind: None,
                is_reader_gone: false,
            },
            ConnectError::Unanswered(_) => Self::operation(
                chain(&error),
                Some("start the servers, or correct --connect or ZK_CONNECT"),
            ),
            _ => Self::operation(chain(&error), None),
        }
    }
}

/// Writes to standard error, and ignores failures.
pub(crate) fn tell(text: &str) {
    // If standard error is closed, nothing is left to report to.
    drop(std::io::stderr().write_all(text.as_bytes()));
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
