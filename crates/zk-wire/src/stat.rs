//! The metadata of a node.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::proto::DecodeError;
use crate::proto::jute::Decoder;

/// The metadata of a node at the time of the server's reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the record of the protocol")]
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

impl Default for Stat {
    /// Returns a stat with all fields zero.
    fn default() -> Self {
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

impl Stat {
    /// Numbers that no node can have become zero.
    pub(crate) fn decode(from: &mut Decoder) -> Result<Self, DecodeError> {
        let count = |number| u32::try_from(number).unwrap_or(0);
        Ok(Self {
            czxid: from.long("the czxid of a stat")?,
            mzxid: from.long("the mzxid of a stat")?,
            ctime: Self::time(from.long("the ctime of a stat")?),
            mtime: Self::time(from.long("the mtime of a stat")?),
            version: from.int("the version of a stat")?,
            cversion: from.int("the cversion of a stat")?,
            aversion: from.int("the aversion of a stat")?,
            ephemeral_owner: match from.long("the owner in a stat")? {
                0 => None,
                id => Some(SessionId(id)),
            },
            data_length: count(from.int("the data length in a stat")?),
            num_children: count(from.int("the number of children in a stat")?),
            pzxid: from.long("the pzxid of a stat")?,
        })
    }

    /// Returns the time that a stat has for a number of milliseconds since 1970; 1970 if no clock has such a time.
    pub fn time(millis: i64) -> SystemTime {
        let distance = Duration::from_millis(millis.unsigned_abs());
        let time = if millis < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(distance)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(distance)
        };
        time.unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Returns whether the server filled it in.
    pub(crate) const fn is_known(&self) -> bool {
        self.czxid > 0
    }
}

/// The id of a session in its ensemble.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(i64);

impl SessionId {
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

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::proto::jute::Encoder;

    /// Encodes a stat as a server does: the longs and the ints in their order, with the last long behind them.
    fn encoded(longs: [i64; 6], ints: [i32; 5]) -> BytesMut {
        let [czxid, mzxid, ctime, mtime, owner, pzxid] = longs;
        let [version, cversion, aversion, data_length, num_children] = ints;
        let mut to = BytesMut::new();
        let mut encoder = Encoder::new(&mut to);
        encoder.long(czxid).long(mzxid).long(ctime).long(mtime);
        encoder.int(version).int(cversion).int(aversion);
        encoder.long(owner).int(data_length).int(num_children);
        encoder.long(pzxid);
        to
    }

    fn decoded(longs: [i64; 6], ints: [i32; 5]) -> Stat {
        let mut from = Decoder::new(encoded(longs, ints).freeze());
        let stat = Stat::decode(&mut from).unwrap();
        assert!(from.is_at_end());
        stat
    }

    #[test]
    fn every_field_is_at_its_place() {
        let millis = |millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
        let expected = Stat {
            czxid: 1,
            mzxid: 2,
            pzxid: 6,
            ctime: millis(3),
            mtime: millis(4),
            version: 7,
            cversion: 8,
            aversion: 9,
            ephemeral_owner: Some(SessionId::from_i64(5)),
            data_length: 10,
            num_children: 11,
        };
        assert_eq!(decoded([1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11]), expected);
        assert_eq!(decoded([0; 6], [0; 5]), Stat::default());
    }

    #[test]
    fn numbers_that_no_node_can_have_become_zero() {
        let counts = |data_length, num_children| {
            let stat = decoded([0; 6], [0, 0, 0, data_length, num_children]);
            (stat.data_length, stat.num_children)
        };
        assert_eq!(counts(-1, 7), (0, 7));
        assert_eq!(counts(7, i32::MIN), (7, 0));
        assert_eq!(counts(i32::MAX, i32::MAX), (0x7fff_ffff, 0x7fff_ffff));
        // Versions wrap to negative numbers, and so do session ids.
        let stat = decoded([0, 0, 0, 0, -1, 0], [-1, -2, -3, 0, 0]);
        assert_eq!((stat.version, stat.cversion, stat.aversion), (-1, -2, -3));
        assert_eq!(stat.ephemeral_owner, Some(SessionId::from_i64(-1)));
    }

    #[test]
    fn a_stat_that_is_cut_short_is_refused() {
        let whole = encoded([1; 6], [1; 5]).freeze();
        for len in 0..whole.len() {
            let stat = Stat::decode(&mut Decoder::new(whole.slice(..len)));
            assert!(
                matches!(stat, Err(DecodeError::Short { .. })),
                "{len} bytes: {stat:?}"
            );
        }
    }

    #[test]
    fn times_before_the_epoch_and_beyond_the_clock_do_not_panic() {
        assert_eq!(Stat::time(0), SystemTime::UNIX_EPOCH);
        assert_eq!(
            Stat::time(1500),
            SystemTime::UNIX_EPOCH + Duration::from_millis(1500)
        );
        assert_eq!(
            Stat::time(-1),
            SystemTime::UNIX_EPOCH - Duration::from_millis(1)
        );
        for extreme in [i64::MIN, i64::MAX] {
            // Any answer will do; the server's clock is not ours.
            let _time: SystemTime = Stat::time(extreme);
        }
    }
}
