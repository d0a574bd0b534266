//! Decides which nodes count as read only in part: those the server refuses, those with too many children, and those of
//! which something is left out because the cache is full.
//!
//! Pure: no I/O and no clock.

use zk_core::{ErrorKind, NodePath};

use super::{Phase, Reducer};
use crate::event::{Event, PartialRead};
use crate::node::Node;

impl Reducer {
    /// Returns whether a new node is beyond the limit of its parent's children, and reports that if it is news.
    pub(super) fn exceeds_child_limit(&mut self, path: &NodePath) -> bool {
        let Some(parent) = path.parent() else {
            return false;
        };
        if self.current.store.get(path.as_str()).is_some() {
            return false;
        }
        if self.has_too_many_children(&parent) {
            return true;
        }
        let count =
            u32::try_from(self.current.store.count_children(parent.as_str())).unwrap_or(u32::MAX);
        if count < self.max_children {
            return false;
        }
        self.report_too_many_children(&parent, count.saturating_add(1));
        true
    }

    /// Checks a node with too many children again, after one of them was deleted.
    pub(super) fn recheck_child_limit(&mut self, deleted: &NodePath) {
        let Some(parent) = deleted.parent() else {
            return;
        };
        let has_left_out = self.has_too_many_children(&parent) || self.is_left_out(&parent);
        if self.phase == Phase::Ended || !has_left_out {
            return;
        }
        if let Some(read) = self.pending.get_mut(&parent) {
            read.is_outdated |= read.sent.is_some();
        } else {
            self.check(parent, false);
        }
    }

    pub(super) fn report_too_many_children(&mut self, path: &NodePath, count: u32) {
        let limit = self.max_children;
        let partial = PartialRead::TooManyChildren { count, limit };
        self.listed.remove(path);
        // Children that are left out are left out with everything below them.
        let store = self.current.store.clone();
        self.clear_partial_below(path, |at| {
            let above = std::iter::successors(Some(at.clone()), NodePath::parent);
            let mut above = above.take_while(|it| it != path);
            !above.any(|it| store.get(it.as_str()).is_some())
        });
        if self.has_too_many_children(path) {
            // Reported before; another count is visible in the snapshot alone.
            self.is_changed |= self.current.partial_reads.get(path) != Some(&partial);
            self.current.partial_reads.insert_mut(path.clone(), partial);
        } else {
            self.report_partial(path, partial);
        }
    }

    pub(super) fn report_partial(&mut self, path: &NodePath, reason: PartialRead) {
        if self.current.partial_reads.get(path) != Some(&reason) {
            self.refused -= usize::from(self.is_refused(path));
            self.current.partial_reads.insert_mut(path.clone(), reason);
            self.refused += usize::from(self.is_refused(path));
            self.emit(Event::Incomplete {
                path: path.clone(),
                reason,
            });
        }
    }

    pub(super) fn clear_partial(&mut self, path: &NodePath) {
        self.refused -= usize::from(self.is_refused(path));
        self.is_changed |= self.current.partial_reads.remove_mut(path);
    }

    fn is_refused(&self, path: &NodePath) -> bool {
        let partial = self.current.partial_reads.get(path);
        matches!(partial, Some(PartialRead::Node(_)))
    }

    /// Clears a refusal to return the node itself.
    pub(super) fn clear_partial_node(&mut self, path: &NodePath) {
        if self.is_refused(path) {
            self.clear_partial(path);
        }
    }

    /// Clears the partial reads of those nodes below `path` that `matches` selects.
    pub(super) fn clear_partial_below(
        &mut self,
        path: &NodePath,
        matches: impl Fn(&NodePath) -> bool,
    ) {
        // In this order all paths with one prefix are adjacent, and those below `path` are among them.
        let all = &self.current.partial_reads;
        let from = all.range(path.clone()..).map(|(at, _)| at);
        let below: Vec<_> = from
            .take_while(|at| at.as_str().starts_with(path.as_str()))
            .filter(|at| at.depth_below(path) > Some(0) && matches(at))
            .cloned()
            .collect();
        for at in below {
            self.clear_partial(&at);
        }
    }

    /// Returns whether the children of a node could not be listed.
    pub(super) fn has_partial_children(&self, path: &NodePath) -> bool {
        let partial = self.current.partial_reads.get(path);
        matches!(
            partial,
            Some(
                PartialRead::Children(_)
                    | PartialRead::ChildrenTooLarge { .. }
                    | PartialRead::TooManyChildren { .. }
                    | PartialRead::TooManyNodes { .. }
                    | PartialRead::TooManyBytes { .. }
            )
        )
    }

    /// Returns the limit of the whole cache that a node with this much data exceeds, if it does.
    ///
    /// A node that is to be read has a place already, and those that cannot be read have one, too: they are remembered.
    pub(super) fn exceeds_limits(&self, path: &NodePath, data: usize) -> Option<PartialRead> {
        let store = &self.current.store;
        let nodes = store.len() + self.new_left + self.refused;
        if nodes >= self.max_nodes && !self.is_counted(path) {
            return Some(PartialRead::TooManyNodes {
                limit: self.max_nodes,
            });
        }
        let known = store.get(path.as_str());
        let (before, old) = known.map_or((0, 0), |node| {
            (node.bytes(), node.data().map_or(0, <[u8]>::len))
        });
        let grows = known.is_none() || data > old;
        let bytes = store.bytes() - before + Node::bytes_of(path.as_str().len(), data);
        (grows && bytes > self.max_bytes).then_some(PartialRead::TooManyBytes {
            limit: self.max_bytes,
        })
    }

    /// Returns whether the cache keeps something about a node, or is about to.
    pub(super) fn is_counted(&self, path: &NodePath) -> bool {
        self.current.store.get(path.as_str()).is_some()
            || self.is_refused(path)
            || self.pending.get(path).is_some_and(|read| read.is_new)
    }

    /// Reports a node beyond the limits of the cache: for itself if an older state of it is cached, or for its parent.
    pub(super) fn leave_out(&mut self, path: &NodePath, reason: PartialRead) {
        let is_stored = |it: &NodePath| self.current.store.get(it.as_str()).is_some();
        if path == self.root() || is_stored(path) {
            self.is_full = true;
            self.report_partial(path, reason);
        } else if let Some(parent) = path.parent().filter(is_stored) {
            // A list of the children in flight may be older than this one.
            if let Some(read) = self.pending.get_mut(&parent) {
                read.is_outdated |= read.sent.is_some();
            }
            self.report_left_out(&parent, reason);
        }
    }

    /// Reports that children of a node are beyond the limits of the cache.
    pub(super) fn report_left_out(&mut self, path: &NodePath, reason: PartialRead) {
        self.is_full = true;
        self.listed.remove(path);
        // The other reasons say already that the children are not complete.
        if !self.has_partial_children(path) || self.is_left_out(path) {
            self.report_partial(path, reason);
        }
    }

    /// Returns whether something of a node is left out because of a limit of the whole cache.
    pub(super) fn is_left_out(&self, path: &NodePath) -> bool {
        let partial = self.current.partial_reads.get(path);
        partial.is_some_and(PartialRead::is_of_whole_cache)
    }

    /// Returns whether children of a node are left out and there is no room for them yet. A list of them all would only
    /// show that again.
    pub(super) fn are_still_left_out(&self, path: &NodePath, count: u32) -> bool {
        let known = self.current.store.count_children(path.as_str());
        self.is_left_out(path) && u32::try_from(known) != Ok(count) && !self.has_room()
    }

    /// Checks the nodes of which something is left out again, once there is room for a good part of it.
    pub(super) fn recheck_left_out(&mut self) {
        if !self.is_full || !self.has_room() {
            return;
        }
        self.is_full = false;
        let all = self.current.partial_reads.iter();
        let left_out: Vec<_> = all
            .filter(|(_, reason)| reason.is_of_whole_cache())
            .map(|(path, _)| path.clone())
            .collect();
        for path in left_out {
            match self.pending.get_mut(&path) {
                Some(read) => read.is_outdated |= read.sent.is_some(),
                None => self.check(path, false),
            }
        }
    }

    /// Returns whether a good part of each limit of the cache is free.
    fn has_room(&self) -> bool {
        let most = |limit: usize| limit - limit / FREE;
        let nodes = self.current.store.len() + self.new_left + self.refused;
        nodes < most(self.max_nodes) && self.current.store.bytes() < most(self.max_bytes)
    }

    /// Returns why the children of a node are not listed.
    pub(super) fn children_not_listed(&self, path: &NodePath, kind: ErrorKind) -> PartialRead {
        match (kind, self.current.store.get(path.as_str())) {
            (ErrorKind::TooLarge, Some(node)) => PartialRead::ChildrenTooLarge {
                count: node.stat().num_children,
            },
            _ => PartialRead::Children(kind),
        }
    }

    /// Returns whether a node has about as many children as when their names were too large for a reply.
    pub(super) fn are_still_too_large(&self, path: &NodePath, count: u32) -> bool {
        match self.current.partial_reads.get(path) {
            Some(PartialRead::ChildrenTooLarge { count: before }) => {
                count > before - before / FEWER
            }
            _ => false,
        }
    }

    pub(super) fn clear_partial_children(&mut self, path: &NodePath) {
        if self.has_partial_children(path) {
            self.clear_partial(path);
        }
    }

    fn has_too_many_children(&self, path: &NodePath) -> bool {
        let partial = self.current.partial_reads.get(path);
        matches!(partial, Some(PartialRead::TooManyChildren { .. }))
    }
}

/// The children are listed again once this share of them is gone.
const FEWER: u32 = 16;
/// What is left out is read again once this share of each limit is free.
const FREE: usize = 16;
