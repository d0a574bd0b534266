//! One server: the part of the log that it has applied, how far it may lag, and what it answers to reads.
//!
//! Pure: no I/O and no clock.

use std::sync::Arc;
use std::time::Duration;

use zk_core::Acl;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::Permissions;
use zk_core::SessionId;
use zk_core::transport::Fault;
use zk_core::transport::Request;

use crate::access;
use crate::access::Identity;
use crate::leader::FIRST_EPOCH;
use crate::leader::Transaction;
use crate::release::Release;
use crate::server_reply::ServerReply;
use crate::tree::Counters;
use crate::tree::Node;
use crate::tree::Tree;
use crate::tree::Trigger;
use crate::watches::WatchKind;
use crate::watches::WatchTable;

/// A server of the ensemble.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) tree: Tree,
    pub(crate) watches: WatchTable,
    pub(crate) lag: Lag,
    pub(crate) state: State,
    /// Whether it follows the leader, or is it, as far as the others know: only then it serves.
    pub(crate) is_member: bool,
    /// Counts its stops and starts, pauses and resumptions.
    pub(crate) incarnation: u64,
    release: Release,
    applied: usize,
    zxid: i64,
}

/// What the process of a server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
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

/// When a server applies what the leader has committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lag {
    /// At once.
    None,
    /// Each transaction so long after it was committed.
    By(Duration),
    /// Nothing before this moment, then everything at once.
    Until(Duration),
    /// Nothing.
    Endless,
}

impl Lag {
    /// Tells whether it holds anything up from `now` on.
    pub(crate) fn lasts(self, now: Duration) -> bool {
        match self {
            Self::None => false,
            Self::By(behind) => !behind.is_zero(),
            Self::Until(moment) => moment > now,
            Self::Endless => true,
        }
    }

    /// When a transaction committed at `committed` is applied.
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
            state: State::Running,
            is_member: true,
            incarnation: 0,
            release,
            applied: 0,
            zxid: FIRST_EPOCH,
        }
    }

    /// The latest transaction that it has applied.
    pub(crate) fn zxid(&self) -> i64 {
        self.zxid
    }

    /// When it applies the next transaction of `log`, if there is one and it does not lag without end.
    pub(crate) fn next_due(&self, log: &[Arc<Transaction>]) -> Option<Duration> {
        let next = log.get(self.applied)?;
        self.lag.due(next.committed)
    }

    /// Tells whether it does something.
    pub(crate) fn is_running(&self) -> bool {
        self.state == State::Running
    }

    /// Tells whether it applies what the leader commits, and answers with it.
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

    /// Begins an epoch as a member: everything before has been applied.
    pub(crate) fn begin_epoch(&mut self, zxid: i64) {
        self.is_member = true;
        self.zxid = zxid;
    }

    /// How many transactions it has applied.
    pub(crate) fn applied(&self) -> usize {
        self.applied
    }

    /// Answers a read, and sets the watch that it asks for. Returns with it what the watch waits for.
    pub(crate) fn read(
        &mut self,
        session: SessionId,
        identities: &[Identity],
        request: &Request,
    ) -> (Result<ServerReply, Fault>, Option<(NodePath, WatchKind)>) {
        let (answer, watch) = match self.evaluate(identities, request) {
            Ok(found) => found,
            Err(kind) => return (Err(Fault::Refused(kind, None)), None),
        };
        if let Some((path, kind)) = &watch {
            self.watches.add(session, path, *kind);
        }
        (Ok(answer), watch)
    }

    fn evaluate(&self, identities: &[Identity], request: &Request) -> Result<Found, ErrorKind> {
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
            Request::Get { path, watch } => {
                let node = readable(path, &[Permissions::READ])?;
                let answer = ServerReply::Data {
                    data: node.data().to_vec(),
                    stat: node.stat(),
                    watch: None,
                };
                (answer, asked(*watch, path, WatchKind::Data))
            }
            Request::Exists { path, watch } => {
                // A node that is not there has no rules. Servers before 3.9.2 asked for none of the others either.
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
                let answer = ServerReply::Stat {
                    stat: node.map(Node::stat),
                    watch: None,
                };
                (answer, asked(*watch, path, kind))
            }
            Request::List { path, watch } => {
                let node = readable(path, &[Permissions::READ])?;
                let answer = ServerReply::Children {
                    names: node.children().map(str::to_owned).collect(),
                    stat: node.stat(),
                    watch: None,
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
                (ServerReply::Watching(None), Some((path.clone(), kind)))
            }
            Request::Create(_)
            | Request::Delete { .. }
            | Request::Set { .. }
            | Request::SetAcl { .. }
            | Request::Sync { .. }
            | Request::Transaction(_) => unreachable!("carried out by way of the leader"),
        })
    }
}

/// What a read found, and the watch it asked for.
type Found = (ServerReply, Option<(NodePath, WatchKind)>);

#[cfg(test)]
mod tests;
