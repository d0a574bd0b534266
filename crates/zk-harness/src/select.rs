//! Selects the servers of a command or a fault.

use std::num::ParseIntError;
use std::str::FromStr;
use std::time::Duration;

use crate::ensemble::Ensemble;
use crate::error::Error;
use crate::health::Role;
use crate::process::ProcessState;
use crate::server::Server;

/// A selection of servers by id or current role: `2`, `leader`, `follower`, `all`.
///
/// ```
/// use zk_harness::Selector;
///
/// assert_eq!("leader".parse(), Ok(Selector::Leader));
/// assert_eq!("2".parse(), Ok(Selector::Id(2)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Selector {
    /// The server with this id.
    Id(u32),
    /// The leader, or the only server.
    Leader,
    /// The first follower.
    Follower,
    /// Every server.
    All,
}

/// The error for an invalid [`Selector`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} does not select a server; use an id, `leader`, `follower` or `all`")]
pub struct ParseSelectorError(String);

impl FromStr for Selector {
    type Err = ParseSelectorError;

    fn from_str(text: &str) -> Result<Self, ParseSelectorError> {
        match text {
            "leader" => Ok(Self::Leader),
            "follower" => Ok(Self::Follower),
            "all" => Ok(Self::All),
            id => id
                .parse()
                .map(Self::Id)
                .map_err(|_: ParseIntError| ParseSelectorError(text.to_owned())),
        }
    }
}

impl Ensemble {
    /// Returns the currently selected servers. For [`Selector::Leader`] it waits up to 20 s for an election if a majority
    /// of the servers runs.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchServer`] for an unknown id, [`Error::NoQuorum`] without a leader, [`Error::NoFollower`] without a
    /// follower.
    pub async fn select(&self, which: Selector) -> Result<Vec<&Server>, Error> {
        Ok(match which {
            Selector::Id(id) => vec![self.server(id)?],
            Selector::Leader => vec![self.wait_leader(self.election_within()).await?],
            Selector::Follower => {
                let status = self.status().await;
                let follower = status
                    .servers
                    .iter()
                    .position(|server| server.role == Some(Role::Follower));
                match follower {
                    Some(follower) => vec![&self.servers()[follower]],
                    None => {
                        return Err(Error::NoFollower {
                            seen: status.seen(),
                        });
                    }
                }
            }
            Selector::All => self.servers().iter().collect(),
        })
    }

    /// Returns how long to wait for a leader; zero if there is no majority to elect one.
    fn election_within(&self) -> Duration {
        let servers = self.servers();
        let running = servers
            .iter()
            .filter(|server| server.process_state() == ProcessState::Running)
            .count();
        if 2 * running > servers.len() {
            ELECTION_WITHIN
        } else {
            Duration::ZERO
        }
    }
}

/// The longest wait for an election. A server tries for up to 5 s to connect to an unreachable host, for example of a
/// killed container, before it sends its votes to the others (`zookeeper.cnxTimeout`).
const ELECTION_WITHIN: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_selector_has_a_text() {
        for (text, selector) in [
            ("7", Selector::Id(7)),
            ("leader", Selector::Leader),
            ("follower", Selector::Follower),
            ("all", Selector::All),
        ] {
            assert_eq!(text.parse(), Ok(selector));
        }
    }

    #[test]
    fn the_error_for_other_texts_lists_the_valid_ones() {
        for text in ["-1", "", "Leader", "1 ", "4294967296"] {
            let error = text.parse::<Selector>().unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "{text:?} does not select a server; use an id, `leader`, `follower` or `all`"
                )
            );
        }
    }
}
