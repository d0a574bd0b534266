//! Decides from the servers' answers whether an ensemble serves, and which server leads.
//!
//! Pure: no I/O and no clock.

use std::fmt;

/// The role that a server reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Role {
    /// It leads the quorum.
    Leader,
    /// It follows the leader.
    Follower,
    /// It receives committed transactions and has no vote.
    Observer,
    /// It is the only server.
    Standalone,
    /// It has lost the quorum and serves only reads.
    ReadOnly,
}

/// One server's answer to `srvr`: its role and the epoch of its last transaction; `None` while it does not serve.
pub(crate) type Answer = Option<(Role, u64)>;

/// Whether an ensemble serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// Every server serves and one leads.
    AllServing {
        /// The leader's index in the list of servers.
        leader: usize,
    },
    /// A quorum serves, but not every server.
    Degraded {
        /// The leader's index in the list of servers.
        leader: usize,
    },
    /// No quorum serves.
    Down,
}

impl Role {
    pub(crate) const ALL: [Self; 5] = [
        Self::Leader,
        Self::Follower,
        Self::Observer,
        Self::Standalone,
        Self::ReadOnly,
    ];
}

impl Health {
    /// Decides from the answers of all servers.
    ///
    /// A leader that was paused still reports for a moment after its resumption that it leads. Of several leaders the
    /// one with the highest epoch counts, and two with the same epoch count as none.
    pub(crate) fn judge(answers: &[Answer]) -> Self {
        if let [only] = answers {
            return match only {
                Some((Role::Standalone, _)) => Self::AllServing { leader: 0 },
                _ => Self::Down,
            };
        }
        let newest = |(index, answer): (usize, &Answer)| match answer {
            Some((Role::Leader, epoch)) => Some((*epoch, index)),
            _ => None,
        };
        let mut leaders: Vec<_> = answers.iter().enumerate().filter_map(newest).collect();
        leaders.sort_unstable();
        let leader = match leaders.as_slice() {
            [.., (epoch, _), (other, _)] if epoch == other => return Self::Down,
            [.., (_, leader)] => *leader,
            [] => return Self::Down,
        };
        let followers = answers
            .iter()
            .filter(|answer| matches!(answer, Some((Role::Follower, _))))
            .count();
        if 2 * (followers + 1) <= answers.len() {
            Self::Down
        } else if followers + 1 == answers.len() {
            Self::AllServing { leader }
        } else {
            Self::Degraded { leader }
        }
    }

    /// Returns whether clients are served.
    pub const fn serves(self) -> bool {
        !matches!(self, Self::Down)
    }

    /// Returns the leader's index in the list of servers.
    pub const fn leader(self) -> Option<usize> {
        match self {
            Self::AllServing { leader } | Self::Degraded { leader } => Some(leader),
            Self::Down => None,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Observer => "observer",
            Self::Standalone => "standalone",
            Self::ReadOnly => "read-only",
        })
    }
}

#[cfg(test)]
mod tests;
