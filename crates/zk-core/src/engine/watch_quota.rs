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
    /// Reserves `bytes`. Returns the number of reserved bytes if there are not enough left.
    pub(crate) fn take(taken: &Arc<AtomicUsize>, bytes: usize) -> Result<Self, usize> {
        let before = taken.fetch_add(bytes, Ordering::SeqCst);
        let share = Self {
            taken: Arc::clone(taken),
            bytes,
        };
        if before + bytes <= MOST_WATCHED {
            Ok(share)
        } else {
            Err(before)
        }
    }
}

impl Drop for WatchQuota {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

/// Takes the quota for a watch on `path`.
pub(super) fn take_quota(engine: &Engine, path: &NodePath) -> Result<WatchQuota, TransportError> {
    let bytes = engine.chroot_len() + path.as_str().len();
    WatchQuota::take(&engine.watched, bytes).map_err(|taken| {
        let detail = format!(
            "{taken} of {MOST_WATCHED} bytes of paths are taken; drop watches, or use another session"
        );
        TransportError::Refused(ErrorKind::TooManyWatches, Some(detail))
    })
}

/// How many bytes of paths a session watches at most.
pub(crate) const MOST_WATCHED: usize = 120 * 1024;
