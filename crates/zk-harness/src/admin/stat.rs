//! `stat`: what `srvr` says, and the clients in short.
//!
//! Pure: no I/O and no clock.

use std::str::FromStr;

use super::AdminError;
use super::ConnectionInfo;
use super::Srvr;
use super::text::Answer;

/// The answer to `stat`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stat {
    /// What `srvr` would say.
    pub server: Srvr,
    /// The connected clients, without their sessions: ask `cons` for those.
    pub clients: Vec<ConnectionInfo>,
}

impl FromStr for Stat {
    type Err = AdminError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let answer = Answer::new("stat", text)?;
        // Clients are indented, nothing else is.
        let clients = answer
            .lines()
            .filter(|line| line.starts_with(' '))
            .map(|line| ConnectionInfo::parse(answer, line))
            .collect::<Result<_, _>>()?;
        let server =
            Srvr::from_lines(answer, answer.lines().filter(|line| !line.starts_with(' ')))?;
        Ok(Self { server, clients })
    }
}
