//! Who holds a lock and who waits for it, as the nodes tell.

use std::borrow::Cow;
use std::fmt;
use std::time::SystemTime;

use zk_core::Sequence;
use zk_core::SessionId;
use zk_core::Stat;

use crate::guard::FencingToken;
use crate::owner::OwnerInfo;

/// One who holds a lock or waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contender {
    name: String,
    sequence: Sequence,
    owner: Vec<u8>,
    token: FencingToken,
    session: Option<SessionId>,
    since: SystemTime,
}

impl Contender {
    pub(crate) fn new(name: String, sequence: Sequence, owner: Vec<u8>, stat: &Stat) -> Self {
        Self {
            name,
            sequence,
            owner,
            token: FencingToken::of(stat),
            session: stat.ephemeral_owner,
            since: stat.ctime,
        }
    }

    /// Returns the name of the node, the last component of its path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number that gives the place in the queue.
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Returns what the owner says of itself: the data of the node.
    pub fn owner(&self) -> &[u8] {
        &self.owner
    }

    /// Returns what the owner says of itself as text, with replacement characters for what is none.
    pub fn owner_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.owner)
    }

    /// Returns what the owner says of itself, if it is in the form of this crate; `None` for data of other programs.
    pub fn owner_info(&self) -> Option<OwnerInfo> {
        OwnerInfo::parse(&self.owner)
    }

    /// Returns the fencing token that goes with the lock once this contender holds it: the node's `czxid`.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Returns the session that the node belongs to; `None` for a node that stays whatever becomes of its maker.
    pub fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// Returns when it joined the queue, by the clock of the ensemble's leader.
    ///
    /// That clock may differ from the local one and may have been set since: for people, not for decisions.
    pub fn since(&self) -> SystemTime {
        self.since
    }
}

/// The name, the owner and the session, in a line.
impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let (owner, is_text) = match self.owner_info() {
            Some(info) => (Cow::Owned(info.to_string()), true),
            None => (self.owner_text(), false),
        };
        if !owner.is_empty() {
            let shown: String = owner.chars().take(MOST_SHOWN).collect();
            let more = if shown.len() < owner.len() { "…" } else { "" };
            if is_text {
                write!(f, " of {shown}{more}")?;
            } else {
                write!(f, " of {shown:?}{more}")?;
            }
        }
        match self.session {
            Some(session) => write!(f, " (session {session})"),
            None => write!(f, " (not ephemeral)"),
        }
    }
}

/// How much of an owner's data is shown in messages, in characters.
const MOST_SHOWN: usize = 80;
