//! Decides which server a new connection goes to.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;

/// Where a new connection goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Route {
    /// To the server whose proxy address the client used.
    #[default]
    SameServer,
    /// To this server.
    To(u32),
    /// To no server: it is reset, as if the server were down.
    Refuse,
}

/// A selection of client connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Clients {
    /// All.
    All,
    /// New connections to one server's proxy address; open connections to that server.
    At(u32),
    /// The connection of one session.
    Session(i64),
}

/// The routes: a session's takes precedence over an address's, and that over the one for all.
#[derive(Debug, Default)]
pub(super) struct Routing {
    all: Route,
    at: BTreeMap<u32, Route>,
    session: BTreeMap<i64, Route>,
}

impl Routing {
    pub(super) fn set(&mut self, clients: Clients, route: Route) {
        match clients {
            Clients::All => self.all = route,
            Clients::At(server) => {
                self.at.insert(server, route);
            }
            Clients::Session(id) => {
                self.session.insert(id, route);
            }
        }
    }

    /// Returns the server for a connection to the proxy address of `via`.
    pub(super) fn server_for(&self, via: u32, session: Option<i64>) -> Option<u32> {
        let route = session
            .and_then(|id| self.session.get(&id))
            .or_else(|| self.at.get(&via))
            .unwrap_or(&self.all);
        match route {
            Route::SameServer => Some(via),
            Route::To(server) => Some(*server),
            Route::Refuse => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_route_takes_precedence() {
        let mut routing = Routing::default();
        assert_eq!(routing.server_for(1, None), Some(1));
        routing.set(Clients::All, Route::To(3));
        assert_eq!(routing.server_for(1, Some(7)), Some(3));
        routing.set(Clients::At(1), Route::Refuse);
        assert_eq!(routing.server_for(1, Some(7)), None);
        assert_eq!(routing.server_for(2, Some(7)), Some(3));
        routing.set(Clients::Session(7), Route::To(2));
        assert_eq!(routing.server_for(1, Some(7)), Some(2));
        assert_eq!(routing.server_for(1, Some(8)), None);
        assert_eq!(routing.server_for(1, None), None);
        routing.set(Clients::Session(7), Route::SameServer);
        assert_eq!(routing.server_for(1, Some(7)), Some(1));
    }
}
