//! The names of lock nodes, in the layouts of several clients, so that their locks and ours exclude each other.
//!
//! Pure: no I/O and no clock.

use zk_core::{IdPlace, Sequence};

/// Which children of a lock's path are contenders, and how this crate names its own.
///
/// A child is a contender if its name ends in a sequence number with a known marker directly before it.
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
    mutex: NodePrefix,
    writer: NodePrefix,
    reader: Option<NodePrefix>,
    markers: &'static [(Marker, Kind)],
}

/// What a contender wants, which determines whom it can share the lock with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// To hold the lock alone.
    Exclusive,
    /// To share the lock with others of this kind.
    Shared,
}

/// What the names of our nodes are created from; the id and the number are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodePrefix {
    pub(crate) name: &'static str,
    pub(crate) id: IdPlace,
}

/// What stands directly before the number in a contender's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker {
    /// This text, with anything before it.
    Text(&'static str),
    /// `x-`, a session id in decimal or hexadecimal digits, and a dash; the name contains nothing else.
    SessionId,
    /// Nothing: the name starts with this text and ends in the number.
    Start(&'static str),
}

impl Layout {
    /// Names nodes as Apache Curator's `InterProcessMutex` and `InterProcessReadWriteLock` do.
    ///
    /// These locks and ours exclude each other on one path. The same is true for go-zookeeper's lock and ZooKeeper's
    /// `WriteLock`.
    ///
    /// We wait for every lock of kazoo, except for a `ReadLock` while we read. Whether kazoo waits for us depends:
    ///
    /// | kazoo | waits for our mutex | waits for our writer | waits for our reader |
    /// |---|---|---|---|
    /// | `Lock`, `WriteLock`, `ReadLock` | no | no | no |
    /// | `Lock` with `_NODE_NAME = "-lock-"` alone | no, nor for other locks of its kind | no | no |
    /// | `Lock` with `_NODE_NAME = "-lock-"` and `_EXCLUDE_NAMES = ["-lock-"]` | yes | no | no |
    /// | `Lock` with `extra_lock_patterns=["-lock-"]` | yes | no | no |
    ///
    /// Two clients exclude each other only if both wait for the other. With kazoo and this layout, only our mutex does.
    /// A read/write lock shared with kazoo needs the layout [`kazoo`](Self::kazoo).
    /// Of these locks of kazoo, Curator waits for the third only.
    ///
    /// Our mutex and our read/write lock exclude each other on one path; Curator's do not.
    pub const fn curator() -> Self {
        Self {
            mutex: NodePrefix::protected("lock-"),
            writer: NodePrefix::protected("__WRIT__"),
            reader: Some(NodePrefix::protected("__READ__")),
            markers: CURATOR_AND_KAZOO,
        }
    }

    /// Names nodes so that stock kazoo locks wait for them: `Lock`, `WriteLock` and `ReadLock`.
    ///
    /// We wait for all of these, except for a `ReadLock` while we read:
    ///
    /// | kazoo | waits for our mutex | waits for our writer | waits for our reader |
    /// |---|---|---|---|
    /// | `Lock`, also with `extra_lock_patterns` | yes | yes | no, nor for kazoo's |
    /// | `WriteLock` | yes | yes | yes |
    /// | `ReadLock` | yes | yes | no, they share |
    /// | `Lock` with `_EXCLUDE_NAMES = ["-lock-"]` | no | no | no |
    ///
    /// So do not use a `Lock` and our read/write lock on one path; use `WriteLock` and `ReadLock`.
    /// We also wait for Curator's locks, but Curator does not wait for nodes with these names.
    ///
    /// kazoo creates the path once for each of its locks, and fails with `NoNodeError` if it is gone later. So this layout
    /// creates the path and missing parents as persistent nodes, which stay. A path that exists as a container stays one.
    ///
    /// Before kazoo 2.8.0, which fixed its issue 649, a `ReadLock` also waits for writers behind it, which wait for it.
    /// Neither is granted the lock until one gives up. Other clients cannot prevent that.
    pub const fn kazoo() -> Self {
        Self {
            mutex: NodePrefix::protected("__lock__"),
            writer: NodePrefix::protected("__lock__"),
            reader: Some(NodePrefix::protected("__rlock__")),
            markers: CURATOR_AND_KAZOO,
        }
    }

    /// Names nodes as HBase's `ZKInterProcessReadWriteLock` does.
    ///
    /// These locks and ours exclude each other on one path, in order of the numbers.
    /// The tests use a program that sends the requests of HBase 1.x with its names and data, not HBase itself.
    ///
    /// HBase differs from us in these points:
    ///
    /// - The last ten characters of a child's name are its number, and a writer considers every child, also those that
    ///   are no contenders to us. It waits for them, and fails if a name does not end in ten digits. Use the path for
    ///   nothing else.
    /// - It has its own format for the data of nodes, and its listings do not understand ours. It takes data that begins
    ///   with the byte `0xff` for that format, and may fail to acquire the lock: do not let the
    ///   [owner](crate::LockOptions::with_owner) begin with it.
    /// - It releases its lock only if the data of its node is as it was at the grant. A [`Revoke`](crate::Revoke) leaves
    ///   the data alone, except [as Curator does](crate::Revoke::as_curator): do not ask HBase in that form.
    pub const fn hbase() -> Self {
        Self {
            mutex: NodePrefix::named("write-", "_"),
            writer: NodePrefix::named("write-", "_"),
            reader: Some(NodePrefix::named("read-", "_")),
            markers: &[
                (Marker::Start("write-"), Kind::Exclusive),
                (Marker::Start("read-"), Kind::Shared),
            ],
        }
    }

    /// Names nodes as ZooKeeper's own lock recipe does, in Java (`WriteLock`) and in C (`zoo_lock`).
    ///
    /// These locks and ours exclude each other on one path.
    /// The recipe has a session id in each name, to find the node again after a lost reply. We use a random id instead,
    /// so that two contenders of one session do not mistake each other's node for their own.
    pub const fn zookeeper() -> Self {
        Self {
            mutex: NodePrefix::named("x-", "-"),
            writer: NodePrefix::named("x-", "-"),
            reader: None,
            markers: &[(Marker::SessionId, Kind::Exclusive)],
        }
    }

    /// Names nodes as Apache Curator's `LeaderLatch` does.
    pub const fn curator_latch() -> Self {
        Self {
            mutex: NodePrefix::protected("latch-"),
            writer: NodePrefix::protected("latch-"),
            reader: None,
            markers: &[(Marker::Text("latch-"), Kind::Exclusive)],
        }
    }

    /// Names nodes as the leases of Apache Curator's `InterProcessSemaphoreV2`. Their order is irrelevant.
    pub(crate) const fn leases() -> Self {
        Self {
            mutex: NodePrefix::protected("lease-"),
            writer: NodePrefix::protected("lease-"),
            reader: None,
            markers: &[(Marker::Text("lease-"), Kind::Shared)],
        }
    }

    /// Returns whether the path of a lock has to stay when it is empty.
    ///
    /// kazoo creates it once for each of its locks, which fail for good when a container is gone later.
    pub(crate) fn has_persistent_path(self) -> bool {
        self == Self::kazoo()
    }

    /// Returns the prefix of our nodes for a lock without readers.
    pub(crate) const fn mutex(self) -> NodePrefix {
        self.mutex
    }

    /// Returns the prefix of our writers in a read/write lock.
    pub(crate) const fn writer(self) -> NodePrefix {
        self.writer
    }

    /// Returns the prefix of our readers in a read/write lock; `None` if the layout has no readers.
    pub(crate) const fn reader(self) -> Option<NodePrefix> {
        self.reader
    }

    /// Returns the kind of our contenders with a prefix of this layout.
    pub(crate) fn kind_of(self, prefix: NodePrefix) -> Kind {
        if self.reader == Some(prefix) {
            Kind::Shared
        } else {
            Kind::Exclusive
        }
    }

    /// Returns the number of a contender and its kind; `None` for a foreign child.
    pub(crate) fn parse(self, name: &str) -> Option<(Sequence, Kind)> {
        self.parse_with_marker(name)
            .map(|(sequence, kind, _)| (sequence, kind))
    }

    /// Returns whether no other node can take over the number of this contender.
    ///
    /// A writer of a read/write lock may downgrade to a reader, which has a second node with the number of the first
    /// one. A mutex cannot. A name that both may have is treated as a writer's.
    pub(crate) fn cannot_downgrade(self, name: &str) -> bool {
        self.parse_with_marker(name)
            .is_some_and(|(_, _, marker)| MUTEXES.contains(&marker))
    }

    fn parse_with_marker(self, name: &str) -> Option<(Sequence, Kind, Marker)> {
        self.markers.iter().find_map(|(marker, kind)| {
            let sequence = Sequence::parse(marker.number_in(name)?)?;
            Some((sequence, *kind, *marker))
        })
    }

    /// Returns the number of a contender; `None` for a foreign child.
    pub(crate) fn sequence_of(self, name: &str) -> Option<Sequence> {
        self.parse(name).map(|(sequence, _)| sequence)
    }
}

impl Default for Layout {
    /// Returns [`Layout::curator`].
    fn default() -> Self {
        Self::curator()
    }
}

impl NodePrefix {
    /// The id comes before the name, as in Curator's protection mode.
    const fn protected(name: &'static str) -> Self {
        Self {
            name,
            id: IdPlace::Before,
        }
    }

    /// The id and `end` come after the name, for clients that parse the start of names.
    const fn named(name: &'static str, end: &'static str) -> Self {
        Self {
            name,
            id: IdPlace::After(end),
        }
    }
}

impl Marker {
    /// Returns the text after the marker.
    ///
    /// The marker determines where the number starts: a minus sign belongs to the number, a dash to the marker.
    fn number_in(self, name: &str) -> Option<&str> {
        match self {
            // Looks only where a number may begin: this runs for every child of every list.
            Self::Text(text) => [DIGITS, DIGITS + 1].into_iter().find_map(|width| {
                let (before, number) = name.split_at_checked(name.len().checked_sub(width)?)?;
                before.ends_with(text).then_some(number)
            }),
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
                // A minus sign is one of the ten characters of `%010d`; from -1000000000 down there are eleven.
                let signed = split.checked_sub(1).and_then(|at| rest.get(at..));
                signed
                    .filter(|number| number.starts_with("-1") || number.starts_with("-2"))
                    .or_else(|| rest.get(split..))
            }
        }
    }
}

/// The markers of Curator and kazoo. Each of them ignores the other's; we recognise both.
const CURATOR_AND_KAZOO: &[(Marker, Kind)] = &[
    (Marker::Text("lock-"), Kind::Exclusive),
    (Marker::Text("__lock__"), Kind::Exclusive),
    (Marker::Text("__WRIT__"), Kind::Exclusive),
    (Marker::Text("__READ__"), Kind::Shared),
    (Marker::Text("__rlock__"), Kind::Shared),
    (Marker::SessionId, Kind::Exclusive),
];

/// The markers of locks without readers, in all clients.
const MUTEXES: [Marker; 3] = [
    Marker::Text("lock-"),
    Marker::Text("latch-"),
    Marker::SessionId,
];

/// The minimum number of characters that the server writes for a sequence number.
const DIGITS: usize = 10;

#[cfg(test)]
mod tests;
