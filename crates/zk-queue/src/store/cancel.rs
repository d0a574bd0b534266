//! Removes an item by its id, unless a consumer has it.

use std::sync::Arc;

use zk_core::{Error, ErrorKind, NodePath};

use super::ItemStore;
use super::conditional_commit::ConditionalOutcome;
use crate::deadline::Deadline;
use crate::error::CancelError;
use crate::item_id::ItemId;
use crate::layout::ItemKey;
use crate::paths::{child, parse_segment};
use crate::preconditions::Preconditions;

/// What became of an item that was to be removed; returned by [`Queue::cancel`](crate::Queue::cancel) and
/// [`WorkQueue::cancel`](crate::WorkQueue::cancel).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CancelOutcome {
    /// This call has removed it: no consumer has it, and none will get it.
    Removed,
    /// A consumer of a [`WorkQueue`](crate::WorkQueue) has claimed it. It will be acknowledged, or delivered again.
    Claimed,
    /// It is not in the queue: it was taken, acknowledged or removed before, is a dead letter, or was put back with
    /// another id.
    Gone,
}

/// Where an item was offered.
struct OfferedLocation<'a> {
    segment: u32,
    name: &'a str,
    key: ItemKey,
}

/// An item's node as it was read.
struct CurrentNode {
    name: String,
    version: i32,
}

impl ItemStore {
    /// Removes an item, unless a consumer has it.
    pub(crate) async fn cancel(
        &self,
        id: &ItemId,
        deadline: Deadline,
    ) -> Result<CancelOutcome, CancelError> {
        let location = self.locate(id).ok_or_else(|| CancelError::OtherQueue {
            id: id.clone(),
            path: self.context.paths.items.clone(),
        })?;
        let claims = self.list.claims.as_ref();
        let mut was_missing = false;
        loop {
            let Some((preconditions, node)) = self.find_with(&location, id, deadline).await? else {
                if was_missing {
                    return Ok(CancelOutcome::Gone);
                }
                // A leader may not show its own clients yet what followers have shown others.
                let sync = self.context.session.sync(&self.context.paths.items);
                let sync = sync.with_quorum().timeout(deadline.remaining());
                sync.await?;
                was_missing = true;
                continue;
            };
            let item = self.context.paths.item(location.segment, &node.name);
            let layout = self.context.options.layout;
            let claim_name = layout.claim_name(location.segment, &node.name);
            let claim = claims.map(|claims| child(claims, &claim_name));
            let outcome = self
                .context
                .commit_if(&preconditions, deadline, |transaction| {
                    let unclaimed = match &claim {
                        // Refused if a consumer has claimed the item.
                        Some(claim) => transaction.create_ephemeral(claim, "").delete(claim),
                        None => transaction,
                    };
                    unclaimed.delete_version(&item, node.version)
                });
            let (part, error) = match outcome.await? {
                ConditionalOutcome::Committed(_) => return Ok(CancelOutcome::Removed),
                // Another segment is active, or the nodes were created again.
                ConditionalOutcome::PreconditionsFailed => continue,
                ConditionalOutcome::Refused { part, error } => (part, error),
            };
            match (claims, error.kind()) {
                (Some(_), ErrorKind::NodeExists) if part == 0 => return Ok(CancelOutcome::Claimed),
                (Some(claims), ErrorKind::NoNode) if part == 0 => {
                    self.context.create_claims_node(claims, deadline).await?;
                }
                // A consumer has taken, claimed or delayed it meanwhile.
                (_, ErrorKind::NoNode | ErrorKind::BadVersion) => {}
                _ => return Err(error.into()),
            }
        }
    }

    /// Reads the node of an item, and before it the preconditions under which no other item has that node; `None` if the
    /// item is not in the queue.
    async fn find_with(
        &self,
        location: &OfferedLocation<'_>,
        id: &ItemId,
        deadline: Deadline,
    ) -> Result<Option<(Arc<Preconditions>, CurrentNode)>, Error> {
        let preconditions = self
            .list
            .read_segment_preconditions(location.segment, deadline)
            .await?;
        let Some(preconditions) = preconditions else {
            return Ok(None);
        };
        let parent_czxid = match &preconditions.items_node {
            Some(items_node) => Some(items_node.czxid),
            None => self.czxid_of_segment(location.segment, deadline).await?,
        };
        if !parent_czxid.is_some_and(|parent| id.is_of_parent(parent)) {
            return Ok(None);
        }
        let node = self.find(location, deadline).await?;
        Ok(node.map(|node| (preconditions, node)))
    }

    /// Returns where an item was offered; `None` if it is not an item of this queue.
    fn locate<'a>(&self, id: &'a ItemId) -> Option<OfferedLocation<'a>> {
        let (parent, name) = id.path().parent().zip(id.path().name())?;
        let paths = &self.context.paths;
        let segment = if parent == self.context.session.server_path(&paths.items) {
            0
        } else {
            let is_of_ours =
                parent.parent()? == self.context.session.server_path(&paths.segments());
            parse_segment(parent.name()?).filter(|_| is_of_ours)?
        };
        let key = self.context.options.layout.parse(name)?;
        Some(OfferedLocation { segment, name, key })
    }

    async fn czxid_of_segment(
        &self,
        segment: u32,
        deadline: Deadline,
    ) -> Result<Option<i64>, Error> {
        let path = self.context.paths.segment(segment);
        let stat = self.context.exists(&path, deadline).await?;
        Ok(stat.map(|stat| stat.czxid))
    }

    /// Reads the node of an item that was offered in the present parent: the one with its number.
    ///
    /// Only work queues rename items, and only then the node is searched in the list of all.
    async fn find(
        &self,
        location: &OfferedLocation<'_>,
        deadline: Deadline,
    ) -> Result<Option<CurrentNode>, Error> {
        let parent = self.context.paths.segment(location.segment);
        let mut name = location.name.to_owned();
        loop {
            let path: NodePath = child(&parent, &name);
            if let Some(stat) = self.context.exists(&path, deadline).await? {
                let version = stat.version;
                return Ok(Some(CurrentNode { name, version }));
            }
            if self.list.claims.is_none() {
                return Ok(None);
            }
            let layout = self.context.options.layout;
            let names = self.context.child_names(&parent, deadline).await?;
            let is_ours = |name: &String| {
                let key = layout.parse(name);
                key.is_some_and(|key| key.sequence == location.key.sequence)
            };
            match names.into_iter().find(is_ours) {
                Some(renamed) => name = renamed,
                None => return Ok(None),
            }
        }
    }
}
