//! The settings of a session.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::path::NodePath;
use crate::proto::{Credentials, Release};
use crate::sasl::Mechanism;
#[cfg(feature = "tls")]
use crate::tls::Tls;

/// The settings of a session.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// The session timeout to ask for. The server grants one within its own limits.
    pub timeout: Duration,
    /// The node that all paths are relative to; the root by default. It is not created.
    ///
    /// Only the node of [`Request::GetConfig`](crate::Request::GetConfig) is not below it.
    pub chroot: NodePath,
    /// The session to resume; by default a new one is begun.
    ///
    /// If the ensemble does not have it any more, the session ends as [expired](crate::SessionEnd::Expired).
    pub resume: Option<SavedSession>,
    /// Whether a read-only server will do, one that is cut off from the quorum, while no writable one can be reached.
    ///
    /// The default is `false`. A read-only server is asked for a session only after a round of all hosts without success,
    /// and left as soon as a writable one is found.
    pub read_only: bool,
    /// The release of the oldest server. A request that [needs](crate::Request::first_release) a newer one is
    /// [refused](crate::SubmitError::Unsupported), because a server that does not know it drops the connection, and the
    /// other requests in flight with it.
    ///
    /// By default every request is sent.
    pub assumed_release: Option<Release>,
    /// How connections are encrypted; by default not at all.
    #[cfg(feature = "tls")]
    pub tls: Option<Tls>,
    /// The SASL mechanism that runs at the start of each connection; by default none.
    pub sasl: Option<Arc<dyn Mechanism>>,
    /// What is sent on every connection; [`Client::add_auth`](crate::Client::add_auth) adds to it.
    pub auth: Vec<Credentials>,
    /// The longest request in bytes; servers refuse more than their `jute.maxbuffer` by closing the connection.
    pub max_request: usize,
    /// The longest reply in bytes.
    pub max_reply: usize,
    /// How many requests may wait for their replies. Servers read no more than 1,000 ahead.
    pub max_in_flight: usize,
    /// How many requests may wait to be sent.
    pub max_queued: usize,
    /// How many bytes the requests that wait to be sent may have.
    pub max_queued_bytes: usize,
    /// What the order of the hosts and the pauses are derived from; by default each client draws it. Fix it only in tests,
    /// so that clients do not all begin with the same server.
    pub seed: Option<u64>,
    /// What the nonces for SASL are derived from; by default they come from the operating system. Fix it only in tests,
    /// because a nonce that others can guess does not protect a password.
    pub nonce_seed: Option<u64>,
}

/// What resumes a session of the ensemble, also from another process.
///
/// Watches are not part of it: set them again. Its debug output does not contain the password.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the protocol needs these")]
pub struct SavedSession {
    /// The session id.
    pub id: i64,
    /// The password, 16 bytes. With it, any client can use and close the session.
    pub password: Bytes,
    /// The newest transaction that the session has seen. Only servers that have seen it, too, resume the session; 0 for
    /// any.
    pub last_zxid: i64,
}

impl fmt::Debug for SavedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedSession")
            .field("id", &format_args!("{:#x}", self.id))
            .field("last_zxid", &self.last_zxid)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Returns the default settings with this session timeout.
    pub fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            chroot: NodePath::root(),
            resume: None,
            read_only: false,
            assumed_release: None,
            #[cfg(feature = "tls")]
            tls: None,
            sasl: None,
            auth: Vec::new(),
            // The default `jute.maxbuffer` of servers.
            max_request: 0xf_ffff,
            max_reply: 16 << 20,
            max_in_flight: 1000,
            max_queued: 100_000,
            max_queued_bytes: 64 << 20,
            seed: None,
            nonce_seed: None,
        }
    }

    /// Returns what the order of the hosts of one client is derived from.
    pub(crate) fn draw_seed(&self) -> u64 {
        // `fastrand` seeds itself from the clock: processes that start together could get the same.
        self.seed.unwrap_or_else(|| RandomState::new().hash_one(0))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn clients_of_the_same_settings_do_not_all_begin_with_the_same_server() {
        let mut config = Config::new(Duration::from_secs(10));
        let drawn: BTreeSet<u64> = (0..100).map(|_| config.draw_seed()).collect();
        assert_eq!(drawn.len(), 100);
        config.seed = Some(7);
        assert_eq!((config.draw_seed(), config.draw_seed()), (7, 7));
    }
}
