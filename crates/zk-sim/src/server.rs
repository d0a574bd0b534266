//! One server: applies the log as its lag allows, keeps watches, and answers reads.
//!
//! Pure: no I/O and no clock.

use std::sync::Arc;
use std::time::Duration;

use zk_core::transport::{MultiRead, ReadResult, Request, TransportError};
use zk_core::{Acl, ErrorKind, NodePath, Permissions, SessionId};

use crate::access::{self, Identity};
use crate::leader::{FIRST_EPOCH, Transaction};
use crate::release::Release;
use crate::server_reply::ServerReply;
use crate::tree::{Counters, Node, Tree, Trigger};
use crate::watches::{self, WatchKind, WatchTable};

/// A server of the ensemble.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) tree: Tree,
    pub(crate) watches: WatchTable,
    pub(crate) lag: Lag,
    pub(crate) state: ProcessState,
    /// Whether it leads or follows the leader, as far as the other servers know. Only a member serves.
    pub(crate) is_member: bool,
    /// The number of its stops, starts, pauses and resumptions.
    pub(crate) incarnation: u64,
    release: Release,
    applied: usize,
    zxid: i64,
}

/// The state of a server's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessState {
    Running,
    /// It does nothing, and keeps its connections.
    Paused,
    Stopped,
}

/// Who is to be notifications of what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WatchNotification {
    pub(crate) session: SessionId,
    pub(crate) trigger: Trigger,
    pub(crate) zxid: Option<i64>,
}

/// The delay between the commit of a transaction and its application by a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lag {
    /// Each transaction is applied immediately.
    None,
    /// Each transaction is applied this long after its commit.
    By(Duration),
    /// No transaction is applied before this time.
    Until(Duration),
    /// No transaction is applied.
    Endless,
}

impl Lag {
    /// Returns whether it delays transactions from `now` on.
    pub(crate) fn lasts(self, now: Duration) -> bool {
        match self {
            Self::None => false,
            Self::By(behind) => !behind.is_zero(),
            Self::Until(moment) => moment > now,
            Self::Endless => true,
        }
    }

    /// Returns when a transaction that was committed at `committed` is applied.
    fn due(self, committed: Duration) -> Option<Duration> {
        match self {
            Self::None => Some(committed),
            Self::By(behind) => Some(committed + behind),
            Self::Until(moment) => Some(moment.max(committed)),
            Self::Endless => None,
        }
    }
}

impl Server {
    pub(crate) fn new(counters: Counters, release: Release) -> Self {
        Self {
            tree: Tree::new(counters),
            watches: WatchTable::new(release),
            lag: Lag::None,
            state: ProcessState::Running,
            is_member: true,
            incarnation: 0,
            release,
            applied: 0,
            zxid: FIRST_EPOCH,
        }
    }

    /// Returns the zxid of the latest applied transaction.
    pub(crate) fn zxid(&self) -> i64 {
        self.zxid
    }

    /// Returns when it applies the next transaction of `log`, if there is one and the lag is not endless.
    pub(crate) fn next_due(&self, log: &[Arc<Transaction>]) -> Option<Duration> {
        let next = log.get(self.applied)?;
        self.lag.due(next.committed)
    }

    /// Returns whether its process runs.
    pub(crate) fn is_running(&self) -> bool {
        self.state == ProcessState::Running
    }

    /// Returns whether it applies transactions and serves clients.
    pub(crate) fn is_serving(&self) -> bool {
        self.is_running() && self.is_member
    }

    /// Applies the next transaction, and returns who is to be notifications of what.
    pub(crate) fn apply(
        &mut self,
        transaction: &Transaction,
        may_read: impl Fn(SessionId, &Acl) -> bool,
    ) -> Vec<WatchNotification> {
        self.applied += 1;
        self.zxid = transaction.at.zxid;
        let zxid = (self.release != Release::V3_8).then_some(transaction.at.zxid);
        let mut notifications = Vec::new();
        for effect in &transaction.effects {
            for trigger in self.tree.apply(transaction.at, effect) {
                let sessions = self.watches.trigger(&trigger);
                if sessions.is_empty() {
                    continue;
                }
                let node = || self.tree.at(&trigger.path).map(|node| &node.acl);
                let acl = trigger.last_acl.as_ref().or_else(node);
                for session in sessions {
                    if acl.is_none_or(|acl| may_read(session, acl)) {
                        notifications.push(WatchNotification {
                            session,
                            trigger: trigger.clone(),
                            zxid,
                        });
                    }
                }
            }
        }
        notifications
    }

    /// Sets a watch of a client that has reconnected, unless a change since `seen` fires it; returns that event.
    ///
    /// Since 3.9 there is no event of a node that the session may not read, and the watch is gone all the same.
    pub(crate) fn set_again(
        &mut self,
        session: SessionId,
        identities: &[Identity],
        (path, kind): (&NodePath, WatchKind),
        seen: i64,
    ) -> Option<Trigger> {
        // A persistent watch reports no change that was made before.
        let missed = (!kind.is_persistent())
            .then(|| watches::missed(&self.tree, path, kind, seen))
            .flatten();
        let Some(event) = missed else {
            self.watches.add(session, path, kind);
            return None;
        };
        let may_read =
            |node: &Node| access::is_granted(&node.acl, &[Permissions::READ], identities);
        let is_reported = self.release == Release::V3_8 || self.tree.at(path).is_none_or(may_read);
        is_reported.then(|| Trigger::new(path, event))
    }

    /// Begins an epoch as a member, after all earlier transactions were applied.
    pub(crate) fn begin_epoch(&mut self, zxid: i64) {
        self.is_member = true;
        self.zxid = zxid;
    }

    /// Returns the number of applied transactions.
    pub(crate) fn applied(&self) -> usize {
        self.applied
    }

    /// Answers a read, and sets the requested watch. Returns the path and kind of that watch.
    pub(crate) fn read(
        &mut self,
        session: SessionId,
        identities: &[Identity],
        request: &Request,
    ) -> (
        Result<ServerReply, TransportError>,
        Option<(NodePath, WatchKind)>,
    ) {
        let (answer, watch) = match self.evaluate(session, identities, request) {
            Ok(found) => found,
            Err(kind) => return (Err(TransportError::Refused(kind, None)), None),
        };
        if let Some((path, kind)) = &watch {
            self.watches.add(session, path, *kind);
        }
        (Ok(answer), watch)
    }

    pub(crate) fn evaluate(
        &self,
        session: SessionId,
        identities: &[Identity],
        request: &Request,
    ) -> Result<Found, ErrorKind> {
        let readable = |path: &NodePath, wanted: &[Permissions]| {
            let node = self.tree.at(path).ok_or(ErrorKind::NoNode)?;
            if access::is_granted(&node.acl, wanted, identities) {
                Ok(node)
            } else {
                Err(ErrorKind::NoAuth)
            }
        };
        let asked = |watch: bool, path: &NodePath, kind| watch.then(|| (path.clone(), kind));
        Ok(match request {
            Request::GetData { path, watch } => {
                let node = readable(path, &[Permissions::READ])?;
                let answer = ServerReply::Data {
                    data: node.data().into(),
                    stat: node.stat(),
                };
                (answer, asked(*watch, path, WatchKind::Data))
            }
            Request::GetConfig { .. } => {
                let get = Request::GetData {
                    path: NodePath::parse(CONFIG).expect("it is a path"),
                    watch: false,
                };
                self.evaluate(session, identities, &get)?
            }
            Request::MultiRead(reads) => {
                let node = |path: &NodePath| {
                    let node = readable(path, &[Permissions::READ]);
                    node.map_err(|kind| TransportError::Refused(kind, None))
                };
                let result = |read: &MultiRead| match read {
                    MultiRead::GetData { path } => node(path).map(|node| ReadResult::Data {
                        data: node.data().into(),
                        stat: node.stat(),
                    }),
                    MultiRead::GetChildren { path } => node(path).map(|node| {
                        ReadResult::Children(node.children().map(str::to_owned).collect())
                    }),
                };
                (ServerReply::Reads(reads.iter().map(result).collect()), None)
            }
            Request::WhoAmI => {
                let identities = identities.iter().map(Identity::public);
                (ServerReply::Identities(identities.collect()), None)
            }
            Request::GetEphemerals { prefix } => {
                let mut paths = self.tree.ephemerals(session);
                paths.retain(|path| path.as_str().starts_with(prefix));
                (ServerReply::Paths(paths), None)
            }
            Request::GetAllChildrenNumber { path } => {
                readable(path, &[Permissions::READ])?;
                let count = u32::try_from(self.tree.count_below(path)).unwrap_or(u32::MAX);
                (ServerReply::Count(count), None)
            }
            Request::Exists { path, watch } => {
                // A missing node has no ACL. Servers before 3.9.2 did not check the ACL of existing ones either.
                let node = match readable(path, &[Permissions::READ]) {
                    Ok(node) => Some(node),
                    Err(ErrorKind::NoAuth) if self.release == Release::V3_8 => self.tree.at(path),
                    Err(ErrorKind::NoNode) => None,
                    Err(kind) => return Err(kind),
                };
                let kind = if node.is_some() {
                    WatchKind::Data
                } else {
                    WatchKind::Exist
                };
                let answer = ServerReply::Stat(node.map(Node::stat));
                (answer, asked(*watch, path, kind))
            }
            Request::GetChildren2 { path, watch } => {
                let node = readable(path, &[Permissions::READ])?;
                let answer = ServerReply::Children {
                    names: node.children().map(str::to_owned).collect(),
                    stat: node.stat(),
                };
                (answer, asked(*watch, path, WatchKind::Child))
            }
            Request::GetAcl { path } => {
                let node = readable(path, &[Permissions::READ, Permissions::ADMIN])?;
                let acl = if access::is_granted(&node.acl, &[Permissions::ADMIN], identities) {
                    node.acl.clone()
                } else {
                    access::masked(&node.acl)
                };
                let answer = ServerReply::Acl {
                    acl,
                    stat: node.stat(),
                };
                (answer, None)
            }
            Request::AddWatch { path, recursive } => {
                let kind = if *recursive {
                    WatchKind::PersistentRecursive
                } else {
                    WatchKind::Persistent
                };
                (ServerReply::Watching, Some((path.clone(), kind)))
            }
            _ => unreachable!("the leader executes these"),
        })
    }
}

/// The node with the configuration of the ensemble.
const CONFIG: &str = "/zookeeper/config";

/// The reply to a read, and the requested watch.
pub(crate) type Found = (ServerReply, Option<(NodePath, WatchKind)>);

#[cfg(test)]
mod tests;
