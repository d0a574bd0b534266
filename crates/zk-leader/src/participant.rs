//! Decodes the nodes of an election's participants.

use std::borrow::Cow;
use std::fmt;
use std::time::SystemTime;

use zk_core::SessionId;
use zk_lock::{Contender, FencingToken};

use crate::options::SEPARATOR;

/// A participant of an election, as its node describes it: the leader or a waiter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Participant {
    contender: Contender,
    is_leader: bool,
}

impl Participant {
    pub(crate) const fn new(contender: Contender, is_leader: bool) -> Self {
        Self {
            contender,
            is_leader,
        }
    }

    /// Returns its id, with replacement characters for invalid UTF-8.
    pub fn id(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(split(self.contender.owner()).0)
    }

    /// Returns its metadata, see [`ElectionOptions::with_metadata`](crate::ElectionOptions::with_metadata); empty by
    /// default.
    pub fn metadata(&self) -> &[u8] {
        split(self.contender.owner()).1
    }

    /// Returns whether it is the first in the queue, which leads or is about to.
    pub fn is_leader(&self) -> bool {
        self.is_leader
    }

    /// Returns the fencing token of its current or future leadership.
    pub fn fencing_token(&self) -> FencingToken {
        self.contender.fencing_token()
    }

    /// Returns its session, or `None` if its node is persistent.
    pub fn session(&self) -> Option<SessionId> {
        self.contender.session()
    }

    /// Returns when it joined, by the clock of the ensemble's leader.
    ///
    /// That clock may differ from the local one and may have been set since: use it for display, not for decisions.
    pub fn since(&self) -> SystemTime {
        self.contender.since()
    }

    /// Returns the name of its node, the last component of the path.
    pub fn node_name(&self) -> &str {
        self.contender.name()
    }
}

/// Formats the id, whether it leads, and the token.
impl fmt::Display for Participant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = if self.is_leader { "leads" } else { "waits" };
        write!(f, "{} {role}, token {}", self.id(), self.fencing_token())
    }
}

/// Splits the data of a node into the id and the metadata.
fn split(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == SEPARATOR) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn the_first_line_is_the_id_and_the_rest_is_metadata() {
        let cases: [(&[u8], &[u8], &[u8]); 6] = [
            (b"", b"", b""),
            (b"a", b"a", b""),
            (b"a\n", b"a", b""),
            (b"a\nb", b"a", b"b"),
            (b"\nb\nc\n", b"", b"b\nc\n"),
            (b"\xff\n\xff", b"\xff", b"\xff"),
        ];
        for (data, id, metadata) in cases {
            assert_eq!(split(data), (id, metadata), "{data:?}");
        }
    }
}
