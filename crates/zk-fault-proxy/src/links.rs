//! Delays, limits, blocks and cuts the connections between the servers of an ensemble, each direction separately.
//!
//! Each server connects to each other server through a relay, one for every ordered pair.
//! The configuration of each server names the relays' ports: an ensemble of `zk-harness` does this with
//! `EnsembleBuilder::quorum_links`, and its `Ensemble::links` returns the links.
//!
//! ```no_run
//! # fn demo(links: zk_fault_proxy::links::QuorumLinks) -> Result<(), zk_fault_proxy::Error> {
//! use std::time::Duration;
//!
//! // Server 3 receives everything from server 1 300 ms late; what it sends is not delayed.
//! links.one_way(1, 3)?.delay(Duration::from_millis(300));
//!
//! // A partition: server 2 alone, the others together. Clients can connect to all of them.
//! links.isolate(2)?;
//!
//! links.heal();
//! # Ok(())
//! # }
//! ```
//!
//! # What a link does
//!
//! - It delays bytes by [`delay`](DirectedLinks::delay) and [`jitter`](DirectedLinks::jitter), and limits their
//!   [`rate`](DirectedLinks::rate). It never loses or reorders bytes, because TCP would restore them. A new delay
//!   applies to the bytes that are sent after the change.
//! - A [blocked](DirectedLinks::block) direction passes nothing, as if every packet were lost. Bytes that were sent
//!   meanwhile arrive when it is [unblocked](DirectedLinks::unblock), as TCP would retransmit them, if the connection
//!   is still open. While one direction is blocked, the two servers cannot open a connection.
//! - A [cut](DirectedLinks::cut) closes the open connections; new ones can be opened at once.
//! - Each direction of a connection buffers at most 16 MiB; then its sender waits.
//!
//! # Differences from a real network
//!
//! - The relay accepts a connection over a blocked direction, and sends nothing; in a network connecting would block.
//! - When the other server is down, the relay accepts the connection and resets it after one second of retries; in a
//!   network it would be refused at once.
//! - TCP acknowledgements are neither delayed nor lost.
//! - Connecting is not delayed.
//! - Each server has a different `zoo-N.cfg`, and `/zookeeper/config` contains the relays' ports. With
//!   `reconfigEnabled` servers would learn each other's real ports and bypass the relays.
//!
//! The server with the greater id opens the election connection of a pair, so `one_way(1, 2)` and `one_way(2, 1)` are
//! directions of bytes, not of connections.

mod conditions;
mod election;
mod link_table;
mod relay;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use self::link_table::{LinkTable, Pair};
use self::relay::Relay;

use crate::error::Error;
use crate::runtime_thread::RuntimeThread;
use crate::shared::Shared;
use crate::sockets::{Close, listen, serve_all};

pub use self::conditions::Conditions;

/// The links between the servers of an ensemble; see the [module](self).
///
/// It is a handle: clones are the same links.
///
/// # Dropping
///
/// Dropping the last clone ends the links and every connection over them.
/// The links of an ensemble of `zk-harness` end with the ensemble, even if a clone is left.
#[derive(Clone, Debug)]
pub struct QuorumLinks {
    table: Arc<Shared<LinkTable>>,
    thread: Arc<RuntimeThread>,
}

/// A selection of links, each in one direction. A change applies to all of them at once.
///
/// ```no_run
/// # fn demo(links: zk_fault_proxy::links::QuorumLinks) -> Result<(), zk_fault_proxy::Error> {
/// use std::time::Duration;
///
/// let slow = links.around(2)?;
/// slow.delay(Duration::from_millis(30)).jitter(Duration::from_millis(5)).rate(100_000);
/// slow.heal();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DirectedLinks {
    table: Arc<Shared<LinkTable>>,
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
                callback: None,
            };
            let election = Relay {
                pair,
                target: local(link.election_port),
                callback: election_ports
                    .get(&(link.to, link.from))
                    .map(|&port| local(port)),
            };
            relays.push((listen(link.quorum_relay_port).map_err(failed)?, quorum));
            relays.push((listen(link.election_relay_port).map_err(failed)?, election));
        }
        Self::start_on(relays)
    }

    fn start_on(relays: Vec<(std::net::TcpListener, Relay)>) -> Result<Self, Error> {
        let pairs = relays.iter().flat_map(|(_, relay)| {
            let (from, to) = relay.pair;
            [(from, to), (to, from)]
        });
        let table = Arc::new(Shared::new(LinkTable::new(pairs)));
        let for_thread = Arc::clone(&table);
        let thread = RuntimeThread::start("zk-links", move || async move {
            for (listener, relay) in relays {
                let table = Arc::clone(&for_thread);
                serve_all(listener, move |stream| {
                    relay::serve(Arc::clone(&table), relay, stream)
                });
            }
            std::future::pending::<()>().await;
        })
        .map_err(|source| Error::start("the quorum links", source))?;
        Ok(Self {
            table,
            thread: Arc::new(thread),
        })
    }

    /// Selects the direction from one server to another.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchServer`].
    pub fn one_way(&self, from: u32, to: u32) -> Result<DirectedLinks, Error> {
        self.known(from)?;
        self.known(to)?;
        Ok(self.select(|pair| pair == (from, to)))
    }

    /// Selects all directions to a server.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchServer`].
    pub fn to(&self, server: u32) -> Result<DirectedLinks, Error> {
        self.known(server)?;
        Ok(self.select(|(_, to)| to == server))
    }

    /// Selects all directions to and from a server.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchServer`].
    pub fn around(&self, server: u32) -> Result<DirectedLinks, Error> {
        self.known(server)?;
        Ok(self.select(|(from, to)| from == server || to == server))
    }

    /// Selects all directions between all servers.
    pub fn all(&self) -> DirectedLinks {
        self.select(|_| true)
    }

    /// Blocks all directions to and from a server. Clients can still connect to it.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchServer`].
    pub fn isolate(&self, server: u32) -> Result<(), Error> {
        self.around(server)?.block();
        Ok(())
    }

    /// Removes all delays, limits and blocks.
    pub fn heal(&self) {
        self.all().heal();
    }

    /// Ends the links for all clones and waits until their sockets are closed.
    pub fn stop(&self) {
        self.thread.stop();
    }

    fn select(&self, is_selected: impl Fn(Pair) -> bool) -> DirectedLinks {
        let pairs = self
            .table
            .lock()
            .pairs()
            .filter(|&pair| is_selected(pair))
            .collect();
        DirectedLinks {
            table: Arc::clone(&self.table),
            pairs,
        }
    }

    fn known(&self, id: u32) -> Result<(), Error> {
        let known: BTreeSet<u32> = self.table.lock().pairs().map(|(from, _)| from).collect();
        if known.contains(&id) {
            return Ok(());
        }
        Err(Error::NoSuchServer {
            id,
            known: known.into_iter().collect(),
        })
    }
}

impl DirectedLinks {
    /// Sets the delay of bytes that are sent from now on. Zero for none.
    pub fn delay(&self, delay: Duration) -> &Self {
        self.change(|conditions| conditions.delay = delay)
    }

    /// Sets the random part of the delay: up to `jitter`, drawn for each chunk. Zero for none.
    pub fn jitter(&self, jitter: Duration) -> &Self {
        self.change(|conditions| conditions.jitter = jitter)
    }

    /// Limits the rate of each direction; 0 means 1.
    pub fn rate(&self, bytes_per_second: u64) -> &Self {
        self.change(|conditions| conditions.rate = Some(bytes_per_second))
    }

    /// Blocks the links.
    pub fn block(&self) -> &Self {
        self.change(|conditions| conditions.blocked = true)
    }

    /// Unblocks the links. Bytes that were sent meanwhile arrive first.
    pub fn unblock(&self) -> &Self {
        self.change(|conditions| conditions.blocked = false)
    }

    /// Removes delays, limits and blocks.
    pub fn heal(&self) -> &Self {
        self.set(Conditions::default())
    }

    /// Replaces all conditions at once.
    pub fn set(&self, conditions: Conditions) -> &Self {
        self.change(|current| *current = conditions)
    }

    /// Closes every connection between the two servers of each link, whichever opened it. Bytes in transit are lost.
    pub fn cut(&self, close: Close) -> &Self {
        self.table
            .change(|table, _| table.cut(&self.both_ways(), close));
        self
    }

    /// Returns the number of connections between the two servers of each link, whichever opened them.
    pub fn connections(&self) -> usize {
        self.table.lock().live(&self.both_ways())
    }

    /// Returns the pairs in both directions: a connection uses both.
    fn both_ways(&self) -> BTreeSet<Pair> {
        let pairs = self.pairs.iter();
        pairs
            .flat_map(|&(one, other)| [(one, other), (other, one)])
            .collect()
    }

    fn change(&self, change: impl Fn(&mut Conditions)) -> &Self {
        self.table.change(|table, _| {
            for &pair in &self.pairs {
                change(table.conditions(pair));
            }
        });
        self
    }
}

#[cfg(test)]
mod tests;
