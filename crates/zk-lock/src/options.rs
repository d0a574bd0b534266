//! The settings of a lock.

use std::sync::OnceLock;

use zk_core::Acl;

use crate::layout::Layout;
use crate::owner::OwnerInfo;

/// The settings of a lock.
///
/// # Defaults
///
/// - [`owner`](Self::with_owner): [`OwnerInfo::this_process`]
/// - [`acl`](Self::with_acl): the default of the session
/// - [`layout`](Self::with_layout): [`Layout::curator`]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockOptions {
    owner: Option<Vec<u8>>,
    acl: Option<Acl>,
    layout: Layout,
}

impl LockOptions {
    /// Sets the data of our nodes, which identifies the owner to others.
    ///
    /// The default is [`OwnerInfo::this_process`]: the host and the process.
    /// Any bytes are allowed. Data in another format cannot be read as an [`OwnerInfo`], and others can request the
    /// lock only [as Curator does](crate::Revoke::as_curator).
    /// Every client that may read the nodes sees the data, and each waiter reads that of its predecessor: keep it
    /// short and free of secrets.
    /// Curator treats the data `__REVOKE__` as a request to release the lock, and ignores any other data.
    #[must_use]
    pub fn with_owner(mut self, owner: impl Into<Vec<u8>>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets the ACL of our nodes, and of parents that have to be created.
    ///
    /// The default is that of the session.
    /// All contenders need CREATE, DELETE and READ on the path of the lock. Without DELETE, a node stays until its
    /// session ends.
    /// READ on the nodes lets a waiter watch its predecessor and report who it is.
    /// Without it, the waiter watches the path and lists again whenever a contender joins or leaves.
    /// WRITE on the nodes lets others [request](crate::Revoke) the lock, and also overwrite how the owner
    /// identifies itself. A holder needs it to reply.
    #[must_use]
    pub fn with_acl(mut self, acl: Acl) -> Self {
        self.acl = Some(acl);
        self
    }

    /// Sets how our nodes are named and which children count as contenders.
    ///
    /// The default is [`Layout::curator`].
    /// All clients of one path must use compatible layouts.
    #[must_use]
    pub const fn with_layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Returns the data of our nodes, see [`with_owner`](Self::with_owner).
    pub fn owner(&self) -> Vec<u8> {
        self.owner
            .clone()
            .unwrap_or_else(|| OwnerInfo::this_process().to_bytes())
    }

    pub(crate) const fn acl(&self) -> Option<&Acl> {
        self.acl.as_ref()
    }

    pub(crate) const fn layout(&self) -> Layout {
        self.layout
    }
}

impl OwnerInfo {
    /// Identifies this process by its host name and its process id.
    pub fn this_process() -> Self {
        static HOST: OnceLock<String> = OnceLock::new();
        let host = HOST.get_or_init(|| gethostname::gethostname().to_string_lossy().into_owned());
        Self::new(host.as_str(), std::process::id())
    }
}
