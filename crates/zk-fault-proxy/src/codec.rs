//! The protocol's frames in full, for programs that act as a server: requests are decoded, replies encoded.
//!
//! `zk-sim` serves clients with it, and tests compare the encoder of a client with it. It shares no code with any
//! client. It may change in any release.
//!
//! Pure: no I/O and no clock.

pub use crate::wire::frame::{FrameDecoder, Piece};
pub use crate::wire::handshake::{Connect, Connected};
pub use crate::wire::jute::DecodeError;
pub use crate::wire::record::{AclEntry, Stat};
pub use crate::wire::reply_body::{PartResult, ReplyBody, WatchEventKind, notification};
pub use crate::wire::request_body::{Create, Part, RequestBody, WatchLists};
pub use crate::wire::secret::Secret;

#[cfg(test)]
mod tests;
