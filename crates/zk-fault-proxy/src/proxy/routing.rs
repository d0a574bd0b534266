//! Which server a new connection is led to.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;

/// Where a new connection is led.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Steer {
    /// To the server whose address it came to.
    #[default]
    Home,
    /// To this server.
    To(u32),
    /// Nowhere: it is reset, as if nobody listened.
    Nowhere,
}

/// Some of the clients' connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Clients {
    /// All.
    All,
    /// Those at one server: of new connections those that come to its address, of live ones those that lead to it.
    At(u32),
    /// That of one session.
    Session(i64),
}

/// The orders in force: the one for the session counts, then the one for the address, then the one for all.
#[derive(Debug, Default)]
pub(super) struct Steering {
    all: Steer,
    at: BTreeMap<u32, Steer>,
    session: BTreeMap<i64, Steer>,
}

impl Steering {
    pub(super) fn set(&mut self, clients: Clients, steer: Steer) {
        match clients {
            Clients::All => self.all = steer,
            Clients::At(server) => {
                self.at.insert(server, steer);
            }
            Clients::Session(id) => {
                self.session.insert(id, steer);
            }
        }
    }

    /// The server for a connection that came to the address of `asked`.
    pub(super) fn lead(&self, asked: u32, session: Option<i64>) -> Option<u32> {
        let steer = session
            .and_then(|id| self.session.get(&id))
            .or_else(|| self.at.get(&asked))
            .unwrap_or(&self.all);
        match steer {
            Steer::Home => Some(asked),
            Steer::To(server) => Some(*server),
            Steer::Nowhere => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_particular_order_counts() {
        let mut steering = Steering::default();
        assert_eq!(steering.lead(1, None), Some(1));
        steering.set(Clients::All, Steer::To(3));
        assert_eq!(steering.lead(1, Some(7)), Some(3));
        steering.set(Clients::At(1), Steer::Nowhere);
        assert_eq!(steering.lead(1, Some(7)), None);
        assert_eq!(steering.lead(2, Some(7)), Some(3));
        steering.set(Clients::Session(7), Steer::To(2));
        assert_eq!(steering.lead(1, Some(7)), Some(2));
        assert_eq!(steering.lead(1, Some(8)), None);
        assert_eq!(steering.lead(1, None), None);
        steering.set(Clients::Session(7), Steer::Home);
        assert_eq!(steering.lead(1, Some(7)), Some(1));
    }
}
