//! What is known of the ensemble after the samples so far: rates, events, what is stale and what is missing.
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use super::sample::{Connection, Figures, Missing, Reading, Recipe, Sample, Tree};
use super::word::Word;
use crate::recipe_names::RecipeKind;
use crate::table::words;

/// The ensemble as the samples show it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    /// The time of the newest sample, or of the last tick, in milliseconds since 1970.
    pub(crate) now: u64,
    pub(crate) servers: BTreeMap<String, Server>,
    /// What happened, the newest last.
    pub(crate) events: VecDeque<Event>,
    /// The recipe of each path, with the time when it was read.
    pub(crate) recipes: BTreeMap<String, (u64, Recipe)>,
    /// The result of the last crawl, with its time.
    pub(crate) tree: Option<(u64, Tree)>,
    /// How many nodes the crawl has found that is going on.
    pub(crate) crawling: Option<u64>,
    /// Why the nodes cannot be read.
    pub(crate) no_session: Option<String>,
    /// The server that leads, or led last, and since when there is none.
    last_leader: Option<String>,
    leaderless_since: Option<u64>,
}

/// Who leads the ensemble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leadership<'a> {
    /// The server at this address.
    Leader(&'a str),
    /// The leader was lost so many milliseconds ago.
    LostFor(u64),
    /// No leader was seen yet.
    NeverSeen,
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
    /// Packets per second.
    pub(crate) rate: Option<f64>,
    /// The rates so far, each with its time.
    pub(crate) rates: VecDeque<(u64, u64)>,
    /// Requests of this program per second.
    pub(crate) own_rate: Option<f64>,
    pub(crate) connections: Option<Vec<RatedConnection>>,
    pub(crate) watches: Option<BTreeMap<String, Vec<u64>>>,
    pub(crate) ephemerals: Option<BTreeMap<u64, Vec<String>>>,
    pub(crate) missing: BTreeMap<String, Missing>,
    received: Option<(u64, u64)>,
    asked: Option<(u64, u64)>,
    connections_at: Option<u64>,
    zxids: VecDeque<(u64, u64)>,
}

/// A connection, with its packets per second since the reading before.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RatedConnection {
    pub(crate) connection: Connection,
    pub(crate) rate: Option<f64>,
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
                self.apply_recipe(sample.at, recipe);
            }
            Reading::RecipeGone(path) => {
                self.no_session = None;
                self.recipes.remove(path);
                if let Some((_, tree)) = &mut self.tree {
                    tree.recipes.retain(|found| found != path);
                }
            }
            Reading::Tree(tree) => {
                self.no_session = None;
                self.crawling = tree.is_running.then_some(tree.nodes);
                if !tree.is_running {
                    self.tree = Some((sample.at, tree.clone()));
                }
            }
            Reading::NoSession(reason) => self.no_session = Some(reason.clone()),
            _ => {
                self.apply_to_server(sample);
                self.note_leader(sample.at);
            }
        }
    }

    /// Who leads now.
    pub(crate) fn leadership(&self) -> Leadership<'_> {
        match (&self.last_leader, self.leaderless_since) {
            (_, Some(since)) => Leadership::LostFor(self.now.saturating_sub(since)),
            (Some(leader), None) => Leadership::Leader(leader),
            (None, None) => Leadership::NeverSeen,
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
                && (!has_tree || tree.is_some() && self.crawling.is_none());
        has_words && has_nodes
    }

    /// How far a server is behind the leader, or behind the newest zxid if no server leads.
    ///
    /// It is compared with what the leader had at about the same time.
    pub(crate) fn lag(&self, address: &str) -> Option<Lag> {
        let server = self.servers.get(address)?;
        let (at, zxid) = *server.zxids.back()?;
        let newest = if let Leadership::Leader(leader) = self.leadership()
            && let Some(leader) = self.servers.get(leader)
        {
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

    fn apply_recipe(&mut self, at: u64, recipe: &Recipe) {
        match self.recipes.get_mut(&recipe.path) {
            // What was read before is shown with its age.
            Some((_, known)) if recipe.problem.is_some() && known.kind != RecipeKind::Unknown => {
                known.problem.clone_from(&recipe.problem);
            }
            _ => {
                self.recipes
                    .insert(recipe.path.clone(), (at, recipe.clone()));
            }
        }
    }

    fn apply_to_server(&mut self, sample: &Sample) {
        let address = &sample.server;
        let server = self.servers.entry(address.clone()).or_default();
        let at = sample.at;
        if let Some((before, asked)) = server.asked
            && let Some(rate) = rate((before, asked), (at, sample.asked), MIN_OWN_RATE_INTERVAL)
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
                let was_without_quorum = server.has_no_quorum();
                server.apply_figures(at, figures.clone());
                match (was_without_quorum, server.has_no_quorum()) {
                    (false, true) => {
                        self.event(at, format!("{address} does not serve: it has no quorum"));
                    }
                    // That one leads is an event of its own.
                    (true, false) if !server.leads() => {
                        self.event(at, format!("{address} serves again"));
                    }
                    _ => {}
                }
            }
            Reading::Connections(connections) => server.apply_connections(at, connections),
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
            Reading::Down(_)
            | Reading::Recipe(_)
            | Reading::RecipeGone(_)
            | Reading::Tree(_)
            | Reading::NoSession(_) => {}
        }
    }

    /// Notes whether another server leads, or none.
    fn note_leader(&mut self, at: u64) {
        let leading = self.servers.iter().filter(|(_, server)| server.leads());
        // One that was replaced may not know it yet.
        let newest = leading.max_by_key(|(_, server)| server.figures.zxid.map(|zxid| zxid >> 32));
        let newest = newest.map(|(address, server)| (address.clone(), server.is_standalone()));
        let Some((leader, is_standalone)) = newest else {
            if self.last_leader.is_some() {
                self.leaderless_since.get_or_insert(at);
            }
            return;
        };
        let outage = self.leaderless_since.take();
        let before = self.last_leader.replace(leader.clone());
        if is_standalone || before.as_ref() == Some(&leader) && outage.is_none() {
            return;
        }
        let outage = outage.map(|since| at.saturating_sub(since));
        if let Some(outage) = outage.filter(|outage| *outage >= 1_000) {
            self.event(at, format!("there was no leader for {}", age(outage)));
        }
        let text = match before {
            Some(before) if before == leader => format!("the leader is {leader} again"),
            Some(before) => format!("the leader is {leader}, and no longer {before}"),
            None => format!("the leader is {leader}"),
        };
        self.event(at, text);
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
        (self.down.is_none() && silent >= STALE_AFTER).then_some(silent)
    }

    /// Returns the rate in a second since 1970, or in the one before if it was not read in this one.
    pub(crate) fn rate_in(&self, second: u64) -> Option<u64> {
        let mut newest_first = self.rates.iter().rev();
        let (at, rate) = newest_first.find(|(at, _)| at / 1_000 <= second)?;
        (second - at / 1_000 <= 1).then_some(*rate)
    }

    /// Whether it answers, and does not answer that it has no quorum.
    pub(crate) fn is_serving(&self) -> bool {
        self.down.is_none() && self.asked.is_some() && !self.has_no_quorum()
    }

    /// Whether it answers that it does not serve.
    pub(crate) fn has_no_quorum(&self) -> bool {
        self.figures.role.as_deref() == Some(NO_QUORUM)
    }

    /// Whether it leads, as far as it knows; a standalone server does.
    pub(crate) fn leads(&self) -> bool {
        self.is_standalone() || self.figures.role.as_deref() == Some("leader")
    }

    fn is_standalone(&self) -> bool {
        self.figures.role.as_deref() == Some("standalone")
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
        is_there || self.missing.contains_key(word.as_str()) || self.has_no_quorum()
    }

    fn go_down(&mut self, at: u64, reason: String) {
        let figures = Figures {
            version: self.figures.version.take(),
            ..Figures::default()
        };
        self.keep_only(figures);
        self.down = Some(Down { since: at, reason });
    }

    fn lose_quorum(&mut self) {
        let Figures {
            version,
            snapshot_bytes,
            log_bytes,
            max_connections_per_host,
            ..
        } = std::mem::take(&mut self.figures);
        self.keep_only(Figures {
            version,
            snapshot_bytes,
            log_bytes,
            max_connections_per_host,
            ..Figures::default()
        });
    }

    /// Forgets what is no longer true of a server that does not serve.
    fn keep_only(&mut self, figures: Figures) {
        *self = Self {
            figures,
            rates: std::mem::take(&mut self.rates),
            asked: self.asked,
            own_rate: self.own_rate,
            ..Self::default()
        };
    }

    fn apply_figures(&mut self, at: u64, figures: Figures) {
        if figures.role.as_deref() == Some(NO_QUORUM) {
            self.lose_quorum();
        }
        if let Some(received) = figures.received {
            match self.received {
                // Another word that came at the same time.
                Some((before, _)) if at < before.saturating_add(MIN_RATE_INTERVAL) => {}
                Some(before) => {
                    self.rate = rate(before, (at, received), MIN_RATE_INTERVAL);
                    if self.rates.len() == RATES {
                        self.rates.pop_front();
                    }
                    self.rates.extend(self.rate.map(|rate| (at, rounded(rate))));
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

    fn apply_connections(&mut self, at: u64, connections: &[Connection]) {
        self.missing.remove("cons");
        let before = self.connections_at.replace(at);
        let old = self.connections.take().unwrap_or_default();
        // A server may have ten thousand of them.
        let old: HashMap<_, _> = old
            .iter()
            .map(|RatedConnection { connection, .. }| {
                let client = (connection.host.as_str(), connection.port);
                (client, connection.received)
            })
            .collect();
        let rated = connections.iter().map(|connection| {
            let client = (connection.host.as_str(), connection.port);
            let received = before.zip(old.get(&client).copied());
            RatedConnection {
                connection: connection.clone(),
                rate: received.and_then(|before| rate(before, (at, connection.received), 1)),
            }
        });
        self.connections = Some(rated.collect());
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
    words(Duration::from_millis(milliseconds))
}

/// The role of a server that answers but does not serve.
pub(crate) const NO_QUORUM: &str = "no quorum";
/// How many events, rates and zxids are kept.
const EVENTS: usize = 200;
pub(crate) const RATES: usize = 120;
const ZXIDS: usize = 8;
/// In milliseconds.
const MIN_RATE_INTERVAL: u64 = 900;
const MIN_OWN_RATE_INTERVAL: u64 = 5_000;
const STALE_AFTER: u64 = 5_000;

#[cfg(test)]
mod tests;
