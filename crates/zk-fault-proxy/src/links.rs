//! The links between the servers of an ensemble: slow, cut or blocked, each way by itself.
//!
//! Each server reaches each other server through a relay of its own, so that there is one for every ordered pair.
//! The configuration of each server has to name the relays' ports: an ensemble of `zk-harness` does this with
//! `EnsembleBuilder::quorum_links`, and its `Ensemble::links` returns the links.
//!
//! ```no_run
//! # fn demo(links: zk_fault_proxy::links::QuorumLinks) -> Result<(), zk_fault_proxy::Error> {
//! use std::time::Duration;
//!
//! // Server 3 hears of everything that server 1 says 300 ms late, and is heard at once.
//! links.one_way(1, 3)?.delay(Duration::from_millis(300));
//!
//! // A partition: server 2 alone, the others together. Clients reach all of them.
//! links.isolate(2)?;
//!
//! links.heal();
//! # Ok(())
//! # }
//! ```
//!
//! # What a link does
//!
//! - Bytes are late by [`delay`](Ways::delay) and [`jitter`](Ways::jitter), and come at most at a [`rate`](Ways::rate).
//!   They are never lost and never reordered, because TCP would repeat and reorder them. What has been sent is late by
//!   the delay of that moment, also when the delay changes meanwhile.
//! - A [blocked](Ways::block) way lets nothing through, as when every packet is lost. What was sent meanwhile arrives
//!   when it is [unblocked](Ways::unblock), as TCP would repeat it, if the connection still lives.
//!   No connection comes to be between two servers while either way between them is blocked.
//! - A [cut](Ways::cut) closes the connections that there are; new ones can be opened at once.
//! - Each direction of a connection holds at most 16 MiB; then its sender waits.
//!
//! # What is different from a real network
//!
//! - A server that connects over a blocked way is accepted by the relay and then hears nothing; in a network it would
//!   wait for the connection itself.
//! - When the other server is down the connection is accepted, and reset after a second of trying; in a network it would
//!   be refused at once.
//! - Acknowledgements of TCP are not delayed or lost with the way they would go.
//! - Connecting takes no delay; only what is said afterwards does.
//! - The servers' `zoo-N.cfg` differ, and `/zookeeper/config` names the relays' ports. With `reconfigEnabled` servers
//!   would learn each other's own ports and go past the relays.
//!
//! Of two servers, the one with the greater id opens the connection for elections, so `one_way(1, 2)` and `one_way(2, 1)`
//! are the directions of bytes and not of connections.

mod conditions;
mod election;
mod relay;
mod state;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use self::relay::Relay;
use self::state::Pair;
use self::state::State;
use crate::error::Error;
use crate::proxy::Close;
use crate::proxy::listen;
use crate::proxy::serve_all;
use crate::proxy::stage::Stage;

pub use self::conditions::Conditions;

/// The links between the servers of an ensemble; see the [module](self).
///
/// It is a handle: clones are the same links.
///
/// # Dropping
///
/// When the last clone is dropped the links end, and so does every connection over them.
/// The links of an ensemble of `zk-harness` end with the ensemble.
#[derive(Clone, Debug)]
pub struct QuorumLinks {
    state: Arc<State>,
    servers: Arc<[u32]>,
    stage: Arc<Stage>,
}

/// Some of the ways between servers. What is set is in force at once, for all of them together.
///
/// ```no_run
/// # fn demo(links: zk_fault_proxy::links::QuorumLinks) -> Result<(), zk_fault_proxy::Error> {
/// use std::time::Duration;
///
/// let slow = links.between(1, 2)?;
/// slow.delay(Duration::from_millis(30)).jitter(Duration::from_millis(5)).rate(100_000);
/// slow.heal();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Ways {
    state: Arc<State>,
    pairs: Vec<Pair>,
}

/// The ports of the link from one server to another one, all on 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the caller creates it, and each relay needs all of its ports"
)]
pub struct LinkPorts {
    /// The server that connects.
    pub from: u32,
    /// The server that accepts the connection.
    pub to: u32,
    /// Where `to` listens for the quorum.
    pub quorum_port: u16,
    /// Where `to` listens for elections.
    pub election_port: u16,
    /// Where the relay listens that leads to `quorum_port`.
    pub quorum_relay_port: u16,
    /// Where the relay listens that leads to `election_port`.
    pub election_relay_port: u16,
}

impl QuorumLinks {
    /// Starts two relays for each of these links.
    ///
    /// # Errors
    ///
    /// [`Error::Start`] if a port is taken or no thread can be started.
    pub fn start(links: &[LinkPorts]) -> Result<Self, Error> {
        let failed = |source| Error::start("the quorum links", source);
        let local = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let election_ports: BTreeMap<Pair, u16> = links
            .iter()
            .map(|link| ((link.from, link.to), link.election_relay_port))
            .collect();
        let mut relays = Vec::new();
        for link in links {
            let pair = (link.from, link.to);
            let quorum = Relay {
                pair,
                target: local(link.quorum_port),
                call_back: None,
            };
            let election = Relay {
                pair,
                target: local(link.election_port),
                call_back: election_ports
                    .get(&(link.to, link.from))
                    .map(|&port| local(port)),
            };
            relays.push((listen(link.quorum_relay_port).map_err(failed)?, quorum));
            relays.push((listen(link.election_relay_port).map_err(failed)?, election));
        }
        let servers: BTreeSet<u32> = links.iter().flat_map(|link| [link.from, link.to]).collect();
        Self::start_on(relays, servers.into_iter().collect())
    }

    fn start_on(
        relays: Vec<(std::net::TcpListener, Relay)>,
        servers: Arc<[u32]>,
    ) -> Result<Self, Error> {
        let state =
            Arc::new(State::new(relays.iter().flat_map(|(_, relay)| {
                [relay.pair, (relay.pair.1, relay.pair.0)]
            })));
        let for_thread = Arc::clone(&state);
        let stage = Stage::start("zk-links", move || async move {
            for (listener, relay) in relays {
                let state = Arc::clone(&for_thread);
                serve_all(listener, move |stream| {
                    relay::serve(Arc::clone(&state), relay, stream)
                });
            }
            std::future::pending::<()>().await;
        })
        .map_err(|source| Error::start("the quorum links", source))?;
        Ok(Self {
            state,
            servers,
            stage: Arc::new(stage),
        })
    }

    /// The way of what `from` says to `to`.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchServer`].
    pub fn one_way(&self, from: u32, to: u32) -> Result<Ways, Error> {
        self.known(from)?;
        self.known(to)?;
        Ok(self.ways(|pair| pair == (from, to)))
    }

    /// Both ways between two servers.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchServer`].
    pub fn between(&self, one: u32, other: u32) -> Result<Ways, Error> {
        self.known(one)?;
        self.known(other)?;
        Ok(self.ways(|pair| pair == (one, other) || pair == (other, one)))
    }

    /// All ways to a server.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchServer`].
    pub fn to(&self, server: u32) -> Result<Ways, Error> {
        self.known(server)?;
        Ok(self.ways(|(_, to)| to == server))
    }

    /// All ways from a server.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchServer`].
    pub fn from(&self, server: u32) -> Result<Ways, Error> {
        self.known(server)?;
        Ok(self.ways(|(from, _)| from == server))
    }

    /// All ways to and from a server.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchServer`].
    pub fn around(&self, server: u32) -> Result<Ways, Error> {
        self.known(server)?;
        Ok(self.ways(|(from, to)| from == server || to == server))
    }

    /// All ways.
    pub fn all(&self) -> Ways {
        self.ways(|_| true)
    }

    /// Blocks all ways to and from a server. Clients still reach it.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchServer`].
    pub fn isolate(&self, server: u32) -> Result<(), Error> {
        self.around(server)?.block();
        Ok(())
    }

    /// Makes all ways as they were at the start.
    pub fn heal(&self) {
        self.all().heal();
    }

    /// Ends the links for all handles, and waits until their sockets are closed.
    pub fn stop(&self) {
        self.stage.stop();
    }

    fn ways(&self, meant: impl Fn(Pair) -> bool) -> Ways {
        let mut pairs = self.state.pairs();
        pairs.retain(|&pair| meant(pair));
        Ways {
            state: Arc::clone(&self.state),
            pairs,
        }
    }

    fn known(&self, id: u32) -> Result<(), Error> {
        if self.servers.contains(&id) {
            return Ok(());
        }
        let known = self.servers.to_vec();
        Err(Error::NoSuchServer { id, known })
    }
}

impl Ways {
    /// Has what is sent from now on arrive so much later. Zero for at once.
    pub fn delay(&self, delay: Duration) -> &Self {
        self.change(|conditions| conditions.delay = delay)
    }

    /// Adds a part of so much to the delay, drawn anew for each piece. Zero for none.
    pub fn jitter(&self, jitter: Duration) -> &Self {
        self.change(|conditions| conditions.jitter = jitter)
    }

    /// Lets so many bytes per second pass, on each of the ways. 0 is taken for 1.
    pub fn rate(&self, bytes_per_second: u64) -> &Self {
        self.change(|conditions| conditions.rate = Some(bytes_per_second))
    }

    /// Takes the limit of [`rate`](Self::rate) back.
    pub fn full_rate(&self) -> &Self {
        self.change(|conditions| conditions.rate = None)
    }

    /// Lets nothing pass.
    pub fn block(&self) -> &Self {
        self.change(|conditions| conditions.blocked = true)
    }

    /// Lets pass again, and first what was sent meanwhile.
    pub fn unblock(&self) -> &Self {
        self.change(|conditions| conditions.blocked = false)
    }

    /// Makes the ways as they were at the start: nothing is late or blocked.
    pub fn heal(&self) -> &Self {
        self.change(|conditions| *conditions = Conditions::default())
    }

    /// Closes every connection between the two of each pair, whoever opened it. What is on its way is lost.
    pub fn cut(&self, close: Close) -> &Self {
        self.state.cut(&self.both_ways(), close);
        self
    }

    /// How many connections there are between the two of each pair, whoever opened them.
    pub fn connections(&self) -> usize {
        self.state.live(&self.both_ways())
    }

    /// The conditions of each way, from the first server to the second.
    pub fn conditions(&self) -> Vec<((u32, u32), Conditions)> {
        let pairs = self.pairs.iter();
        pairs
            .map(|&pair| (pair, self.state.conditions(pair)))
            .collect()
    }

    /// The pairs and their reverses: a connection uses both.
    fn both_ways(&self) -> BTreeSet<Pair> {
        let pairs = self.pairs.iter();
        pairs
            .flat_map(|&(one, other)| [(one, other), (other, one)])
            .collect()
    }

    fn change(&self, change: impl Fn(&mut Conditions)) -> &Self {
        self.state.change(&self.pairs, change);
        self
    }
}

#[cfg(test)]
mod tests;
