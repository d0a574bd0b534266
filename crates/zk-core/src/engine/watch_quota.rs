//! Limits how many paths a session watches, counted in bytes.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use super::Engine;
use crate::error::ErrorKind;
use crate::path::NodePath;
use crate::transport::TransportError;

/// A part of the bytes of watched paths that a session may have.
///
/// When a session moves to another server, the client crate sets all its watches again. It cannot do so for more than
/// 128 KiB of paths, and would never reconnect.
#[derive(Debug)]
pub(crate) struct WatchQuota {
    taken: Arc<AtomicUsize>,
    bytes: usize,
}

impl WatchQuota {
    /// Reserves the bytes of a watch on `path`, which is below the chroot.
    pub(crate) fn take(engine: &Engine, path: &NodePath) -> Result<Self, TransportError> {
        let bytes = engine.chroot_len() + path.as_str().len();
        let taken = Arc::clone(&engine.watched);
        let before = taken.fetch_add(bytes, Ordering::SeqCst);
        let quota = Self { taken, bytes };
        if before + bytes <= MOST_WATCHED {
            return Ok(quota);
        }
        let detail = format!(
            "{before} of {MOST_WATCHED} bytes of paths are taken; drop watches, or use another session"
        );
        Err(TransportError::Refused(
            ErrorKind::TooManyWatches,
            Some(detail),
        ))
    }
}

impl Drop for WatchQuota {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

/// How many bytes of paths a session watches at most.
pub(crate) const MOST_WATCHED: usize = 120 * 1024;
