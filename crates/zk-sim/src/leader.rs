//! The leader: checks writes one after the other, applies them, and keeps the log of committed transactions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use zk_core::Acl;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::Permissions;
use zk_core::SessionId;
use zk_core::Stat;
use zk_core::transport::Bytes;
use zk_core::transport::CreateMode;
use zk_core::transport::CreateRequest;
use zk_core::transport::Op;
use zk_core::transport::OpResult;
use zk_core::transport::Request;
use zk_core::transport::TransportError;

use crate::access;
use crate::access::Identity;
use crate::release::Release;
use crate::server_reply::ServerReply;
use crate::tree::Counters;
use crate::tree::Effect;
use crate::tree::Kind;
use crate::tree::Moment;
use crate::tree::Node;
use crate::tree::Tree;
use crate::tree::is_special;

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
        let mut pending = PendingTransaction::new(self.next(now), author);
        let outcome = match request {
            Request::Create(create) => pending.create(&mut self.tree, create).map(|created| {
                let stat = stat(&self.tree, &created);
                ServerReply::Created {
                    path: created,
                    stat,
                }
            }),
            Request::Delete { path, version } => pending
                .delete(&mut self.tree, path, *version)
                .map(|()| ServerReply::Deleted),
            Request::Set {
                path,
                data,
                version,
            } => pending
                .set(&mut self.tree, path, data, *version)
                .map(|()| ServerReply::Set(stat(&self.tree, path))),
            Request::SetAcl { path, acl, version } => pending
                .set_acl(&mut self.tree, path, acl, *version)
                .map(|()| ServerReply::Set(stat(&self.tree, path))),
            Request::Transaction(changes) => return self.transaction(pending, changes, now),
            Request::Get { .. }
            | Request::Exists { .. }
            | Request::List { .. }
            | Request::Sync { .. }
            | Request::GetAcl { .. }
            | Request::AddWatch { .. } => unreachable!("reads do not reach the leader"),
        }
        .map_err(|kind| TransportError::Refused(kind, None));
        let effects = pending.effects;
        self.append(now, effects, None, outcome)
    }

    /// Applies all parts of a transaction or none.
    fn transaction(
        &mut self,
        mut pending: PendingTransaction<'_>,
        changes: &[Op],
        now: Duration,
    ) -> WriteResult {
        let mut done = Vec::new();
        for (index, change) in changes.iter().enumerate() {
            match pending.change(&mut self.tree, change) {
                Ok(OpResult::Created { path, .. })
                    if self.release == Release::V3_8 && is_plain(change) =>
                {
                    done.push(OpResult::Created { path, stat: None });
                }
                Ok(changed) => done.push(changed),
                Err(kind) => {
                    pending.undo(&mut self.tree);
                    let outcome = Err(TransportError::RefusedAt { index, kind });
                    return self.append(now, Vec::new(), None, outcome);
                }
            }
        }
        let effects = pending.effects;
        self.append(now, effects, None, Ok(ServerReply::Committed(done)))
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
    at: Moment,
    author: Author<'a>,
    effects: Vec<Effect>,
    /// The nodes before the changes, in the order of the changes.
    before: Vec<(NodePath, Option<Node>)>,
    /// The sequence numbers of parents, which pass the maximum during the checks; only the stored ones stick.
    counters: BTreeMap<NodePath, i32>,
}

impl<'a> PendingTransaction<'a> {
    fn new(at: Moment, author: Author<'a>) -> Self {
        Self {
            at,
            author,
            effects: Vec::new(),
            before: Vec::new(),
            counters: BTreeMap::new(),
        }
    }

    fn change(&mut self, tree: &mut Tree, change: &Op) -> Result<OpResult, ErrorKind> {
        Ok(match change {
            Op::Check { path, version } => {
                let node = tree.at(path).ok_or(ErrorKind::NoNode)?;
                self.permit(&node.acl, &[Permissions::READ])?;
                next_version(node.version, *version)?;
                OpResult::Checked
            }
            Op::Create(create) => {
                let path = self.create(tree, create)?;
                let stat = Some(stat(tree, &path));
                OpResult::Created { path, stat }
            }
            Op::Set {
                path,
                data,
                version,
            } => {
                self.set(tree, path, data, *version)?;
                OpResult::Set(stat(tree, path))
            }
            Op::Delete { path, version } => {
                self.delete(tree, path, *version)?;
                OpResult::Deleted
            }
        })
    }

    /// Checks in the order of a server, which determines the error if several checks fail.
    fn create(&mut self, tree: &mut Tree, create: &CreateRequest) -> Result<NodePath, ErrorKind> {
        let (kind, sequential) = kind_of(create.mode, self.author.session)?;
        let parent_path = create.path.parent().unwrap_or_else(NodePath::root);
        let acl = access::resolved(&create.acl, self.author.identities)?;
        let parent = tree.at(&parent_path).ok_or(ErrorKind::NoNode)?;
        self.permit(&parent.acl, &[Permissions::CREATE])?;
        let counter = self
            .counters
            .get(&parent_path)
            .copied()
            .unwrap_or(parent.creations);
        let path = if sequential {
            NodePath::parse(&format!("{}{counter:010}", create.path))
                .map_err(|_| ErrorKind::InvalidArgument)?
        } else {
            create.path.clone()
        };
        if tree.at(&path).is_some() {
            return Err(ErrorKind::NodeExists);
        }
        if let Kind::Ephemeral(_) = parent.kind {
            return Err(ErrorKind::ParentIsEphemeral);
        }
        let counter = counter.wrapping_add(1);
        self.counters.insert(parent_path, counter);
        self.apply(
            tree,
            Effect::Create {
                path: path.clone(),
                data: create.data.clone(),
                acl,
                kind,
                counter,
            },
        );
        Ok(path)
    }

    fn delete(
        &mut self,
        tree: &mut Tree,
        path: &NodePath,
        version: Option<i32>,
    ) -> Result<(), ErrorKind> {
        if is_special(path) {
            return Err(ErrorKind::InvalidArgument);
        }
        let parent = path
            .parent()
            .and_then(|parent| tree.at(&parent))
            .ok_or(ErrorKind::NoNode)?;
        self.permit(&parent.acl, &[Permissions::DELETE])?;
        let node = tree.at(path).ok_or(ErrorKind::NoNode)?;
        next_version(node.version, version)?;
        if !node.children.is_empty() {
            return Err(ErrorKind::NotEmpty);
        }
        self.apply(tree, Effect::Delete { path: path.clone() });
        Ok(())
    }

    fn set(
        &mut self,
        tree: &mut Tree,
        path: &NodePath,
        data: &Bytes,
        version: Option<i32>,
    ) -> Result<(), ErrorKind> {
        let node = tree.at(path).ok_or(ErrorKind::NoNode)?;
        self.permit(&node.acl, &[Permissions::WRITE])?;
        let version = next_version(node.version, version)?;
        self.apply(
            tree,
            Effect::SetData {
                path: path.clone(),
                data: data.clone(),
                version,
            },
        );
        Ok(())
    }

    fn set_acl(
        &mut self,
        tree: &mut Tree,
        path: &NodePath,
        acl: &Acl,
        version: Option<i32>,
    ) -> Result<(), ErrorKind> {
        let acl = access::resolved(acl, self.author.identities)?;
        let node = tree.at(path).ok_or(ErrorKind::NoNode)?;
        self.permit(&node.acl, &[Permissions::ADMIN])?;
        let version = next_version(node.aversion, version)?;
        self.apply(
            tree,
            Effect::SetAcl {
                path: path.clone(),
                acl,
                version,
            },
        );
        Ok(())
    }

    fn permit(&self, acl: &Acl, wanted: &[Permissions]) -> Result<(), ErrorKind> {
        if access::is_granted(acl, wanted, self.author.identities) {
            Ok(())
        } else {
            Err(ErrorKind::NoAuth)
        }
    }

    fn apply(&mut self, tree: &mut Tree, effect: Effect) {
        for path in effect.touched() {
            let node = tree.at(&path).cloned();
            self.before.push((path, node));
        }
        tree.apply(self.at, &effect);
        self.effects.push(effect);
    }

    fn undo(self, tree: &mut Tree) {
        for (path, node) in self.before.into_iter().rev() {
            tree.restore(path, node);
        }
    }
}

/// Returns the stat of a node that the current transaction has written.
fn stat(tree: &Tree, path: &NodePath) -> Stat {
    tree.at(path)
        .expect("the transaction has written the node")
        .stat()
}

/// Returns whether it is a create whose stat a server before 3.8.1 omits (ZOOKEEPER-4026).
fn is_plain(change: &Op) -> bool {
    let Op::Create(create) = change else {
        return false;
    };
    matches!(
        create.mode,
        CreateMode::Persistent { ttl: None, .. } | CreateMode::Ephemeral { .. }
    )
}

fn kind_of(mode: CreateMode, session: SessionId) -> Result<(Kind, bool), ErrorKind> {
    Ok(match mode {
        CreateMode::Persistent {
            sequential,
            ttl: None,
        } => (Kind::Persistent, sequential),
        CreateMode::Persistent {
            sequential,
            ttl: Some(ttl),
        } => {
            if !(1..LONGEST_TTL_MILLIS).contains(&ttl.as_millis()) {
                return Err(ErrorKind::InvalidArgument);
            }
            (Kind::Ttl(ttl), sequential)
        }
        CreateMode::Ephemeral { sequential } => (Kind::Ephemeral(session), sequential),
        CreateMode::Container => (Kind::Container, false),
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
