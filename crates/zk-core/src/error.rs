//! The one error of all operations.

use std::fmt;
use std::sync::Arc;

use crate::path::NodePath;
use crate::path::ParsePathError;

/// An operation failed.
///
/// [`kind`](Self::kind) says what happened, [`class`](Self::class) what a caller can do about it.
/// The message names the operation and the path, and the attempts when there was more than one.
#[derive(Debug, Clone)]
pub struct Error(Box<Repr>);

#[derive(Debug, Clone)]
struct Repr {
    operation: Operation,
    path: Option<NodePath>,
    attempts: u32,
    kind: ErrorKind,
    may_be_applied: bool,
    failed_part: Option<usize>,
    detail: Option<String>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(operation: Operation, path: Option<&NodePath>, kind: ErrorKind) -> Self {
        Self(Box::new(Repr {
            operation,
            path: path.cloned(),
            attempts: 0,
            kind,
            may_be_applied: kind == ErrorKind::OutcomeUnknown,
            failed_part: None,
            detail: None,
            source: None,
        }))
    }

    pub(crate) fn invalid_path(operation: Operation, source: ParsePathError) -> Self {
        let mut error = Self::new(operation, None, ErrorKind::InvalidPath);
        error.0.source = Some(Arc::new(source));
        error
    }

    #[must_use]
    pub(crate) fn attempts_made(mut self, attempts: u32) -> Self {
        self.0.attempts = attempts;
        self
    }

    #[must_use]
    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// Adds what the connection said, as the source.
    #[must_use]
    pub(crate) fn caused_by(mut self, cause: Option<String>) -> Self {
        if let Some(cause) = cause {
            self.0.source = Some(Arc::new(Cause(cause)));
        }
        self
    }

    /// Notes that the request was sent and its answer is not known.
    #[must_use]
    pub(crate) fn maybe_applied(mut self) -> Self {
        self.0.may_be_applied = true;
        self
    }

    /// Notes which part of a transaction was refused.
    #[must_use]
    pub(crate) fn failed_at(mut self, part: usize) -> Self {
        self.0.failed_part = Some(part);
        self
    }

    /// Notes that it is about none of the parts that were asked for.
    #[must_use]
    pub(crate) fn of_no_part(mut self) -> Self {
        self.0.failed_part = None;
        self.decided()
    }

    /// Notes that the request was certainly not applied.
    #[must_use]
    pub(crate) fn decided(mut self) -> Self {
        self.0.may_be_applied = false;
        self
    }

    /// Names the part of a transaction that was refused, and its path.
    #[must_use]
    pub(crate) fn about(mut self, path: &NodePath, detail: impl Into<String>) -> Self {
        self.0.path = Some(path.clone());
        self.0.detail = Some(detail.into());
        self
    }

    /// Returns what happened.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        self.0.kind.class()
    }

    /// Returns the operation that failed.
    pub fn operation(&self) -> Operation {
        self.0.operation
    }

    /// Returns the path of the node concerned, which for a recursive operation may lie below the path that was given.
    /// `None` when the path could not be parsed or the operation has none.
    pub fn path(&self) -> Option<&NodePath> {
        self.0.path.as_ref()
    }

    /// Returns how often the request was sent; zero when it never was.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// Returns which part of a transaction was refused, counted from zero in the order in which they were added.
    pub fn failed_part(&self) -> Option<usize> {
        self.0.failed_part
    }

    /// Returns whether the session is gone, and everything built on it.
    pub fn is_fatal(&self) -> bool {
        self.class() == ErrorClass::Fatal
    }

    /// Returns whether the node does not exist (for a create: its parent).
    pub fn is_no_node(&self) -> bool {
        self.0.kind == ErrorKind::NoNode
    }

    /// Returns whether the node exists already.
    pub fn is_node_exists(&self) -> bool {
        self.0.kind == ErrorKind::NodeExists
    }

    /// Returns whether a write may have been applied although no answer came.
    ///
    /// That is so for [`ErrorKind::OutcomeUnknown`], and for a fatal error that hit a write in flight.
    pub fn is_outcome_unknown(&self) -> bool {
        self.0.may_be_applied
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let repr = &*self.0;
        write!(f, "{}", repr.operation)?;
        if let Some(path) = &repr.path {
            write!(f, " {path}")?;
        }
        write!(f, ": {}", describe(repr.kind, repr.operation))?;
        if let Some(detail) = &repr.detail {
            write!(f, " ({detail})")?;
        }
        if repr.may_be_applied && repr.kind != ErrorKind::OutcomeUnknown {
            write!(f, "; the request may have been applied")?;
        }
        if repr.attempts > 1 {
            write!(f, " after {} attempts", repr.attempts)
        } else {
            Ok(())
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// What the transport said, as text: its own error types stay behind it.
#[derive(Debug)]
struct Cause(String);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Cause {}

/// What happened to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The node does not exist; for a create, its parent does not.
    NoNode,
    /// A node with this path exists already.
    NodeExists,
    /// The version given is not the node's version.
    BadVersion,
    /// The node has children.
    NotEmpty,
    /// The parent is ephemeral, and ephemeral nodes have no children.
    ParentIsEphemeral,
    /// The session's identities lack the permission.
    NoAuth,
    /// The server does not accept the access rules.
    InvalidAcl,
    /// A quota on the path forbids it.
    QuotaExceeded,
    /// The server is cut off from the quorum and answers reads only; it may be back in the quorum soon.
    ReadOnlyServer,
    /// The server does not know the operation or has it switched off.
    Unsupported,
    /// The path given is not a path.
    InvalidPath,
    /// The options given do not go together, or the server refuses them.
    InvalidArgument,
    /// The request is over the size the server reads; it was not sent.
    TooLarge,
    /// The session has as many bytes of paths under watch as it can set again on another server; nothing was sent.
    /// There is room again when other watches end.
    TooManyWatches,
    /// The session was not connected until the deadline; the request was never sent, and will not be.
    NotConnected,
    /// No answer by the deadline: of a read that was sent, or of any request that came too late to be sent at all.
    ///
    /// [`Error::attempts`] tells them apart.
    TimedOut,
    /// The connection broke during the read, each time until the deadline.
    ConnectionLost,
    /// The write was sent and no answer came: it may have been applied, may not have been, or may still be.
    OutcomeUnknown,
    /// The server was too busy to take the request, each time until the deadline.
    Throttled,
    /// The session had moved to another server, each time until the deadline.
    SessionMoved,
    /// The server answered with an error code of its own trouble, each time until the deadline.
    ServerError,
    /// The ensemble has expired the session, or it must be assumed so.
    SessionExpired,
    /// The server refused the session's credentials.
    AuthFailed,
    /// The session was closed.
    SessionClosed,
}

impl ErrorKind {
    /// Returns what can be done about an error of this kind.
    pub const fn class(self) -> ErrorClass {
        match self {
            Self::NoNode
            | Self::NodeExists
            | Self::BadVersion
            | Self::NotEmpty
            | Self::ParentIsEphemeral
            | Self::NoAuth
            | Self::InvalidAcl
            | Self::QuotaExceeded
            | Self::Unsupported
            | Self::InvalidPath
            | Self::InvalidArgument
            | Self::TooLarge => ErrorClass::Outcome,
            Self::NotConnected
            | Self::ReadOnlyServer
            | Self::TooManyWatches
            | Self::TimedOut
            | Self::ConnectionLost
            | Self::OutcomeUnknown
            | Self::Throttled
            | Self::SessionMoved
            | Self::ServerError => ErrorClass::Recoverable,
            Self::SessionExpired | Self::AuthFailed | Self::SessionClosed => ErrorClass::Fatal,
        }
    }
}

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "callers branch on exactly these three"
)]
pub enum ErrorClass {
    /// A definite answer: the operation was judged and did nothing. Repeating it unchanged gives the same.
    Outcome,
    /// The session is still good; the operation may work later.
    Recoverable,
    /// The session is gone, and with it everything built on it.
    Fatal,
}

/// An operation of a session, as errors and spans name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// [`Session::create`](crate::Session::create).
    Create,
    /// [`Session::get`](crate::Session::get).
    Get,
    /// [`Session::set`](crate::Session::set).
    Set,
    /// [`Session::exists`](crate::Session::exists).
    Exists,
    /// [`Session::stat`](crate::Session::stat).
    Stat,
    /// [`Session::list`](crate::Session::list).
    List,
    /// [`Session::delete`](crate::Session::delete).
    Delete,
    /// [`Session::sync`](crate::Session::sync).
    Sync,
    /// [`Session::acl`](crate::Session::acl).
    GetAcl,
    /// [`Session::set_acl`](crate::Session::set_acl).
    SetAcl,
    /// [`Session::transaction`](crate::Session::transaction).
    Transaction,
    /// [`Session::subscribe`](crate::Session::subscribe).
    Subscribe,
    /// [`Session::track`](crate::Session::track).
    Track,
    /// [`Session::wait_for_creation`](crate::Session::wait_for_creation) and
    /// [`Session::wait_for_deletion`](crate::Session::wait_for_deletion).
    Wait,
    /// [`SessionLease::renewed`](crate::SessionLease::renewed).
    Probe,
    /// [`Session::close`](crate::Session::close).
    Close,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::Set => "set",
            Self::Exists => "exists",
            Self::Stat => "stat",
            Self::List => "list",
            Self::Delete => "delete",
            Self::Sync => "sync",
            Self::GetAcl => "get the acl of",
            Self::SetAcl => "set the acl of",
            Self::Transaction => "transaction",
            Self::Subscribe => "subscribe to",
            Self::Track => "track",
            Self::Wait => "wait for",
            Self::Probe => "probe",
            Self::Close => "close",
        })
    }
}

fn describe(kind: ErrorKind, operation: Operation) -> &'static str {
    match (kind, operation) {
        (ErrorKind::NoNode, Operation::Create) => "the parent node does not exist",
        (ErrorKind::NoNode, _) => "the node does not exist",
        (ErrorKind::NodeExists, _) => "the node already exists",
        (ErrorKind::BadVersion, _) => "the node has another version",
        (ErrorKind::NotEmpty, _) => "the node has children",
        (ErrorKind::ParentIsEphemeral, _) => "the parent is ephemeral and cannot have children",
        (ErrorKind::NoAuth, Operation::Create) => "not permitted; it needs CREATE on the parent",
        (ErrorKind::NoAuth, Operation::Delete) => "not permitted; it needs DELETE on the parent",
        (ErrorKind::NoAuth, Operation::Set) => "not permitted; it needs WRITE on the node",
        (ErrorKind::NoAuth, Operation::Get | Operation::List) => {
            "not permitted; it needs READ on the node"
        }
        (ErrorKind::NoAuth, Operation::GetAcl) => {
            "not permitted; it needs READ or ADMIN on the node"
        }
        (ErrorKind::NoAuth, Operation::SetAcl) => "not permitted; it needs ADMIN on the node",
        (ErrorKind::NoAuth, _) => "not permitted",
        (ErrorKind::InvalidAcl, _) => "the server does not accept the acl",
        (ErrorKind::QuotaExceeded, _) => "a quota on the path forbids it",
        (ErrorKind::ReadOnlyServer, _) => {
            "the server is cut off from the quorum and only answers reads"
        }
        (ErrorKind::Unsupported, _) => "the server does not support it",
        (ErrorKind::InvalidPath, _) => "not a valid path",
        (ErrorKind::InvalidArgument, _) => "not possible",
        (ErrorKind::TooLarge, _) => "the request is too large",
        (ErrorKind::TooManyWatches, _) => "the session has too much under watch",
        (ErrorKind::NotConnected, _) => "not sent, the session was not connected",
        (ErrorKind::TimedOut, _) => "no answer in time",
        (ErrorKind::ConnectionLost, _) => "the connection broke",
        (ErrorKind::OutcomeUnknown, _) => {
            "outcome unknown, the request was sent and no answer came"
        }
        (ErrorKind::Throttled, _) => "the server is too busy",
        (ErrorKind::SessionMoved, _) => "the session moved to another server",
        (ErrorKind::ServerError, _) => "the server failed",
        (ErrorKind::SessionExpired, _) => "the session has expired",
        (ErrorKind::AuthFailed, _) => "the server refused the session's credentials",
        (ErrorKind::SessionClosed, _) => "the session is closed",
    }
}
