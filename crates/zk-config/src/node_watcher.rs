//! Watches a key or a subtree with a cache, and reports each state of it that was a state on the servers.

use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::Instant;
use zk_cache::{CacheEnd, CacheOptions, CacheState, Events, Select, Snapshot, TreeCache};
use zk_core::{Error, ErrorClass, NodePath, Session};

use crate::snapshot_check::{Extent, Reading, SnapshotCheck, is_partial};

/// The result of watching.
#[derive(Debug)]
pub(crate) enum Observation {
    Read(Reading),
    /// The connection broke: the last read may be old.
    Stale,
    /// The subtree changes faster than it can be checked: the last read is old. It is checked again soon.
    Contended,
    /// It cannot be read as things are. It is read again from time to time.
    Failed(Error),
    /// The session is over. This is the last observation.
    SessionLost,
}

/// Watches nodes through one session, for as long as the session lives.
#[derive(Debug)]
pub(crate) struct NodeWatcher {
    /// Checks whether the nodes belong together.
    check: SnapshotCheck,
    cache: RunningCache,
    wait: Wait,
    /// The break of the connection was reported.
    is_stale: bool,
    /// When the first check since the last read failed.
    changing_since: Option<Instant>,
}

/// What to wait for before the newest snapshot is examined.
#[derive(Debug, Clone, Copy)]
enum Wait {
    Change,
    ChangeOrTime(Instant),
    Time(Instant),
}

impl NodeWatcher {
    pub(crate) fn new(session: &Session, path: &NodePath, extent: Extent) -> Self {
        let check = SnapshotCheck::new(session, path, extent);
        Self {
            cache: RunningCache::start(&check),
            check,
            wait: Wait::Change,
            is_stale: false,
            changing_since: None,
        }
    }

    /// Makes the server catch up and reads again, because the last read may be older than another session's.
    pub(crate) fn resync(&mut self) {
        self.check.resync();
        self.wait = Wait::ChangeOrTime(Instant::now());
    }

    /// Waits for the next observation. Several changes at once cause one read.
    ///
    /// Cancel safe: the next call continues.
    pub(crate) async fn next(&mut self) -> Observation {
        loop {
            let is_over = match self.wait {
                Wait::Change => self.cache.update().await.is_none(),
                Wait::ChangeOrTime(at) => {
                    let updated = tokio::time::timeout_at(at, self.cache.update()).await;
                    updated == Ok(None)
                }
                Wait::Time(at) => {
                    let lost = tokio::time::timeout_at(at, self.check.session.lost()).await;
                    self.cache.take_newest();
                    if self.cache.newest.end().is_some() || is_partial(&self.cache.newest) {
                        // Servers do not report a granted permission, and a cache does not repeat a refused read.
                        self.cache = RunningCache::start(&self.check);
                    }
                    lost.is_ok()
                }
            };
            if is_over {
                return Observation::SessionLost;
            }
            // A cancelled examination is repeated by the next call.
            self.wait = Wait::ChangeOrTime(Instant::now());
            if let Some(observation) = self.examine().await {
                return observation;
            }
        }
    }

    /// Examines the newest snapshot, and returns what there is to observe.
    async fn examine(&mut self) -> Option<Observation> {
        let snapshot = self.cache.newest.clone();
        match snapshot.end() {
            Some(CacheEnd::Refused(error)) => return self.failed(error.clone()),
            Some(_) => return Some(Observation::SessionLost),
            None => {}
        }
        if !snapshot.is_synchronized() {
            self.wait = Wait::Change;
            self.changing_since = None;
            let is_stale = snapshot.state() == CacheState::Stale;
            let was_stale = std::mem::replace(&mut self.is_stale, is_stale);
            return (is_stale && !was_stale).then_some(Observation::Stale);
        }
        self.is_stale = false;
        let mut is_outdated = false;
        let result = tokio::select! {
            biased;
            result = self.check.read(&snapshot) => result,
            // The requests would wait for the next connection.
            () = self.cache.connection_lost(&mut is_outdated) => return None,
        };
        let soon = Instant::now() + RECHECK_PAUSE;
        self.wait = if is_outdated {
            Wait::ChangeOrTime(Instant::now())
        } else {
            Wait::Change
        };
        match result {
            Ok(Some(reading)) => {
                self.changing_since = None;
                Some(Observation::Read(reading))
            }
            // The direct reads succeeded, so the missing nodes are no longer refused: restart the cache soon.
            Ok(None) if is_partial(&snapshot) => {
                self.wait = Wait::Time(soon);
                None
            }
            Ok(None) => {
                let since = *self.changing_since.get_or_insert_with(Instant::now);
                if self.check.extent != Extent::Node && since.elapsed() > MAX_CHANGING {
                    self.wait = Wait::Time(soon);
                    return Some(Observation::Contended);
                }
                if !is_outdated {
                    self.wait = Wait::ChangeOrTime(soon);
                }
                None
            }
            Err(error) => self.failed(error),
        }
    }

    fn failed(&mut self, error: Error) -> Option<Observation> {
        match error.class() {
            ErrorClass::Fatal => Some(Observation::SessionLost),
            ErrorClass::Recoverable => {
                tracing::debug!(path = %self.check.path, %error, "retrying a read");
                self.wait = Wait::Time(Instant::now() + RECHECK_PAUSE);
                None
            }
            ErrorClass::Outcome => {
                self.wait = Wait::Time(Instant::now() + REFUSED_PAUSE);
                Some(Observation::Failed(error))
            }
        }
    }
}

/// A cache and its newest snapshot.
#[derive(Debug)]
struct RunningCache {
    events: Events,
    newest: Snapshot,
    /// Ends when it is dropped.
    _cache: TreeCache,
}

impl RunningCache {
    fn start(check: &SnapshotCheck) -> Self {
        let max_depth = match check.extent {
            Extent::Node => 0,
            Extent::Subtree | Extent::Children(_) => usize::MAX,
        };
        let (root, extent) = (check.path.clone(), check.extent.clone());
        let options = CacheOptions::default()
            .with_max_depth(max_depth)
            .with_max_children(u32::MAX)
            .with_event_buffer(1)
            .with_selector(move |path| {
                if extent.includes(&root, path) {
                    Select::Keep
                } else {
                    Select::Skip
                }
            });
        let cache = TreeCache::start_with(&check.session, &check.path, &options);
        let cache = cache.expect("a parsed path is valid");
        Self {
            events: cache.events(),
            newest: cache.snapshot(),
            _cache: cache,
        }
    }

    /// Waits for a newer snapshot, and takes the newest one; `None` if the cache has ended.
    async fn update(&mut self) -> Option<()> {
        (_, self.newest) = self.events.next_batch().await?;
        self.take_newest();
        Some(())
    }

    /// Takes the newest snapshot there is now.
    fn take_newest(&mut self) {
        while let Some(Some((_, newer))) = self.events.next_batch().now_or_never() {
            self.newest = newer;
        }
    }

    /// Waits until the snapshot is no longer synchronised. Sets `is_outdated` if there is a newer one at all.
    ///
    /// That is an argument and not a result, because the caller drops this future when its check ends first.
    async fn connection_lost(&mut self, is_outdated: &mut bool) {
        while self.newest.is_synchronized() {
            if self.update().await.is_none() {
                // It had ended before.
                std::future::pending::<()>().await;
            }
            *is_outdated = true;
        }
    }
}

/// The pause before a check that failed for a temporary reason.
const RECHECK_PAUSE: Duration = Duration::from_millis(50);
/// The pause after a read that was refused.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);
/// How long a subtree may change during each check before that is reported.
const MAX_CHANGING: Duration = Duration::from_millis(200);
