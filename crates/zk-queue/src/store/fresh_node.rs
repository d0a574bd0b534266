//! Writes a fresh items node before its first items are taken, which distinguishes it from every other one.

use std::sync::Arc;

use zk_core::{Error, ErrorClass, ErrorKind, MultiResult, Transaction};

use super::active_segment::ActiveSegment;
use super::conditional_commit::ConditionalOutcome;
use super::list_epoch::ListEpoch;
use super::list_reader::ListReader;
use super::read_preconditions::Scope;
use crate::deadline::Deadline;
use crate::preconditions::{ItemsNode, Preconditions};

impl ListReader {
    /// Creates what is missing before items can be taken; returns whether the known list can be used now.
    pub(super) async fn establish_epoch(&self, deadline: Deadline) -> Result<bool, Error> {
        if self.context.tokens.current_fence().is_none() {
            self.context.tokens.fence(deadline.remaining()).await?;
            return Ok(false);
        }
        let epoch = self.inventory.lock().epoch().cloned();
        match epoch {
            Some(epoch) if !epoch.is_usable() => self.rewrite_fresh_node(epoch, deadline).await,
            _ => Ok(false),
        }
    }

    /// Reads the preconditions of a segment's items from a server that has caught up, and creates what they need; `None`
    /// if the segment has no items.
    pub(super) async fn read_segment_preconditions(
        &self,
        segment: u32,
        deadline: Deadline,
    ) -> Result<Option<Arc<Preconditions>>, Error> {
        let scope = match segment {
            0 => Scope::ItemsNode,
            _ => Scope::Segment,
        };
        let read = self.context.read_preconditions(scope, deadline).await?;
        let items_node = read.as_ref().and_then(|read| read.items_node.as_ref());
        if items_node.is_none_or(|items_node| items_node.version != 0) {
            return Ok(read.map(Arc::new));
        }
        let _reading = self.reading.lock().await;
        loop {
            self.refresh_list(false, deadline).await?;
            let is_usable = |epoch: &ListEpoch| epoch.is_usable();
            let is_known = self.inventory.lock().epoch().is_some_and(is_usable);
            if is_known || self.establish_epoch(deadline).await? {
                let inventory = self.inventory.lock();
                return Ok(inventory
                    .epoch()
                    .and_then(|epoch| epoch.preconditions_for(segment)));
            }
        }
    }

    /// Writes a fresh items node and the control node, each with the data that it has.
    ///
    /// This distinguishes the items node from every other one that had or will have its path: it no longer has version
    /// 0, and the control node never has this version again. The caller holds `reading`.
    async fn rewrite_fresh_node(
        &self,
        mut epoch: ListEpoch,
        deadline: Deadline,
    ) -> Result<bool, Error> {
        let Some(items_node) = epoch.fresh.take() else {
            return Ok(true);
        };
        let active = epoch.active;
        let data = match self.context.get(&items_node.path, deadline).await {
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
            .commit_if(&epoch.for_segments, deadline, rewrite)
            .await;
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(failure) if failure.error.is_outcome_unknown() => return Err(failure.error),
            Err(failure) => return self.accept_read_only(epoch, items_node, failure.error),
        };
        match outcome {
            ConditionalOutcome::Committed(committed) => {
                let [MultiResult::Set(control_node), MultiResult::Set(items)] = committed.results()
                else {
                    // The versions were in the lost reply: read them.
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
                let previous = Preconditions::clone(&epoch.for_segments);
                let for_segments = Preconditions {
                    control_node: (previous.control_node.0, control_node.version),
                    ..previous
                };
                let epoch = ListEpoch::new(for_segments, active, Some(written), true);
                tracing::debug!(path = %self.context.paths.items, "a fresh node of a queue was written");
                self.segments.set_active(active);
                self.inventory.lock().set_epoch(epoch);
                Ok(true)
            }
            ConditionalOutcome::PreconditionsFailed => Ok(false),
            ConditionalOutcome::Refused { error, .. } => match error.kind() {
                ErrorKind::NoNode | ErrorKind::BadVersion => Ok(false),
                _ => self.accept_read_only(epoch, items_node, error),
            },
        }
    }

    /// Uses a fresh items node as it is because the servers refuse to write it: its items can be taken all the same.
    fn accept_read_only(
        &self,
        epoch: ListEpoch,
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
        self.inventory.lock().accept_read_only(epoch, items_node);
        Ok(true)
    }
}
