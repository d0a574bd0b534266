//! The defaults of one handle of a session.

use std::time::Duration;

use crate::acl::Acl;
use crate::path::NodePath;
use crate::retry::RetryPolicy;

/// The namespace and the defaults of one handle of a session.
#[derive(Debug, Clone)]
pub(crate) struct SessionDefaults {
    pub(crate) namespace: NodePath,
    pub(crate) acl: Acl,
    pub(crate) retry: RetryPolicy,
    pub(crate) operation_timeout: Duration,
}

impl SessionDefaults {
    /// Returns the path below the chroot for a path below the namespace.
    pub(crate) fn wire(&self, path: &NodePath) -> NodePath {
        if self.namespace.is_root() {
            path.clone()
        } else if path.is_root() {
            self.namespace.clone()
        } else {
            self.namespace.below(path)
        }
    }

    /// Returns the path below the namespace for a path below the chroot that [`wire`](Self::wire) returned, or for a
    /// child of it.
    pub(crate) fn unwire(&self, path: &NodePath) -> NodePath {
        path.above(&self.namespace)
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
