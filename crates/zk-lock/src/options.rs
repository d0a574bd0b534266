//! What a lock can be told beyond its path.

use std::sync::OnceLock;

use zk_core::Acl;

use crate::layout::Layout;
use crate::owner::OwnerInfo;

/// The settings of a lock.
///
/// # Defaults
///
/// - [`owner`](Self::with_owner): [`OwnerInfo::this_process`]
/// - [`acl`](Self::with_acl): that of the session
/// - [`layout`](Self::with_layout): [`Layout::curator`]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockOptions {
    owner: Option<Vec<u8>>,
    acl: Option<Acl>,
    layout: Layout,
}

impl LockOptions {
    /// Sets the data of our nodes, which tells others who holds the lock or waits for it.
    ///
    /// The default is [`OwnerInfo::this_process`]: the host and the process.
    /// Any bytes will do, but then others can neither read it as an [`OwnerInfo`] nor add a request to give up the lock,
    /// other than [as Curator does](crate::Revoke::as_curator).
    /// Everyone who may read the nodes sees it, and every waiter reads that of the one before it: keep it short, and
    /// free of secrets.
    /// Curator takes the data `__REVOKE__` for a request to give up the lock; any other is opaque to it.
    #[must_use]
    pub fn with_owner(mut self, owner: impl Into<Vec<u8>>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets the access rules of our nodes, and of the parents if they have to be made.
    ///
    /// The default is that of the session.
    /// All contenders need CREATE, DELETE and READ on the path of the lock; one that may not DELETE is stuck with what
    /// it created until its session ends.
    /// READ on the nodes lets a waiter watch the one before it and tell who that is.
    /// Without it, it watches the path itself, and looks again whenever anyone comes or goes.
    /// WRITE on the nodes lets others [ask](crate::Revoke) for the lock to be given up, and write over what the owner says
    /// of itself; a holder needs it to answer.
    #[must_use]
    pub fn with_acl(mut self, acl: Acl) -> Self {
        self.acl = Some(acl);
        self
    }

    /// Sets how nodes are named and which ones count.
    ///
    /// The default is [`Layout::curator`].
    /// All who use one path must agree on it.
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
    /// Names this process, by the name of the host and its id.
    pub fn this_process() -> Self {
        static HOST: OnceLock<String> = OnceLock::new();
        let host = HOST.get_or_init(|| gethostname::gethostname().to_string_lossy().into_owned());
        Self::new(host.as_str(), std::process::id())
    }
}
