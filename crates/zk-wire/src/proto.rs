//! The messages of the protocol, and the frames around them.

mod error_code;
mod frame;
mod handshake;
pub(crate) mod jute;
mod records;
mod release;
mod reply;
mod request;

pub use error_code::ErrorCode;
pub use frame::take_frame;
pub(crate) use frame::{rest_of_frame, take_header};
pub use handshake::{ConnectRequest, ConnectResponse};
pub use records::{CreateMode, Credentials, NewNode, SaslToken, WatchEventKind, WatchKind};
pub use release::Release;
pub use reply::{Identity, Incoming, MultiRefusal, MultiResult, ReadResult, Reply, WatchEvent};
pub use request::{MultiOp, MultiRead, ReplyShape, Request, WatchLists, Xid};

pub(crate) use request::CONFIG_NODE;

use crate::path::ParsePathError;

/// Bytes that are not a message of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A value exceeds the bytes that are left.
    #[error("{what} needs {needed} bytes, but {left} are left")]
    Short {
        /// The value.
        what: &'static str,
        /// How many bytes it needs.
        needed: usize,
        /// How many there are.
        left: usize,
    },
    /// A length is negative.
    #[error("{what} has length {len}")]
    Negative {
        /// The value with the length.
        what: &'static str,
        /// The length.
        len: i32,
    },
    /// A text is not UTF-8.
    #[error("{what} is not UTF-8")]
    NotUtf8 {
        /// The text.
        what: &'static str,
    },
    /// A number stands for nothing.
    #[error("{what} is {value}, which the protocol does not have")]
    Unknown {
        /// What the number should stand for.
        what: &'static str,
        /// The number.
        value: i32,
    },
    /// A text is not the path of a node.
    #[error("{what} is not valid: {error}")]
    InvalidPath {
        /// The text.
        what: &'static str,
        /// What is wrong with it.
        error: ParsePathError,
    },
    /// A path is not below the chroot of the session.
    #[error("{what} is not below the chroot")]
    OutsideChroot {
        /// The path.
        what: &'static str,
    },
    /// A frame exceeds the limit.
    #[error("a frame of {len} bytes exceeds the limit of {limit}")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// The limit in bytes.
        limit: usize,
    },
}
