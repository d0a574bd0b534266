//! The state of all links, for their thread and for those who hold a handle.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::conditions::Conditions;
use super::conditions::Way;
use crate::proxy::Close;

/// One way between two servers: from the first to the second.
pub(super) type Pair = (u32, u32);

#[derive(Debug)]
pub(super) struct State {
    ways: Mutex<BTreeMap<Pair, Line>>,
    started: std::time::Instant,
    /// Rung when the ways change.
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Line {
    way: Way,
    /// How often its connections were cut, and how the last time.
    cuts: (u64, Close),
    /// How many connections there are that were opened this way.
    live: usize,
}

impl State {
    pub(super) fn new(pairs: impl IntoIterator<Item = Pair>) -> Self {
        let ways = pairs.into_iter().map(|pair| (pair, Line::default()));
        Self {
            ways: Mutex::new(ways.collect()),
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
        self.look().keys().copied().collect()
    }

    pub(super) fn conditions(&self, pair: Pair) -> Conditions {
        self.look()
            .get(&pair)
            .map_or_else(Conditions::default, |line| line.way.conditions)
    }

    /// Changes the conditions of some ways at once.
    pub(super) fn change(&self, pairs: &[Pair], change: impl Fn(&mut Conditions)) {
        {
            let mut ways = self.look();
            for pair in pairs {
                change(&mut ways.entry(*pair).or_default().way.conditions);
            }
        }
        self.changed.send_replace(());
    }

    /// When bytes that are sent now arrive.
    pub(super) fn due(&self, pair: Pair, last: Duration, bytes: usize) -> Duration {
        let now = self.now();
        let draw = fastrand::u32(..);
        let mut ways = self.look();
        let line = ways.entry(pair).or_default();
        line.way.due(now, last, bytes, draw)
    }

    pub(super) fn opened(&self, pair: Pair) {
        self.look().entry(pair).or_default().live += 1;
    }

    pub(super) fn closed(&self, pair: Pair) {
        self.look().entry(pair).or_default().live -= 1;
        self.changed.send_replace(());
    }

    pub(super) fn live(&self, pairs: &BTreeSet<Pair>) -> usize {
        let ways = self.look();
        let live = |pair| ways.get(pair).map_or(0, |line| line.live);
        pairs.iter().map(live).sum()
    }

    /// How often the connections of a way were cut.
    pub(super) fn cuts(&self, pair: Pair) -> u64 {
        self.look().entry(pair).or_default().cuts.0
    }

    /// Cuts the connections that were opened these ways.
    pub(super) fn cut(&self, pairs: &BTreeSet<Pair>, close: Close) {
        {
            let mut ways = self.look();
            for pair in pairs {
                let line = ways.entry(*pair).or_default();
                line.cuts = (line.cuts.0 + 1, close);
            }
        }
        self.changed.send_replace(());
    }

    /// Waits until the connections of a way are cut more often than that.
    pub(super) async fn cut_after(&self, pair: Pair, cuts: u64) -> Close {
        self.until(|ways| {
            let line = ways.get(&pair)?;
            (line.cuts.0 > cuts).then_some(line.cuts.1)
        })
        .await
    }

    /// Waits until bytes pass on all these ways.
    pub(super) async fn passable(&self, pairs: &[Pair]) {
        self.until(|ways| {
            let free = |pair| {
                ways.get(pair)
                    .is_none_or(|line: &Line| !line.way.conditions.blocked)
            };
            pairs.iter().all(free).then_some(())
        })
        .await;
    }

    async fn until<T>(&self, look: impl Fn(&BTreeMap<Pair, Line>) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(found) = look(&self.look()) {
                return found;
            }
            // The sender is in `self`, so it is there.
            drop(changed.changed().await);
        }
    }

    fn look(&self) -> MutexGuard<'_, BTreeMap<Pair, Line>> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
