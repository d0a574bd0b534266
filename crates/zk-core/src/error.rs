//! The error type of all operations of a session.

use std::fmt;
use std::sync::Arc;

use zk_wire::{NodePath, ParsePathError, SessionEnd};

/// An operation failed.
///
/// [`kind`](Self::kind) says what happened, [`class`](Self::class) what a caller can do about it.
/// The message contains the operation, the path, and the number of attempts if there was more than one.
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
    /// What the refused request was to do, unless it is the operation: a part of a transaction, or a read before a write.
    part: Option<Operation>,
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
            part: None,
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

    /// Adds the message of the transport as the source.
    #[must_use]
    pub(crate) fn caused_by(mut self, cause: Option<String>) -> Self {
        if let Some(cause) = cause {
            self.0.source = Some(Arc::new(Cause(cause)));
        }
        self
    }

    /// Records that the request was sent and no reply arrived.
    #[must_use]
    pub(crate) fn maybe_applied(mut self) -> Self {
        self.0.may_be_applied = true;
        self
    }

    /// Records which part of a transaction the server refused.
    #[must_use]
    pub(crate) fn failed_at(mut self, part: usize) -> Self {
        self.0.failed_part = Some(part);
        self
    }

    /// Records that the error concerns none of the caller's parts, and that none of them was applied.
    #[must_use]
    pub(crate) fn of_no_part(mut self) -> Self {
        self.0.failed_part = None;
        self.0.may_be_applied = false;
        self
    }

    /// Removes the path: the error concerns no node.
    #[must_use]
    pub(crate) fn without_path(mut self) -> Self {
        self.0.path = None;
        self
    }

    /// Records what the refused request was to do, for which it may need another right than the operation.
    #[must_use]
    pub(crate) fn refused_to(mut self, part: Operation) -> Self {
        self.0.part = Some(part);
        self
    }

    /// Adds what the refused part of a transaction was to do, its path, and details.
    #[must_use]
    pub(crate) fn about(
        mut self,
        part: Operation,
        path: &NodePath,
        detail: impl Into<String>,
    ) -> Self {
        self.0.part = Some(part);
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

    /// Returns the path of the node that the error concerns.
    ///
    /// A recursive operation may fail at a node below the given path.
    /// `None` if the path is invalid or the operation has none.
    pub fn path(&self) -> Option<&NodePath> {
        self.0.path.as_ref()
    }

    /// Returns how often the request was sent.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// Returns the index of the part of a transaction that the server refused, in the order of addition.
    pub fn failed_part(&self) -> Option<usize> {
        self.0.failed_part
    }

    /// Returns whether the session is over, and everything built on it.
    pub fn is_fatal(&self) -> bool {
        self.class() == ErrorClass::Fatal
    }

    /// Returns whether the node does not exist (for a create: the parent node).
    pub fn is_no_node(&self) -> bool {
        self.0.kind == ErrorKind::NoNode
    }

    /// Returns whether the node exists already.
    pub fn is_node_exists(&self) -> bool {
        self.0.kind == ErrorKind::NodeExists
    }

    /// Returns whether a write may have been applied although no reply arrived.
    ///
    /// True for [`ErrorKind::OutcomeUnknown`], and for a fatal error that occurred while a write was in flight.
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
        write!(
            f,
            ": {}",
            describe(repr.kind, repr.part.unwrap_or(repr.operation))
        )?;
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

/// The message of the transport, without its error types.
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
    /// The given version differs from the node's version.
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
    /// The server has no quorum and serves reads only. It may rejoin the quorum soon.
    ReadOnlyServer,
    /// The server does not implement the operation, or it is disabled there.
    Unsupported,
    /// The given path is not a valid node path.
    InvalidPath,
    /// The given options contradict each other, or the server refuses them.
    InvalidArgument,
    /// The request is larger than [`SessionBuilder::max_buffer`](crate::SessionBuilder::max_buffer), for which the servers'
    /// `jute.maxbuffer` is the limit, and was not sent; or the reply to a read is larger than the session accepts, 16 times
    /// as much, and was not read.
    TooLarge,
    /// The server's reply to a read makes no sense.
    InvalidReply,
    /// The session was not connected until the deadline. The request was not sent, and will not be.
    NotConnected,
    /// The deadline passed: no reply to a read arrived, or a request could not be sent in time.
    ///
    /// [`Error::attempts`] is zero if nothing was sent.
    TimedOut,
    /// The connection broke during every attempt of the read until the deadline.
    ConnectionLost,
    /// The write was sent and no reply arrived. The server may have applied it, may still apply it, or never will.
    OutcomeUnknown,
    /// The server was too busy for every attempt until the deadline.
    Throttled,
    /// The session had moved to another server at every attempt until the deadline.
    SessionMoved,
    /// The server returned an internal error for every attempt until the deadline.
    ServerError,
    /// The ensemble expired the session, or must have.
    SessionExpired,
    /// The server refused the session's credentials.
    AuthFailed,
    /// The server requires SASL, or another authentication that the session has not made.
    ///
    /// The server grants the session, and refuses its first operation with this.
    AuthRequired,
    /// The session was closed.
    SessionClosed,
}

impl From<SessionEnd> for ErrorKind {
    fn from(end: SessionEnd) -> Self {
        match end {
            SessionEnd::Expired => Self::SessionExpired,
            SessionEnd::AuthFailed => Self::AuthFailed,
            SessionEnd::AuthRequired => Self::AuthRequired,
            SessionEnd::Closed | SessionEnd::RuntimeEnded => Self::SessionClosed,
        }
    }
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
            | Self::TooLarge
            | Self::InvalidReply => ErrorClass::Outcome,
            Self::NotConnected
            | Self::ReadOnlyServer
            | Self::TimedOut
            | Self::ConnectionLost
            | Self::OutcomeUnknown
            | Self::Throttled
            | Self::SessionMoved
            | Self::ServerError => ErrorClass::Recoverable,
            Self::SessionExpired | Self::AuthFailed | Self::AuthRequired | Self::SessionClosed => {
                ErrorClass::Fatal
            }
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
    /// The server, or a check before sending, refused the operation. It had no effect; the same request fails again.
    Outcome,
    /// The session is still alive, and the operation may succeed later. A write may have been applied already:
    /// [`Error::is_outcome_unknown`] returns whether.
    Recoverable,
    /// The session is over, and everything built on it.
    Fatal,
}

/// An operation of a session, as errors and spans show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// [`Session::create`](crate::Session::create).
    Create,
    /// [`Session::get`](crate::Session::get).
    Get,
    /// [`Session::set`](crate::Session::set).
    Set,
    /// [`Session::update`](crate::Session::update).
    Update,
    /// [`Session::exists`](crate::Session::exists).
    Exists,
    /// [`Session::stat`](crate::Session::stat).
    Stat,
    /// [`Session::list`](crate::Session::list).
    List,
    /// [`Session::get_many`](crate::Session::get_many). The errors of single nodes are of [`Get`](Self::Get).
    GetMany,
    /// [`Session::list_many`](crate::Session::list_many). The errors of single nodes are of [`List`](Self::List).
    ListMany,
    /// [`Session::whoami`](crate::Session::whoami).
    WhoAmI,
    /// [`Session::ephemerals`](crate::Session::ephemerals).
    Ephemerals,
    /// [`Session::descendant_count`](crate::Session::descendant_count).
    DescendantCount,
    /// [`Session::config`](crate::Session::config).
    GetConfig,
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
    RenewLease,
    /// [`Session::connected`](crate::Session::connected).
    Connect,
    /// [`Session::add_auth`](crate::Session::add_auth).
    AddAuth,
    /// [`Session::close`](crate::Session::close).
    Close,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::Set => "set",
            Self::Update => "update",
            Self::Exists => "exists",
            Self::Stat => "stat",
            Self::List => "list",
            Self::GetMany => "get several nodes from",
            Self::ListMany => "list several nodes from",
            Self::WhoAmI => "whoami",
            Self::Ephemerals => "list the ephemeral nodes at",
            Self::DescendantCount => "count the nodes below",
            Self::GetConfig => "get the configuration",
            Self::Delete => "delete",
            Self::Sync => "sync",
            Self::GetAcl => "get the acl of",
            Self::SetAcl => "set the acl of",
            Self::Transaction => "transaction",
            Self::Subscribe => "subscribe to",
            Self::Track => "track",
            Self::Wait => "wait for",
            Self::RenewLease => "renew the lease",
            Self::Connect => "wait for a connection",
            Self::AddAuth => "add credentials",
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
        (ErrorKind::NoAuth, Operation::Update) => {
            "not permitted; it needs READ and WRITE on the node"
        }
        (
            ErrorKind::NoAuth,
            Operation::Get
            | Operation::GetMany
            | Operation::Exists
            | Operation::Stat
            | Operation::List
            | Operation::ListMany
            | Operation::DescendantCount
            | Operation::GetConfig
            | Operation::Subscribe
            | Operation::Track
            | Operation::Wait,
        ) => "not permitted; it needs READ on the node",
        (ErrorKind::NoAuth, Operation::GetAcl) => {
            "not permitted; it needs READ or ADMIN on the node"
        }
        (ErrorKind::NoAuth, Operation::SetAcl) => "not permitted; it needs ADMIN on the node",
        (ErrorKind::NoAuth, _) => "not permitted",
        (ErrorKind::InvalidAcl, _) => "the server does not accept the acl",
        (ErrorKind::QuotaExceeded, _) => "a quota on the path forbids it",
        (ErrorKind::ReadOnlyServer, _) => "the server has no quorum and serves only reads",
        (ErrorKind::Unsupported, _) => "the server does not support it",
        (ErrorKind::InvalidPath, _) => "not a valid path",
        (ErrorKind::InvalidArgument, _) => "not possible",
        (
            ErrorKind::TooLarge,
            Operation::Get | Operation::List | Operation::GetAcl | Operation::GetConfig,
        ) => "the reply is too large",
        (ErrorKind::TooLarge, Operation::GetMany | Operation::ListMany) => {
            "the request or the reply is too large"
        }
        (ErrorKind::TooLarge, _) => "the request is too large",
        (ErrorKind::InvalidReply, _) => "the server's reply makes no sense",
        (ErrorKind::NotConnected, _) => "not sent, the session was not connected",
        (ErrorKind::TimedOut, Operation::Update) => "not written in time",
        (ErrorKind::TimedOut, _) => "no reply in time",
        (ErrorKind::ConnectionLost, _) => "the connection broke",
        (ErrorKind::OutcomeUnknown, _) => {
            "outcome unknown, the request was sent and no reply arrived"
        }
        (ErrorKind::Throttled, _) => "the server is too busy",
        (ErrorKind::SessionMoved, _) => "the session moved to another server",
        (ErrorKind::ServerError, _) => "the server failed",
        (ErrorKind::SessionExpired, _) => "the session has expired",
        (ErrorKind::AuthFailed, _) => "the server refused the session's credentials",
        (ErrorKind::AuthRequired, _) => {
            "the server requires authentication, with SASL for example, and the session has made none that it accepts"
        }
        (ErrorKind::SessionClosed, _) => "the session is closed",
    }
}
