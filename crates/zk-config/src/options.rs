//! The settings of a publisher.

use std::time::Duration;

use tokio::time::Instant;
use zk_core::{Acl, Session};

/// The settings of a publisher.
///
/// # Defaults
///
/// - [`history`](Self::with_history): none
/// - [`acl`](Self::with_acl): that of the session's view
/// - [`timeout`](Self::with_timeout): the operation timeout of the session's view
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublishOptions {
    pub(crate) history: usize,
    pub(crate) acl: Option<Acl>,
    pub(crate) timeout: Option<Duration>,
}

impl PublishOptions {
    /// Keeps the last `revisions` that were replaced or removed, in nodes beside the key.
    ///
    /// The default is 0: the publisher keeps none, and leaves entries of other publishers alone.
    /// An entry is created in the transaction that replaces the data. So each revision that such a publisher replaced
    /// has an entry, and the entry shows the outcome of a publication whose reply was lost.
    /// The old and the new data must fit into one request together: about half a megabyte each.
    /// An entry has the ACL of the node whose data it keeps, and so has the directory that contains the entries: who
    /// publishes needs the permission CREATE on the key, and DELETE once the history is full. If the ACL contains
    /// digests, the client needs the permission ADMIN on the key as well, because servers return digests to no other
    /// client: [`PublishError::HiddenAcl`](crate::PublishError::HiddenAcl).
    #[must_use]
    pub fn with_history(mut self, revisions: usize) -> Self {
        self.history = revisions;
        self
    }

    /// Sets the ACL of keys that are created, and of their histories. Existing keys keep theirs.
    ///
    /// The default is that of the session's view. Missing parents always have that one, and so has the node that
    /// contains the histories of several keys.
    #[must_use]
    pub fn with_acl(mut self, acl: Acl) -> Self {
        self.acl = Some(acl);
        self
    }

    /// Sets the time limit of each publication, from its first read to the last read after a lost reply, and of each
    /// read of a history.
    ///
    /// The default is the operation timeout of the session's view.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Returns the deadline of a call that starts now.
    pub(crate) fn deadline(&self, session: &Session) -> Instant {
        let timeout = self.timeout.unwrap_or_else(|| session.operation_timeout());
        let now = Instant::now();
        now.checked_add(timeout).unwrap_or_else(|| now + FAR)
    }
}

/// The timeout of a deadline that overflows the clock.
const FAR: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
