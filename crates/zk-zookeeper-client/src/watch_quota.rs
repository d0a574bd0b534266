//! Limits how many paths a session watches, counted in bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use zk_core::transport::TransportError;
use zk_core::{ErrorKind, NodePath};

/// The bytes of watched paths that a session may have.
///
/// When a session moves to another server, the client crate sets all its watches again. It cannot do so for more than
/// 128 KiB of paths, and would never reconnect.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchQuota {
    taken: Arc<AtomicUsize>,
}

/// The part of one watch.
#[derive(Debug)]
pub(crate) struct Quota {
    taken: Arc<AtomicUsize>,
    bytes: usize,
}

impl WatchQuota {
    /// Takes the bytes of a watch on `path`.
    pub(crate) fn take(&self, path: &NodePath) -> Result<Quota, TransportError> {
        let bytes = path.as_str().len();
        let taken = Arc::clone(&self.taken);
        let before = taken.fetch_add(bytes, Ordering::SeqCst);
        let quota = Quota { taken, bytes };
        if before + bytes <= MOST_WATCHED {
            return Ok(quota);
        }
        let detail = format!(
            "{before} of {MOST_WATCHED} bytes of watched paths are taken; drop watches, or use another session"
        );
        Err(TransportError::Refused(
            ErrorKind::InvalidArgument,
            Some(detail),
        ))
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

/// How many bytes of paths a session watches at most.
const MOST_WATCHED: usize = 120 << 10;
