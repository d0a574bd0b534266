//! What a cache does: notices and answers in, reads and events out. It decides, and does no I/O.
//!
//! # The idea
//!
//! A notice is only a reason to read: what a node is, an answer tells.
//! Each path has at most one read on its way, and a notice that comes meanwhile asks for another one after it, so that
//! the newest answer about a path always comes last.
//! Answers have to be given in the order in which the reads were sent on one connection; then the states they show are
//! never older than those before, whichever nodes they are of, and each can be applied as it comes.
//!
//! After a break everything is *walked*: every known node is looked at, the nodes whose children came or went are listed,
//! and what is new or has another `czxid` or `mzxid` is read.
//! The watch is set before, so that whatever changes behind the walk's back is told.
//!
//! Pure: no I/O and no clock.

use std::collections::HashMap;
use std::collections::HashSet;
use std::collections::VecDeque;
use std::sync::Arc;

use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::Stat;
use zk_core::WatchEvent;

use crate::event::End;
use crate::event::Event;
use crate::event::Gap;
use crate::node::Node;
use crate::options::CacheOptions;
use crate::options::Content;
use crate::scope::Scope;
use crate::snapshot::Picture;
use crate::snapshot::Snapshot;
use crate::snapshot::State;

/// A read to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ask {
    /// Tells this read from earlier ones of the same path.
    pub(crate) ticket: u64,
    pub(crate) path: NodePath,
    pub(crate) what: What,
}

/// What to read of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum What {
    /// Nothing: the server is to catch up with the leader first.
    Sync,
    /// The stat.
    Stat,
    Data,
    Children,
}

/// The answer to a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Synced,
    Stat(Stat),
    Data(Vec<u8>, Stat),
    Children(Vec<String>, Stat),
    /// There is no such node.
    Missing,
    /// The server does not say.
    Refused(ErrorKind),
    /// There was no answer; it may be asked again.
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// There is no watch: nothing is read.
    Waiting,
    /// Everything is being looked at.
    Walking,
    /// What is told is looked at.
    Following,
    Over,
}

/// Where the barrier of a walk is, without which a server that lags could show what was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Barrier {
    None,
    ToSend,
    Sent(u64),
    /// The server refused it, as one that is cut off from the quorum does: what it has is read all the same, and may be old.
    Refused,
    /// It failed, and the walk is to begin again.
    Failed,
}

/// What is being found out about one path.
#[derive(Debug)]
struct Job {
    what: What,
    /// The ticket of the read that is on its way.
    sent: Option<u64>,
    /// Whether something happened since it was sent.
    again: bool,
    /// Whether a walk waits for it.
    walks: bool,
    /// Whether its children are to be listed in any case.
    lists: bool,
    /// The newest transaction that was seen when this began; what it is about came later.
    since: i64,
}

/// By which the children of a node are known to be as they were listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    pzxid: i64,
    cversion: i32,
    num_children: u32,
}

impl Mark {
    const fn of(stat: &Stat) -> Self {
        Self {
            pzxid: stat.pzxid,
            cversion: stat.cversion,
            num_children: stat.num_children,
        }
    }
}

pub(crate) struct Reducer {
    scope: Scope,
    content: Content,
    most_children: u32,
    /// What has been found out, changed in place until it is published.
    now: Picture,
    phase: Phase,
    barrier: Barrier,
    jobs: HashMap<NodePath, Job>,
    /// How many jobs a walk waits for.
    walking: usize,
    /// Paths of jobs that are not sent: those that something was told of, and those of a walk.
    told: VecDeque<NodePath>,
    walk: VecDeque<NodePath>,
    /// Paths of jobs whose reads failed.
    held: Vec<NodePath>,
    /// How the children of a node were when they were listed and all of them looked at.
    listed: HashMap<NodePath, Mark>,
    /// The newest transaction that any answer has shown.
    newest: i64,
    last_ticket: u64,
    events: Vec<Event>,
    is_changed: bool,
}

impl Reducer {
    /// Begins with nothing, or with what another cache of the same root had.
    pub(crate) fn new(root: NodePath, options: &CacheOptions, previous: Option<&Snapshot>) -> Self {
        let scope = Scope::new(root, options);
        let mut now = Picture::clone(&Snapshot::nothing(scope.root().clone()).0);
        for node in previous.into_iter().flat_map(Snapshot::nodes) {
            if scope.has(node.path()) {
                now.store.put(node.clone());
            }
        }
        if let Some(previous) = previous.filter(|previous| previous.synced_at().is_some()) {
            now.state = State::Stale;
            now.synced_at = previous.synced_at();
        }
        Self {
            scope,
            content: options.content,
            most_children: options.most_children,
            now,
            phase: Phase::Waiting,
            barrier: Barrier::None,
            jobs: HashMap::new(),
            walking: 0,
            told: VecDeque::new(),
            walk: VecDeque::new(),
            held: Vec::new(),
            listed: HashMap::new(),
            newest: 0,
            last_ticket: 0,
            events: Vec::new(),
            is_changed: true,
        }
    }

    pub(crate) fn root(&self) -> &NodePath {
        self.scope.root()
    }

    /// Changes may have been missed, and from now on everything is told: walks.
    pub(crate) fn resynchronize(&mut self) {
        self.stale();
        if self.phase == Phase::Over {
            return;
        }
        self.phase = Phase::Walking;
        self.barrier = Barrier::ToSend;
        let root = self.root().clone();
        self.look_at(root, true);
    }

    /// From now on nothing is told: reads nothing, until the next walk.
    pub(crate) fn stale(&mut self) {
        if self.phase == Phase::Over {
            return;
        }
        self.phase = Phase::Waiting;
        self.barrier = Barrier::None;
        for path in std::mem::take(&mut self.jobs).into_keys() {
            // What was to be read of a child is not known, so that the list of which it is is no longer complete.
            if let Some(parent) = path.parent() {
                self.listed.remove(&parent);
            }
        }
        self.walking = 0;
        self.told.clear();
        self.walk.clear();
        self.held.clear();
        if self.now.state == State::Synchronized {
            self.now.state = State::Stale;
            self.tell(Event::Stale);
        }
    }

    /// Something is told of a path.
    pub(crate) fn changed(&mut self, path: &NodePath, event: WatchEvent) {
        let is_followed = matches!(self.phase, Phase::Walking | Phase::Following);
        if !is_followed || !self.scope.has(path) {
            return;
        }
        let lists = event == WatchEvent::ChildrenChanged;
        if let Some(job) = self.jobs.get_mut(path) {
            // A list that is still to be sent says nothing of the data.
            job.again |= job.sent.is_some() || job.what == What::Children;
            job.lists |= lists;
            return;
        }
        self.enlist(path.clone(), self.read(), false);
        if let Some(job) = self.jobs.get_mut(path) {
            job.lists = lists;
        }
    }

    /// Nothing comes any more.
    pub(crate) fn end(&mut self, end: End) {
        if self.phase == Phase::Over {
            return;
        }
        self.stale();
        self.phase = Phase::Over;
        self.now.state = State::Ended;
        self.now.end = Some(end.clone());
        self.tell(Event::Ended(end));
    }

    /// The next read to be sent, if there is one.
    pub(crate) fn next(&mut self) -> Option<Ask> {
        if self.barrier == Barrier::ToSend {
            let ticket = self.ticket();
            self.barrier = Barrier::Sent(ticket);
            return Some(Ask {
                ticket,
                path: self.root().clone(),
                what: What::Sync,
            });
        }
        let path = self.told.pop_front().or_else(|| self.walk.pop_front())?;
        let ticket = self.ticket();
        let job = self.jobs.get_mut(&path).expect("what is queued is a job");
        job.sent = Some(ticket);
        let what = job.what;
        Some(Ask { ticket, path, what })
    }

    /// Takes an answer. Those of reads that nobody waits for any more are left aside.
    pub(crate) fn answered(&mut self, ask: &Ask, answer: Answer) {
        if ask.what == What::Sync {
            self.passed(ask.ticket, &answer);
            return;
        }
        let path = &ask.path;
        match self.jobs.get_mut(path) {
            Some(job) if job.sent == Some(ask.ticket) => job.sent = None,
            _ => return,
        }
        if let Answer::Stat(stat) | Answer::Data(_, stat) | Answer::Children(_, stat) = &answer {
            self.newest = self.newest.max(stat.czxid).max(stat.mzxid).max(stat.pzxid);
        }
        match answer {
            Answer::Failed | Answer::Synced => self.held.push(path.clone()),
            Answer::Missing => {
                self.remove(path);
                self.done(path);
                self.make_room(path);
            }
            Answer::Stat(stat) => self.stat_read(path, stat),
            Answer::Data(data, stat) => {
                self.found(Node::new(path.clone(), stat, Some(data)));
            }
            Answer::Refused(kind) => {
                let gap = if ask.what == What::Children {
                    Gap::Children(kind)
                } else {
                    // A node that was listed and is not known is to be listed, and asked for, again.
                    if let Some(parent) = path.parent() {
                        self.listed.remove(&parent);
                    }
                    Gap::Node(kind)
                };
                self.gap(path, gap);
                self.look_at_known_children(path);
                self.done(path);
            }
            Answer::Children(names, stat) => self.children_read(path, &names, &stat),
        }
        self.complete();
    }

    /// Whether reads have failed and are to be made again after a pause.
    pub(crate) fn has_failed(&self) -> bool {
        !self.held.is_empty() || self.barrier == Barrier::Failed
    }

    /// Makes the reads again that have failed.
    pub(crate) fn try_again(&mut self) {
        if self.barrier == Barrier::Failed {
            self.resynchronize();
            return;
        }
        for path in std::mem::take(&mut self.held) {
            self.queue(path);
        }
    }

    /// What there is to publish, if anything is: the events since the last time, and what they lead to.
    pub(crate) fn flush(&mut self) -> Option<(Vec<Event>, Snapshot)> {
        if self.phase == Phase::Following && self.jobs.len() <= MOST_COUNTED {
            self.move_on();
        }
        if !std::mem::take(&mut self.is_changed) {
            return None;
        }
        self.now.revision += 1;
        let snapshot = Snapshot(Arc::new(self.now.clone()));
        Some((std::mem::take(&mut self.events), snapshot))
    }

    fn ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }

    /// The read that tells everything that is kept of a node.
    const fn read(&self) -> What {
        match self.content {
            Content::StatOnly => What::Stat,
            Content::Full => What::Data,
        }
    }

    fn tell(&mut self, event: Event) {
        self.is_changed = true;
        self.events.push(event);
    }

    /// Begins to find out about a path, or goes on for the sake of a walk, too.
    fn enlist(&mut self, path: NodePath, what: What, walks: bool) {
        if let Some(job) = self.jobs.get_mut(&path) {
            if walks && !job.walks {
                job.walks = true;
                self.walking += 1;
            }
            return;
        }
        let job = Job {
            what,
            sent: None,
            again: false,
            walks,
            lists: false,
            since: self.newest,
        };
        self.walking += usize::from(walks);
        self.jobs.insert(path.clone(), job);
        self.queue(path);
    }

    /// Looks at a node: what is known, or all of it.
    fn look_at(&mut self, path: NodePath, walks: bool) {
        let is_known = self.now.store.get(&path).is_some();
        let what = if is_known { What::Stat } else { self.read() };
        self.enlist(path, what, walks);
    }

    fn look_at_known_children(&mut self, path: &NodePath) {
        if !self.walks(path) {
            return;
        }
        let children = self.now.store.children(path);
        let children: Vec<_> = children.map(|child| child.path().clone()).collect();
        for child in children {
            self.look_at(child, true);
        }
    }

    fn queue(&mut self, path: NodePath) {
        match self.jobs.get(&path) {
            Some(job) if job.walks => self.walk.push_back(path),
            Some(_) => self.told.push_back(path),
            None => {}
        }
    }

    fn walks(&self, path: &NodePath) -> bool {
        self.jobs.get(path).is_some_and(|job| job.walks)
    }

    /// Asks something else for the same job.
    fn go_on(&mut self, path: &NodePath, what: What) {
        if let Some(job) = self.jobs.get_mut(path) {
            job.what = what;
            self.queue(path.clone());
        }
    }

    /// Nothing more is to be found out, unless something happened meanwhile.
    fn done(&mut self, path: &NodePath) {
        let Some(job) = self.jobs.remove(path) else {
            return;
        };
        self.walking -= usize::from(job.walks);
        if job.again {
            self.enlist(path.clone(), self.read(), false);
            if let Some(next) = self.jobs.get_mut(path) {
                next.lists = job.lists;
            }
        }
    }

    /// The server has caught up, or has not.
    fn passed(&mut self, ticket: u64, answer: &Answer) {
        if self.barrier != Barrier::Sent(ticket) {
            return;
        }
        self.barrier = match answer {
            Answer::Failed => Barrier::Failed,
            Answer::Refused(_) => Barrier::Refused,
            _ => Barrier::None,
        };
        self.complete();
    }

    fn complete(&mut self) {
        let is_complete =
            self.phase == Phase::Walking && self.walking == 0 && self.barrier == Barrier::None;
        if is_complete {
            self.phase = Phase::Following;
            self.now.state = State::Synchronized;
            self.now.rounds += 1;
            self.move_on();
            self.tell(Event::Synchronized {
                synced_at: self.now.synced_at.unwrap_or_default(),
            });
        }
    }

    /// Finds out up to which transaction everything is known.
    ///
    /// The server tells of a change before it answers what shows it or a later one. So whatever is not read yet is newer than
    /// anything that had been seen when it was told.
    fn move_on(&mut self) {
        let told = self.jobs.values().map(|job| job.since).min();
        let synced_at = Some(told.unwrap_or(self.newest));
        if self.now.synced_at < synced_at {
            self.now.synced_at = synced_at;
            self.is_changed = true;
        }
    }

    fn stat_read(&mut self, path: &NodePath, stat: Stat) {
        if self.content == Content::StatOnly {
            self.found(Node::new(path.clone(), stat, None));
            return;
        }
        // It is a look at a node that was known.
        let known = self.now.store.get(path).filter(|known| {
            let has = known.stat();
            has.czxid == stat.czxid && has.mzxid == stat.mzxid && known.data().is_some()
        });
        match known.map(|known| known.with_stat(stat)) {
            Some(node) => self.found(node),
            None => self.go_on(path, What::Data),
        }
    }

    /// Takes a node as it is, and goes on to its children if need be.
    fn found(&mut self, node: Node) {
        let path = node.path().clone();
        let path = &path;
        let stat = *node.stat();
        let is_root = path == self.root();
        let has_parent = path
            .parent()
            .is_some_and(|parent| self.now.store.get(&parent).is_some());
        if !is_root && !has_parent {
            // It has come with its parent, which is read later and lists it.
            self.done(path);
            return;
        }
        if !is_root && self.is_one_too_many(path) {
            self.done(path);
            return;
        }
        let is_new = self.put(node);
        if matches!(self.now.gaps.get(path), Some(Gap::Node(_))) {
            self.close_gap(path);
        }
        let Some(job) = self.jobs.get(path) else {
            return;
        };
        // Those that could not be listed may be listed now.
        let (walks, lists) = (job.walks, job.lists || self.has_gap_of_children(path));
        if !self.scope.goes_below(path) {
            self.done(path);
        } else if stat.num_children == 0 {
            for child in self.paths_of_children(path) {
                self.remove(&child);
            }
            self.listed.remove(path);
            self.close_gap_of_children(path);
            self.close_gaps_below(path, |_| true);
            self.done(path);
        } else if !is_new && !walks && !lists {
            self.done(path);
        } else if !is_new && !lists && self.listed.get(path) == Some(&Mark::of(&stat)) {
            self.look_at_known_children(path);
            self.done(path);
        } else if stat.num_children > self.most_children {
            self.has_too_many_children(path, stat.num_children);
            self.look_at_known_children(path);
            self.done(path);
        } else {
            self.go_on(path, What::Children);
        }
    }

    /// Puts a node in its place, and tells what that changes; true for one that was not there before.
    fn put(&mut self, node: Node) -> bool {
        let old = self.now.store.get(node.path()).cloned();
        match old {
            Some(old) if old.is_same(&node) => {
                if old == node {
                    return false;
                }
                let is_told = !old.says_the_same(&node);
                self.now.store.put(node.clone());
                self.is_changed = true;
                if is_told {
                    self.tell(Event::Changed { old, new: node });
                }
                false
            }
            Some(old) => {
                // Made anew. What is younger below it is its own, and was read before it was.
                let born = node.stat().czxid;
                let is_younger = |below: &Node| below.stat().czxid >= born;
                let walks = self.walks(node.path());
                for child in self.paths_of_children(node.path()) {
                    if self.now.store.get(&child).is_some_and(is_younger) {
                        continue;
                    }
                    if self.now.store.below(&child).any(is_younger) {
                        // So this one was made anew, too, and what is below it stays.
                        self.enlist(child, self.read(), walks);
                    } else {
                        self.remove(&child);
                    }
                }
                self.listed.remove(node.path());
                self.tell(Event::Deleted(old));
                self.now.store.put(node.clone());
                self.tell(Event::Created(node));
                true
            }
            None => {
                self.now.store.put(node.clone());
                self.tell(Event::Created(node));
                true
            }
        }
    }

    fn paths_of_children(&self, path: &NodePath) -> Vec<NodePath> {
        let children = self.now.store.children(path);
        children.map(|child| child.path().clone()).collect()
    }

    /// Takes out a node that is gone, and everything below it.
    fn remove(&mut self, path: &NodePath) {
        for node in self.now.store.take(path) {
            self.listed.remove(node.path());
            self.tell(Event::Deleted(node));
        }
        self.close_gap(path);
        // Also of those that the cache never had.
        self.close_gaps_below(path, |_| true);
    }

    /// Whether there is no room for a node that came after its siblings were listed.
    fn is_one_too_many(&mut self, path: &NodePath) -> bool {
        let Some(parent) = path.parent() else {
            return false;
        };
        if self.now.store.get(path).is_some() {
            return false;
        }
        if matches!(
            self.now.gaps.get(&parent),
            Some(Gap::TooManyChildren { .. })
        ) {
            return true;
        }
        let count = u32::try_from(self.now.store.count_children(&parent)).unwrap_or(u32::MAX);
        if count < self.most_children {
            return false;
        }
        self.has_too_many_children(&parent, count.saturating_add(1));
        true
    }

    /// Looks again at a node with too many children, when one of them is gone.
    fn make_room(&mut self, gone: &NodePath) {
        let Some(parent) = gone.parent() else {
            return;
        };
        if self.phase == Phase::Over
            || !matches!(
                self.now.gaps.get(&parent),
                Some(Gap::TooManyChildren { .. })
            )
        {
            return;
        }
        if let Some(job) = self.jobs.get_mut(&parent) {
            job.again |= job.sent.is_some();
        } else {
            self.look_at(parent, false);
        }
    }

    fn has_too_many_children(&mut self, path: &NodePath, count: u32) {
        let most = self.most_children;
        let gap = Gap::TooManyChildren { count, most };
        self.listed.remove(path);
        // What is left out is left out with everything below it.
        let store = self.now.store.clone();
        self.close_gaps_below(path, |at| {
            let above = std::iter::successors(Some(at.clone()), NodePath::parent);
            let mut above = above.take_while(|it| it != path);
            !above.any(|it| store.get(&it).is_some())
        });
        if matches!(self.now.gaps.get(path), Some(Gap::TooManyChildren { .. })) {
            // It has been told; that there are some more or less is for whoever looks.
            self.is_changed |= self.now.gaps.get(path) != Some(&gap);
            self.now.gaps.insert_mut(path.clone(), gap);
        } else {
            self.gap(path, gap);
        }
    }

    fn children_read(&mut self, path: &NodePath, names: &[String], stat: &Stat) {
        let known = self.now.store.get(path).cloned();
        let Some(known) = known.filter(|known| known.stat().czxid == stat.czxid) else {
            // It was made anew since its data was read.
            self.go_on(path, self.read());
            return;
        };
        if known.stat().mzxid == stat.mzxid && known.stat() != stat {
            self.now.store.put(known.with_stat(*stat));
            self.is_changed = true;
        }
        self.close_gap_of_children(path);
        let walks = self.walks(path);
        let children: HashSet<_> = names
            .iter()
            .filter_map(|name| path.join(name).ok())
            .filter(|child| self.scope.has_child(child))
            .collect();
        for child in self.paths_of_children(path) {
            if !children.contains(&child) {
                self.remove(&child);
            }
        }
        self.close_gaps_below(path, |below| {
            let mut above = std::iter::successors(Some(below.clone()), NodePath::parent);
            !above.any(|it| children.contains(&it))
        });
        // In the order of the server, which is by chance, or by name: the same names give the same reads.
        let mut children: Vec<_> = children.into_iter().collect();
        children.sort_unstable();
        for child in children {
            let is_known = self.now.store.get(&child).is_some();
            if walks || !is_known {
                self.look_at(child, walks);
            }
        }
        self.listed.insert(path.clone(), Mark::of(stat));
        self.done(path);
    }

    fn gap(&mut self, path: &NodePath, gap: Gap) {
        if self.now.gaps.get(path) != Some(&gap) {
            self.now.gaps.insert_mut(path.clone(), gap);
            self.tell(Event::Incomplete {
                path: path.clone(),
                gap,
            });
        }
    }

    fn close_gap(&mut self, path: &NodePath) {
        self.is_changed |= self.now.gaps.remove_mut(path);
    }

    /// Closes the gaps below a node that are such ones.
    fn close_gaps_below(&mut self, path: &NodePath, is_it: impl Fn(&NodePath) -> bool) {
        // What begins with the same letters is next to each other, and what is below is among it.
        let from = self.now.gaps.range(path.clone()..).map(|(at, _)| at);
        let below: Vec<_> = from
            .take_while(|at| at.as_str().starts_with(path.as_str()))
            .filter(|at| *at != path && is_below(at, path) && is_it(at))
            .cloned()
            .collect();
        for at in below {
            self.close_gap(&at);
        }
    }

    fn has_gap_of_children(&self, path: &NodePath) -> bool {
        let gap = self.now.gaps.get(path);
        matches!(gap, Some(Gap::Children(_) | Gap::TooManyChildren { .. }))
    }

    fn close_gap_of_children(&mut self, path: &NodePath) {
        if self.has_gap_of_children(path) {
            self.close_gap(path);
        }
    }
}

fn is_below(path: &NodePath, base: &NodePath) -> bool {
    let rest = path.as_str().strip_prefix(base.as_str());
    base.is_root() || rest.is_some_and(|rest| rest.starts_with('/'))
}

/// With more than so many reads to make it is not found out up to where everything is known.
const MOST_COUNTED: usize = 1000;

#[cfg(test)]
mod tests;
