//! How the nodes of a lock are named, so that locks of several clients exclude each other.
//!
//! Pure: no I/O and no clock.

use zk_core::IdPlace;
use zk_core::Sequence;

/// Which children of a lock's path are contenders, and how this crate names its own.
///
/// A child is a contender if its name ends in a sequence number with a known marker right before it.
/// Every other child is ignored.
///
/// | layout | our nodes: exclusive; shared | also counted as contenders |
/// |---|---|---|
/// | [`curator`](Self::curator), the default | `_c_<uuid>-lock-0000000007`, of a read/write lock `_c_<uuid>-__WRIT__0000000007`; `_c_<uuid>-__READ__0000000007` | `…__lock__<number>`, `…__rlock__<number>`, `x-<session id>-<number>` |
/// | [`kazoo`](Self::kazoo) | `_c_<uuid>-__lock__0000000007`; `_c_<uuid>-__rlock__0000000007` | all of the above |
/// | [`hbase`](Self::hbase) | `write-<id>_0000000007`; `read-<id>_0000000007` | `write-…<number>`, `read-…<number>` |
/// | [`zookeeper`](Self::zookeeper) | `x-<id>-0000000007`; none | `x-<id>-<number>` |
/// | [`curator_latch`](Self::curator_latch) | `_c_<uuid>-latch-0000000007`; none | `…latch-<number>` |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    mutex: Stem,
    writer: Stem,
    reader: Option<Stem>,
    markers: &'static [(Marker, Kind)],
}

/// What a contender wants, and so whom it may be next to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// To be alone.
    Exclusive,
    /// To be with others that share.
    Shared,
}

/// What our own names are made of, beside the id and the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stem {
    pub(crate) name: &'static str,
    pub(crate) id: IdPlace,
}

/// What stands right before the number of a contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker {
    /// This text, whatever stands before it.
    Text(&'static str),
    /// `x-`, the id of a session in decimal or hexadecimal digits, and a dash: that is the whole name.
    SessionId,
    /// Nothing: the name begins with this text and ends in the number.
    Start(&'static str),
}

impl Layout {
    /// Names nodes as Apache Curator's `InterProcessMutex` and `InterProcessReadWriteLock` do.
    ///
    /// They and we exclude each other on one path, and so do we and go-zookeeper's lock, and ZooKeeper's `WriteLock`.
    ///
    /// We wait for every lock of kazoo, but for a `ReadLock` while we read. Whether kazoo waits for us depends:
    ///
    /// | kazoo | waits for our mutex | waits for our writer | waits for our reader |
    /// |---|---|---|---|
    /// | `Lock`, `WriteLock`, `ReadLock` | no | no | no |
    /// | `Lock` with `_NODE_NAME = "-lock-"` alone | no, and not for its like either | no | no |
    /// | `Lock` with `_NODE_NAME = "-lock-"` and `_EXCLUDE_NAMES = ["-lock-"]` | yes | no | no |
    /// | `Lock` with `extra_lock_patterns=["-lock-"]` | yes | no | no |
    ///
    /// Only a lock of which both wait for each other is one: with kazoo and this layout that is our mutex. A read/write
    /// lock that kazoo shares needs [`kazoo`](Self::kazoo)'s layout.
    /// Curator waits for the third of these only.
    ///
    /// Our mutex and our read/write lock exclude each other on one path; Curator's do not.
    pub const fn curator() -> Self {
        Self {
            mutex: Stem::protected("lock-"),
            writer: Stem::protected("__WRIT__"),
            reader: Some(Stem::protected("__READ__")),
            markers: CURATOR_AND_KAZOO,
        }
    }

    /// Names nodes so that stock kazoo locks wait for them: `Lock`, `WriteLock` and `ReadLock`.
    ///
    /// We wait for all of these, but for a `ReadLock` while we read:
    ///
    /// | kazoo | waits for our mutex | waits for our writer | waits for our reader |
    /// |---|---|---|---|
    /// | `Lock`, also with `extra_lock_patterns` | yes | yes | no, nor for kazoo's |
    /// | `WriteLock` | yes | yes | yes |
    /// | `ReadLock` | yes | yes | no, they share |
    /// | `Lock` with `_EXCLUDE_NAMES = ["-lock-"]` | no | no | no |
    ///
    /// So a `Lock` and our read/write lock are not for one path; `WriteLock` and `ReadLock` are.
    /// We wait for Curator's locks, too, but Curator does not wait for nodes with these names.
    ///
    /// A `ReadLock` of kazoo before its issue 649 was fixed (2.8.0 has it) also waits for writers behind it, which wait
    /// for it, so that neither is granted anything until one gives up; nobody else can help that.
    pub const fn kazoo() -> Self {
        Self {
            mutex: Stem::protected("__lock__"),
            writer: Stem::protected("__lock__"),
            reader: Some(Stem::protected("__rlock__")),
            markers: CURATOR_AND_KAZOO,
        }
    }

    /// Names nodes as HBase's `ZKInterProcessReadWriteLock` does.
    ///
    /// They and we exclude each other on one path.
    /// That is tested against a program that makes the requests of HBase 1.x with its names and data, not against HBase.
    /// HBase keeps the data of its nodes in a format of its own, and does not understand ours in its listings.
    pub const fn hbase() -> Self {
        Self {
            mutex: Stem::named("write-", "_"),
            writer: Stem::named("write-", "_"),
            reader: Some(Stem::named("read-", "_")),
            markers: &[
                (Marker::Start("write-"), Kind::Exclusive),
                (Marker::Start("read-"), Kind::Shared),
            ],
        }
    }

    /// Names nodes as ZooKeeper's own lock recipe does, in Java (`WriteLock`) and in C (`zoo_lock`).
    ///
    /// They and we exclude each other on one path.
    /// The recipe has a session id in each name, which finds the node again after a lost answer; here it is a random
    /// id, so that two contenders of one session do not take each other's node for theirs.
    pub const fn zookeeper() -> Self {
        Self {
            mutex: Stem::named("x-", "-"),
            writer: Stem::named("x-", "-"),
            reader: None,
            markers: &[(Marker::SessionId, Kind::Exclusive)],
        }
    }

    /// Names nodes as Apache Curator's `LeaderLatch` does.
    pub const fn curator_latch() -> Self {
        Self {
            mutex: Stem::protected("latch-"),
            writer: Stem::protected("latch-"),
            reader: None,
            markers: &[(Marker::Text("latch-"), Kind::Exclusive)],
        }
    }

    /// Names nodes as the leases of Apache Curator's `InterProcessSemaphoreV2`, whose order does not matter.
    pub(crate) const fn leases() -> Self {
        Self {
            mutex: Stem::protected("lease-"),
            writer: Stem::protected("lease-"),
            reader: None,
            markers: &[(Marker::Text("lease-"), Kind::Exclusive)],
        }
    }

    /// What the names of our nodes are made of for a lock that knows no readers.
    pub(crate) const fn mutex(self) -> Stem {
        self.mutex
    }

    /// The same for the exclusive side of a read/write lock.
    pub(crate) const fn writer(self) -> Stem {
        self.writer
    }

    /// The same for its shared side; `None` if the layout has none.
    pub(crate) const fn reader(self) -> Option<Stem> {
        self.reader
    }

    /// Returns the number of a contender and what it wants, or `None` for a foreign child.
    pub(crate) fn contender(self, name: &str) -> Option<(Sequence, Kind)> {
        self.marked(name)
            .map(|(sequence, kind, _)| (sequence, kind))
    }

    /// Tells whether nothing with a contender's number can be there once the contender is gone.
    ///
    /// A writer of a read/write lock may become a reader, which has a node of its own with the number of the first one.
    /// A mutex cannot; a name that both may have counts as a writer's.
    pub(crate) fn leaves_nothing(self, name: &str) -> bool {
        self.marked(name)
            .is_some_and(|(_, _, marker)| MUTEXES.contains(&marker))
    }

    fn marked(self, name: &str) -> Option<(Sequence, Kind, Marker)> {
        self.markers.iter().find_map(|(marker, kind)| {
            let sequence = Sequence::parse(marker.number_in(name)?)?;
            Some((sequence, *kind, *marker))
        })
    }

    /// Returns what a contender wants, or `None` for a foreign child.
    pub(crate) fn kind_of(self, name: &str) -> Option<Kind> {
        self.contender(name).map(|(_, kind)| kind)
    }

    /// Returns the number of a contender, or `None` for a foreign child.
    pub(crate) fn sequence_of(self, name: &str) -> Option<Sequence> {
        self.contender(name).map(|(sequence, _)| sequence)
    }
}

impl Default for Layout {
    /// The layout of Curator.
    fn default() -> Self {
        Self::curator()
    }
}

impl Stem {
    /// With the id before the name, as Curator's protection has it.
    const fn protected(name: &'static str) -> Self {
        Self {
            name,
            id: IdPlace::Before,
        }
    }

    /// With the id and `end` behind the name, for those who look at the beginning of names.
    const fn named(name: &'static str, end: &'static str) -> Self {
        Self {
            name,
            id: IdPlace::After(end),
        }
    }
}

impl Marker {
    /// Returns what stands after the marker.
    ///
    /// The marker says where a number begins, so that a minus sign is part of the number and a dash of the marker is
    /// not.
    fn number_in(self, name: &str) -> Option<&str> {
        match self {
            Self::Text(text) => name.rsplit_once(text).map(|(_, number)| number),
            Self::SessionId => {
                let id = name.strip_prefix("x-")?;
                let id = id.strip_prefix('-').unwrap_or(id);
                let digits = id.bytes().take_while(u8::is_ascii_hexdigit).count();
                if digits == 0 {
                    return None;
                }
                id.get(digits..)?.strip_prefix('-')
            }
            Self::Start(text) => {
                let rest = name.strip_prefix(text)?;
                let split = rest.len().checked_sub(DIGITS)?;
                // A minus sign is one of the ten characters of `%010d`, and one more from -1000000000 down.
                let signed = split.checked_sub(1).and_then(|at| rest.get(at..));
                signed
                    .filter(|number| number.starts_with("-1") || number.starts_with("-2"))
                    .or_else(|| rest.get(split..))
            }
        }
    }
}

/// Curator's names and kazoo's: each client ignores the other's, we ignore neither.
const CURATOR_AND_KAZOO: &[(Marker, Kind)] = &[
    (Marker::Text("lock-"), Kind::Exclusive),
    (Marker::Text("__lock__"), Kind::Exclusive),
    (Marker::Text("__WRIT__"), Kind::Exclusive),
    (Marker::Text("__READ__"), Kind::Shared),
    (Marker::Text("__rlock__"), Kind::Shared),
    (Marker::SessionId, Kind::Exclusive),
];

/// The marks of locks that know no readers, in all clients.
const MUTEXES: [Marker; 3] = [
    Marker::Text("lock-"),
    Marker::Text("latch-"),
    Marker::SessionId,
];

/// How many characters the server writes at least for a number.
const DIGITS: usize = 10;

#[cfg(test)]
mod tests;
