//! The defaults of one handle of a session.

use std::time::Duration;

use zk_wire::{Acl, NodePath};

use crate::retry::RetryPolicy;

/// The namespace and the defaults of one handle of a session.
#[derive(Debug, Clone)]
pub(crate) struct SessionDefaults {
    /// What all paths are relative to: the chroot of the session, and below it the namespace of the handle.
    pub(crate) namespace: NodePath,
    pub(crate) acl: Acl,
    pub(crate) retry: RetryPolicy,
    pub(crate) operation_timeout: Duration,
}

impl SessionDefaults {
    /// Returns the path that the servers know for a path below the namespace.
    pub(crate) fn wire(&self, path: &NodePath) -> NodePath {
        self.namespace.join_path(path)
    }

    /// Returns the path below the namespace for a path of the servers that [`wire`](Self::wire) returned, or for a
    /// child of it.
    pub(crate) fn unwire(&self, path: &NodePath) -> NodePath {
        path.relative_to(&self.namespace)
            .unwrap_or_else(|| path.clone())
    }
}

impl Default for SessionDefaults {
    fn default() -> Self {
        Self {
            namespace: NodePath::root(),
            acl: Acl::open(),
            retry: RetryPolicy::default(),
            operation_timeout: DEFAULT_TIMEOUT,
        }
    }
}

/// The default of each timeout of a session.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
