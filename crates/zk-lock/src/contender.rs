//! A contender as its node describes it: a holder of a lock or a waiter.

use std::borrow::Cow;
use std::fmt;
use std::time::SystemTime;

use zk_core::{Sequence, SessionId, Stat};

use crate::fencing_token::FencingToken;
use crate::layout::{Kind, Layout};
use crate::owner::OwnerInfo;

/// A holder of a lock, or a waiter, as read from its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contender {
    name: String,
    sequence: Sequence,
    owner: Vec<u8>,
    token: FencingToken,
    session: Option<SessionId>,
    since: SystemTime,
    is_shared: bool,
}

impl Contender {
    /// Decodes a node; `None` if its name is not that of a contender in this layout.
    pub(crate) fn decode(layout: Layout, name: &str, owner: Vec<u8>, stat: &Stat) -> Option<Self> {
        let (sequence, kind) = layout.parse(name)?;
        Some(Self {
            name: name.to_owned(),
            sequence,
            is_shared: kind == Kind::Shared,
            owner,
            token: FencingToken::of(stat),
            session: stat.ephemeral_owner,
            since: stat.ctime,
        })
    }

    /// Returns the name of the node, the last component of its path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the sequence number, which determines the place in the queue.
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Returns the data of the node, in which the owner identifies itself.
    pub fn owner(&self) -> &[u8] {
        &self.owner
    }

    /// Returns the data of the node as text, with replacement characters for invalid UTF-8.
    pub fn owner_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.owner)
    }

    /// Returns how the owner identifies itself; `None` if the data is not in the format of this crate.
    pub fn owner_info(&self) -> Option<OwnerInfo> {
        OwnerInfo::parse(&self.owner)
    }

    /// Returns whether it holds or wants the lock together with others: it is a reader, or a lease of a semaphore.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Returns the fencing token that the contender has as a holder: the node's `czxid`.
    pub fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// Returns the `czxid` of the node, which identifies it among all that ever had its name.
    pub(crate) fn czxid(&self) -> i64 {
        self.token.as_u64().cast_signed()
    }

    /// Returns the session that owns the node; `None` for a node that is not ephemeral.
    ///
    /// Such a node is the work of another client. No session's end deletes it, so its waiters wait until it is deleted,
    /// for example by [`Inspector::remove`](crate::Inspector::remove).
    pub fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// Returns when the contender joined the queue, by the clock of the ensemble's leader.
    ///
    /// That clock may differ from the local one and may have been adjusted since: do not base decisions on it.
    pub fn since(&self) -> SystemTime {
        self.since
    }
}

/// Writes the name, the owner and the session on one line.
impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let (owner, is_text) = match self.owner_info() {
            Some(info) => (Cow::Owned(info.to_string()), true),
            None => (self.owner_text(), false),
        };
        if !owner.is_empty() {
            let shown: String = owner.chars().take(MAX_DISPLAYED_CHARS).collect();
            let more = if shown.len() < owner.len() { "…" } else { "" };
            if is_text {
                write!(f, " of {shown}{more}")?;
            } else {
                write!(f, " of {shown:?}{more}")?;
            }
        }
        match self.session {
            Some(session) => write!(f, " (session {session})"),
            None => write!(f, " (of no session: it stays until it is deleted)"),
        }
    }
}

/// How many characters of the owner are displayed.
const MAX_DISPLAYED_CHARS: usize = 80;
