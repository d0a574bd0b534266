//! Removes the items that were offered with an id of the application.

use zk_core::{Error, NodePath};

use super::{CancelOutcome, ItemStore};
use crate::deadline::Deadline;
use crate::error::CancelError;
use crate::item_id::ItemId;
use crate::layout::stored_id;

/// What became of the items with an id; returned by [`Queue::cancel_with_id`](crate::Queue::cancel_with_id) and
/// [`WorkQueue::cancel_with_id`](crate::WorkQueue::cancel_with_id).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CancelledItems {
    /// How many this call has removed: no consumer has them, and none will get them.
    pub removed: usize,
    /// How many are claimed by consumers. They will be acknowledged, or delivered again.
    pub claimed: usize,
}

impl ItemStore {
    /// Removes the items that were offered with an id before this call, except those that consumers have.
    pub(crate) async fn cancel_with_id(
        &self,
        id: &str,
        deadline: Deadline,
    ) -> Result<CancelledItems, CancelError> {
        let layout = self.context.options.layout;
        if !layout.has_ids() {
            return Err(CancelError::NoIds { layout });
        }
        let mut cancelled = CancelledItems::default();
        let Some(id) = stored_id(id) else {
            return Ok(cancelled);
        };
        for path in self.paths_with_id(&id, deadline).await? {
            // There may be many: each one has a deadline of its own.
            let deadline = self.context.deadline();
            let Some(stat) = self.context.exists(&path, deadline).await? else {
                continue;
            };
            // Unlike the name, this denotes the item for ever.
            let item = ItemId::new(self.context.session.server_path(&path), stat.czxid);
            match self.cancel(&item, deadline).await? {
                CancelOutcome::Removed => cancelled.removed += 1,
                CancelOutcome::Claimed => cancelled.claimed += 1,
                CancelOutcome::Gone => {}
            }
        }
        Ok(cancelled)
    }

    /// Lists the items with an id, in all segments.
    async fn paths_with_id(&self, id: &str, deadline: Deadline) -> Result<Vec<NodePath>, Error> {
        // A leader may not show its own clients yet what followers have shown others.
        let sync = self.context.session.sync(&self.context.paths.items);
        let sync = sync.with_quorum().timeout(deadline.remaining());
        sync.await?;
        let layout = self.context.options.layout;
        let mut segments = vec![0];
        segments.extend(self.offers.segments.list(deadline).await?);
        let mut paths = Vec::new();
        for segment in segments {
            let parent = self.context.paths.segment(segment);
            let names = self.context.child_names(&parent, deadline).await?;
            let with_id = names.iter().filter(|name| layout.id_of(name) == Some(id));
            paths.extend(with_id.map(|name| self.context.paths.item(segment, name)));
        }
        Ok(paths)
    }
}
