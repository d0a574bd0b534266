//! What a waiter has under watch.

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

/// What a waiter has under watch: the one before it, maybe the one before that, and maybe itself.
#[derive(Debug, Default)]
pub(super) struct Vigil {
    predecessor: Option<Watched>,
    before_it: Option<Watched>,
    own: Option<Own>,
}

/// Its own node under watch.
#[derive(Debug)]
struct Own {
    watch: Watch,
    /// How often the link had broken when the watch was asked for.
    breaks: u64,
}

/// A contender under watch.
#[derive(Debug)]
struct Watched {
    name: String,
    /// `None` when the whole queue is watched for its sake, since its node may not be read.
    contender: Option<Contender>,
    watch: Watch,
}

/// What a waiter learnt from its watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// The node of the predecessor was deleted, and our own one was there then.
    PredecessorDeleted,
    /// Something happened to our own node.
    OwnChanged,
    /// Something changed, or had changed before it could be watched.
    Changed,
}

impl Vigil {
    /// What the predecessor says of itself, if that is known.
    pub(super) fn predecessor(&self) -> Option<&Contender> {
        self.predecessor.as_ref()?.contender.as_ref()
    }

    /// The watch of its own node, if there is one.
    pub(super) fn into_own(self) -> Option<Watch> {
        self.own.map(|own| own.watch)
    }

    /// Forgets all watches but those of these two, whichever they were before.
    fn keep(&mut self, predecessor: &str, before_it: Option<&str>) {
        let mut had = [self.predecessor.take(), self.before_it.take()];
        self.predecessor = taken(&mut had, predecessor);
        self.before_it = before_it.and_then(|name| taken(&mut had, name));
    }
}

impl Queue {
    /// Puts the predecessor under watch, and if there is one to look ahead to, that one as well; and with `own`, the path
    /// of our own node, that one, too: whoever is told by its predecessor's deletion that it is its turn does not look
    /// whether its own node is there.
    ///
    /// False when one of them has gone.
    pub(super) async fn watch_all(
        &self,
        vigil: &mut Vigil,
        predecessor: &str,
        before_it: Option<&str>,
        own: Option<&NodePath>,
    ) -> Result<bool, Error> {
        vigil.keep(predecessor, before_it);
        let one = async {
            if vigil.predecessor.is_none() {
                vigil.predecessor =
                    self.watch(predecessor)
                        .await?
                        .map(|(contender, watch)| Watched {
                            name: predecessor.to_owned(),
                            contender,
                            watch,
                        });
            }
            Ok(vigil.predecessor.is_some())
        };
        let other = async {
            let Some(name) = before_it else {
                return Ok(true);
            };
            if vigil.before_it.is_none() && self.may_watch_more() {
                match self.watch_node(name).await {
                    Ok(found) => {
                        vigil.before_it = found.map(|(contender, watch)| Watched {
                            name: name.to_owned(),
                            contender: Some(contender),
                            watch,
                        });
                        return Ok(vigil.before_it.is_some());
                    }
                    // It only saves time to watch it.
                    Err(error)
                        if error.class() == ErrorClass::Outcome
                            || error.kind() == ErrorKind::TooManyWatches => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(true)
        };
        let own = async {
            let Some(path) = own.filter(|_| vigil.own.is_none()) else {
                return Ok(true);
            };
            let breaks = self.breaks();
            let look = || self.session.exists(path).watched().into_future();
            match self.patiently(look).await {
                Ok((Some(_), watch)) => {
                    vigil.own = Some(Own { watch, breaks });
                    Ok(true)
                }
                Ok((None, _)) => Ok(false),
                // Then every wake-up means to look at the queue.
                Err(error) if error.class() == ErrorClass::Outcome => Ok(true),
                Err(error) => Err(error),
            }
        };
        // The requests leave at once.
        let (one, other, own) = future::join3(one, other, own).await;
        Ok(one? & other? & own?)
    }

    /// Waits until one of those under watch changed or went. That our own node went is an error.
    pub(super) async fn changed(
        &self,
        vigil: &mut Vigil,
        path: &NodePath,
    ) -> Result<Woken, AcquireError> {
        let Vigil {
            predecessor,
            before_it,
            own,
        } = vigil;
        // Of several events of one moment the first one here counts: nobody is granted a lock whose node has gone.
        let (mut woken, mut event) = tokio::select! {
            biased;
            _ = self.session.lost() => (Woken::Changed, WatchEvent::SessionLost),
            event = own_told(own) => (Woken::OwnChanged, event),
            event = told(predecessor) => {
                let gone = predecessor.take();
                match event {
                    WatchEvent::Deleted if self.may_take_over(gone.as_ref(), own.as_ref()) => {
                        (Woken::PredecessorDeleted, event)
                    }
                    _ => (Woken::Changed, event),
                }
            }
            event = told(before_it) => {
                *before_it = None;
                (Woken::Changed, event)
            }
        };
        if woken == Woken::PredecessorDeleted {
            // What happened to our own node before the predecessor went is told before it, but it may have been told
            // after it was asked for above. The budget of the task is no reason not to be told now.
            let told = tokio::task::coop::unconstrained(own_told(own)).now_or_never();
            if let Some(told) = told {
                (woken, event) = (Woken::OwnChanged, told);
            }
        }
        match (woken, event) {
            (_, WatchEvent::SessionLost) => Err(AcquireError::SessionLost { source: None }),
            (Woken::OwnChanged, WatchEvent::Deleted) => Err(self.node_lost(path).await),
            (Woken::OwnChanged, _) => {
                // Somebody wrote to it: it is watched again.
                *own = None;
                Ok(Woken::Changed)
            }
            (woken, _) => Ok(woken),
        }
    }

    /// Tells whether the deletion of a predecessor shows that our own node was still there.
    ///
    /// One server tells of deletions in the order in which they happened, so it does if our own node is under watch,
    /// and both watches are of one link: over the next one the server tells of what it finds gone in any order.
    /// All nodes of one session go in one transaction when the session is ended, so it does not if the predecessor was
    /// of our own session. (That is why such a hand-over costs another list.)
    fn may_take_over(&self, predecessor: Option<&Watched>, own: Option<&Own>) -> bool {
        let is_anothers = predecessor
            .and_then(|watched| watched.contender.as_ref())
            .is_some_and(|contender| contender.session() != Some(self.session.id()));
        is_anothers && own.is_some_and(|own| own.breaks == self.breaks())
    }

    /// How often the link of the session broke so far.
    fn breaks(&self) -> u64 {
        self.session.counters().connection_losses
    }

    /// Whether a session has room for watches that only save time.
    fn may_watch_more(&self) -> bool {
        self.session.counters().watched_bytes < MOST_WATCHED
    }
}

fn taken(had: &mut [Option<Watched>], name: &str) -> Option<Watched> {
    had.iter_mut()
        .find_map(|watched| watched.take_if(|one| one.name == name))
}

/// Waits for what a watch tells; for ever if there is none.
async fn told(watched: &mut Option<Watched>) -> WatchEvent {
    match watched {
        Some(watched) => watched.watch.changed().await,
        None => future::pending().await,
    }
}

/// Waits until something is told of our own node; for ever if it is not under watch.
async fn own_told(own: &mut Option<Own>) -> WatchEvent {
    match own {
        Some(own) => own.watch.changed().await,
        None => future::pending().await,
    }
}

/// Of the 120 KiB of paths that a session may watch, so much is left to those who need it.
const MOST_WATCHED: usize = 60 * 1024;
