//! Shares the state of all links between their thread and the handles, with waiting for changes.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::conditions::Conditions;
use super::conditions::LinkShaper;
use crate::proxy::Close;

/// A direction between two servers: from the first to the second.
pub(super) type Pair = (u32, u32);

#[derive(Debug)]
pub(super) struct LinkStates {
    links: Mutex<BTreeMap<Pair, DirectedLink>>,
    started: std::time::Instant,
    /// Signals every change.
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct DirectedLink {
    shaper: LinkShaper,
    /// How often its connections were cut, and how most recently.
    cuts: (u64, Close),
    /// The number of open connections that were opened in this direction.
    live: usize,
}

impl LinkStates {
    pub(super) fn new(pairs: impl IntoIterator<Item = Pair>) -> Self {
        let links = pairs
            .into_iter()
            .map(|pair| (pair, DirectedLink::default()));
        Self {
            links: Mutex::new(links.collect()),
            started: std::time::Instant::now(),
            changed: watch::Sender::new(()),
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn instant(&self, at: Duration) -> Instant {
        (self.started + at).into()
    }

    pub(super) fn pairs(&self) -> Vec<Pair> {
        self.lock().keys().copied().collect()
    }

    pub(super) fn conditions(&self, pair: Pair) -> Conditions {
        self.lock()
            .get(&pair)
            .map_or_else(Conditions::default, |link| link.shaper.conditions)
    }

    /// Changes the conditions of several links atomically.
    pub(super) fn change(&self, pairs: &[Pair], change: impl Fn(&mut Conditions)) {
        {
            let mut links = self.lock();
            for pair in pairs {
                change(&mut links.entry(*pair).or_default().shaper.conditions);
            }
        }
        self.changed.send_replace(());
    }

    /// When bytes that are sent now arrive.
    pub(super) fn due(&self, pair: Pair, last: Duration, bytes: usize) -> Duration {
        let now = self.now();
        let draw = fastrand::u32(..);
        let mut links = self.lock();
        let link = links.entry(pair).or_default();
        link.shaper.due(now, last, bytes, draw)
    }

    pub(super) fn opened(&self, pair: Pair) {
        self.lock().entry(pair).or_default().live += 1;
    }

    pub(super) fn closed(&self, pair: Pair) {
        self.lock().entry(pair).or_default().live -= 1;
        self.changed.send_replace(());
    }

    pub(super) fn live(&self, pairs: &BTreeSet<Pair>) -> usize {
        let links = self.lock();
        let live = |pair| links.get(pair).map_or(0, |link| link.live);
        pairs.iter().map(live).sum()
    }

    /// Returns how often the connections of a link were cut.
    pub(super) fn cuts(&self, pair: Pair) -> u64 {
        self.lock().entry(pair).or_default().cuts.0
    }

    /// Cuts the connections that were opened in these directions.
    pub(super) fn cut(&self, pairs: &BTreeSet<Pair>, close: Close) {
        {
            let mut links = self.lock();
            for pair in pairs {
                let link = links.entry(*pair).or_default();
                link.cuts = (link.cuts.0 + 1, close);
            }
        }
        self.changed.send_replace(());
    }

    /// Waits until the connections of a link have been cut more than `cuts` times.
    pub(super) async fn cut_after(&self, pair: Pair, cuts: u64) -> Close {
        self.until(|links| {
            let link = links.get(&pair)?;
            (link.cuts.0 > cuts).then_some(link.cuts.1)
        })
        .await
    }

    /// Waits until none of these links is blocked.
    pub(super) async fn passable(&self, pairs: &[Pair]) {
        self.until(|links| {
            let free = |pair| {
                links
                    .get(pair)
                    .is_none_or(|link: &DirectedLink| !link.shaper.conditions.blocked)
            };
            pairs.iter().all(free).then_some(())
        })
        .await;
    }

    async fn until<T>(&self, find: impl Fn(&BTreeMap<Pair, DirectedLink>) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(found) = find(&self.lock()) {
                return found;
            }
            // It cannot fail: the sender is in `self`.
            drop(changed.changed().await);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Pair, DirectedLink>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
