//! The error codes of the protocol.
//!
//! Pure: no I/O and no clock.

use std::fmt;

/// Why a server refused a request. Displays ZooKeeper's name for it and the number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(i32);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $java:literal;)*) => {
        impl ErrorCode {
            $($(#[$doc])* pub const $name: Self = Self($code);)*

            /// Returns ZooKeeper's name for it; `None` for a code that no release up to 3.9 has.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some($java),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// The server failed.
    SYSTEM_ERROR = -1, "SystemError";
    /// The operation was not tried, because another one of its transaction was refused.
    RUNTIME_INCONSISTENCY = -2, "RuntimeInconsistency";
    /// The server found its data inconsistent.
    DATA_INCONSISTENCY = -3, "DataInconsistency";
    /// The server lost its connection to the leader.
    CONNECTION_LOSS = -4, "ConnectionLoss";
    /// The server could not decode the request.
    MARSHALLING_ERROR = -5, "MarshallingError";
    /// The server does not know the operation.
    UNIMPLEMENTED = -6, "Unimplemented";
    /// The server gave up waiting.
    OPERATION_TIMEOUT = -7, "OperationTimeout";
    /// The request is invalid.
    BAD_ARGUMENTS = -8, "BadArguments";
    /// A quorum of the new configuration is not in sync.
    NEW_CONFIG_NO_QUORUM = -13, "NewConfigNoQuorum";
    /// Another reconfiguration is in progress.
    RECONFIG_IN_PROGRESS = -14, "ReconfigInProgress";
    /// There is no node at the path.
    NO_NODE = -101, "NoNode";
    /// The access rules do not permit it.
    NO_AUTH = -102, "NoAuth";
    /// The node has another version.
    BAD_VERSION = -103, "BadVersion";
    /// Ephemeral nodes cannot have children.
    NO_CHILDREN_FOR_EPHEMERALS = -108, "NoChildrenForEphemerals";
    /// There is a node at the path.
    NODE_EXISTS = -110, "NodeExists";
    /// The node has children.
    NOT_EMPTY = -111, "NotEmpty";
    /// The session is over.
    SESSION_EXPIRED = -112, "SessionExpired";
    /// The access rules are invalid.
    INVALID_ACL = -114, "InvalidACL";
    /// The credentials are wrong.
    AUTH_FAILED = -115, "AuthFailed";
    /// The session has moved to another server.
    SESSION_MOVED = -118, "SessionMoved";
    /// A read-only server cannot write.
    NOT_READ_ONLY = -119, "NotReadOnly";
    /// A local session cannot own ephemeral nodes.
    EPHEMERAL_ON_LOCAL_SESSION = -120, "EphemeralOnLocalSession";
    /// There is no such watch.
    NO_WATCHER = -121, "NoWatcher";
    /// The server gave up waiting for a quorum.
    REQUEST_TIMEOUT = -122, "RequestTimeout";
    /// The ensemble does not permit reconfiguration.
    RECONFIG_DISABLED = -123, "ReconfigDisabled";
    /// The server requires authentication by SASL.
    SESSION_CLOSED_REQUIRE_SASL_AUTH = -124, "SessionClosedRequireSaslAuth";
    /// The write exceeds the quota of its subtree.
    QUOTA_EXCEEDED = -125, "QuotaExceeded";
    /// The server has too many requests; nothing was done.
    THROTTLED_OP = -127, "ThrottledOp";
}

impl ErrorCode {
    /// Returns the error of a code; `None` for zero, which means success.
    pub const fn new(code: i32) -> Option<Self> {
        match code {
            0 => None,
            code => Some(Self(code)),
        }
    }

    /// Returns the number.
    pub const fn code(self) -> i32 {
        self.0
    }

    /// Returns whether a server that replies so may have carried out the request all the same, or may do so yet.
    ///
    /// `ZooKeeper` refuses a write before it proposes it, with codes up to -100 and with a few of the others, which stand
    /// for failures of a server. `ClickHouse` Keeper replies [`OPERATION_TIMEOUT`](Self::OPERATION_TIMEOUT) and
    /// [`CONNECTION_LOSS`](Self::CONNECTION_LOSS) to writes that are in its log and may be committed later.
    pub const fn leaves_outcome_unknown(self) -> bool {
        match self {
            Self::MARSHALLING_ERROR
            | Self::UNIMPLEMENTED
            | Self::BAD_ARGUMENTS
            | Self::NEW_CONFIG_NO_QUORUM
            | Self::RECONFIG_IN_PROGRESS => false,
            Self::REQUEST_TIMEOUT => true,
            Self(code) => code > API_ERROR,
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "error {}", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The codes up to here are refusals, those above failures of a server.
const API_ERROR: i32 = -100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_proves_that_nothing_was_changed() {
        let unknown = [-1, -2, -3, -4, -7, -9, -99, -122, 7];
        let refused = [
            -5, -6, -8, -13, -14, -100, -101, -102, -103, -108, -110, -111, -112, -114, -115, -118,
            -119, -120, -121, -123, -124, -125, -127,
        ];
        for code in unknown {
            assert!(ErrorCode(code).leaves_outcome_unknown(), "{code}");
        }
        for code in refused {
            assert!(!ErrorCode(code).leaves_outcome_unknown(), "{code}");
        }
    }
}
