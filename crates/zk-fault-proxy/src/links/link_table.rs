//! Keeps the conditions, the connections and the cuts of all links.
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::conditions::{Conditions, LinkShaper};
use crate::sockets::Close;

/// A direction between two servers: from the first to the second.
pub(super) type Pair = (u32, u32);

#[derive(Debug)]
pub(super) struct LinkTable {
    links: BTreeMap<Pair, DirectedLink>,
}

#[derive(Debug, Default)]
struct DirectedLink {
    shaper: LinkShaper,
    /// How often its connections were cut, and how most recently.
    cuts: (u64, Close),
    /// The number of open connections that were opened in this direction.
    live: usize,
}

impl LinkTable {
    pub(super) fn new(pairs: impl IntoIterator<Item = Pair>) -> Self {
        let links = pairs
            .into_iter()
            .map(|pair| (pair, DirectedLink::default()));
        Self {
            links: links.collect(),
        }
    }

    pub(super) fn pairs(&self) -> impl Iterator<Item = Pair> {
        self.links.keys().copied()
    }

    pub(super) fn conditions(&mut self, pair: Pair) -> &mut Conditions {
        &mut self.link(pair).shaper.conditions
    }

    /// Returns when bytes that are sent now arrive; see [`LinkShaper::due`].
    pub(super) fn due(
        &mut self,
        pair: Pair,
        now: Duration,
        last: Duration,
        bytes: usize,
        draw: u32,
    ) -> Duration {
        self.link(pair).shaper.due(now, last, bytes, draw)
    }

    pub(super) fn opened(&mut self, pair: Pair) {
        self.link(pair).live += 1;
    }

    pub(super) fn closed(&mut self, pair: Pair) {
        self.link(pair).live -= 1;
    }

    pub(super) fn live(&self, pairs: &BTreeSet<Pair>) -> usize {
        let links = pairs.iter().filter_map(|pair| self.links.get(pair));
        links.map(|link| link.live).sum()
    }

    /// Cuts the connections that were opened in these directions.
    pub(super) fn cut(&mut self, pairs: &BTreeSet<Pair>, close: Close) {
        for &pair in pairs {
            let link = self.link(pair);
            link.cuts = (link.cuts.0 + 1, close);
        }
    }

    /// Returns how often the connections of a link were cut, and how most recently.
    pub(super) fn cuts(&self, pair: Pair) -> (u64, Close) {
        self.links
            .get(&pair)
            .map(|link| link.cuts)
            .unwrap_or_default()
    }

    /// Returns whether none of these links is blocked.
    pub(super) fn is_passable(&self, pairs: &[Pair]) -> bool {
        let links = pairs.iter().filter_map(|pair| self.links.get(pair));
        links
            .map(|link| &link.shaper)
            .all(|shaper| !shaper.conditions.blocked)
    }

    fn link(&mut self, pair: Pair) -> &mut DirectedLink {
        self.links.entry(pair).or_default()
    }
}
