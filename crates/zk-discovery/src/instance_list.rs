//! The instances of a service at one moment, and the difference between two such lists.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::sync::Arc;

use zk_cache::{CacheEnd, CacheState, PartialRead};
use zk_core::NodePath;

use crate::instance::Instance;
use crate::layout::BadEntry;
use crate::pick::{Candidate, Candidates};
use crate::redact::redact;

/// An immutable snapshot of the instances of a service; cheap to clone.
pub struct InstanceList<P>(pub(crate) Arc<ListContents<P>>);

pub(crate) struct ListContents<P> {
    /// Sorted by path.
    pub(crate) members: Vec<Member<P>>,
    /// The enabled instances, in the same order.
    pub(crate) enabled: Candidates<P>,
    /// Sorted by path.
    pub(crate) quarantined: Vec<Quarantined>,
    pub(crate) gap: Option<PartialRead>,
    pub(crate) state: CacheState,
    /// Counts how often the list became synchronised.
    pub(crate) rounds: u64,
    pub(crate) end: Option<CacheEnd>,
}

/// An instance and its node.
pub(crate) struct Member<P> {
    pub(crate) path: NodePath,
    pub(crate) czxid: i64,
    pub(crate) mzxid: i64,
    pub(crate) candidate: Candidate<P>,
}

/// A node below a service that is not a valid instance, or cannot be read.
///
/// It is reported once, and ignored until it changes.
#[derive(Clone, PartialEq, Eq)]
pub struct Quarantined {
    pub(crate) path: NodePath,
    /// `None` for a node that cannot be read.
    pub(crate) mzxid: Option<i64>,
    pub(crate) reason: Arc<BadEntry>,
}

/// A change of the instances of a service.
#[derive(Debug)]
#[non_exhaustive]
pub enum InstanceChange<P> {
    /// An instance was registered, or registered again; in the second case a [`Removed`](Self::Removed) of the old one
    /// comes first.
    Added(Arc<Instance<P>>),
    /// An instance was updated in place.
    Updated {
        /// The previous value.
        old: Arc<Instance<P>>,
        /// The current value.
        new: Arc<Instance<P>>,
    },
    /// An instance is gone, or its node was [quarantined](Self::Quarantined).
    Removed(Arc<Instance<P>>),
    /// A node is not a valid instance, or no longer one.
    Quarantined(Quarantined),
    /// A quarantined node is gone or was changed; if it is an instance now, [`Added`](Self::Added) follows.
    Released(Quarantined),
    /// The connection broke: the list may be out of date until the next [`Synchronized`](Self::Synchronized). The
    /// difference is reported before that.
    Stale,
    /// The list is up to date: for the first time, or again after a [`Stale`](Self::Stale).
    Synchronized,
    /// The list of instances cannot be read completely.
    ///
    /// Once it can be read, the missing instances are [`Added`](Self::Added), and [`InstanceList::gap`] is `None`.
    Incomplete(PartialRead),
    /// The last change: the service is no longer followed.
    Ended(CacheEnd),
}

/// Omits the data of the node.
impl fmt::Debug for Quarantined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quarantined")
            .field("path", &redact(self.path.as_str()))
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl Quarantined {
    /// Returns the path of the node.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Returns why it is not an instance.
    pub fn reason(&self) -> &BadEntry {
        &self.reason
    }
}

impl<P> InstanceList<P> {
    pub(crate) fn empty() -> Self {
        Self(Arc::new(ListContents {
            members: Vec::new(),
            enabled: Candidates::new(Vec::new()),
            quarantined: Vec::new(),
            gap: None,
            state: CacheState::Loading,
            rounds: 0,
            end: None,
        }))
    }

    /// Returns the same nodes as a list that was never synchronised: rounds and end belong to the providers of origin.
    pub(crate) fn nodes_only(&self) -> Self {
        let contents = &*self.0;
        Self(Arc::new(ListContents {
            members: contents.members.clone(),
            enabled: contents.enabled.clone(),
            quarantined: contents.quarantined.clone(),
            gap: None,
            state: CacheState::Loading,
            rounds: 0,
            end: None,
        }))
    }

    /// Returns all instances in the order of their nodes, including disabled ones.
    pub fn instances(&self) -> impl ExactSizeIterator<Item = &Arc<Instance<P>>> {
        self.0
            .members
            .iter()
            .map(|member| member.candidate.instance())
    }

    /// Returns the first instance with this id.
    ///
    /// Several instances may have the same id, see
    /// [`ServiceType::DynamicSequential`](crate::ServiceType::DynamicSequential).
    ///
    /// # Cost
    ///
    /// A linear search.
    pub fn get(&self, id: &str) -> Option<&Arc<Instance<P>>> {
        self.instances().find(|instance| instance.id() == id)
    }

    /// Returns the number of instances.
    pub fn len(&self) -> usize {
        self.0.members.len()
    }

    /// Returns whether there is no instance.
    pub fn is_empty(&self) -> bool {
        self.0.members.is_empty()
    }

    /// Returns the nodes that are not valid instances.
    pub fn quarantined(&self) -> &[Quarantined] {
        &self.0.quarantined
    }

    /// Returns what is missing from the list, if anything.
    pub fn gap(&self) -> Option<PartialRead> {
        self.0.gap
    }

    /// Returns whether the list is up to date.
    pub fn state(&self) -> CacheState {
        self.0.state
    }

    /// Returns whether the list is complete, except for changes that are still on their way.
    pub fn is_synchronized(&self) -> bool {
        self.0.state == CacheState::Synchronized
    }

    /// Returns the changes that lead from `older` to this list.
    ///
    /// # Cost
    ///
    /// Linear in the number of instances of both lists.
    pub fn since(&self, older: &Self) -> Vec<InstanceChange<P>> {
        let (older, newer) = (&*older.0, &*self.0);
        let was_synchronized = older.state == CacheState::Synchronized;
        let is_another_round = older.rounds != newer.rounds;
        let mut changes = Vec::new();
        if was_synchronized && is_another_round {
            changes.push(InstanceChange::Stale);
        }
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        for pair in MergeJoin::new(&older.members, &newer.members, |member| &member.path) {
            let instance = |member: &Member<P>| Arc::clone(member.candidate.instance());
            match pair {
                (Some(old), Some(new)) if old.czxid == new.czxid => {
                    if old.mzxid != new.mzxid {
                        come.push(InstanceChange::Updated {
                            old: instance(old),
                            new: instance(new),
                        });
                    }
                }
                (old, new) => {
                    gone.extend(old.map(|old| InstanceChange::Removed(instance(old))));
                    come.extend(new.map(|new| InstanceChange::Added(instance(new))));
                }
            }
        }
        let mut quarantined = Vec::new();
        for pair in MergeJoin::new(&older.quarantined, &newer.quarantined, |one| &one.path) {
            if let (Some(old), Some(new)) = pair
                && old == new
            {
                continue;
            }
            gone.extend(pair.0.map(|old| InstanceChange::Released(old.clone())));
            quarantined.extend(pair.1.map(|new| InstanceChange::Quarantined(new.clone())));
        }
        changes.extend(gone);
        changes.extend(quarantined);
        changes.extend(come);
        if let Some(gap) = newer.gap
            && older.gap != newer.gap
        {
            changes.push(InstanceChange::Incomplete(gap));
        }
        match newer.state {
            CacheState::Synchronized if !was_synchronized || is_another_round => {
                changes.push(InstanceChange::Synchronized);
            }
            CacheState::Stale if was_synchronized && !is_another_round => {
                changes.push(InstanceChange::Stale);
            }
            _ => {}
        }
        if let (Some(end), None) = (&newer.end, &older.end) {
            changes.push(InstanceChange::Ended(end.clone()));
        }
        changes
    }
}

impl<P> Clone for InstanceList<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P> Clone for Member<P> {
    fn clone(&self) -> Self {
        Self {
            path: self.path.clone(),
            czxid: self.czxid,
            mzxid: self.mzxid,
            candidate: self.candidate.clone(),
        }
    }
}

impl<P> Clone for InstanceChange<P> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(instance) => Self::Added(Arc::clone(instance)),
            Self::Updated { old, new } => Self::Updated {
                old: Arc::clone(old),
                new: Arc::clone(new),
            },
            Self::Removed(instance) => Self::Removed(Arc::clone(instance)),
            Self::Quarantined(entry) => Self::Quarantined(entry.clone()),
            Self::Released(entry) => Self::Released(entry.clone()),
            Self::Stale => Self::Stale,
            Self::Synchronized => Self::Synchronized,
            Self::Incomplete(gap) => Self::Incomplete(*gap),
            Self::Ended(end) => Self::Ended(end.clone()),
        }
    }
}

impl<P> fmt::Debug for InstanceList<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstanceList")
            .field("instances", &self.len())
            .field("quarantined", &self.0.quarantined.len())
            .field("gap", &self.0.gap)
            .field("state", &self.0.state)
            .field("end", &self.0.end)
            .finish_non_exhaustive()
    }
}

/// Pairs the elements of two lists that are sorted by the same key.
struct MergeJoin<'a, T, F> {
    old: &'a [T],
    new: &'a [T],
    key: F,
}

impl<'a, T, F: Fn(&T) -> &NodePath> MergeJoin<'a, T, F> {
    fn new(old: &'a [T], new: &'a [T], key: F) -> Self {
        Self { old, new, key }
    }
}

impl<'a, T, F: Fn(&T) -> &NodePath> Iterator for MergeJoin<'a, T, F> {
    type Item = (Option<&'a T>, Option<&'a T>);

    fn next(&mut self) -> Option<Self::Item> {
        let (old, new) = (self.old.first(), self.new.first());
        let pair = match (old, new) {
            (None, None) => return None,
            (Some(one), Some(other)) => match (self.key)(one).cmp((self.key)(other)) {
                std::cmp::Ordering::Less => (old, None),
                std::cmp::Ordering::Equal => (old, new),
                std::cmp::Ordering::Greater => (None, new),
            },
            pair => pair,
        };
        if pair.0.is_some() {
            self.old = &self.old[1..];
        }
        if pair.1.is_some() {
            self.new = &self.new[1..];
        }
        Some(pair)
    }
}
