//! `wchs`: how many watches there are.
//!
//! Pure: no I/O and no clock.

use std::str::FromStr;

use super::AdminError;
use super::text::AnswerText;

/// The answer to `wchs`: the number of watches on one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wchs {
    /// Connections with a watch.
    pub connections: u64,
    /// Watched paths.
    pub paths: u64,
    /// All watches.
    pub watches: u64,
}

impl FromStr for Wchs {
    type Err = AdminError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FIRST: &str = "`N connections watching N paths`";
        const SECOND: &str = "`Total watches:N`";
        let answer = AnswerText::new("wchs", text)?;
        let mut lines = answer.lines();
        let first = lines.next().unwrap_or_default();
        let (connections, paths) = first
            .strip_suffix(" paths")
            .and_then(|rest| rest.split_once(" connections watching "))
            .ok_or_else(|| answer.unexpected(first, FIRST))?;
        let second = lines.next().unwrap_or_default();
        let watches = second
            .strip_prefix("Total watches:")
            .ok_or_else(|| answer.unexpected(second, SECOND))?;
        Ok(Self {
            connections: answer.value(connections, first, FIRST)?,
            paths: answer.value(paths, first, FIRST)?,
            watches: answer.value(watches, second, SECOND)?,
        })
    }
}
