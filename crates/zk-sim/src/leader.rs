//! The leader: checks writes one after the other, applies them, and keeps the log of committed transactions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use zk_core::transport::{
    CreateMode, MultiOp, MultiResult, NewNode, NodeData, Request, TransportError,
};
use zk_core::{Acl, ErrorKind, NodePath, Permissions, SessionId, Stat};

use crate::access::{self, Identity};
use crate::release::Release;
use crate::server_reply::ServerReply;
use crate::tree::{Counters, Effect, Kind, Moment, Node, Tree, is_special};

/// The state of the leader, which all leaders share, one after the other.
#[derive(Debug)]
pub(crate) struct Leader {
    tree: Tree,
    log: Vec<Arc<Transaction>>,
    zxid: i64,
    release: Release,
}

/// One entry of the log. A refused write also takes a zxid, and has an entry without effects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(crate) at: Moment,
    /// When it was committed, since the ensemble began.
    pub(crate) committed: Duration,
    pub(crate) effects: Vec<Effect>,
    /// The session that it closes.
    pub(crate) closes: Option<SessionId>,
}

/// The session that sent a write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Author<'a> {
    pub(crate) session: SessionId,
    pub(crate) identities: &'a [Identity],
}

/// The outcome of a write, and the zxid of its transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WriteResult {
    pub(crate) zxid: i64,
    pub(crate) outcome: Result<ServerReply, TransportError>,
}

impl Leader {
    pub(crate) fn new(counters: Counters, release: Release) -> Self {
        Self {
            tree: Tree::new(counters),
            log: Vec::new(),
            zxid: FIRST_EPOCH,
            release,
        }
    }

    /// Returns the tree with everything that was committed.
    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(crate) fn log(&self) -> &[Arc<Transaction>] {
        &self.log
    }

    /// Returns the zxid of the latest transaction.
    pub(crate) fn zxid(&self) -> i64 {
        self.zxid
    }

    /// Begins the epoch of another leader, whose zxids are larger than all before.
    pub(crate) fn begin_epoch(&mut self) {
        self.zxid = ((self.zxid >> 32) + 1) << 32;
    }

    /// Checks a write and applies it.
    pub(crate) fn write(
        &mut self,
        author: Author<'_>,
        request: &Request,
        now: Duration,
    ) -> WriteResult {
        let at = self.next(now);
        let mut pending = PendingTransaction::new(&mut self.tree, at, author);
        let outcome = match request {
            Request::Multi(ops) => pending.all_or_none(ops, self.release),
            single => pending
                .single(single)
                .map_err(|kind| TransportError::Refused(kind, None)),
        };
        let effects = pending.effects;
        self.append(now, effects, None, outcome)
    }

    /// Opens a session, which takes a transaction. Returns its zxid.
    pub(crate) fn open(&mut self, now: Duration) -> i64 {
        self.append(now, Vec::new(), None, Ok(ServerReply::Synced))
            .zxid
    }

    /// Closes a session, and deletes its ephemeral nodes in the same transaction.
    pub(crate) fn close(&mut self, session: SessionId, now: Duration) -> WriteResult {
        let at = self.next(now);
        let effects: Vec<_> = self
            .tree
            .ephemerals(session)
            .into_iter()
            .map(|path| Effect::Delete { path })
            .collect();
        for effect in &effects {
            self.tree.apply(at, effect);
        }
        self.append(now, effects, Some(session), Ok(ServerReply::Closed))
    }

    /// Deletes empty containers and expired TTL nodes, each in its own transaction, as servers do. Returns their paths.
    pub(crate) fn reap(&mut self, now: Duration) -> Vec<NodePath> {
        let gone = self.tree.reapable(wall_clock(now));
        for path in &gone {
            let effect = Effect::Delete { path: path.clone() };
            self.change(now, effect);
        }
        gone
    }

    /// Sets the sequence number of the next sequential child of a node, and returns whether the node exists.
    pub(crate) fn set_counter(&mut self, path: &NodePath, counter: i32, now: Duration) -> bool {
        let is_there = self.tree.at(path).is_some();
        if is_there {
            let path = path.clone();
            self.change(now, Effect::SetCounter { path, counter });
        }
        is_there
    }

    fn change(&mut self, now: Duration, effect: Effect) {
        let at = self.next(now);
        self.tree.apply(at, &effect);
        self.append(now, vec![effect], None, Ok(ServerReply::Synced));
    }

    fn next(&self, now: Duration) -> Moment {
        Moment {
            zxid: self.zxid + 1,
            time: wall_clock(now),
        }
    }

    fn append(
        &mut self,
        now: Duration,
        effects: Vec<Effect>,
        closes: Option<SessionId>,
        outcome: Result<ServerReply, TransportError>,
    ) -> WriteResult {
        let at = self.next(now);
        self.zxid = at.zxid;
        self.log.push(Arc::new(Transaction {
            at,
            committed: now,
            effects,
            closes,
        }));
        WriteResult {
            zxid: at.zxid,
            outcome,
        }
    }
}

/// A transaction that is being checked. Each part is applied to the leader's tree before the next is checked.
#[derive(Debug)]
struct PendingTransaction<'a> {
    tree: &'a mut Tree,
    at: Moment,
    author: Author<'a>,
    effects: Vec<Effect>,
    /// The nodes before the changes, in the order of the changes.
    before: Vec<(NodePath, Option<Node>)>,
    /// The sequence numbers of parents, which pass the maximum during the checks; only the stored ones stick.
    counters: BTreeMap<NodePath, i32>,
}

impl<'a> PendingTransaction<'a> {
    fn new(tree: &'a mut Tree, at: Moment, author: Author<'a>) -> Self {
        Self {
            tree,
            at,
            author,
            effects: Vec::new(),
            before: Vec::new(),
            counters: BTreeMap::new(),
        }
    }

    /// Applies a write that is no transaction.
    fn single(&mut self, request: &Request) -> Result<ServerReply, ErrorKind> {
        Ok(match request {
            Request::Create(create) | Request::Create2(create) => {
                let (path, stat) = self.create(create)?;
                ServerReply::Created { path, stat }
            }
            Request::Delete { path, version } => {
                self.delete(path, *version)?;
                ServerReply::Deleted
            }
            Request::SetData {
                path,
                data,
                version,
            } => ServerReply::Set(self.set(path, data, *version)?),
            Request::SetAcl { path, acl, version } => {
                ServerReply::Set(self.set_acl(path, acl, *version)?)
            }
            _ => unreachable!("it is no single write"),
        })
    }

    /// Applies all parts of a transaction or none.
    fn all_or_none(
        &mut self,
        parts: &[MultiOp],
        release: Release,
    ) -> Result<ServerReply, TransportError> {
        let mut done = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            match self.part(part, release) {
                Ok(result) => done.push(result),
                Err(kind) => {
                    self.undo();
                    return Err(TransportError::RefusedAt { index, kind });
                }
            }
        }
        Ok(ServerReply::Committed(done))
    }

    fn part(&mut self, part: &MultiOp, release: Release) -> Result<MultiResult, ErrorKind> {
        Ok(match part {
            MultiOp::Check { path, version } => {
                let node = self.tree.at(path).ok_or(ErrorKind::NoNode)?;
                self.permit(&node.acl, &[Permissions::READ])?;
                next_version(node.version, *version)?;
                MultiResult::Checked
            }
            MultiOp::Create(create) | MultiOp::Create2(create) => {
                let (path, stat) = self.create(create)?;
                let is_omitted = release == Release::V3_8 && is_plain(create.mode);
                MultiResult::Created {
                    path,
                    stat: (!is_omitted).then_some(stat),
                }
            }
            MultiOp::SetData {
                path,
                data,
                version,
            } => MultiResult::Set(self.set(path, data, *version)?),
            MultiOp::Delete { path, version } => {
                self.delete(path, *version)?;
                MultiResult::Deleted
            }
        })
    }

    /// Checks in the order of a server, which determines the error if several checks fail.
    fn create(&mut self, create: &NewNode) -> Result<(NodePath, Stat), ErrorKind> {
        check_characters(&create.path)?;
        let kind = kind_of(create.mode, self.author.session)?;
        let parent_path = create.path.parent().unwrap_or_else(NodePath::root);
        let acl = access::resolved(&create.acl, self.author.identities)?;
        let parent = self.tree.at(&parent_path).ok_or(ErrorKind::NoNode)?;
        self.permit(&parent.acl, &[Permissions::CREATE])?;
        let counter = self
            .counters
            .get(&parent_path)
            .copied()
            .unwrap_or(parent.creations);
        let path = if create.mode.is_sequential() {
            NodePath::parse(&format!("{}{counter:010}", create.path))
                .map_err(|_| ErrorKind::InvalidArgument)?
        } else {
            create.path.clone()
        };
        if self.tree.at(&path).is_some() {
            return Err(ErrorKind::NodeExists);
        }
        if let Kind::Ephemeral(_) = parent.kind {
            return Err(ErrorKind::ParentIsEphemeral);
        }
        let counter = counter.wrapping_add(1);
        self.counters.insert(parent_path, counter);
        self.apply(Effect::Create {
            path: path.clone(),
            data: create.data.clone(),
            acl,
            kind,
            counter,
        });
        let stat = self.stat(&path);
        Ok((path, stat))
    }

    fn delete(&mut self, path: &NodePath, version: Option<i32>) -> Result<(), ErrorKind> {
        if is_special(path) {
            return Err(ErrorKind::InvalidArgument);
        }
        let parent = path
            .parent()
            .and_then(|parent| self.tree.at(&parent))
            .ok_or(ErrorKind::NoNode)?;
        self.permit(&parent.acl, &[Permissions::DELETE])?;
        let node = self.tree.at(path).ok_or(ErrorKind::NoNode)?;
        next_version(node.version, version)?;
        if !node.children.is_empty() {
            return Err(ErrorKind::NotEmpty);
        }
        self.apply(Effect::Delete { path: path.clone() });
        Ok(())
    }

    fn set(
        &mut self,
        path: &NodePath,
        data: &NodeData,
        version: Option<i32>,
    ) -> Result<Stat, ErrorKind> {
        check_characters(path)?;
        let node = self.tree.at(path).ok_or(ErrorKind::NoNode)?;
        self.permit(&node.acl, &[Permissions::WRITE])?;
        let version = next_version(node.version, version)?;
        self.apply(Effect::SetData {
            path: path.clone(),
            data: data.clone(),
            version,
        });
        Ok(self.stat(path))
    }

    fn set_acl(
        &mut self,
        path: &NodePath,
        acl: &Acl,
        version: Option<i32>,
    ) -> Result<Stat, ErrorKind> {
        let acl = access::resolved(acl, self.author.identities)?;
        let node = self.tree.at(path).ok_or(ErrorKind::NoNode)?;
        self.permit(&node.acl, &[Permissions::ADMIN])?;
        let version = next_version(node.aversion, version)?;
        self.apply(Effect::SetAcl {
            path: path.clone(),
            acl,
            version,
        });
        Ok(self.stat(path))
    }

    fn permit(&self, acl: &Acl, wanted: &[Permissions]) -> Result<(), ErrorKind> {
        if access::is_granted(acl, wanted, self.author.identities) {
            Ok(())
        } else {
            Err(ErrorKind::NoAuth)
        }
    }

    fn apply(&mut self, effect: Effect) {
        for path in effect.touched() {
            let node = self.tree.at(&path).cloned();
            self.before.push((path, node));
        }
        self.tree.apply(self.at, &effect);
        self.effects.push(effect);
    }

    fn undo(&mut self) {
        for (path, node) in self.before.drain(..).rev() {
            self.tree.restore(path, node);
        }
        self.effects.clear();
    }

    /// Returns the stat of a node that this transaction has written.
    fn stat(&self, path: &NodePath) -> Stat {
        let node = self.tree.at(path);
        node.expect("the transaction has written the node").stat()
    }
}

/// Refuses the characters that only servers of 3.4 accept (`PathUtils.validatePath`).
fn check_characters(path: &NodePath) -> Result<(), ErrorKind> {
    let old = [
        '\u{1f}', '\u{7f}', '\u{9f}', '\u{f8ff}', '\u{fff0}', '\u{ffff}',
    ];
    if path.as_str().contains(old) {
        return Err(ErrorKind::InvalidArgument);
    }
    Ok(())
}

/// Returns whether a server before 3.8.1 omits the stat of such a create in a transaction (ZOOKEEPER-4026).
fn is_plain(mode: CreateMode) -> bool {
    mode != CreateMode::Container && mode.ttl().is_none()
}

fn kind_of(mode: CreateMode, session: SessionId) -> Result<Kind, ErrorKind> {
    Ok(match mode {
        CreateMode::Persistent | CreateMode::PersistentSequential => Kind::Persistent,
        CreateMode::PersistentWithTtl(ttl) | CreateMode::PersistentSequentialWithTtl(ttl) => {
            if !(1..LONGEST_TTL_MILLIS).contains(&ttl.as_millis()) {
                return Err(ErrorKind::InvalidArgument);
            }
            Kind::Ttl(ttl)
        }
        CreateMode::Ephemeral | CreateMode::EphemeralSequential => Kind::Ephemeral(session),
        CreateMode::Container => Kind::Container,
    })
}

/// Returns the next version, if the current one is as wanted. A server skips -1, which means any version.
fn next_version(current: i32, wanted: Option<i32>) -> Result<i32, ErrorKind> {
    if wanted.is_some_and(|wanted| wanted != -1 && wanted != current) {
        return Err(ErrorKind::BadVersion);
    }
    Ok(match current.wrapping_add(1) {
        -1 => 0,
        next => next,
    })
}

/// Returns the leader's wall clock, the same in each run.
fn wall_clock(now: Duration) -> SystemTime {
    SystemTime::UNIX_EPOCH + BEGIN + now
}

/// The zxid before the first transaction of the first leader.
pub(crate) const FIRST_EPOCH: i64 = 1 << 32;
/// 15 January 2027, after the epochs of all id layouts.
const BEGIN: Duration = Duration::from_secs(1_800_000_000);
const LONGEST_TTL_MILLIS: u128 = 1 << 40;

#[cfg(test)]
mod tests;
