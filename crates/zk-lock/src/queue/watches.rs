//! The watches of a waiter, and what their events mean.

use futures_util::{FutureExt as _, future};
use zk_core::{Error, ErrorClass, ErrorKind, NodePath, Watch, WatchEvent};

use super::Queue;
use crate::contender::Contender;
use crate::error::AcquireError;
use crate::node_monitor::node_lost;

/// The nodes that a waiter watches.
#[derive(Debug)]
pub(super) struct WatchTargets<'a> {
    pub(super) predecessor: &'a str,
    /// The contender ahead of the predecessor, if there is one.
    pub(super) lookahead: Option<&'a str>,
    /// The waiter's own node, if only the predecessor is ahead. A waiter that takes over when its predecessor is
    /// deleted does not read whether its own node exists; it relies on this watch.
    pub(super) own: Option<&'a NodePath>,
}

/// The watches that a waiter has set.
#[derive(Debug, Default)]
pub(super) struct Watches {
    predecessor: Option<WatchedContender>,
    lookahead: Option<WatchedContender>,
    own: Option<OwnWatch>,
}

/// A contender that is watched.
#[derive(Debug)]
struct WatchedContender {
    name: String,
    /// `None` if this session may not read the node. The whole queue is watched then.
    contender: Option<Contender>,
    watch: Watch,
}

/// The watch on the waiter's own node.
#[derive(Debug)]
struct OwnWatch {
    watch: Watch,
    /// The number of connection losses before the watch was requested.
    connection_losses: u64,
}

/// Why a waiter woke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeReason {
    /// The predecessor's node was deleted while our own node existed.
    PredecessorDeleted,
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

    /// Drops all watches on contenders except those on these two.
    fn keep(&mut self, predecessor: &str, lookahead: Option<&str>) {
        let mut had = [self.predecessor.take(), self.lookahead.take()];
        self.predecessor = take_named(&mut had, predecessor);
        self.lookahead = lookahead.and_then(|name| take_named(&mut had, name));
    }
}

impl Queue {
    /// Sets the watches that are missing. Returns false if one of the nodes is gone.
    pub(super) async fn watch_all(
        &self,
        watches: &mut Watches,
        targets: &WatchTargets<'_>,
    ) -> Result<bool, Error> {
        watches.keep(targets.predecessor, targets.lookahead);
        // All requests leave at once.
        let (predecessor, lookahead, own) = future::join3(
            self.watch_predecessor(&mut watches.predecessor, targets.predecessor),
            self.watch_lookahead(&mut watches.lookahead, targets.lookahead),
            self.watch_own(&mut watches.own, targets.own),
        )
        .await;
        Ok(predecessor? & lookahead? & own?)
    }

    /// Lists the queue, and watches our own node, so that the list makes us ready to take over if we are the next in line.
    pub(super) async fn list_and_watch_own(
        &self,
        watches: &mut Watches,
        own: &NodePath,
    ) -> Result<Vec<String>, Error> {
        // Both requests leave at once.
        let watched = self.watch_own(&mut watches.own, Some(own));
        let (exists, listed) = future::try_join(watched, self.list()).await?;
        // The list may be older, if a request was repeated.
        Ok(if exists { listed } else { Vec::new() })
    }

    async fn watch_predecessor(
        &self,
        watched: &mut Option<WatchedContender>,
        name: &str,
    ) -> Result<bool, Error> {
        if watched.is_none() {
            *watched = match self.watch_contender(name).await {
                // Without READ, a server does not say whether a node exists either (ZOOKEEPER-2590). The
                // children may be listed, as they just were.
                Err(error) if error.kind() == ErrorKind::NoAuth => self.watch_queue(name).await?,
                read => read?,
            };
        }
        Ok(watched.is_some())
    }

    async fn watch_lookahead(
        &self,
        watched: &mut Option<WatchedContender>,
        name: Option<&str>,
    ) -> Result<bool, Error> {
        let Some(name) = name.filter(|_| watched.is_none()) else {
            return Ok(true);
        };
        match self.watch_contender(name).await {
            Ok(found) => {
                *watched = found;
                Ok(watched.is_some())
            }
            // This watch only saves time.
            Err(error) if error.class() == ErrorClass::Outcome => Ok(true),
            Err(error) => Err(error),
        }
    }

    async fn watch_own(
        &self,
        watched: &mut Option<OwnWatch>,
        path: Option<&NodePath>,
    ) -> Result<bool, Error> {
        let connection_losses = self.connection_losses();
        let is_set = watched
            .as_ref()
            .is_some_and(|own| own.connection_losses == connection_losses);
        let Some(path) = path.filter(|_| !is_set) else {
            return Ok(true);
        };
        let exists = || self.session.exists(path).watched().into_future();
        match self.retry_read(exists).await {
            Ok((Some(_), watch)) => {
                *watched = Some(OwnWatch {
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
    }

    /// Reads and watches a contender; `None` if it is gone.
    ///
    /// It reads the data instead of testing the existence, because a read of a missing node sets no watch.
    async fn watch_contender(&self, name: &str) -> Result<Option<WatchedContender>, Error> {
        let path = self.child_path(name);
        let read = self.retry_read(|| self.session.get(&path).watched().into_future());
        match read.await {
            Ok((data, stat, watch)) => Ok(Some(WatchedContender {
                name: name.to_owned(),
                contender: Some(self.contender(name, data.into(), &stat)),
                watch,
            })),
            Err(error) if error.is_no_node() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Watches the whole queue for one contender. Every contender that joins or leaves fires the watch.
    async fn watch_queue(&self, name: &str) -> Result<Option<WatchedContender>, Error> {
        let listed = self.retry_read(|| self.session.list(&self.path).watched().into_future());
        let (names, _, watch) = listed.await?;
        let name = names.into_iter().find(|child| child == name);
        Ok(name.map(|name| WatchedContender {
            name,
            contender: None,
            watch,
        }))
    }

    /// Returns whether the predecessor is gone, and our own node is watched and still exists.
    ///
    /// A deletion of our own node that happened before was reported before the reply that the predecessor is gone,
    /// unless the connection was lost since our node was watched.
    pub(super) async fn has_outlived_predecessor(
        &self,
        watches: &mut Watches,
        path: &NodePath,
    ) -> Result<bool, AcquireError> {
        let losses = self.connection_losses();
        let own = watches.own.as_ref();
        if watches.predecessor.is_some() || own.is_none_or(|own| own.connection_losses != losses) {
            return Ok(false);
        }
        match own_fired_now(&mut watches.own) {
            Some(event) => {
                self.own_fired(&mut watches.own, event, path).await?;
                Ok(false)
            }
            None => Ok(true),
        }
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
        let (reason, event) = tokio::select! {
            biased;
            _ = self.session.lost() => (WakeReason::Changed, WatchEvent::SessionLost),
            event = own_event(own) => return self.own_fired(own, event, path).await,
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
        if event == WatchEvent::SessionLost {
            return Err(AcquireError::SessionLost { source: None });
        }
        if reason == WakeReason::PredecessorDeleted {
            // An event of our own node that happened before the predecessor's deletion is delivered before
            // it, but possibly after the branch above was polled.
            if let Some(event) = own_fired_now(own) {
                return self.own_fired(own, event, path).await;
            }
        }
        Ok(reason)
    }

    /// Handles an event of our own node: an error if the node is gone.
    async fn own_fired(
        &self,
        own: &mut Option<OwnWatch>,
        event: WatchEvent,
        path: &NodePath,
    ) -> Result<WakeReason, AcquireError> {
        match event {
            WatchEvent::SessionLost => Err(AcquireError::SessionLost { source: None }),
            WatchEvent::Deleted => Err(node_lost(&self.session, path).await),
            _ => {
                // Its data changed: it is watched again.
                *own = None;
                Ok(WakeReason::Changed)
            }
        }
    }

    /// Returns whether the deletion of the predecessor proves that our own node still existed.
    ///
    /// It does if our own node is watched and the connection was not lost since: a server reports deletions in the
    /// order in which they happened, but after a reconnect it reports the missed ones in any order.
    /// It does not if the predecessor belongs to our own session: the end of a session deletes all its nodes in one
    /// transaction. Such a handover therefore costs another list.
    fn may_take_over(
        &self,
        predecessor: Option<&WatchedContender>,
        own: Option<&OwnWatch>,
    ) -> bool {
        let is_of_another_session = predecessor
            .and_then(|watched| watched.contender.as_ref())
            .is_some_and(|contender| contender.session() != Some(self.session.id()));
        is_of_another_session
            && own.is_some_and(|own| own.connection_losses == self.connection_losses())
    }

    /// Returns how often the session has lost its connection.
    fn connection_losses(&self) -> u64 {
        self.session.counters().connection_losses
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

/// Returns the event of our own node that has been delivered. The task's coop budget must not delay it.
fn own_fired_now(own: &mut Option<OwnWatch>) -> Option<WatchEvent> {
    tokio::task::coop::unconstrained(own_event(own)).now_or_never()
}
