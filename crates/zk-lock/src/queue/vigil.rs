//! What a waiter has under watch.

use futures_util::future;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::NodePath;
use zk_core::Watch;
use zk_core::WatchEvent;

use super::Queue;
use crate::contender::Contender;
use crate::error::AcquireError;
use crate::error::Loss;
use crate::keeper;

/// What a waiter has under watch: the one before it, maybe the one before that, and maybe itself.
#[derive(Debug, Default)]
pub(super) struct Vigil {
    predecessor: Option<Watched>,
    before_it: Option<Watched>,
    /// Its own node.
    pub(super) own: Option<Watch>,
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
    /// The node of the predecessor was deleted.
    PredecessorDeleted,
    /// Something changed, or had changed before it could be watched.
    Changed,
}

impl Vigil {
    /// What the predecessor says of itself, if that is known.
    pub(super) fn predecessor(&self) -> Option<&Contender> {
        self.predecessor.as_ref()?.contender.as_ref()
    }

    /// Forgets all watches but those of these two, whichever they were before.
    fn keep(&mut self, predecessor: &str, before_it: Option<&str>) {
        let mut had = [self.predecessor.take(), self.before_it.take()];
        self.predecessor = taken(&mut had, predecessor);
        self.before_it = before_it.and_then(|name| taken(&mut had, name));
    }
}

impl Queue {
    /// Puts the predecessor under watch, and if there is one to look ahead to, that one as well.
    ///
    /// False when one of them has gone.
    pub(super) async fn watch_both(
        &self,
        vigil: &mut Vigil,
        predecessor: &str,
        before_it: Option<&str>,
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
                    Err(error) if error.class() == ErrorClass::Outcome => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(true)
        };
        // Both requests leave at once.
        let (one, other) = future::join(one, other).await;
        Ok(one? & other?)
    }

    /// Waits until one of those under watch changed or went.
    ///
    /// With `own`, the path of our own node, that one is watched as well after a while, and its deletion is an error:
    /// whoever is told by its predecessor's deletion that it is its turn does not look whether its own node is there.
    pub(super) async fn changed(
        &self,
        vigil: &mut Vigil,
        own: Option<&NodePath>,
    ) -> Result<Woken, AcquireError> {
        let Vigil {
            predecessor,
            before_it,
            own: own_watch,
        } = vigil;
        // Of several events of one moment the first one here counts: nobody is granted a lock whose node has gone.
        let (woken, event) = tokio::select! {
            biased;
            () = self.session.lost() => (Woken::Changed, WatchEvent::SessionLost),
            path = self.own_gone(own, own_watch) => return Err(self.why_gone(path).await),
            event = told(predecessor) => {
                let is_node = predecessor.take().is_some_and(|one| one.contender.is_some());
                match event {
                    WatchEvent::Deleted if is_node => (Woken::PredecessorDeleted, event),
                    _ => (Woken::Changed, event),
                }
            }
            event = told(before_it) => {
                *before_it = None;
                (Woken::Changed, event)
            }
        };
        match event {
            WatchEvent::SessionLost => Err(AcquireError::SessionLost { source: None }),
            _ => Ok(woken),
        }
    }

    /// Waits until our own node is gone, and answers its path; begins to watch it only after a while, since most waits
    /// of the next one are short.
    async fn own_gone<'a>(
        &self,
        own: Option<&'a NodePath>,
        watch: &mut Option<Watch>,
    ) -> &'a NodePath {
        let Some(path) = own else {
            return future::pending().await;
        };
        if watch.is_none() {
            // Whoever calls this waits for the end of the session, too.
            drop(tokio::time::timeout(keeper::REST, self.session.lost()).await);
        }
        loop {
            let armed = if let Some(armed) = watch {
                armed
            } else {
                let look = || self.session.exists(path).watched().into_future();
                match self.patiently(look).await {
                    Ok((Some(_), armed)) => watch.insert(armed),
                    Ok((None, _)) => return path,
                    Err(error) => {
                        tracing::debug!(%path, %error, "a deletion of this waiter's node is noticed later");
                        return future::pending().await;
                    }
                }
            };
            match armed.changed().await {
                WatchEvent::Deleted => return path,
                WatchEvent::SessionLost => return future::pending().await,
                // Somebody wrote to it: watch it again.
                _ => *watch = None,
            }
        }
    }

    async fn why_gone(&self, path: &NodePath) -> AcquireError {
        match keeper::why_gone(&self.session, path).await {
            Loss::SessionLost => AcquireError::SessionLost { source: None },
            _ => AcquireError::NodeLost { path: path.clone() },
        }
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

/// Of the 120 KiB of paths that a session may watch, so much is left to those who need it.
const MOST_WATCHED: usize = 60 * 1024;
