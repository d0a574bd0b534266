//! SASL: how a session proves on each connection who it is, before anything else is sent.
//!
//! [`DigestMd5`] is built in, behind the feature `digest-md5`. Another mechanism, for example GSSAPI, implements
//! [`Mechanism`]. ZooKeeper has no negotiation: servers decide by their configuration which mechanism they use.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use crate::session::Host;

#[cfg(feature = "digest-md5")]
mod digest_md5;
mod nonces;

#[cfg(feature = "digest-md5")]
pub use digest_md5::DigestMd5;

pub(crate) use nonces::Nonces;

/// A SASL mechanism with its credentials. Its debug output must not contain secrets.
pub trait Mechanism: fmt::Debug + Send + Sync {
    /// Begins an exchange on a new connection to `host`, and returns the first token for the server, which may be empty.
    ///
    /// `nonce` differs in each exchange. It comes from the operating system, see
    /// [`Config::nonce_seed`](crate::Config::nonce_seed).
    ///
    /// # Errors
    ///
    /// If there is nothing to begin with, for example no ticket. The connection is given up then.
    fn start(
        &self,
        host: &Host,
        nonce: [u8; 16],
    ) -> Result<(Box<dyn Exchange>, Vec<u8>), SaslError>;
}

/// An exchange of tokens on one connection. The server replies to each token with one of its own, which may be empty.
pub trait Exchange: Send {
    /// Handles a token of the server.
    ///
    /// # Errors
    ///
    /// If the server cannot be who it has to be, or the token makes no sense. The connection is given up then.
    fn step(&mut self, token: &[u8]) -> Result<Step, SaslError>;
}

/// What follows on a token of the server.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is nothing else to do")]
pub enum Step {
    /// This is sent, and the server replies to it.
    Send(Vec<u8>),
    /// The exchange is complete, and the session goes on.
    Done,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send(token) => write!(f, "Send({} bytes)", token.len()),
            Self::Done => f.write_str("Done"),
        }
    }
}

/// Why an exchange cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct SaslError {
    why: String,
}

impl SaslError {
    /// An error with this text, which must not contain secrets.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into() }
    }
}
