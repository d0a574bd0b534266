//! What is known of the instances of a service, and the difference between two such pictures.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::sync::Arc;

use zk_cache::CacheEnd;
use zk_cache::CacheState;
use zk_cache::PartialRead;
use zk_core::NodePath;

use crate::instance::Instance;
use crate::layout::BadEntry;
use crate::pick::Candidate;
use crate::redact::redact;

/// The instances of a service at one moment; cheap to clone, and never changed.
pub struct InstanceList<P>(pub(crate) Arc<ListContents<P>>);

pub(crate) struct ListContents<P> {
    /// By their paths.
    pub(crate) members: Vec<Member<P>>,
    /// Those that may be picked, in the same order.
    pub(crate) enabled: Vec<Candidate<P>>,
    /// By their paths.
    pub(crate) quarantined: Vec<Quarantined>,
    pub(crate) gap: Option<PartialRead>,
    pub(crate) state: CacheState,
    /// How often everything was known after it was not.
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

/// A node among the instances of a service that is none, or cannot be read.
///
/// It is told once, and left aside until it is changed.
#[derive(Clone, PartialEq, Eq)]
pub struct Quarantined {
    pub(crate) path: NodePath,
    /// Of nodes that cannot be read it is not known.
    pub(crate) mzxid: Option<i64>,
    pub(crate) reason: Arc<BadEntry>,
}

/// What has changed among the instances of a service.
#[derive(Debug)]
#[non_exhaustive]
pub enum InstanceChange<P> {
    /// There is an instance that was not there, or one that was registered anew; of the old one a
    /// [`Removed`](Self::Removed) came before.
    Added(Arc<Instance<P>>),
    /// An instance was changed in place.
    Updated {
        /// What it was.
        old: Arc<Instance<P>>,
        /// What it is.
        new: Arc<Instance<P>>,
    },
    /// An instance is gone, or its node is [quarantined](Self::Quarantined) now.
    Removed(Arc<Instance<P>>),
    /// A node is no instance, or not any more.
    Quarantined(Quarantined),
    /// A node that was quarantined is gone or was changed; if it is an instance now, it is [`Added`](Self::Added) next.
    Released(Quarantined),
    /// The connection broke: what is known may be out of date until the next [`Synchronized`](Self::Synchronized), and the
    /// difference is told before that.
    Stale,
    /// Everything is known: at first, and after each [`Stale`](Self::Stale).
    Synchronized,
    /// The list of instances cannot be had as a whole.
    ///
    /// When it can be had again, what was missing is [`Added`](Self::Added), and [`InstanceList::gap`] is none.
    Incomplete(PartialRead),
    /// Nothing comes after this.
    Ended(CacheEnd),
}

/// Without what the node has.
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

    /// Returns what is wrong with it.
    pub fn reason(&self) -> &BadEntry {
        &self.reason
    }
}

impl<P> InstanceList<P> {
    pub(crate) fn empty() -> Self {
        Self(Arc::new(ListContents {
            members: Vec::new(),
            enabled: Vec::new(),
            quarantined: Vec::new(),
            gap: None,
            state: CacheState::Loading,
            rounds: 0,
            end: None,
        }))
    }

    /// The same nodes, told as for the first time: their round and end are those of the providers they come from.
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

    /// Returns all instances, also those that are not enabled, in the order of their nodes.
    pub fn instances(&self) -> impl ExactSizeIterator<Item = &Arc<Instance<P>>> {
        self.0
            .members
            .iter()
            .map(|member| member.candidate.instance())
    }

    /// Returns an instance; if several have this id, see
    /// [`ServiceType::DynamicSequential`](crate::ServiceType::DynamicSequential), the first of them.
    ///
    /// # Cost
    ///
    /// It looks at one instance after the other.
    pub fn get(&self, id: &str) -> Option<&Arc<Instance<P>>> {
        self.instances().find(|instance| instance.id() == id)
    }

    /// Returns the number of instances.
    pub fn len(&self) -> usize {
        self.0.members.len()
    }

    /// Tells whether there is no instance.
    pub fn is_empty(&self) -> bool {
        self.0.members.is_empty()
    }

    /// Returns the nodes that are no instances.
    pub fn quarantined(&self) -> &[Quarantined] {
        &self.0.quarantined
    }

    /// Returns what is missing of the list, if anything is.
    pub fn gap(&self) -> Option<PartialRead> {
        self.0.gap
    }

    /// Returns how far this can be relied on.
    pub fn state(&self) -> CacheState {
        self.0.state
    }

    /// Tells whether this is everything but what is on its way.
    pub fn is_synchronized(&self) -> bool {
        self.0.state == CacheState::Synchronized
    }

    /// Returns what a consumer has to be told that knows `older` to know this.
    ///
    /// # Cost
    ///
    /// All instances of both are looked at.
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
                changes.push(InstanceChange::Stale)
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

/// What two lists, both in the order of a key, have under each key.
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
