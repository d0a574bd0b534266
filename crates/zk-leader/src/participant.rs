//! Who takes part in an election, as the nodes tell.

use std::borrow::Cow;
use std::fmt;
use std::time::SystemTime;

use zk_core::SessionId;
use zk_lock::Contender;
use zk_lock::FencingToken;

use crate::options::SEPARATOR;

/// One who leads or waits to lead.
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

    /// Returns the name it gave itself, with replacement characters for what is no text.
    pub fn id(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(split(self.contender.owner()).0)
    }

    /// Returns what else it says of itself, see [`ElectionOptions::with_metadata`](crate::ElectionOptions::with_metadata);
    /// empty if nothing.
    pub fn metadata(&self) -> &[u8] {
        split(self.contender.owner()).1
    }

    /// Tells whether it is the first in line, who leads or is about to.
    pub fn is_leader(&self) -> bool {
        self.is_leader
    }

    /// Returns the fencing token of its leadership, present or to come.
    pub fn token(&self) -> FencingToken {
        self.contender.token()
    }

    /// Returns the session that it belongs to; `None` for a node that stays whatever becomes of its maker.
    pub fn session(&self) -> Option<SessionId> {
        self.contender.session()
    }

    /// Returns when it got in line, by the clock of the ensemble's leader.
    ///
    /// That clock may differ from the local one and may have been set since: for people, not for decisions.
    pub fn since(&self) -> SystemTime {
        self.contender.since()
    }

    /// Returns the name of its node, the last component of the path.
    pub fn node_name(&self) -> &str {
        self.contender.name()
    }
}

/// The id, and whether it leads.
impl fmt::Display for Participant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.is_leader { "leads" } else { "waits" };
        write!(f, "{} {place}, token {}", self.id(), self.token())
    }
}

/// The id and the metadata of the data of a node.
fn split(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == SEPARATOR) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    // covers: E3
    #[test]
    fn the_first_line_is_the_id_and_all_the_rest_is_metadata() {
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
