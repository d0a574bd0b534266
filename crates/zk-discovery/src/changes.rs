//! The stream of changes of a service for one consumer.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use futures_util::{Stream, stream};
use tokio::sync::watch;

use crate::instance_list::{InstanceChange, InstanceList};
use crate::shared_list::SharedList;

/// The changes of the instances of a service, for one consumer; created by
/// [`Providers::changes`](crate::Providers::changes).
///
/// A consumer receives the [difference](InstanceList::since) between the list it saw last and the current one.
/// A slow consumer therefore blocks no other consumer and costs one list of instances, however much changes in between;
/// changes that were undone before it reads are not reported.
///
/// # Dropping
///
/// Has no effect. This does not keep its [`Providers`](crate::Providers) alive.
pub struct InstanceChanges<P> {
    shared: Arc<SharedList<P>>,
    next: watch::Receiver<u64>,
    base: InstanceList<P>,
    pending: VecDeque<InstanceChange<P>>,
}

impl<P> InstanceChanges<P> {
    pub(crate) fn new(shared: &Arc<SharedList<P>>, base: InstanceList<P>) -> Self {
        let mut next = shared.subscribe();
        next.mark_changed();
        Self {
            shared: Arc::clone(shared),
            next,
            base,
            pending: VecDeque::new(),
        }
    }

    /// Waits for the next change; `None` after [`InstanceChange::Ended`].
    pub async fn next(&mut self) -> Option<InstanceChange<P>> {
        loop {
            if let Some(change) = self.pending.pop_front() {
                return Some(change);
            }
            if self.base.0.end.is_some() {
                return None;
            }
            // `self` holds the sender, so the channel stays open.
            self.next.changed().await.ok()?;
            self.next.mark_unchanged();
            let newest = self.shared.list();
            self.pending = newest.since(&self.base).into();
            self.base = newest;
        }
    }

    /// Converts this into a stream of the same changes.
    pub fn into_stream(self) -> impl Stream<Item = InstanceChange<P>> + Send + 'static
    where
        P: Send + Sync + 'static,
    {
        stream::unfold(self, async |mut changes| {
            let change = changes.next().await?;
            Some((change, changes))
        })
    }
}

impl<P> fmt::Debug for InstanceChanges<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstanceChanges")
            .field("base", &self.base)
            .field("pending", &self.pending.len())
            .finish_non_exhaustive()
    }
}
