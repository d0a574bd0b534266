//! Watches a node or a subtree, and reads it again after each change.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::NodePath;
use zk_core::Session;
use zk_core::Stat;
use zk_core::Subscription;
use zk_core::Update;

use crate::history;
use crate::plan::NodeContent;

/// The result of watching.
#[derive(Debug)]
pub(crate) enum Observation<S> {
    Read(S),
    /// The connection broke: the last read may be old.
    Stale,
    /// The subtree changes faster than it can be read: the last read is old. It is read again at once.
    Contended,
    /// It cannot be read as things are. It is read again from time to time.
    Failed(Error),
    /// The session is over. This is the last observation.
    SessionLost,
}

/// The nodes that are watched.
pub(crate) trait WatchTarget: Send {
    type Snapshot: Send;

    fn path(&self) -> &NodePath;

    /// Returns whether the nodes below the path are included.
    fn is_recursive(&self) -> bool;

    /// Reads the nodes; `None` if they change faster than they can be read.
    fn read(
        &self,
        session: &Session,
    ) -> impl Future<Output = Result<Option<Self::Snapshot>, Error>> + Send;
}

/// Reads a target through one session, again after each change, for as long as the session lives.
#[derive(Debug)]
pub(crate) struct NodeWatcher<S> {
    session: Session,
    target: S,
    subscription: Option<Subscription>,
    /// A change may have happened since the last read.
    is_dirty: bool,
    /// The server has caught up with the leader.
    has_synced: bool,
    /// The pause before the next read.
    pause: Option<Duration>,
}

impl<S: WatchTarget> NodeWatcher<S> {
    pub(crate) fn new(session: &Session, target: S) -> Self {
        Self {
            session: session.clone(),
            target,
            subscription: None,
            is_dirty: false,
            has_synced: false,
            pause: None,
        }
    }

    /// Makes the server catch up and reads again, because the last read may be older than another session's.
    pub(crate) fn resync(&mut self) {
        self.has_synced = false;
        self.is_dirty = true;
    }

    /// Waits for the next observation. Several changes at once cause one read.
    ///
    /// Cancel safe: the next call continues.
    pub(crate) async fn next(&mut self) -> Observation<S::Snapshot> {
        loop {
            if let Some(pause) = self.pause {
                if tokio::time::timeout(pause, self.session.lost())
                    .await
                    .is_ok()
                {
                    return Observation::SessionLost;
                }
                self.pause = None;
            }
            if let Some(observation) = self.advance().await {
                return observation;
            }
        }
    }

    /// Takes the next step, and returns its observation if it has one.
    async fn advance(&mut self) -> Option<Observation<S::Snapshot>> {
        let Some(subscription) = &mut self.subscription else {
            let mut subscribe = self.session.subscribe(self.target.path());
            if self.target.is_recursive() {
                subscribe = subscribe.recursive();
            }
            match subscribe.await {
                Ok(subscription) => self.subscription = Some(subscription),
                Err(error) => return self.failed(error),
            }
            return None;
        };
        if !self.is_dirty {
            match subscription.next().await {
                Some(Update::Stale) => return Some(Observation::Stale),
                Some(Update::SessionLost) | None => return Some(Observation::SessionLost),
                // One read covers several changes.
                Some(_) => self.is_dirty = true,
            }
        }
        while let Some(update) = subscription.next().now_or_never() {
            match update {
                Some(Update::Stale) => return Some(Observation::Stale),
                Some(Update::SessionLost) | None => return Some(Observation::SessionLost),
                Some(_) => {}
            }
        }
        // A change from here on may be missing in the read.
        let mut is_dirty = false;
        let (session, target, has_synced) = (&self.session, &self.target, self.has_synced);
        let reading = async {
            if !has_synced {
                session.sync(target.path()).await?;
            }
            target.read(session).await
        };
        let result = tokio::select! {
            biased;
            result = reading => result,
            () = connection_lost(subscription, &mut is_dirty) => return Some(Observation::Stale),
        };
        self.has_synced |= result.is_ok();
        match result {
            Ok(Some(snapshot)) => {
                self.is_dirty = is_dirty;
                Some(Observation::Read(snapshot))
            }
            Ok(None) => {
                self.pause = Some(SOON);
                Some(Observation::Contended)
            }
            Err(error) => self.failed(error),
        }
    }

    fn failed(&mut self, error: Error) -> Option<Observation<S::Snapshot>> {
        match error.class() {
            ErrorClass::Fatal => Some(Observation::SessionLost),
            ErrorClass::Recoverable => {
                tracing::debug!(path = %self.target.path(), %error, "retrying a read");
                self.pause = Some(SOON);
                None
            }
            ErrorClass::Outcome => {
                // Servers do not report a granted permission.
                self.pause = Some(LATER);
                Some(Observation::Failed(error))
            }
        }
    }
}

/// One node.
#[derive(Debug)]
pub(crate) struct NodeTarget(pub(crate) NodePath);

impl WatchTarget for NodeTarget {
    type Snapshot = Option<NodeContent>;

    fn path(&self) -> &NodePath {
        &self.0
    }

    fn is_recursive(&self) -> bool {
        false
    }

    async fn read(&self, session: &Session) -> Result<Option<Self::Snapshot>, Error> {
        match session.get(&self.0).await {
            Ok((data, stat)) => Ok(Some(Some(NodeContent { data, stat }))),
            Err(error) if error.is_no_node() => Ok(Some(None)),
            Err(error) => Err(error),
        }
    }
}

/// A node and everything below it, without histories.
#[derive(Debug)]
pub(crate) struct SubtreeTarget(pub(crate) NodePath);

impl WatchTarget for SubtreeTarget {
    type Snapshot = BTreeMap<NodePath, NodeContent>;

    fn path(&self) -> &NodePath {
        &self.0
    }

    fn is_recursive(&self) -> bool {
        true
    }

    /// Reads every node, and then checks whether any has changed since it was read.
    ///
    /// If none has, all nodes were as they were read at the moment between the two, together: a transaction over
    /// several nodes is visible as a whole or not at all.
    /// Otherwise reads the changed nodes again and repeats the check, a few times; `None` if the nodes change faster.
    async fn read(&self, session: &Session) -> Result<Option<Self::Snapshot>, Error> {
        let mut all = BTreeMap::new();
        let mut unread = BTreeSet::from([self.0.clone()]);
        for _ in 0..CHECKS {
            let mut changed = BTreeSet::new();
            while !unread.is_empty() {
                let reads = join_all(unread.iter().map(|path| read_node(session, path))).await;
                let mut below = BTreeSet::new();
                for (path, read) in unread.into_iter().zip(reads) {
                    let Some((found, (names, listed))) = read? else {
                        if path == self.0 {
                            return Ok(Some(BTreeMap::new()));
                        }
                        // The deletion also changes the parent. The check finds the nodes below deleted, too.
                        all.remove(&path);
                        continue;
                    };
                    if identity(&found.stat) != identity(&listed) {
                        changed.insert(path.clone());
                    }
                    let children = names.iter().filter_map(|name| path.join(name).ok());
                    below.extend(
                        children.filter(|child| {
                            !history::is_history(child) && !all.contains_key(child)
                        }),
                    );
                    all.insert(path, found);
                }
                unread = below;
            }
            let checks = all.keys().map(|path| session.exists(path).into_future());
            for ((path, found), check) in all.iter().zip(join_all(checks).await) {
                if check?.as_ref().map(identity) != Some(identity(&found.stat)) {
                    changed.insert(path.clone());
                }
            }
            if changed.is_empty() {
                return Ok(Some(all));
            }
            unread = changed;
        }
        Ok(None)
    }
}

/// Reads a node and the names of its children; `None` if it does not exist.
async fn read_node(
    session: &Session,
    path: &NodePath,
) -> Result<Option<(NodeContent, (Vec<String>, Stat))>, Error> {
    let (data, children) = tokio::join!(
        biased;
        session.get(path).into_future(),
        session.list(path).into_future()
    );
    match data.and_then(|(data, stat)| Ok((NodeContent { data, stat }, children?))) {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.is_no_node() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Waits until the subscription reports a connection loss, and sets `is_dirty` if it reports anything else before.
async fn connection_lost(subscription: &mut Subscription, is_dirty: &mut bool) {
    loop {
        match subscription.next().await {
            Some(Update::Stale) => return,
            Some(_) => *is_dirty = true,
            // The read fails, too.
            None => std::future::pending().await,
        }
    }
}

/// Identifies a node with its data and its list of children.
fn identity(stat: &Stat) -> (i64, i64, i64) {
    (stat.czxid, stat.mzxid, stat.pzxid)
}

/// How often one read checks all nodes. A node that changes now and then is read again in time; one that changes all
/// the time makes the read give up.
const CHECKS: u32 = 5;
/// The pause after a read that failed for a temporary reason, or that gave up.
const SOON: Duration = Duration::from_millis(50);
/// The pause after a read that was refused.
const LATER: Duration = Duration::from_secs(10);
