//! Decodes the events of a node cache into instance lists, and quarantines invalid entries.
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use zk_cache::{CacheState, Event, PartialRead};
use zk_core::{NodePath, Stat};

use crate::instance::has_control;
use crate::instance_list::{InstanceList, ListContents, Member, Quarantined};
use crate::layout::{BadEntry, ReadFormat};
use crate::pick::{Candidate, Candidates, Incarnation};
use crate::redact::redact;

/// The decoded nodes below the node of a service.
pub(crate) struct Decoder<P> {
    service: String,
    parent: NodePath,
    format: Arc<dyn ReadFormat<P>>,
    most_bytes: usize,
    entries: BTreeMap<NodePath, Result<Member<P>, Quarantined>>,
    /// Entries that an earlier session read and this one has not read yet.
    unconfirmed: BTreeSet<NodePath>,
    unreadable: BTreeMap<NodePath, Quarantined>,
    gap: Option<PartialRead>,
    state: CacheState,
    rounds: u64,
    end: Option<zk_cache::CacheEnd>,
}

impl<P: 'static> Decoder<P> {
    pub(crate) fn new(
        service: &str,
        parent: &NodePath,
        format: Arc<dyn ReadFormat<P>>,
        most_bytes: usize,
    ) -> Self {
        Self {
            service: service.to_owned(),
            parent: parent.clone(),
            format,
            most_bytes,
            entries: BTreeMap::new(),
            unconfirmed: BTreeSet::new(),
            unreadable: BTreeMap::new(),
            gap: None,
            state: CacheState::Loading,
            rounds: 0,
            end: None,
        }
    }

    /// Starts from the last list of an earlier session, which is stale until this session has synchronised.
    pub(crate) fn succeeding(mut self, last: &InstanceList<P>) -> Self {
        let contents = &*last.0;
        if contents.rounds == 0 {
            return self;
        }
        let members = contents.members.iter().cloned();
        let quarantined = contents.quarantined.iter().cloned();
        // Unreadable nodes are read again.
        let quarantined = quarantined.filter(|entry| entry.mzxid.is_some());
        self.entries = members
            .map(|member| (member.path.clone(), Ok(member)))
            .chain(quarantined.map(|entry| (entry.path.clone(), Err(entry))))
            .collect();
        self.unconfirmed = self.entries.keys().cloned().collect();
        self.state = CacheState::Stale;
        self.rounds = contents.rounds;
        self
    }

    /// Applies an event of the cache.
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::Created(node) | Event::Changed { new: node, .. } => {
                self.put(
                    node.to_node_path(),
                    node.data().unwrap_or_default(),
                    &node.stat(),
                );
            }
            Event::Deleted(node) => drop(self.entries.remove(node.path())),
            Event::Synchronized { .. } => self.set_synchronized(),
            Event::Stale => self.state = CacheState::Stale,
            Event::Ended(end) => {
                self.state = CacheState::Ended;
                self.end = Some(end.clone());
            }
            // Gaps are applied by `apply_gaps`.
            _ => {}
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Replaces the known gaps by those that the cache reports now.
    pub(crate) fn apply_gaps(&mut self, gaps: &[(NodePath, PartialRead)]) {
        self.gap = None;
        self.unreadable.clear();
        for (path, gap) in gaps {
            // A node whose newest data has no room is kept as it was read last.
            if *path == self.parent || matches!(gap, PartialRead::TooManyBytes { .. }) {
                self.gap = Some(*gap);
            } else if matches!(gap, PartialRead::Node(_)) {
                self.put_unreadable(path.clone());
            }
        }
    }

    /// Forgets the entries that were not confirmed since the last session.
    pub(crate) fn set_synchronized(&mut self) {
        for gone in std::mem::take(&mut self.unconfirmed) {
            self.entries.remove(&gone);
        }
        self.state = CacheState::Synchronized;
        self.rounds += 1;
    }

    fn is_instance(&self, path: &NodePath) -> bool {
        self.format.is_instance(path.name().unwrap_or_default())
    }

    /// Quarantines a node that the session may not read.
    pub(crate) fn put_unreadable(&mut self, path: NodePath) {
        if !self.is_instance(&path) {
            return;
        }
        let unreadable = Quarantined {
            path: path.clone(),
            mzxid: None,
            reason: Arc::new(BadEntry::Unreadable),
        };
        self.unreadable.insert(path, unreadable);
    }

    /// Decodes a node.
    pub(crate) fn put(&mut self, path: NodePath, data: &[u8], stat: &Stat) {
        if path == self.parent || !self.is_instance(&path) {
            return;
        }
        self.unconfirmed.remove(&path);
        let known = match self.entries.get(&path) {
            Some(Ok(known)) if known.czxid == stat.czxid => Some(known),
            _ => None,
        };
        let uses = known.map(|known| Arc::clone(known.candidate.uses()));
        let entry = self.read(&path, data, stat, uses);
        if let Err(entry) = &entry {
            let (path, reason) = (redact(entry.path.as_str()), entry.reason.in_short());
            tracing::warn!(
                path,
                reason,
                "not a valid instance; ignoring the node until it changes"
            );
        }
        self.entries.insert(path, entry);
    }

    fn read(
        &self,
        path: &NodePath,
        data: &[u8],
        stat: &Stat,
        uses: Option<Arc<AtomicUsize>>,
    ) -> Result<Member<P>, Quarantined> {
        let name = path.name().unwrap_or_default();
        let read = if data.len() > self.most_bytes {
            Err(BadEntry::TooLarge {
                length: data.len(),
                most: self.most_bytes,
            })
        } else {
            // The payload decoder is application code: a panic on one bad entry must not affect the others.
            let decode = AssertUnwindSafe(|| self.format.decode(&self.service, name, data));
            let decoded = catch_unwind(decode).unwrap_or(Err(BadEntry::Panicked));
            decoded.and_then(|instance| match instance.address() {
                Some(address) if has_control(address) => Err(BadEntry::ControlCharacter),
                _ => Ok(instance),
            })
        };
        match read {
            Ok(instance) => Ok(Member {
                path: path.clone(),
                czxid: stat.czxid,
                mzxid: stat.mzxid,
                candidate: Candidate::new(
                    Incarnation::of(name, stat.czxid),
                    Arc::new(instance),
                    uses.unwrap_or_default(),
                ),
            }),
            Err(reason) => Err(Quarantined {
                path: path.clone(),
                mzxid: Some(stat.mzxid),
                reason: Arc::new(reason),
            }),
        }
    }

    /// Returns the current list.
    pub(crate) fn list(&self) -> InstanceList<P> {
        let mut members = Vec::with_capacity(self.entries.len());
        let mut quarantined = self.unreadable.clone();
        for (path, entry) in &self.entries {
            match entry {
                // The entry holds the last value read, which may be out of date.
                Ok(_) if self.unreadable.contains_key(path) => {}
                Ok(member) => members.push(member.clone()),
                Err(entry) => drop(quarantined.insert(path.clone(), entry.clone())),
            }
        }
        let enabled = members
            .iter()
            .map(|member| &member.candidate)
            .filter(|candidate| candidate.instance().is_enabled())
            .cloned();
        InstanceList(Arc::new(ListContents {
            enabled: Candidates::new(enabled.collect()),
            members,
            quarantined: quarantined.into_values().collect(),
            gap: self.gap,
            state: self.state,
            rounds: self.rounds,
            end: self.end.clone(),
        }))
    }
}
