//! Reads the preconditions of items again, after a transaction was refused because of those that it had.

use std::sync::Arc;

use futures_util::future;
use zk_core::{Error, NodePath};

use super::context::QueueContext;
use crate::deadline::Deadline;
use crate::preconditions::{ItemsNode, Preconditions};

/// Where the items are whose preconditions are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    ItemsNode,
    Segment,
}

impl QueueContext {
    /// Reads the preconditions of items in the items node again.
    ///
    /// Returns `None` if it is no longer the same node, or if these are preconditions of items in segments.
    pub(super) async fn reread_for_same_items_node(
        &self,
        preconditions: &Preconditions,
        deadline: Deadline,
    ) -> Result<Option<Preconditions>, Error> {
        if preconditions.items_node.is_none() {
            return Ok(None);
        }
        let new = self.read_preconditions(Scope::ItemsNode, deadline).await?;
        let czxid = |preconditions: &Preconditions| {
            let items_node = preconditions.items_node.as_ref();
            items_node.map(|items_node| items_node.czxid)
        };
        Ok(new.filter(|new| czxid(new) == czxid(preconditions)))
    }

    /// Reads the preconditions of an item again; `None` if the item no longer exists.
    ///
    /// Those of an item of a segment need not include the items node, even if it was claimed together with items that
    /// were there: the items node may be a container, which the servers delete when those are done.
    pub(crate) async fn preconditions_if_item_exists(
        &self,
        item: &NodePath,
        czxid: i64,
        deadline: Deadline,
    ) -> Result<Option<Arc<Preconditions>>, Error> {
        let scope = if item.parent().as_ref() == Some(&self.paths.items) {
            Scope::ItemsNode
        } else {
            Scope::Segment
        };
        let new = self.read_preconditions(scope, deadline).await?;
        let stat = self.exists(item, deadline).await?;
        let is_there = stat.is_some_and(|stat| stat.czxid == czxid);
        Ok(new.filter(|_| is_there).map(Arc::new))
    }

    /// Reads the preconditions that items have now; `None` if the nodes that they name do not exist.
    pub(super) async fn read_preconditions(
        &self,
        scope: Scope,
        deadline: Deadline,
    ) -> Result<Option<Preconditions>, Error> {
        let fence = self.tokens.fence(deadline.remaining()).await?;
        let (control_node, items) = (&self.paths.control_node, &self.paths.items);
        let ((), control_stat, items_stat) = future::try_join3(
            self.sync(control_node, deadline),
            self.exists(control_node, deadline),
            self.exists(items, deadline),
        )
        .await?;
        let items_node = items_stat.map(|stat| ItemsNode {
            path: items.clone(),
            version: stat.version,
            czxid: stat.czxid,
        });
        Ok(control_stat
            .filter(|_| items_node.is_some() || scope == Scope::Segment)
            .map(|stat| Preconditions {
                fence,
                control_node: (control_node.clone(), stat.version),
                items_node: items_node.filter(|_| scope == Scope::ItemsNode),
            }))
    }
}
