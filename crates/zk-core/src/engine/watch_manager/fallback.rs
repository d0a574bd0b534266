//! Following nodes by one-shot watches, on servers before 3.6, which have no others.
//!
//! A change that happens between a watch that fired and the next one is found by comparing what is read with what was
//! known. Each node takes two watches of the room that a session has.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::task::Context;
use std::task::Poll;

use futures_util::Stream;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use futures_util::stream::unfold;

use super::Engine;
use super::take_quota;
use crate::call::join_all;
use crate::engine::cleanup::unexpected;
use crate::error::ErrorKind;
use crate::path::NodePath;
use crate::stat::Stat;
use crate::transport::Phase;
use crate::transport::Request;
use crate::transport::Response;
use crate::transport::TransportError;
use crate::transport::WatchEvent;
use crate::transport::WatchNotification;
use crate::transport::Watched;
use crate::transport::Watching;
use crate::watch::WatchQuota;

/// Sets one-shot watches that together tell what a persistent one would, up to the next break of the link.
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
        to_tell: VecDeque::new(),
        is_lost: false,
    };
    follower.look(WatchedRead::node(path)).await?;
    // What there was at the beginning is for the consumer to read.
    follower.to_tell.clear();
    let notices = unfold(follower, async |mut follower| {
        let notice = follower.next().await?;
        Some((notice, follower))
    });
    Ok(Watching::new(Exclusive(Mutex::new(Box::pin(notices)))))
}

struct Follower {
    engine: Arc<Engine>,
    /// How often the link had broken when it began.
    breaks: u64,
    root: NodePath,
    is_recursive: bool,
    known: HashMap<NodePath, Known>,
    fired: FuturesUnordered<Firing>,
    to_tell: VecDeque<WatchNotification>,
    is_lost: bool,
}

/// What is known of a node.
struct Known {
    czxid: i64,
    mzxid: i64,
    children: Option<BTreeSet<String>>,
}

type Firing = Pin<Box<dyn Future<Output = (WatchedRead, WatchEvent)> + Send>>;

/// Something to read again, and to watch.
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
            if let Some(notice) = self.to_tell.pop_front() {
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
            let looked = match fired {
                None | Some((_, WatchEvent::SessionLost)) => false,
                // The watch on the node itself tells the same.
                Some((look, WatchEvent::Deleted)) if look.at_children => true,
                Some((look, _)) => match self.look(look).await {
                    Ok(()) => true,
                    Err(fault) => {
                        tracing::warn!(root = %self.root, ?fault, "nodes cannot be followed for now");
                        false
                    }
                },
            };
            if !looked {
                self.is_lost = true;
                self.to_tell.push_back(WatchNotification::LinkLost);
            }
        }
    }

    /// Reads something, and whatever there is to read because of it.
    async fn look(&mut self, first: WatchedRead) -> Result<(), TransportError> {
        let mut todo = VecDeque::from([first]);
        while !todo.is_empty() {
            let batch: Vec<_> = todo.drain(..todo.len().min(BATCH)).collect();
            let mut quotas = Vec::new();
            for look in &batch {
                quotas.push(take_quota(&self.engine, &look.path)?);
            }
            let requests = batch.iter().map(|look| {
                let path = look.path.clone();
                self.engine.send(if look.at_children {
                    Request::List { path, watch: true }
                } else {
                    Request::Exists { path, watch: true }
                })
            });
            let answers = join_all(requests).await;
            for ((look, quota), answer) in batch.into_iter().zip(quotas).zip(answers) {
                match answer {
                    Ok(Response::Stat {
                        stat,
                        watch: Some(watch),
                    }) => self.saw_node(look.path, stat.as_ref(), watch, quota, &mut todo),
                    Ok(Response::Children {
                        names,
                        watch: Some(watch),
                        ..
                    }) => self.saw_children(look.path, names, watch, quota, &mut todo),
                    Ok(other) => return Err(unexpected(&other)),
                    // It went meanwhile, which its own watch tells, or is none of our business.
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
        quota: WatchQuota,
        todo: &mut VecDeque<WatchedRead>,
    ) {
        let before = self
            .known
            .get(&path)
            .map(|known| (known.czxid, known.mzxid));
        let is_another =
            matches!((before, stat), (Some((czxid, _)), Some(stat)) if czxid != stat.czxid);
        if before.is_some() && (stat.is_none() || is_another) {
            self.went(&path);
        }
        let Some(stat) = stat else {
            // Of others that are not there, their parents tell when they come.
            if path == self.root {
                self.wait(WatchedRead::node(path), watch, quota);
            }
            return;
        };
        match before {
            Some((_, mzxid)) if !is_another => {
                if mzxid != stat.mzxid {
                    self.tell(&path, WatchEvent::DataChanged);
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
                self.tell(&path, WatchEvent::Created);
                todo.push_back(WatchedRead::children(path.clone()));
            }
        }
        self.wait(WatchedRead::node(path), watch, quota);
    }

    fn saw_children(
        &mut self,
        path: NodePath,
        names: Vec<String>,
        watch: Watched,
        quota: WatchQuota,
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
                self.went(&path.child(gone));
            }
            for come in names.difference(&before) {
                todo.push_back(WatchedRead::node(path.child(come)));
            }
        } else if before.is_some() {
            self.tell(&path, WatchEvent::ChildrenChanged);
        }
        self.wait(WatchedRead::children(path), watch, quota);
    }

    /// A node is gone, and all below it: those first.
    fn went(&mut self, path: &NodePath) {
        let Some(known) = self.known.remove(path) else {
            return;
        };
        if self.is_recursive {
            for name in known.children.unwrap_or_default() {
                self.went(&path.child(&name));
            }
        }
        self.tell(path, WatchEvent::Deleted);
    }

    fn wait(&self, look: WatchedRead, watch: Watched, quota: WatchQuota) {
        self.fired.push(Box::pin(async move {
            let event = watch.await;
            drop(quota);
            (look, event)
        }));
    }

    fn tell(&mut self, path: &NodePath, event: WatchEvent) {
        self.to_tell.push_back(WatchNotification::Changed {
            path: path.clone(),
            event,
            zxid: None,
        });
    }
}

/// A stream that is shared by nobody, whatever its type says.
struct Exclusive<S>(Mutex<Pin<Box<S>>>);

impl<S: Stream> Stream for Exclusive<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let stream = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        stream.as_mut().poll_next(context)
    }
}

/// How many reads are in flight at once.
const BATCH: usize = 64;
