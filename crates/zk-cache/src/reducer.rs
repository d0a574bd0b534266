//! Decides what a cache reads and which events it sends, from the notifications and replies it receives.
//!
//! # How it works
//!
//! A notification only triggers a read, and the reply is what the cache applies.
//! Each path has at most one read in flight. A notification that arrives meanwhile triggers another read after it, so
//! that the newest reply about a path always comes last.
//! Replies must be passed in the order in which the reads were sent on one connection. Then no reply shows an older
//! state than an earlier one, whichever nodes they are about, and each can be applied as it arrives.
//!
//! Reads of data are sent together, as far as [`read_batch`](crate::read_batch) allows. The server executes them one
//! after the other and then sends one reply, so that these nodes may have changed before it is sent. The notification
//! of such a change triggers another read.
//! A node that the server refuses to return together with others is read alone.
//!
//! A server sends the notification of a change before any reply that shows this or a later change, but the cache may
//! handle it after that reply: notifications pass through the watch manager of the session, and replies do not. On
//! servers before 3.6 a change is reported only after a read of its own. The contents are right in either order, because
//! a late notification triggers a new read. Only `synced_at` may meanwhile be newer than a change that is still to be
//! read.
//!
//! After a connection loss the cache *resynchronises*: it checks every known node, lists the nodes that gained or lost
//! children, and reads what is new or has another `czxid`, `mzxid`, version, time or length.
//! The watch is set before, so that the server reports every change during the resynchronisation.
//!
//! Pure: no I/O and no clock.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use zk_core::{ErrorKind, NodePath, Stat, WatchEvent};

use crate::event::{CacheEnd, Event, PartialRead};
use crate::node::Node;
use crate::options::{CacheOptions, Content};
use crate::read_batch::BatchBytes;
use crate::scope::Scope;
use crate::snapshot::{CacheState, Snapshot, SnapshotData};

mod partial_reads;

/// A read to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadRequest {
    /// Distinguishes this read from earlier ones of the same path.
    pub(crate) id: u64,
    pub(crate) path: NodePath,
    pub(crate) kind: ReadKind,
}

/// The request that a read sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ReadKind {
    /// The server catches up with the leader.
    Sync,
    /// The stat alone.
    Stat,
    Data,
    Children,
}

/// The reply to a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReadReply {
    Synced,
    Stat(Stat),
    Data(Bytes, Stat),
    Children(Vec<String>, Stat),
    NoNode,
    /// The server refuses the read.
    Refused(ErrorKind),
    /// The server refuses to read the node together with others, and may return it alone.
    RefusedTogether,
    /// No reply arrived, and a retry may succeed.
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// There is no watch: nothing is read.
    Disconnected,
    /// Every node is checked.
    Resyncing,
    /// Reads follow notifications alone.
    Live,
    Ended,
}

/// The `sync` of a resynchronisation, without which a lagging server could return old nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SyncBarrier {
    None,
    Unsent,
    Sent(u64),
    /// The server refused it, as one that is cut off from the quorum does: its nodes are cached, but may be old.
    Refused,
    /// It failed, and the resynchronisation must start again.
    Failed,
}

/// The reads of one path, one after the other, until the cache is up to date with it.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent")]
struct PendingRead {
    kind: ReadKind,
    /// The id of the read in flight.
    sent: Option<u64>,
    /// A change was reported since it was sent: the path must be read again.
    is_outdated: bool,
    /// A resynchronisation waits for it.
    is_resync: bool,
    /// The children must be listed in any case.
    relists: bool,
    /// It must not be sent together with others.
    is_alone: bool,
    /// It counts as a node of the cache, so that more are not queued than may be stored.
    is_new: bool,
    /// The newest transaction seen when it was created. The change that caused it is newer, unless its notification was
    /// handled late.
    since: i64,
}

/// The fields of a stat that change with the list of children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChildListVersion {
    pzxid: i64,
    cversion: i32,
    num_children: u32,
}

impl ChildListVersion {
    const fn of(stat: &Stat) -> Self {
        Self {
            pzxid: stat.pzxid,
            cversion: stat.cversion,
            num_children: stat.num_children,
        }
    }
}

/// The state machine of a cache.
pub(crate) struct Reducer {
    scope: Scope,
    content: Content,
    max_children: u32,
    max_nodes: usize,
    max_bytes: usize,
    /// The next snapshot, changed in place until it is published.
    current: SnapshotData,
    phase: Phase,
    barrier: SyncBarrier,
    pending: HashMap<NodePath, PendingRead>,
    /// How many pending reads the resynchronisation waits for.
    resync_left: usize,
    /// How many pending reads, and how many partial reads, are of nodes that count although they may not be stored.
    new_left: usize,
    refused: usize,
    /// Something was left out since there was room.
    is_full: bool,
    /// Paths whose reads are unsent: those of notifications, and those of a resynchronisation.
    change_queue: VecDeque<NodePath>,
    resync_queue: VecDeque<NodePath>,
    /// Paths whose reads failed.
    failed: Vec<NodePath>,
    /// The child lists that are cached completely.
    listed: HashMap<NodePath, ChildListVersion>,
    /// The newest transaction that any reply has shown.
    newest: i64,
    last_id: u64,
    events: Vec<Event>,
    is_changed: bool,
}

impl Reducer {
    /// Starts with nothing, or with the nodes of another cache of the same root.
    pub(crate) fn new(root: NodePath, options: &CacheOptions, previous: Option<&Snapshot>) -> Self {
        let scope = Scope::new(root, options);
        let mut current = SnapshotData::clone(&Snapshot::empty_at(scope.root().clone()).0);
        for node in previous.into_iter().flat_map(Snapshot::nodes) {
            if scope.contains(&node.to_node_path()) {
                current.store.insert(node);
            }
        }
        if let Some(previous) = previous.filter(|previous| previous.synced_at().is_some()) {
            current.state = CacheState::Stale;
            current.synced_at = previous.synced_at();
        }
        Self {
            scope,
            content: options.content,
            max_children: options.max_children,
            max_nodes: options.max_nodes,
            max_bytes: options.max_bytes,
            current,
            phase: Phase::Disconnected,
            barrier: SyncBarrier::None,
            pending: HashMap::new(),
            resync_left: 0,
            new_left: 0,
            refused: 0,
            is_full: false,
            change_queue: VecDeque::new(),
            resync_queue: VecDeque::new(),
            failed: Vec::new(),
            listed: HashMap::new(),
            newest: 0,
            last_id: 0,
            events: Vec::new(),
            is_changed: true,
        }
    }

    pub(crate) fn root(&self) -> &NodePath {
        self.scope.root()
    }

    /// Takes that the watch is set and that changes before may have been missed: checks every node.
    pub(crate) fn resynchronize(&mut self) {
        self.stale();
        if self.phase == Phase::Ended {
            return;
        }
        self.phase = Phase::Resyncing;
        self.barrier = SyncBarrier::Unsent;
        let root = self.root().clone();
        self.check(root, true);
    }

    /// Takes that no changes are reported any more: reads nothing until the next resynchronisation.
    pub(crate) fn stale(&mut self) {
        if self.phase == Phase::Ended {
            return;
        }
        self.phase = Phase::Disconnected;
        self.barrier = SyncBarrier::None;
        for path in std::mem::take(&mut self.pending).into_keys() {
            // The read is dropped, so that the child list of its parent is no longer complete.
            if let Some(parent) = path.parent() {
                self.listed.remove(&parent);
            }
        }
        self.resync_left = 0;
        self.new_left = 0;
        self.change_queue.clear();
        self.resync_queue.clear();
        self.failed.clear();
        if self.current.state == CacheState::Synchronized {
            self.current.state = CacheState::Stale;
            self.emit(Event::Stale);
        }
    }

    /// Takes that the session is over, and that another one follows: its server may know other nodes and transactions.
    pub(crate) fn end_session(&mut self) {
        self.stale();
        self.listed.clear();
        self.newest = 0;
    }

    /// Takes a notification.
    pub(crate) fn changed(&mut self, path: &NodePath, event: WatchEvent) {
        let is_watching = matches!(self.phase, Phase::Resyncing | Phase::Live);
        if !is_watching || !self.scope.contains(path) {
            return;
        }
        let relists = event == WatchEvent::ChildrenChanged;
        if let Some(read) = self.pending.get_mut(path) {
            // A list that is still unsent returns the new names, but not the data.
            let is_unsent_list = read.sent.is_none() && read.kind == ReadKind::Children;
            read.is_outdated |= read.sent.is_some() || is_unsent_list && !relists;
            read.relists |= relists;
            return;
        }
        match self.exceeds_limits(path, 0) {
            Some(_) if event == WatchEvent::Deleted => self.recheck_child_limit(path),
            Some(reason) => self.leave_out(path, reason),
            None => self.start_read_of_change(path, relists),
        }
    }

    /// Takes that the cache ends.
    pub(crate) fn end(&mut self, end: CacheEnd) {
        if self.phase == Phase::Ended {
            return;
        }
        self.stale();
        self.phase = Phase::Ended;
        self.current.state = CacheState::Ended;
        self.current.end = Some(end.clone());
        self.emit(Event::Ended(end));
    }

    /// Returns the next read to send, or up to `most` reads of data that are sent together; `None` if there are none.
    pub(crate) fn next(&mut self, most: usize) -> Option<Vec<ReadRequest>> {
        if self.barrier == SyncBarrier::Unsent {
            let id = self.next_id();
            self.barrier = SyncBarrier::Sent(id);
            return Some(vec![ReadRequest {
                id,
                path: self.root().clone(),
                kind: ReadKind::Sync,
            }]);
        }
        let mut bytes = BatchBytes::default();
        let mut requests = Vec::new();
        while requests.len() < most
            && let Some(path) = self
                .change_queue
                .front()
                .or_else(|| self.resync_queue.front())
        {
            let is_together = self.is_readable_together(path, &mut bytes);
            if !is_together && !requests.is_empty() {
                break;
            }
            requests.push(self.take_queued());
            if !is_together {
                break;
            }
        }
        if requests.len() > 1 {
            // Only data can be read together.
            for request in &mut requests {
                request.kind = ReadKind::Data;
            }
        }
        (!requests.is_empty()).then_some(requests)
    }

    /// Returns whether the read of a queued path can be sent together with those that `bytes` counts.
    fn is_readable_together(&self, path: &NodePath, bytes: &mut BatchBytes) -> bool {
        let read = self.pending.get(path);
        let is_data = read.is_some_and(|read| match read.kind {
            ReadKind::Data => !read.is_alone,
            // The data of a known node shows the same as its stat.
            ReadKind::Stat => !read.is_alone && self.content == Content::Full,
            ReadKind::Sync | ReadKind::Children => false,
        });
        let known = || self.current.store.get(path.as_str());
        is_data && bytes.add(known().and_then(Node::data).map(<[u8]>::len))
    }

    fn take_queued(&mut self) -> ReadRequest {
        let unsent = self.change_queue.pop_front();
        let path = unsent.or_else(|| self.resync_queue.pop_front());
        let path = path.expect("the caller has seen a queued path");
        let id = self.next_id();
        let read = self.pending.get_mut(&path);
        let read = read.expect("a queued path has a pending read");
        read.sent = Some(id);
        let kind = read.kind;
        ReadRequest { id, path, kind }
    }

    /// Takes the reply to a read. Ignores replies to reads that were dropped.
    pub(crate) fn answered(&mut self, request: &ReadRequest, reply: ReadReply) {
        if request.kind == ReadKind::Sync {
            self.sync_answered(request.id, &reply);
            return;
        }
        let path = &request.path;
        match self.pending.get_mut(path) {
            Some(read) if read.sent == Some(request.id) => read.sent = None,
            _ => return,
        }
        if let ReadReply::Stat(stat) | ReadReply::Data(_, stat) | ReadReply::Children(_, stat) =
            &reply
        {
            self.newest = self.newest.max(stat.czxid).max(stat.mzxid).max(stat.pzxid);
        }
        match reply {
            ReadReply::Failed | ReadReply::Synced => self.failed.push(path.clone()),
            ReadReply::RefusedTogether => {
                if let Some(read) = self.pending.get_mut(path) {
                    read.is_alone = true;
                }
                self.queue(path.clone());
            }
            ReadReply::NoNode => {
                self.remove(path);
                self.finish_read(path);
                self.recheck_child_limit(path);
            }
            ReadReply::Stat(stat) => self.stat_read(path, stat),
            ReadReply::Data(data, stat) => {
                self.node_read(path, &stat, Some(&data));
            }
            ReadReply::Refused(kind) => {
                let partial = if request.kind == ReadKind::Children {
                    self.children_not_listed(path, kind)
                } else {
                    // The next check of the parent must list it and read this node again.
                    if let Some(parent) = path.parent() {
                        self.listed.remove(&parent);
                    }
                    PartialRead::Node(kind)
                };
                self.report_partial(path, partial);
                self.check_known_children(path);
                self.finish_read(path);
            }
            ReadReply::Children(names, stat) => self.children_read(path, &names, &stat),
        }
        self.finish_resync();
    }

    /// Returns whether the cache is synchronised.
    pub(crate) const fn is_synchronized(&self) -> bool {
        matches!(self.current.state, CacheState::Synchronized)
    }

    /// Returns whether reads have failed and must be retried after a pause.
    pub(crate) fn has_failed(&self) -> bool {
        !self.failed.is_empty() || self.barrier == SyncBarrier::Failed
    }

    /// Queues the failed reads again.
    pub(crate) fn retry_failed(&mut self) {
        if self.barrier == SyncBarrier::Failed {
            self.resynchronize();
            return;
        }
        for path in std::mem::take(&mut self.failed) {
            self.queue(path);
        }
    }

    /// Returns the events since the last call and the snapshot after them, if anything has changed.
    pub(crate) fn flush(&mut self) -> Option<(Vec<Event>, Snapshot)> {
        if self.phase == Phase::Live && self.pending.len() <= MAX_COUNTED {
            self.advance_synced_at();
        }
        if !std::mem::take(&mut self.is_changed) {
            return None;
        }
        self.current.revision += 1;
        let snapshot = Snapshot(Arc::new(self.current.clone()));
        Some((std::mem::take(&mut self.events), snapshot))
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Returns the read that fetches everything the cache keeps of a node.
    const fn full_read(&self) -> ReadKind {
        match self.content {
            Content::StatOnly | Content::NamesOnly => ReadKind::Stat,
            Content::Full => ReadKind::Data,
        }
    }

    fn emit(&mut self, event: Event) {
        self.is_changed = true;
        self.events.push(event);
    }

    /// Starts to read a path; a read that is pending already counts for the resynchronisation, too.
    fn start_read(&mut self, path: NodePath, kind: ReadKind, is_resync: bool) {
        if let Some(read) = self.pending.get_mut(&path) {
            if is_resync && !read.is_resync {
                read.is_resync = true;
                self.resync_left += 1;
            }
            return;
        }
        let is_new = !self.is_counted(&path);
        let read = PendingRead {
            kind,
            sent: None,
            is_outdated: false,
            is_resync,
            relists: false,
            is_alone: false,
            is_new,
            since: self.newest,
        };
        self.new_left += usize::from(is_new);
        self.resync_left += usize::from(is_resync);
        self.pending.insert(path.clone(), read);
        self.queue(path);
    }

    /// Starts to read a node that has changed, and its children if these have changed.
    fn start_read_of_change(&mut self, path: &NodePath, relists: bool) {
        let is_known = self.current.store.get(path.as_str()).is_some();
        let lists_at_once = self.content == Content::NamesOnly
            && relists
            && is_known
            && !self.has_partial_children(path);
        let kind = if lists_at_once {
            // A list has the stat as well.
            ReadKind::Children
        } else {
            self.full_read()
        };
        self.start_read(path.clone(), kind, false);
        if let Some(read) = self.pending.get_mut(path) {
            read.relists = relists;
        }
    }

    /// Starts to read the stat of a known node, or everything of an unknown one.
    fn check(&mut self, path: NodePath, is_resync: bool) {
        let is_known = self.current.store.get(path.as_str()).is_some();
        let kind = if is_known {
            ReadKind::Stat
        } else {
            self.full_read()
        };
        self.start_read(path, kind, is_resync);
    }

    /// Continues a resynchronisation with the known children of a node.
    fn check_known_children(&mut self, path: &NodePath) {
        if !self.is_resync(path) || self.content == Content::NamesOnly {
            return;
        }
        for child in self.paths_of_children(path) {
            self.check(child, true);
        }
    }

    fn queue(&mut self, path: NodePath) {
        match self.pending.get(&path) {
            Some(read) if read.is_resync => self.resync_queue.push_back(path),
            Some(_) => self.change_queue.push_back(path),
            None => {}
        }
    }

    fn is_resync(&self, path: &NodePath) -> bool {
        self.pending.get(path).is_some_and(|read| read.is_resync)
    }

    /// Sends another request for the same pending read.
    fn continue_read(&mut self, path: &NodePath, kind: ReadKind) {
        if let Some(read) = self.pending.get_mut(path) {
            read.kind = kind;
            self.queue(path.clone());
        }
    }

    /// Ends a pending read, or starts it again if a change was reported meanwhile.
    fn finish_read(&mut self, path: &NodePath) {
        let Some(read) = self.pending.remove(path) else {
            return;
        };
        self.resync_left -= usize::from(read.is_resync);
        self.new_left -= usize::from(read.is_new);
        if read.is_outdated {
            self.start_read_of_change(path, read.relists);
        }
    }

    fn sync_answered(&mut self, id: u64, reply: &ReadReply) {
        if self.barrier != SyncBarrier::Sent(id) {
            return;
        }
        self.barrier = match reply {
            ReadReply::Failed => SyncBarrier::Failed,
            ReadReply::Refused(_) => SyncBarrier::Refused,
            _ => SyncBarrier::None,
        };
        self.finish_resync();
    }

    /// Reports the cache as synchronised, if the resynchronisation waits for nothing more.
    fn finish_resync(&mut self) {
        let is_complete = self.phase == Phase::Resyncing
            && self.resync_left == 0
            && self.barrier == SyncBarrier::None;
        if is_complete {
            self.phase = Phase::Live;
            // The capacity that a load needed.
            self.pending.shrink_to(MAX_COUNTED);
            self.change_queue.shrink_to(MAX_COUNTED);
            self.resync_queue.shrink_to(MAX_COUNTED);
            self.current.state = CacheState::Synchronized;
            self.current.sync_count += 1;
            self.advance_synced_at();
            self.emit(Event::Synchronized {
                synced_at: self.current.synced_at.unwrap_or_default(),
            });
        }
    }

    /// Updates the transaction up to which the contents are complete.
    ///
    /// A change is newer than every transaction seen when its read was created, unless its notification is handled
    /// after a reply that shows a later change. Until then the result may be newer than that change.
    fn advance_synced_at(&mut self) {
        let oldest = self.pending.values().map(|read| read.since).min();
        let synced_at = Some(oldest.unwrap_or(self.newest));
        if self.current.synced_at < synced_at {
            self.current.synced_at = synced_at;
            self.is_changed = true;
        }
    }

    fn stat_read(&mut self, path: &NodePath, stat: Stat) {
        if self.content != Content::Full {
            self.node_read(path, &stat, None);
            return;
        }
        // The check of a known node.
        let known = self.current.store.get(path.as_str()).cloned();
        match known.as_ref().filter(|known| known.has_data_of(&stat)) {
            Some(known) if known.data().is_some() => self.node_read(path, &stat, known.data()),
            _ => self.continue_read(path, ReadKind::Data),
        }
    }

    /// Applies a node, and continues with its children if necessary.
    fn node_read(&mut self, path: &NodePath, stat: &Stat, data: Option<&[u8]>) {
        let is_root = path == self.root();
        let has_parent = path
            .parent()
            .is_some_and(|parent| self.current.store.get(parent.as_str()).is_some());
        if !is_root && !has_parent {
            // The parent is new, too: its own read comes later and lists this node.
            self.finish_read(path);
            return;
        }
        if !is_root && self.exceeds_child_limit(path) {
            self.finish_read(path);
            return;
        }
        if let Some(reason) = self.exceeds_limits(path, data.map_or(0, <[u8]>::len)) {
            self.leave_out(path, reason);
            self.check_known_children(path);
            self.finish_read(path);
            return;
        }
        let is_new = self.store_node(path, stat, data);
        self.clear_partial_node(path);
        let Some(read) = self.pending.get(path) else {
            return;
        };
        // Children that could not be listed before may be listable now.
        let relists = read.relists || self.has_partial_children(path);
        let is_resync = read.is_resync;
        if !self.scope.includes_children_of(path) {
            self.clear_partial_children(path);
            self.finish_read(path);
        } else if stat.num_children == 0 {
            for child in self.paths_of_children(path) {
                self.remove(&child);
            }
            self.listed.remove(path);
            self.clear_partial_children(path);
            self.clear_partial_below(path, |_| true);
            self.finish_read(path);
        } else if !is_new && !is_resync && !relists {
            self.finish_read(path);
        } else if !is_new && !relists && self.listed.get(path) == Some(&ChildListVersion::of(stat))
        {
            self.check_known_children(path);
            self.finish_read(path);
        } else if stat.num_children > self.max_children {
            self.report_too_many_children(path, stat.num_children);
            self.check_known_children(path);
            self.finish_read(path);
        } else if self.are_still_left_out(path, stat.num_children)
            || self.are_still_too_large(path, stat.num_children)
        {
            self.check_known_children(path);
            self.finish_read(path);
        } else {
            self.continue_read(path, ReadKind::Children);
        }
    }

    /// Stores a node and reports the difference; returns true if the node was not stored before.
    fn store_node(&mut self, path: &NodePath, stat: &Stat, data: Option<&[u8]>) -> bool {
        let old = self.current.store.get(path.as_str()).cloned();
        if old
            .as_ref()
            .is_some_and(|old| old.is_up_to_date(stat, data))
        {
            return false;
        }
        let node = Node::new(path.as_str(), stat, data);
        match old {
            Some(old) if old.is_same(&node) => {
                self.current.store.insert(&node);
                self.is_changed = true;
                if node.bytes() < old.bytes() {
                    self.recheck_left_out();
                }
                if !old.has_content(node.mzxid(), data) {
                    self.emit(Event::Changed { old, new: node });
                }
                false
            }
            Some(old) => {
                // The node was created again. Younger nodes below it belong to the new node, and were read before it.
                let is_younger = |below: &Node| below.czxid() >= stat.czxid;
                let is_resync = self.is_resync(path);
                for child in self.paths_of_children(path) {
                    let known = self.current.store.get(child.as_str());
                    if known.is_some_and(is_younger) {
                        continue;
                    }
                    if self.current.store.subtree(child.as_str()).any(is_younger) {
                        // This child was created again, too; its own read keeps the younger nodes below it.
                        self.start_read(child, self.full_read(), is_resync);
                    } else {
                        self.remove(&child);
                    }
                }
                self.listed.remove(path);
                self.emit(Event::Deleted(old));
                self.current.store.insert(&node);
                self.emit(Event::Created(node));
                true
            }
            None => {
                self.current.store.insert(&node);
                if let Some(read) = self.pending.get_mut(path) {
                    self.new_left -= usize::from(std::mem::take(&mut read.is_new));
                }
                self.emit(Event::Created(node));
                true
            }
        }
    }

    fn paths_of_children(&self, path: &NodePath) -> Vec<NodePath> {
        let children = self.current.store.children(path.as_str());
        children.map(Node::to_node_path).collect()
    }

    /// Removes a deleted node and everything below it.
    fn remove(&mut self, path: &NodePath) {
        let removed = self.current.store.remove(path.as_str());
        let has_removed = !removed.is_empty();
        for node in removed {
            self.listed.remove(node.path());
            self.emit(Event::Deleted(node));
        }
        self.clear_partial(path);
        // Also of nodes that were never stored.
        self.clear_partial_below(path, |_| true);
        if has_removed {
            self.recheck_left_out();
        }
    }

    fn children_read(&mut self, path: &NodePath, names: &[String], stat: &Stat) {
        let known = self.current.store.get(path.as_str()).cloned();
        let Some(known) = known.filter(|known| known.czxid() == stat.czxid) else {
            // The node was created again since its data was read.
            self.continue_read(path, self.full_read());
            return;
        };
        if known.mzxid() == stat.mzxid && !known.is_up_to_date(stat, known.data()) {
            let node = Node::new(path.as_str(), stat, known.data());
            self.current.store.insert(&node);
            self.is_changed = true;
        }
        if !self.is_left_out(path) {
            self.clear_partial_children(path);
        }
        let is_resync = self.is_resync(path);
        let children: HashSet<_> = names
            .iter()
            .filter_map(|name| path.join(name).ok())
            .filter(|child| self.scope.includes_child(child))
            .collect();
        for child in self.paths_of_children(path) {
            if !children.contains(&child) {
                self.remove(&child);
            }
        }
        self.clear_partial_below(path, |below| {
            let mut above = std::iter::successors(Some(below.clone()), NodePath::parent);
            !above.any(|it| children.contains(&it))
        });
        // Sorted, because the server's order is arbitrary: the same names cause the same reads.
        let mut children: Vec<_> = children.into_iter().collect();
        children.sort_unstable();
        self.listed.insert(path.clone(), ChildListVersion::of(stat));
        let mut left_out = None;
        for child in children {
            let is_known = self.current.store.get(child.as_str()).is_some();
            let exceeded = if is_known {
                None
            } else {
                self.exceeds_limits(&child, 0)
            };
            if exceeded.is_some() {
                left_out = exceeded;
            } else if self.content == Content::NamesOnly {
                if !self.exceeds_child_limit(&child) {
                    self.store_node(&child, &Stat::default(), None);
                }
            } else if is_resync || !is_known {
                self.check(child, is_resync);
            }
        }
        match left_out {
            Some(reason) => self.report_left_out(path, reason),
            None if self.is_left_out(path) => self.clear_partial(path),
            None => {}
        }
        self.finish_read(path);
    }
}

/// With more pending reads than this, a flush does not search them for the oldest.
const MAX_COUNTED: usize = 1000;

#[cfg(test)]
mod tests;
