//! What is known of the ensemble after the samples so far: rates, events, what is stale and what is missing.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use super::sample::Connection;
use super::sample::Figures;
use super::sample::Missing;
use super::sample::Reading;
use super::sample::Recipe;
use super::sample::Sample;
use super::sample::Tree;
use super::word::Word;

/// The ensemble as the samples show it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    /// The time of the newest sample, or of the last tick, in milliseconds since 1970.
    pub(crate) now: u64,
    pub(crate) servers: BTreeMap<String, Server>,
    /// What happened, the newest last.
    pub(crate) events: VecDeque<Event>,
    pub(crate) recipes: BTreeMap<String, Recipe>,
    pub(crate) tree: Option<(u64, Tree)>,
    /// Why the nodes cannot be read.
    pub(crate) no_session: Option<String>,
    leader: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at: u64,
    pub(crate) text: String,
}

/// One server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Server {
    pub(crate) figures: Figures,
    /// When figures were read last.
    pub(crate) read_at: Option<u64>,
    pub(crate) down: Option<Down>,
    /// Packets per second, now and at the readings before.
    pub(crate) rate: Option<f64>,
    pub(crate) rates: VecDeque<u64>,
    /// Requests of this program per second.
    pub(crate) own_rate: Option<f64>,
    pub(crate) connections: Option<Vec<Connection>>,
    /// Packets per second of each connection.
    pub(crate) connection_rates: BTreeMap<(String, u16), f64>,
    pub(crate) watches: Option<BTreeMap<String, Vec<u64>>>,
    pub(crate) ephemerals: Option<BTreeMap<u64, Vec<String>>>,
    pub(crate) missing: BTreeMap<String, Missing>,
    received: Option<(u64, u64)>,
    asked: Option<(u64, u64)>,
    connections_at: Option<u64>,
    zxids: VecDeque<(u64, u64)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Down {
    pub(crate) since: u64,
    pub(crate) reason: String,
}

/// How far a server is behind the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lag {
    /// In transactions.
    Transactions(u64),
    /// Its newest transaction is of another leader's time.
    OtherEpoch,
}

impl Model {
    /// Creates the model of an ensemble of which only the addresses are known.
    pub(crate) fn new(servers: &[String]) -> Self {
        let servers = servers.iter();
        Self {
            servers: servers
                .map(|address| (address.clone(), Server::default()))
                .collect(),
            ..Self::default()
        }
    }

    /// Time passes without a sample.
    pub(crate) fn tick(&mut self, now: u64) {
        self.now = self.now.max(now);
    }

    pub(crate) fn apply(&mut self, sample: &Sample) {
        self.tick(sample.at);
        match &sample.reading {
            Reading::Recipe(recipe) => {
                self.no_session = None;
                self.recipes.insert(recipe.path.clone(), recipe.clone());
            }
            Reading::Tree(tree) => {
                self.no_session = None;
                self.tree = Some((sample.at, tree.clone()));
            }
            Reading::NoSession(reason) => self.no_session = Some(reason.clone()),
            _ => self.apply_to_server(sample),
        }
    }

    /// Whether each server is down or has answered these words, and these paths and the tree were read.
    pub(crate) fn is_complete(&self, words: &[Word], paths: &[String], has_tree: bool) -> bool {
        let mut servers = self.servers.values();
        let has_words = servers.all(|server| {
            server.down.is_some() || words.iter().all(|word| server.has_answered(*word))
        });
        let tree = self.tree.as_ref().map(|(_, tree)| tree);
        let found = tree.map_or(&[][..], |tree| &tree.recipes);
        let mut recipes = paths.iter().chain(found);
        let has_nodes = self.no_session.is_some()
            || recipes.all(|path| self.recipes.contains_key(path))
                && (!has_tree || tree.is_some_and(|tree| !tree.is_running));
        has_words && has_nodes
    }

    /// How far a server is behind the leader, or behind the newest zxid if no server leads.
    ///
    /// It is compared with what the leader had at about the same time.
    pub(crate) fn lag(&self, address: &str) -> Option<Lag> {
        let server = self.servers.get(address)?;
        let (at, zxid) = *server.zxids.back()?;
        let leading = self
            .leader
            .as_ref()
            .and_then(|leader| self.servers.get(leader))
            .filter(|leader| leader.down.is_none());
        let newest = if let Some(leader) = leading {
            let times = leader.zxids.iter();
            let nearest = times.min_by_key(|(then, _)| then.abs_diff(at));
            nearest.map(|(_, zxid)| *zxid)
        } else {
            let all = self.servers.values();
            all.filter_map(|server| server.zxids.back().map(|(_, zxid)| *zxid))
                .max()
        }?;
        Some(if zxid >> 32 == newest >> 32 {
            Lag::Transactions(newest.saturating_sub(zxid))
        } else {
            Lag::OtherEpoch
        })
    }

    fn apply_to_server(&mut self, sample: &Sample) {
        let address = &sample.server;
        let server = self.servers.entry(address.clone()).or_default();
        let at = sample.at;
        if let Some((before, asked)) = server.asked
            && let Some(rate) = rate((before, asked), (at, sample.asked), LEAST_FOR_OWN_RATE)
        {
            server.own_rate = Some(rate);
            server.asked = Some((at, sample.asked));
        }
        server.asked.get_or_insert((at, sample.asked));
        if let Reading::Down(reason) = &sample.reading {
            if server.down.is_none() {
                server.go_down(at, reason.clone());
                self.event(at, format!("{address} is down: {reason}"));
            }
            return;
        }
        if let Some(down) = server.down.take() {
            let text = format!(
                "{address} answers again after {}",
                age(at.saturating_sub(down.since))
            );
            self.event(at, text);
        }
        let server = self.servers.entry(address.clone()).or_default();
        match &sample.reading {
            Reading::Figures(figures) => {
                let leads = figures.role.as_deref() == Some("leader");
                server.take(at, figures.clone());
                if leads && self.leader.as_ref() != Some(address) {
                    let text = match &self.leader {
                        Some(before) => format!("the leader is {address}, and no longer {before}"),
                        None => format!("the leader is {address}"),
                    };
                    self.leader = Some(address.clone());
                    self.event(at, text);
                }
            }
            Reading::Connections(connections) => server.take_connections(at, connections),
            Reading::Watches(watches) => {
                server.missing.remove("wchp");
                server.watches = Some(watches.clone());
            }
            Reading::Ephemerals(ephemerals) => {
                server.missing.remove("dump");
                server.ephemerals = Some(ephemerals.clone());
            }
            Reading::Missing(missing) => {
                server.missing.insert(missing.word.clone(), missing.clone());
            }
            Reading::Down(_) | Reading::Recipe(_) | Reading::Tree(_) | Reading::NoSession(_) => {}
        }
    }

    fn event(&mut self, at: u64, text: String) {
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(Event { at, text });
    }
}

impl Server {
    /// Returns for how long no figures came from a server that is not known to be down, if that is long.
    pub(crate) fn stale_for(&self, now: u64) -> Option<u64> {
        let silent = now.saturating_sub(self.read_at?);
        (self.down.is_none() && silent >= STALE).then_some(silent)
    }

    /// Whether a word was answered, or refused.
    fn has_answered(&self, word: Word) -> bool {
        let figures = &self.figures;
        let is_there = match word {
            // A rate needs two readings.
            Word::Srvr => figures.zxid.is_some() && !self.rates.is_empty(),
            Word::Mntr => figures.watches.is_some(),
            Word::Conf => figures.max_connections_per_host.is_some(),
            Word::Dirs => figures.log_bytes.is_some(),
            Word::Cons => self.connections.is_some(),
            Word::Wchp => self.watches.is_some(),
            Word::Dump => self.ephemerals.is_some(),
        };
        is_there
            || self.missing.contains_key(word.as_str())
            || figures.role.as_deref() == Some(NO_QUORUM)
    }

    fn go_down(&mut self, at: u64, reason: String) {
        *self = Self {
            down: Some(Down { since: at, reason }),
            figures: Figures {
                version: self.figures.version.take(),
                ..Figures::default()
            },
            rates: std::mem::take(&mut self.rates),
            asked: self.asked,
            own_rate: self.own_rate,
            ..Self::default()
        };
    }

    fn take(&mut self, at: u64, figures: Figures) {
        if let Some(received) = figures.received {
            match self.received {
                // Another word that came at the same time.
                Some((before, _)) if at < before + LEAST_FOR_RATE => {}
                Some(before) => {
                    self.rate = rate(before, (at, received), LEAST_FOR_RATE);
                    if self.rates.len() == RATES {
                        self.rates.pop_front();
                    }
                    self.rates.push_back(rounded(self.rate.unwrap_or(0.0)));
                    self.received = Some((at, received));
                }
                None => self.received = Some((at, received)),
            }
        }
        if let Some(zxid) = figures.zxid {
            if self.zxids.len() == ZXIDS {
                self.zxids.pop_front();
            }
            self.zxids.push_back((at, zxid));
        }
        if figures.watches.is_some() {
            self.missing.remove("mntr");
        }
        if figures.zxid.is_some() {
            self.missing.remove("srvr");
        }
        if figures.max_connections_per_host.is_some() {
            self.missing.remove("conf");
        }
        if figures.log_bytes.is_some() {
            self.missing.remove("dirs");
        }
        self.read_at = Some(at);
        self.figures.merge(figures);
    }

    fn take_connections(&mut self, at: u64, connections: &[Connection]) {
        self.missing.remove("cons");
        self.connection_rates.clear();
        if let (Some(before), Some(then)) = (&self.connections, self.connections_at) {
            for connection in connections {
                let same = |old: &&Connection| {
                    (&old.host, old.port) == (&connection.host, connection.port)
                };
                if let Some(old) = before.iter().find(same)
                    && let Some(rate) = rate((then, old.received), (at, connection.received), 1)
                {
                    let key = (connection.host.clone(), connection.port);
                    self.connection_rates.insert(key, rate);
                }
            }
        }
        self.connections_at = Some(at);
        self.connections = Some(connections.to_vec());
    }
}

/// The rate per second between two readings of a counter, each with its time in milliseconds.
///
/// `None` if they are closer than `least` milliseconds, or if the counter began again.
#[expect(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
fn rate(before: (u64, u64), after: (u64, u64), least: u64) -> Option<f64> {
    let time = after.0.checked_sub(before.0)?;
    let count = after.1.checked_sub(before.1)?;
    (time >= least.max(1)).then(|| count as f64 * 1_000.0 / time as f64)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is not negative, and far below 2^64"
)]
fn rounded(rate: f64) -> u64 {
    rate.round() as u64
}

/// A time in milliseconds, with its two largest units.
pub(crate) fn age(milliseconds: u64) -> String {
    let seconds = milliseconds / 1_000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m {}s", seconds % 60),
        (0, hours, minutes) => format!("{hours}h {minutes}m"),
        (days, hours, _) => format!("{days}d {hours}h"),
    }
}

/// The role of a server that answers but does not serve.
pub(crate) const NO_QUORUM: &str = "no quorum";
/// How many events, rates and zxids are kept.
const EVENTS: usize = 200;
const RATES: usize = 120;
const ZXIDS: usize = 8;
/// In milliseconds.
const LEAST_FOR_RATE: u64 = 900;
const LEAST_FOR_OWN_RATE: u64 = 5_000;
const STALE: u64 = 5_000;

#[cfg(test)]
mod tests;
