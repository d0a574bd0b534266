//! The paths that a registry has reserved, so that it registers each only once.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use zk_core::NodePath;

/// The paths of the nodes that are registered or being registered.
#[derive(Debug, Default)]
pub(crate) struct ReservedPaths(Mutex<BTreeSet<NodePath>>);

/// The path of an instance, reserved within this registry until dropped.
#[derive(Debug)]
pub(crate) struct PathReservation {
    reserved: Arc<ReservedPaths>,
    path: NodePath,
}

impl PathReservation {
    /// Reserves a path; `None` if it is reserved already.
    pub(crate) fn take(reserved: &Arc<ReservedPaths>, path: NodePath) -> Option<Self> {
        let mut paths = reserved.0.lock().unwrap_or_else(PoisonError::into_inner);
        paths.insert(path.clone()).then(|| Self {
            reserved: Arc::clone(reserved),
            path,
        })
    }

    /// Returns the path.
    pub(crate) const fn path(&self) -> &NodePath {
        &self.path
    }
}

impl Drop for PathReservation {
    fn drop(&mut self) {
        let mut paths = self
            .reserved
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        paths.remove(&self.path);
    }
}
