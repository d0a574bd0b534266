//! Which servers a command or a fault is meant for.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;
use std::time::Duration;

use crate::ensemble::Ensemble;
use crate::error::Error;
use crate::health::Role;
use crate::process::ProcessState;
use crate::server::Server;

/// Servers, by id or by what they are at the moment: `2`, `leader`, `follower`, `all`.
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
    /// The server that leads, or the only one.
    Leader,
    /// The first server that follows.
    Follower,
    /// Every server.
    All,
}

/// A text that is no [`Selector`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} selects no server; give a server's id, `leader`, `follower` or `all`")]
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

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::Leader => f.write_str("leader"),
            Self::Follower => f.write_str("follower"),
            Self::All => f.write_str("all"),
        }
    }
}

impl Ensemble {
    /// Returns the servers that `which` means now; for `leader` it waits up to 20 s while a majority of the servers runs,
    /// which may have to elect one.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchServer`] for an id that there is none of, [`Error::NoQuorum`] if nobody leads,
    /// [`Error::NoFollower`] if nobody follows.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
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

    /// How long it may take until there is a leader: without a majority there will be none.
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

/// How long an election may take. A server tries for up to 5 s to connect to one whose host is gone, as after a
/// container was killed, before it goes on with its votes (`zookeeper.cnxTimeout`).
const ELECTION_WITHIN: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_what_is_read() {
        for selector in [
            Selector::Id(7),
            Selector::Leader,
            Selector::Follower,
            Selector::All,
        ] {
            assert_eq!(selector.to_string().parse(), Ok(selector));
        }
    }

    #[test]
    fn other_texts_are_refused_with_those_that_would_do() {
        for text in ["-1", "", "Leader", "1 ", "4294967296"] {
            let error = text.parse::<Selector>().unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "{text:?} selects no server; give a server's id, `leader`, `follower` or `all`"
                )
            );
        }
    }
}
