//! What a lock can be told beyond its path.

use std::sync::OnceLock;

use zk_core::Acl;

use crate::layout::Layout;

/// The settings of a lock.
///
/// # Defaults
///
/// - [`owner`](Self::with_owner): `<host name>/<process id>`
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
    /// The default is `<host name>/<process id>`.
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

    pub(crate) fn owner(&self) -> Vec<u8> {
        self.owner
            .clone()
            .unwrap_or_else(|| this_process().as_bytes().to_vec())
    }

    pub(crate) const fn acl(&self) -> Option<&Acl> {
        self.acl.as_ref()
    }

    pub(crate) const fn layout(&self) -> Layout {
        self.layout
    }
}

/// What tells this process from others, for a person who looks for it.
fn this_process() -> &'static str {
    static THIS: OnceLock<String> = OnceLock::new();
    THIS.get_or_init(|| {
        let host = gethostname::gethostname();
        format!("{}/{}", host.to_string_lossy(), std::process::id())
    })
}
