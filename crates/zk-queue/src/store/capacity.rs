//! Counts the items of a queue, and waits until a bounded queue has room.

use std::time::Duration;

use futures_util::future;
use zk_core::{Error, NodePath};

use super::offers::Offers;
use crate::deadline::Deadline;
use crate::error::OfferError;

impl Offers {
    /// Counts the children of the items node and of all segments.
    pub(crate) async fn len(&self, deadline: Deadline) -> Result<usize, Error> {
        let (items, segments) = future::join(
            self.count_children(self.context.paths.items.clone(), deadline),
            self.segments.list(deadline),
        )
        .await;
        let mut all = items?;
        let counts = segments?
            .into_iter()
            .map(|number| self.count_children(self.context.paths.segment(number), deadline));
        for count in future::join_all(counts).await {
            all += count?;
        }
        Ok(all)
    }

    async fn count_children(&self, path: NodePath, deadline: Deadline) -> Result<usize, Error> {
        let stat = self.context.exists(&path, deadline).await?;
        let count = stat.map_or(0, |stat| stat.num_children);
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Waits until the queue has room, and returns for how many of the items.
    pub(crate) async fn wait_for_capacity(
        &self,
        items: usize,
        deadline: Deadline,
    ) -> Result<usize, OfferError> {
        let Some(capacity) = self.context.options.capacity else {
            return Ok(items);
        };
        loop {
            let len = self
                .len(self.context.deadline())
                .await
                .map_err(OfferError::Core)?;
            // A queue of capacity zero takes one item when it is empty.
            let free = capacity.max(1).saturating_sub(len);
            if free > 0 {
                return Ok(free.min(items));
            }
            if deadline.is_over() {
                return Err(OfferError::Full {
                    path: self.context.paths.items.clone(),
                    len,
                    capacity,
                });
            }
            self.wait_for_room(len, deadline)
                .await
                .map_err(OfferError::Core)?;
        }
    }

    /// Waits until the queue may have fewer than `len` items, or until the deadline.
    ///
    /// It watches the items node, from which items are taken first. Takes from segments are seen a second later.
    async fn wait_for_room(&self, len: usize, deadline: Deadline) -> Result<(), Error> {
        let list = self
            .context
            .session
            .list(&self.context.paths.items)
            .timeout(self.context.deadline().remaining());
        let mut watch = match list.watched().await {
            Ok((_, _, watch)) => Some(watch),
            // Its node was deleted. There may be items in segments.
            Err(error) if error.is_no_node() => None,
            Err(error) => return Err(error),
        };
        if self.len(self.context.deadline()).await? < len {
            return Ok(());
        }
        let recheck = Deadline::after(RECHECK_INTERVAL.min(deadline.remaining()));
        let changed = async {
            match &mut watch {
                Some(watch) => drop(watch.changed().await),
                None => future::pending().await,
            }
        };
        recheck.bound(changed).await;
        Ok(())
    }
}

const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
