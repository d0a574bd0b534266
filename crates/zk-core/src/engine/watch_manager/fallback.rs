//! Follows nodes with one-shot watches, on servers before 3.6, which have no others.
//!
//! A change between a watch that fired and the next one is found by comparing the node with its last known state.
//! Each node takes two watches.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, unfold};
use futures_util::{Stream, StreamExt};
use zk_wire::{NodePath, Stat};

use crate::engine::Engine;
use crate::error::ErrorKind;
use crate::join_all::join_all;
use crate::transport::{
    Phase, Request, Response, TransportError, WatchEvent, WatchNotification, Watched, Watching,
    child_of,
};

/// Sets one-shot watches that together report what a persistent one would, until the link breaks.
pub(super) async fn follow(
    engine: Arc<Engine>,
    path: NodePath,
    is_recursive: bool,
) -> Result<Watching, TransportError> {
    let mut follower = Follower {
        breaks: engine.link_now().breaks,
        engine,
        root: path.clone(),
        is_recursive,
        known: HashMap::new(),
        fired: FuturesUnordered::new(),
        pending: VecDeque::new(),
        is_lost: false,
    };
    follower.read(WatchedRead::node(path)).await?;
    // The consumer reads the initial state itself.
    follower.pending.clear();
    let notices = unfold(follower, async |mut follower| {
        let notice = follower.next().await?;
        Some((notice, follower))
    });
    Ok(Watching::new(Exclusive(Mutex::new(Box::pin(notices)))))
}

struct Follower {
    engine: Arc<Engine>,
    /// How often the link had broken at the start.
    breaks: u64,
    root: NodePath,
    is_recursive: bool,
    known: HashMap<NodePath, Known>,
    fired: FuturesUnordered<Firing>,
    pending: VecDeque<WatchNotification>,
    is_lost: bool,
}

/// The last known state of a node.
struct Known {
    czxid: i64,
    mzxid: i64,
    children: Option<BTreeSet<String>>,
}

type Firing = Pin<Box<dyn Future<Output = (WatchedRead, WatchEvent)> + Send>>;

/// A read that sets a watch.
struct WatchedRead {
    path: NodePath,
    at_children: bool,
}

impl WatchedRead {
    fn node(path: NodePath) -> Self {
        Self {
            path,
            at_children: false,
        }
    }

    fn children(path: NodePath) -> Self {
        Self {
            path,
            at_children: true,
        }
    }
}

impl Follower {
    async fn next(&mut self) -> Option<WatchNotification> {
        loop {
            if let Some(notice) = self.pending.pop_front() {
                return Some(notice);
            }
            if self.is_lost {
                return None;
            }
            let mut link = self.engine.link();
            let breaks = self.breaks;
            let broke =
                link.wait_for(|link| link.breaks != breaks || matches!(link.phase, Phase::Over(_)));
            let fired = tokio::select! {
                biased;
                _ = broke => None,
                Some(fired) = self.fired.next(), if !self.fired.is_empty() => Some(fired),
            };
            let is_current = match fired {
                None | Some((_, WatchEvent::SessionLost)) => false,
                // The watch on the node itself reports the same.
                Some((read, WatchEvent::Deleted)) if read.at_children => true,
                Some((read, _)) => match self.read(read).await {
                    Ok(()) => true,
                    Err(fault) => {
                        tracing::warn!(root = %self.root, ?fault, "nodes cannot be followed for now");
                        false
                    }
                },
            };
            if !is_current {
                self.is_lost = true;
                self.pending.push_back(WatchNotification::LinkLost);
            }
        }
    }

    /// Executes a read and all further reads that result from it.
    async fn read(&mut self, first: WatchedRead) -> Result<(), TransportError> {
        let mut todo = VecDeque::from([first]);
        while !todo.is_empty() {
            let batch: Vec<_> = todo.drain(..todo.len().min(BATCH)).collect();
            let requests = batch.iter().map(|look| {
                let path = look.path.clone();
                self.engine.send(if look.at_children {
                    Request::GetChildren2 { path, watch: true }
                } else {
                    Request::Exists { path, watch: true }
                })
            });
            let answers = join_all(requests).await;
            for (look, answer) in batch.into_iter().zip(answers) {
                match answer {
                    Ok(Response::Stat {
                        stat,
                        watch: Some(watch),
                    }) => self.saw_node(look.path, stat.as_ref(), watch, &mut todo),
                    Ok(Response::Children {
                        names,
                        watch: Some(watch),
                        ..
                    }) => self.saw_children(look.path, names, watch, &mut todo),
                    Ok(other) => return Err(other.unexpected()),
                    // The node was deleted meanwhile, which its own watch reports, or this session may not read it.
                    Err(TransportError::Refused(ErrorKind::NoNode | ErrorKind::NoAuth, _)) => {}
                    Err(fault) => return Err(fault),
                }
            }
        }
        Ok(())
    }

    fn saw_node(
        &mut self,
        path: NodePath,
        stat: Option<&Stat>,
        watch: Watched,
        todo: &mut VecDeque<WatchedRead>,
    ) {
        let before = self
            .known
            .get(&path)
            .map(|known| (known.czxid, known.mzxid));
        let is_another =
            matches!((before, stat), (Some((czxid, _)), Some(stat)) if czxid != stat.czxid);
        if before.is_some() && (stat.is_none() || is_another) {
            self.deleted(&path);
        }
        let Some(stat) = stat else {
            // The watches on the parents of other missing nodes report their creation.
            if path == self.root {
                self.wait(WatchedRead::node(path), watch);
            }
            return;
        };
        match before {
            Some((_, mzxid)) if !is_another => {
                if mzxid != stat.mzxid {
                    self.report(&path, WatchEvent::DataChanged);
                }
                if let Some(known) = self.known.get_mut(&path) {
                    known.mzxid = stat.mzxid;
                }
            }
            _ => {
                let known = Known {
                    czxid: stat.czxid,
                    mzxid: stat.mzxid,
                    children: None,
                };
                self.known.insert(path.clone(), known);
                self.report(&path, WatchEvent::Created);
                todo.push_back(WatchedRead::children(path.clone()));
            }
        }
        self.wait(WatchedRead::node(path), watch);
    }

    fn saw_children(
        &mut self,
        path: NodePath,
        names: Vec<String>,
        watch: Watched,
        todo: &mut VecDeque<WatchedRead>,
    ) {
        let Some(known) = self.known.get_mut(&path) else {
            return;
        };
        let names: BTreeSet<_> = names.into_iter().collect();
        let before = known.children.replace(names.clone());
        if self.is_recursive {
            let before = before.unwrap_or_default();
            for gone in before.difference(&names) {
                self.deleted(&child_of(&path, gone));
            }
            for come in names.difference(&before) {
                todo.push_back(WatchedRead::node(child_of(&path, come)));
            }
        } else if before.is_some() {
            self.report(&path, WatchEvent::ChildrenChanged);
        }
        self.wait(WatchedRead::children(path), watch);
    }

    /// Records the deletion of a node and of all nodes below it, those first.
    fn deleted(&mut self, path: &NodePath) {
        let Some(known) = self.known.remove(path) else {
            return;
        };
        if self.is_recursive {
            for name in known.children.unwrap_or_default() {
                self.deleted(&child_of(path, &name));
            }
        }
        self.report(path, WatchEvent::Deleted);
    }

    fn wait(&self, look: WatchedRead, watch: Watched) {
        self.fired
            .push(Box::pin(async move { (look, watch.await) }));
    }

    fn report(&mut self, path: &NodePath, event: WatchEvent) {
        self.pending.push_back(WatchNotification::Changed {
            path: path.clone(),
            event,
            zxid: None,
        });
    }
}

/// Makes a stream `Sync`: it is only ever accessed through `&mut`.
struct Exclusive<S>(Mutex<Pin<Box<S>>>);

impl<S: Stream> Stream for Exclusive<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let stream = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        stream.as_mut().poll_next(context)
    }
}

/// The maximum number of reads in flight.
const BATCH: usize = 64;
