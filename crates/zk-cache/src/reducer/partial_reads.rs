//! Decides which nodes count as read only in part: those the server refuses, and those with too many children.
//!
//! Pure: no I/O and no clock.

use zk_core::{ErrorKind, NodePath};

use super::{Phase, Reducer};
use crate::event::{Event, PartialRead};

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
        if self.phase == Phase::Ended || !self.has_too_many_children(&parent) {
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
            self.current.partial_reads.insert_mut(path.clone(), reason);
            self.emit(Event::Incomplete {
                path: path.clone(),
                reason,
            });
        }
    }

    pub(super) fn clear_partial(&mut self, path: &NodePath) {
        self.is_changed |= self.current.partial_reads.remove_mut(path);
    }

    /// Clears a refusal to return the node itself.
    pub(super) fn clear_partial_node(&mut self, path: &NodePath) {
        let partial = self.current.partial_reads.get(path);
        if matches!(partial, Some(PartialRead::Node(_))) {
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
            )
        )
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
