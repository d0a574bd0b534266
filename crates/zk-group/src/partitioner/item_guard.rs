//! An item that this member owns.

use std::fmt;
use std::ops::Deref;

use tokio::sync::{oneshot, watch};
use zk_lock::{Guard, ReleaseError};

/// An item that this member owns; returned by [`Partitioner::next`](super::Partitioner::next).
///
/// It dereferences to the [`Guard`] of the item's lock: [`lost`](zk_lock::HeldLock::lost) resolves when the item may no
/// longer be used, [`is_valid`](zk_lock::HeldLock::is_valid) is checked right before an action, and a resource that checks
/// the [`fencing_token`](Guard::fencing_token) is safe from late writes of an earlier owner.
///
/// # Dropping
///
/// The item is released in the background.
#[must_use = "the item is released when the guard is dropped"]
pub struct ItemGuard {
    item: String,
    guard: Guard,
    is_wanted: watch::Receiver<bool>,
    /// Dropped last: from then on this process may acquire the item again.
    returned: oneshot::Sender<()>,
}

impl ItemGuard {
    /// Also returns a receiver that resolves when the guard is released or dropped.
    pub(super) fn new(
        item: String,
        guard: Guard,
        is_wanted: watch::Receiver<bool>,
    ) -> (Self, oneshot::Receiver<()>) {
        let (returned, ended) = oneshot::channel();
        let guard = Self {
            item,
            guard,
            is_wanted,
            returned,
        };
        (guard, ended)
    }

    /// Returns the item.
    pub fn item(&self) -> &str {
        &self.item
    }

    /// Returns a future that resolves when the item should be released, because it is allocated to another member, was
    /// removed from the items, the partitioner has left or was dropped, or there will be no further session.
    ///
    /// Finish what is under way, then [`release`](Self::release) the item: another member waits for it. There is no time
    /// limit; the item stays owned until then.
    ///
    /// The future is `'static` and can be moved to another task. It is cancel safe.
    pub fn release_requested(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut is_wanted = self.is_wanted.clone();
        async move { not_wanted(&mut is_wanted).await }
    }

    /// Returns whether the item should be released. It is `false` again if the item is allocated to this member again before
    /// it was released; keep it then, or release it and acquire it again.
    pub fn is_release_requested(&self) -> bool {
        let has_ended = self.is_wanted.has_changed().is_err();
        has_ended || !*self.is_wanted.borrow()
    }

    /// Releases the item, and waits until that is done.
    ///
    /// An item that is still allocated to this member is acquired again.
    ///
    /// # Errors
    ///
    /// Those of [`Guard::release`].
    ///
    /// # Cost
    ///
    /// One round trip.
    pub async fn release(self) -> Result<(), ReleaseError> {
        let Self {
            guard, returned, ..
        } = self;
        let released = guard.release().await;
        drop(returned);
        released
    }
}

impl Deref for ItemGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}

impl fmt::Debug for ItemGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemGuard")
            .field("item", &self.item)
            .field("guard", &self.guard)
            .field("is_release_requested", &self.is_release_requested())
            .finish_non_exhaustive()
    }
}

/// Waits until an item is not allocated to this member, or nothing is any more.
pub(super) async fn not_wanted(is_wanted: &mut watch::Receiver<bool>) {
    drop(is_wanted.wait_for(|is_wanted| !*is_wanted).await);
}
