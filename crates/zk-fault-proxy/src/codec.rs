//! The protocol's frames in full, for programs that act as a server: requests are decoded, replies encoded.
//!
//! `zk-sim` serves clients with it, and tests compare the encoder of a client with it. It shares no code with any
//! client. It may change in any release.
//!
//! Pure: no I/O and no clock.

pub use crate::wire::frame::FrameDecoder;
pub use crate::wire::frame::Piece;
pub use crate::wire::handshake::Connect;
pub use crate::wire::handshake::Connected;
pub use crate::wire::jute::DecodeError;
pub use crate::wire::record::AclEntry;
pub use crate::wire::record::Stat;
pub use crate::wire::reply_body::PartResult;
pub use crate::wire::reply_body::ReplyBody;
pub use crate::wire::reply_body::WatchEventKind;
pub use crate::wire::reply_body::notification;
pub use crate::wire::request_body::Create;
pub use crate::wire::request_body::Part;
pub use crate::wire::request_body::RequestBody;
pub use crate::wire::request_body::WatchLists;
pub use crate::wire::secret::Secret;

#[cfg(test)]
mod tests;
