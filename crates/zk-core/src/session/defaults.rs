//! The defaults that one handle of a session has for itself.

use std::time::Duration;

use crate::acl::Acl;
use crate::path::NodePath;
use crate::retry::RetryPolicy;

/// The defaults of one view.
#[derive(Debug, Clone)]
pub(crate) struct SessionDefaults {
    pub(crate) namespace: NodePath,
    pub(crate) acl: Acl,
    pub(crate) retry: RetryPolicy,
    pub(crate) operation_timeout: Duration,
}

impl SessionDefaults {
    /// The path below the chroot of a path below the namespace.
    pub(crate) fn wire(&self, path: &NodePath) -> NodePath {
        if self.namespace.is_root() {
            path.clone()
        } else if path.is_root() {
            self.namespace.clone()
        } else {
            self.namespace.below(path)
        }
    }

    /// The path below the namespace of a path below the chroot, which is one that [`wire`](Self::wire) made or a child
    /// of one.
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
            operation_timeout: super::builder::DEFAULT_TIMEOUT,
        }
    }
}
