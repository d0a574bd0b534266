//! The handle of a fault proxy.

mod core;
mod event;
mod log;
mod matching;
mod pattern;
mod protocol_state;
mod relay;
mod routing;
mod rule;
mod rule_table;
mod shared;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use self::core::Core;
use self::shared::SharedCore;
use crate::error::Error;
use crate::runtime_thread::RuntimeThread;
use crate::sockets::{Close, listen, serve_all};

pub use self::event::{Event, EventKind};
pub use self::log::Log;
pub use self::matching::{Direction, Match};
pub use self::routing::{Clients, Route};
pub use self::rule::{Rule, RuleBuilder};

pub(crate) use self::core::time_for;

/// A proxy in front of one or more servers; see the [crate].
///
/// It is a handle: clones are the same proxy.
///
/// # Dropping
///
/// Dropping the last clone closes the proxy's ports and connections and joins its thread.
/// The proxy of an ensemble of `zk-harness` ends with the ensemble, even if a clone is left.
#[derive(Clone, Debug)]
pub struct FaultProxy {
    shared: Arc<SharedCore>,
    addresses: Arc<BTreeMap<u32, SocketAddr>>,
    thread: Arc<RuntimeThread>,
}

/// A session that was granted through a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSeen {
    /// The session id.
    pub id: i64,
    /// The server that the session is connected to; `None` without a connection.
    pub server: Option<u32>,
}

impl FaultProxy {
    /// Starts a proxy in front of these servers, which need not run yet.
    ///
    /// They are numbered from 1. The proxy listens on 127.0.0.1, on ports that the system chooses.
    ///
    /// # Errors
    ///
    /// [`Error::Start`] if no port is free or no thread can be started.
    pub fn start(servers: impl IntoIterator<Item = SocketAddr>) -> Result<Self, Error> {
        Self::start_on((1..).zip(servers).map(|(id, server)| (id, 0, server)))
    }

    /// Starts a proxy in front of servers, each with its id, the port of the proxy's address for it, and its own address.
    ///
    /// The addresses of the proxy are on 127.0.0.1. For port 0 the system chooses one.
    ///
    /// # Errors
    ///
    /// [`Error::Start`] if a port is taken or no thread can be started.
    pub fn start_on(
        servers: impl IntoIterator<Item = (u32, u16, SocketAddr)>,
    ) -> Result<Self, Error> {
        let failed = |source| Error::start("the fault proxy", source);
        let mut targets = BTreeMap::new();
        let mut addresses = BTreeMap::new();
        let mut listeners = Vec::new();
        for (id, port, server) in servers {
            let listener = listen(port).map_err(failed)?;
            addresses.insert(id, listener.local_addr().map_err(failed)?);
            listeners.push((id, listener));
            targets.insert(id, server);
        }
        let shared = Arc::new(SharedCore::new(Core::new(targets, EVENTS_KEPT)));
        let for_thread = Arc::clone(&shared);
        // The first port distinguishes the proxies of one process.
        let first = addresses.values().next().map_or(0, SocketAddr::port);
        let thread = RuntimeThread::start(&format!("zk-proxy-{first}"), move || async move {
            for (id, listener) in listeners {
                let shared = Arc::clone(&for_thread);
                serve_all(listener, move |client| {
                    relay::serve(Arc::clone(&shared), client, id)
                });
            }
            std::future::pending::<()>().await;
        })
        .map_err(failed)?;
        Ok(Self {
            shared,
            addresses: Arc::new(addresses),
            thread: Arc::new(thread),
        })
    }

    /// Returns the proxy's address for a server.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchServer`].
    pub fn address(&self, server: u32) -> Result<SocketAddr, Error> {
        self.known(server)?;
        Ok(self.addresses[&server])
    }

    /// Returns the proxy's addresses for all servers: `host:port,host:port,…`.
    pub fn connect_string(&self) -> String {
        let addresses: Vec<_> = self.addresses.values().map(SocketAddr::to_string).collect();
        addresses.join(",")
    }

    /// Begins a rule for the frames that match.
    pub fn on(&self, matching: Match) -> RuleBuilder {
        RuleBuilder::new(Arc::clone(&self.shared), matching)
    }

    /// Sets where new connections go. Open connections stay; see [`cut`](Self::cut).
    ///
    /// The route of a session takes precedence over the route of an address, and that over the route of all.
    /// A session's route applies when its client resumes it: a new session has no id yet.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchServer`].
    pub fn route(&self, clients: Clients, route: Route) -> Result<(), Error> {
        if let Clients::At(server) = clients {
            self.known(server)?;
        }
        if let Route::To(server) = route {
            self.known(server)?;
        }
        self.shared.core.lock().routing.set(clients, route);
        Ok(())
    }

    /// Cuts open connections, waits until they are cut, and returns their number.
    ///
    /// Bytes that the proxy has received and not yet written are lost.
    ///
    /// # Cancel safety
    ///
    /// The connections are cut from the first poll on; dropping the future only stops the waiting.
    pub async fn cut(&self, clients: Clients, close: Close) -> usize {
        let wanted = self.shared.request(|core| core.request_cut(clients, close));
        let is_done = |core: &Core| !core.is_any_alive(&wanted);
        // It fails only if the proxy has ended, which closed the connections.
        drop(self.shared.wait_until("the cut", CUT_WITHIN, is_done).await);
        wanted.len()
    }

    /// Removes all rules, releases held frames, and resets all routes.
    ///
    /// Connections in a black hole are cut.
    pub fn heal(&self) {
        self.shared.request(Core::heal);
    }

    /// Returns the log of what the proxy received, forwarded and cut.
    pub fn log(&self) -> Log {
        Log::new(Arc::clone(&self.shared))
    }

    /// Waits at most `within` until the [log](Self::log) contains at least `n` matching arrivals.
    ///
    /// # Errors
    ///
    /// [`Error::NotSeen`] with the last events.
    pub async fn wait_for(
        &self,
        matching: &Match,
        n: usize,
        within: Duration,
    ) -> Result<(), Error> {
        let what = format!("{n} × {matching}");
        let are_enough = |core: &Core| core.events.arrivals(matching) >= n;
        self.shared.wait_until(&what, within, are_enough).await
    }

    /// Returns every session that was granted through the proxy, ordered by id.
    pub fn sessions(&self) -> Vec<SessionSeen> {
        let core = self.shared.core.lock();
        let seen = core.sessions.iter().map(|(&id, connection)| SessionSeen {
            id,
            server: connection.map(|(_, server)| server),
        });
        seen.collect()
    }

    /// Sets the address of a server, for example after a container restarted with another port.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchServer`].
    pub fn set_server(&self, id: u32, address: SocketAddr) -> Result<(), Error> {
        self.known(id)?;
        self.shared.core.lock().servers.insert(id, address);
        Ok(())
    }

    /// Ends the proxy for all clones of the handle, and waits until its sockets are closed.
    pub fn stop(&self) {
        self.thread.stop();
    }

    fn known(&self, id: u32) -> Result<(), Error> {
        if self.addresses.contains_key(&id) {
            return Ok(());
        }
        let core = self.shared.core.lock();
        Err(Error::NoSuchServer {
            id,
            known: core.servers.keys().copied().collect(),
        })
    }
}

const EVENTS_KEPT: usize = 200_000;
const CUT_WITHIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
