//! The metadata of a node.

use std::fmt;
use std::time::{Duration, SystemTime};

/// The metadata of a node at the time of the server's reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stat {
    /// The zxid of the transaction that created the node. Later nodes of the ensemble have higher ones.
    pub czxid: i64,
    /// The zxid of the transaction that last changed the data.
    pub mzxid: i64,
    /// The zxid of the transaction that last added or removed a child.
    pub pzxid: i64,
    /// When the node was created, by the leader's clock.
    pub ctime: SystemTime,
    /// When the data was last changed, by the leader's clock.
    pub mtime: SystemTime,
    /// The number of changes to the data. A node that is deleted and created again starts at zero. The number can wrap
    /// to a negative one.
    pub version: i32,
    /// The number of changes to the children.
    pub cversion: i32,
    /// The number of changes to the ACL.
    pub aversion: i32,
    /// The session that owns an ephemeral node; `None` for all other nodes, including containers.
    pub ephemeral_owner: Option<SessionId>,
    /// The length of the data in bytes.
    pub data_length: u32,
    /// The number of children.
    pub num_children: u32,
}

impl Stat {
    /// Returns a stat with all fields zero, for a [`Transport`](crate::transport::Transport) to fill in.
    pub const fn zeroed() -> Self {
        Self {
            czxid: 0,
            mzxid: 0,
            pzxid: 0,
            ctime: SystemTime::UNIX_EPOCH,
            mtime: SystemTime::UNIX_EPOCH,
            version: 0,
            cversion: 0,
            aversion: 0,
            ephemeral_owner: None,
            data_length: 0,
            num_children: 0,
        }
    }
}

/// The id of a session in its ensemble.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(i64);

impl SessionId {
    pub(crate) const fn new(id: i64) -> Self {
        Self(id)
    }

    /// Creates an id from the number in the wire protocol.
    pub const fn from_i64(id: i64) -> Self {
        Self(id)
    }

    /// Returns the number in the wire protocol.
    pub const fn as_i64(self) -> i64 {
        self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Converts a time of the leader's clock, in milliseconds since 1970.
pub(crate) fn to_time(millis: i64) -> SystemTime {
    let distance = Duration::from_millis(millis.unsigned_abs());
    let time = if millis < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(distance)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(distance)
    };
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_the_epoch_and_beyond_the_clock_do_not_panic() {
        assert_eq!(to_time(0), SystemTime::UNIX_EPOCH);
        assert_eq!(
            to_time(1500),
            SystemTime::UNIX_EPOCH + Duration::from_millis(1500)
        );
        assert_eq!(
            to_time(-1),
            SystemTime::UNIX_EPOCH - Duration::from_millis(1)
        );
        for extreme in [i64::MIN, i64::MAX] {
            // Any answer will do; the server's clock is not ours.
            let _time: SystemTime = to_time(extreme);
        }
    }
}
