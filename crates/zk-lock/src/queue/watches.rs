//! The watches of a waiter, and what their events mean.

use futures_util::FutureExt as _;
use futures_util::future;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::Watch;
use zk_core::WatchEvent;

use super::Queue;
use crate::contender::Contender;
use crate::error::AcquireError;

/// The watches of a waiter: on its predecessor, and possibly on the one ahead of that and on its own node.
#[derive(Debug, Default)]
pub(super) struct Watches {
    predecessor: Option<WatchedContender>,
    lookahead: Option<WatchedContender>,
    own: Option<OwnWatch>,
}

/// The watch on the waiter's own node.
#[derive(Debug)]
struct OwnWatch {
    watch: Watch,
    /// The number of connection losses before the watch was requested.
    connection_losses: u64,
}

/// A contender that is watched.
#[derive(Debug)]
struct WatchedContender {
    name: String,
    /// `None` if this session may not read the node. The whole queue is watched then.
    contender: Option<Contender>,
    watch: Watch,
}

/// Why a waiter woke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeReason {
    /// The predecessor's node was deleted while our own node existed.
    PredecessorDeleted,
    /// Our own node changed or was deleted.
    OwnChanged,
    /// Something else changed, or had changed before it was watched.
    Changed,
}

impl Watches {
    /// Returns the data of the predecessor, if it was read.
    pub(super) fn predecessor(&self) -> Option<&Contender> {
        self.predecessor.as_ref()?.contender.as_ref()
    }

    /// Returns the watch of the waiter's own node, if it was set.
    pub(super) fn into_own(self) -> Option<Watch> {
        self.own.map(|own| own.watch)
    }

    /// Drops all watches except those on these two contenders.
    fn keep(&mut self, predecessor: &str, lookahead: Option<&str>) {
        let mut had = [self.predecessor.take(), self.lookahead.take()];
        self.predecessor = take_named(&mut had, predecessor);
        self.lookahead = lookahead.and_then(|name| take_named(&mut had, name));
    }
}

impl Queue {
    /// Watches the predecessor, the contender to look ahead to, if any, and our own node, if its path is given.
    ///
    /// A waiter that is granted the lock by the deletion of its predecessor does not read whether its own node
    /// exists; it relies on the watch.
    ///
    /// Returns false if one of them is gone.
    pub(super) async fn watch_all(
        &self,
        watches: &mut Watches,
        predecessor: &str,
        lookahead: Option<&str>,
        own: Option<&NodePath>,
    ) -> Result<bool, Error> {
        watches.keep(predecessor, lookahead);
        let one = async {
            if watches.predecessor.is_none() {
                watches.predecessor =
                    self.watch(predecessor)
                        .await?
                        .map(|(contender, watch)| WatchedContender {
                            name: predecessor.to_owned(),
                            contender,
                            watch,
                        });
            }
            Ok(watches.predecessor.is_some())
        };
        let other = async {
            let Some(name) = lookahead else {
                return Ok(true);
            };
            if watches.lookahead.is_none() && self.has_spare_watches() {
                match self.watch_node(name).await {
                    Ok(found) => {
                        watches.lookahead = found.map(|(contender, watch)| WatchedContender {
                            name: name.to_owned(),
                            contender: Some(contender),
                            watch,
                        });
                        return Ok(watches.lookahead.is_some());
                    }
                    // This watch only saves time.
                    Err(error)
                        if error.class() == ErrorClass::Outcome
                            || error.kind() == ErrorKind::TooManyWatches => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(true)
        };
        let own = async {
            let Some(path) = own.filter(|_| watches.own.is_none()) else {
                return Ok(true);
            };
            let connection_losses = self.connection_losses();
            let exists = || self.session.exists(path).watched().into_future();
            match self.retry_read(exists).await {
                Ok((Some(_), watch)) => {
                    watches.own = Some(OwnWatch {
                        watch,
                        connection_losses,
                    });
                    Ok(true)
                }
                Ok((None, _)) => Ok(false),
                // Without this watch, every wake-up lists the queue.
                Err(error) if error.class() == ErrorClass::Outcome => Ok(true),
                Err(error) => Err(error),
            }
        };
        // All requests leave at once.
        let (one, other, own) = future::join3(one, other, own).await;
        Ok(one? & other? & own?)
    }

    /// Waits until one of the watches fires. Returns an error if our own node is gone.
    pub(super) async fn wait_for_wakeup(
        &self,
        watches: &mut Watches,
        path: &NodePath,
    ) -> Result<WakeReason, AcquireError> {
        let Watches {
            predecessor,
            lookahead,
            own,
        } = watches;
        // If several events are ready, the first branch wins: a waiter whose node is gone must not be granted
        // the lock.
        let (mut reason, mut event) = tokio::select! {
            biased;
            _ = self.session.lost() => (WakeReason::Changed, WatchEvent::SessionLost),
            event = own_event(own) => (WakeReason::OwnChanged, event),
            event = next_event(predecessor) => {
                let gone = predecessor.take();
                match event {
                    WatchEvent::Deleted if self.may_take_over(gone.as_ref(), own.as_ref()) => {
                        (WakeReason::PredecessorDeleted, event)
                    }
                    _ => (WakeReason::Changed, event),
                }
            }
            event = next_event(lookahead) => {
                *lookahead = None;
                (WakeReason::Changed, event)
            }
        };
        if reason == WakeReason::PredecessorDeleted {
            // An event of our own node that happened before the predecessor's deletion is delivered before
            // it, but possibly after the branch above was polled. The task's coop budget must not delay it.
            let own_event = tokio::task::coop::unconstrained(own_event(own)).now_or_never();
            if let Some(own_event) = own_event {
                (reason, event) = (WakeReason::OwnChanged, own_event);
            }
        }
        match (reason, event) {
            (_, WatchEvent::SessionLost) => Err(AcquireError::SessionLost { source: None }),
            (WakeReason::OwnChanged, WatchEvent::Deleted) => Err(self.node_lost(path).await),
            (WakeReason::OwnChanged, _) => {
                // Its data changed: it is watched again.
                *own = None;
                Ok(WakeReason::Changed)
            }
            (reason, _) => Ok(reason),
        }
    }

    /// Returns whether the deletion of the predecessor proves that our own node still existed.
    ///
    /// A server reports deletions in the order in which they happened. So it does if our own node is watched and
    /// both watches were set over the same connection; over a new connection the server reports missing nodes in
    /// any order. It does not if the predecessor belongs to our own session: the end of a session deletes all its
    /// nodes in one transaction. (Such a handover therefore costs another list.)
    fn may_take_over(
        &self,
        predecessor: Option<&WatchedContender>,
        own: Option<&OwnWatch>,
    ) -> bool {
        let is_anothers = predecessor
            .and_then(|watched| watched.contender.as_ref())
            .is_some_and(|contender| contender.session() != Some(self.session.id()));
        is_anothers && own.is_some_and(|own| own.connection_losses == self.connection_losses())
    }

    /// Returns how often the session has lost its connection.
    fn connection_losses(&self) -> u64 {
        self.session.counters().connection_losses
    }

    /// Returns whether the session has room for watches that only save time.
    fn has_spare_watches(&self) -> bool {
        self.session.counters().watched_bytes < MAX_WATCHED_BYTES
    }
}

fn take_named(had: &mut [Option<WatchedContender>], name: &str) -> Option<WatchedContender> {
    had.iter_mut()
        .find_map(|watched| watched.take_if(|one| one.name == name))
}

/// Waits for an event of a watched contender; pending forever if there is none.
async fn next_event(watched: &mut Option<WatchedContender>) -> WatchEvent {
    match watched {
        Some(watched) => watched.watch.changed().await,
        None => future::pending().await,
    }
}

/// Waits for an event of our own node; pending forever if it is not watched.
async fn own_event(own: &mut Option<OwnWatch>) -> WatchEvent {
    match own {
        Some(own) => own.watch.changed().await,
        None => future::pending().await,
    }
}

/// The limit for watches that only save time, of the 120 KiB of paths that a session may watch.
const MAX_WATCHED_BYTES: usize = 60 * 1024;
