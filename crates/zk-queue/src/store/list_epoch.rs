//! The epoch of a list: the preconditions under which its items were read, and may be taken.
//!
//! An epoch ends when the active segment changes or the items node is created again. A transaction of an earlier epoch
//! is refused, and the list is read again, or the preconditions alone if the items node is still the same.

use std::sync::Arc;

use futures_util::future;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::OpResult;
use zk_core::OwnedNode;
use zk_core::Transaction;

use super::ItemStore;
use super::active_segment::ActiveSegment;
use crate::deadline::Deadline;
use crate::idempotency::ConditionalOutcome;
use crate::mutex::lock;
use crate::preconditions::ItemsNode;
use crate::preconditions::Preconditions;

/// The preconditions of a list's items.
#[derive(Debug, Clone)]
pub(super) struct ListEpoch {
    /// Those of items in the items node, if it exists and is not fresh.
    for_items_node: Option<Arc<Preconditions>>,
    /// Those of items in segments.
    for_segments: Arc<Preconditions>,
    active: ActiveSegment,
    /// The items node, if it has items and version 0.
    fresh: Option<ItemsNode>,
}

/// Where the items are whose preconditions are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    ItemsNode,
    Segment,
}

impl ListEpoch {
    pub(super) fn new(
        fence: Arc<OwnedNode>,
        control_node: NodePath,
        active: ActiveSegment,
        items_node: Option<ItemsNode>,
        has_items: bool,
    ) -> Self {
        let for_segments = Preconditions {
            fence,
            control_node: (control_node, active.control_version),
            items_node: None,
        };
        let (known, fresh) = match items_node {
            Some(items_node) if items_node.version == 0 => {
                (None, Some(items_node).filter(|_| has_items))
            }
            known => (known, None),
        };
        let mut epoch = Self {
            for_items_node: None,
            for_segments: Arc::new(for_segments),
            active,
            fresh,
        };
        if let Some(known) = known {
            epoch.set_items_node(known);
        }
        epoch
    }

    /// Accepts the fresh items node as it is if it is this one, which the session may not write.
    pub(super) fn accepting_read_only(mut self, czxid: Option<i64>) -> Self {
        if let Some(items_node) = self
            .fresh
            .take_if(|items_node| Some(items_node.czxid) == czxid)
        {
            self.set_items_node(items_node);
        }
        self
    }

    fn set_items_node(&mut self, items_node: ItemsNode) {
        self.for_items_node = Some(Arc::new(Preconditions {
            items_node: Some(items_node),
            ..Preconditions::clone(&self.for_segments)
        }));
    }

    /// Continues with new preconditions of the same items node. Nothing is known of the segments any more.
    fn advance_to(&mut self, new: &Arc<Preconditions>) {
        self.for_segments = Arc::new(Preconditions {
            items_node: None,
            ..Preconditions::clone(new)
        });
        self.active.control_version = new.control_node.1;
        self.for_items_node = Some(Arc::clone(new));
    }

    fn is_for_items_node(&self, preconditions: &Arc<Preconditions>) -> bool {
        let ours = self.for_items_node.as_ref();
        ours.is_some_and(|ours| Arc::ptr_eq(ours, preconditions))
    }

    /// Returns the preconditions of a segment's items.
    pub(super) fn preconditions_for(&self, segment: u32) -> Option<Arc<Preconditions>> {
        match segment {
            0 => self.for_items_node.clone(),
            _ => Some(Arc::clone(&self.for_segments)),
        }
    }

    /// Returns whether items can be taken.
    pub(super) fn is_usable(&self) -> bool {
        self.fresh.is_none()
    }

    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        let is_same_items_node = match (&self.for_items_node, &other.for_items_node) {
            (Some(ours), Some(theirs)) => ours.agrees_with(theirs),
            (None, None) => true,
            _ => false,
        };
        is_same_items_node
            && self.for_segments.agrees_with(&other.for_segments)
            && self.active == other.active
            && self.fresh == other.fresh
    }
}

impl ItemStore {
    /// Creates what is missing before items can be taken; returns whether the known list can be used now.
    pub(super) async fn establish_epoch(&self, deadline: Deadline) -> Result<bool, Error> {
        if self.context.tokens.current_fence().is_none() {
            self.context.tokens.fence(deadline).await?;
            return Ok(false);
        }
        let epoch = lock(&self.list).epoch.clone();
        match epoch {
            Some(epoch) if !epoch.is_usable() => self.rewrite_fresh_node(epoch, deadline).await,
            _ => Ok(false),
        }
    }

    /// Writes a fresh items node and the control node, each with the data that it has.
    ///
    /// This distinguishes the items node from every other one that had or will have its path: it no longer has version
    /// 0, and the control node never has this version again. The caller holds `list_lock`.
    async fn rewrite_fresh_node(
        &self,
        mut epoch: ListEpoch,
        deadline: Deadline,
    ) -> Result<bool, Error> {
        let Some(items_node) = epoch.fresh.take() else {
            return Ok(true);
        };
        let active = epoch.active;
        let get = self
            .context
            .session
            .get(&items_node.path)
            .timeout(deadline.remaining());
        let data = match get.await {
            Ok((data, stat))
                if stat.version == items_node.version && stat.czxid == items_node.czxid =>
            {
                data
            }
            // Another consumer has written it, or it was deleted.
            Ok(_) => return Ok(false),
            Err(error) if error.is_no_node() => return Ok(false),
            Err(error) => return Err(error),
        };
        let rewrite = |transaction: Transaction| {
            transaction
                .set_version(
                    &self.context.paths.control_node,
                    active.data(),
                    active.control_version,
                )
                .set_version(&items_node.path, data.clone(), items_node.version)
        };
        let outcome = self
            .context
            .tokens
            .commit_once_if(&epoch.for_segments, deadline, rewrite)
            .await;
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(failure) if failure.is_in_doubt => return Err(failure.error),
            Err(failure) => return self.accept_read_only(epoch, items_node, failure.error),
        };
        match outcome {
            ConditionalOutcome::Committed(Some(changed)) => {
                let [OpResult::Set(control_node), OpResult::Set(items)] = changed.as_slice() else {
                    return Ok(false);
                };
                if items.czxid != items_node.czxid {
                    // It was created again after it had been read, and the list is that of the previous node.
                    return Ok(false);
                }
                let active = ActiveSegment {
                    control_version: control_node.version,
                    ..active
                };
                let written = ItemsNode {
                    version: items.version,
                    czxid: items.czxid,
                    ..items_node
                };
                let previous = &epoch.for_segments;
                let (fence, control_node) =
                    (Arc::clone(&previous.fence), previous.control_node.0.clone());
                let epoch = ListEpoch::new(fence, control_node, active, Some(written), true);
                tracing::debug!(path = %self.context.paths.items, "a fresh node of a queue was written");
                self.segments.set_active(epoch.active);
                lock(&self.list).epoch = Some(epoch);
                Ok(true)
            }
            // The versions were in the lost reply: read them.
            ConditionalOutcome::Committed(None) | ConditionalOutcome::PreconditionsFailed => {
                Ok(false)
            }
            ConditionalOutcome::Refused { error, .. } => match error.kind() {
                ErrorKind::NoNode | ErrorKind::BadVersion => Ok(false),
                _ => self.accept_read_only(epoch, items_node, error),
            },
        }
    }

    /// Uses a fresh items node as it is because the servers refuse to write it: its items can be taken all the same.
    fn accept_read_only(
        &self,
        mut epoch: ListEpoch,
        items_node: ItemsNode,
        error: Error,
    ) -> Result<bool, Error> {
        if error.class() != ErrorClass::Outcome {
            return Err(error);
        }
        tracing::warn!(
            path = %items_node.path, %error,
            "the node of a queue cannot be written, and is not distinguished from one that is created later"
        );
        let mut list = lock(&self.list);
        list.read_only_items_node = Some(items_node.czxid);
        epoch.set_items_node(items_node);
        list.epoch = Some(epoch);
        Ok(true)
    }

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
    /// were there: the items node is a container, which the servers delete when those are done.
    pub(crate) async fn preconditions_if_item_exists(
        &self,
        item: &NodePath,
        czxid: i64,
        deadline: Deadline,
    ) -> Result<Option<Arc<Preconditions>>, Error> {
        let scope = if item.parent().as_ref() == Some(&self.context.paths.items) {
            Scope::ItemsNode
        } else {
            Scope::Segment
        };
        let new = self.read_preconditions(scope, deadline).await?;
        let stat = self
            .context
            .session
            .exists(item)
            .timeout(deadline.remaining());
        let is_there = stat.await?.is_some_and(|stat| stat.czxid == czxid);
        Ok(new.filter(|_| is_there).map(Arc::new))
    }

    /// Reads the preconditions that items have now; `None` if the nodes that they name do not exist.
    async fn read_preconditions(
        &self,
        scope: Scope,
        deadline: Deadline,
    ) -> Result<Option<Preconditions>, Error> {
        let fence = self.context.tokens.fence(deadline).await?;
        let (control_node, items) = (&self.context.paths.control_node, &self.context.paths.items);
        let sync = self
            .context
            .session
            .sync(control_node)
            .timeout(deadline.remaining());
        let stat = |path| {
            let exists = self.context.session.exists(path);
            exists.timeout(deadline.remaining()).into_future()
        };
        let ((), control_stat, items_stat) =
            future::try_join3(sync.into_future(), stat(control_node), stat(items)).await?;
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

    /// Advances the list to the epoch that began while a call was taking or claiming items of the items node, and returns
    /// the new preconditions of these items.
    ///
    /// If only the active segment has changed, the items can still be taken. If the items node is another one, this
    /// returns `None`, and the next call reads the list again.
    pub(crate) async fn advance_epoch(
        &self,
        preconditions: &Arc<Preconditions>,
        deadline: Deadline,
    ) -> Result<Option<Arc<Preconditions>>, Error> {
        let Some(new) = self
            .reread_for_same_items_node(preconditions, deadline)
            .await?
        else {
            self.invalidate(preconditions);
            return Ok(None);
        };
        let new = Arc::new(new);
        let mut list = lock(&self.list);
        let list = &mut *list;
        // Segments may have been created again, and with priorities their items may come before these.
        let is_order_known =
            list.items.has_only_segment(0) && !self.context.options.layout.has_priorities();
        match &mut list.epoch {
            Some(epoch) if epoch.is_for_items_node(preconditions) && is_order_known => {
                epoch.advance_to(&new);
                for prefetched in list.prefetched.values_mut().flatten() {
                    if Arc::ptr_eq(&prefetched.preconditions, preconditions) {
                        prefetched.preconditions = Arc::clone(&new);
                    }
                }
                list.is_complete = false;
            }
            Some(epoch) if epoch.is_for_items_node(preconditions) => list.invalidate(),
            _ => {}
        }
        Ok(Some(new))
    }

    /// Makes the next call read the list again if it has these preconditions, which no longer hold.
    pub(crate) fn invalidate(&self, preconditions: &Arc<Preconditions>) {
        let mut list = lock(&self.list);
        let epoch = list.epoch.as_ref();
        let is_same = epoch.is_some_and(|epoch| {
            Arc::ptr_eq(&epoch.for_segments, preconditions)
                || epoch.is_for_items_node(preconditions)
        });
        if is_same {
            list.invalidate();
        }
    }

    /// Makes the next call read the list again, because an item has no preconditions.
    pub(crate) fn invalidate_list(&self) {
        lock(&self.list).invalidate();
    }
}
