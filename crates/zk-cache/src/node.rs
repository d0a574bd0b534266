//! A node as a cache has read it, in one allocation.

use std::fmt;
use std::time::Duration;
use std::time::SystemTime;

use triomphe::ThinArc;
use zk_core::NodePath;
use zk_core::SessionId;
use zk_core::Stat;

use crate::path_map::HasPath;

/// A node as a cache has read it. It is cheap to clone and never changes.
#[derive(Clone, PartialEq, Eq)]
pub struct Node(
    /// The bytes of the path, and after them the data.
    ThinArc<Header, u8>,
);

/// A [`Stat`] and the length of the path in 72 bytes, with times in milliseconds, as they are on the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Header {
    czxid: i64,
    mzxid: i64,
    pzxid: i64,
    ctime: i64,
    mtime: i64,
    ephemeral_owner: i64,
    version: i32,
    cversion: i32,
    aversion: i32,
    data_length: u32,
    num_children: u32,
    /// With [`NO_DATA`], if only the stat was read.
    path_len: u32,
}

impl Node {
    pub(crate) fn new(path: &str, stat: &Stat, data: Option<&[u8]>) -> Self {
        let bytes = [path.as_bytes(), data.unwrap_or_default()].concat();
        let header = Header::new(path.len(), stat, data.is_some());
        Self(ThinArc::from_header_and_slice(header, &bytes))
    }

    /// Returns the path of the node as text; [`to_node_path`](Self::to_node_path) returns it as a path.
    #[expect(clippy::missing_panics_doc, reason = "the bytes are those of a path")]
    pub fn path(&self) -> &str {
        str::from_utf8(self.path_bytes()).expect("it was a text")
    }

    /// Returns the path of the node.
    ///
    /// # Cost
    ///
    /// An allocation: a cache keeps each node in one piece, with its path inside.
    #[expect(clippy::missing_panics_doc, reason = "the bytes are those of a path")]
    pub fn to_node_path(&self) -> NodePath {
        NodePath::parse(self.path()).expect("it was a path")
    }

    /// Returns the last component of the path, or `None` for the root of the tree.
    pub fn name(&self) -> Option<&str> {
        let (_, name) = self.path().rsplit_once('/')?;
        (!name.is_empty()).then_some(name)
    }

    /// Returns the data, or `None` if the cache keeps [the stat](crate::Content::StatOnly) or
    /// [the name](crate::Content::NamesOnly) alone.
    pub fn data(&self) -> Option<&[u8]> {
        let has_data = self.header().path_len & NO_DATA == 0;
        has_data.then(|| &self.0.slice[self.path_len()..])
    }

    /// Returns the stat that belongs to the data. All its fields are zero if the cache keeps
    /// [the name](crate::Content::NamesOnly) alone.
    ///
    /// The fields about the children (`pzxid`, `cversion`, `num_children`) and about the ACL (`aversion`) are those of
    /// the last read: a watch on a node does not report their changes.
    /// The children themselves are up to date, see [`Snapshot::children`](crate::Snapshot::children).
    pub fn stat(&self) -> Stat {
        self.header().stat()
    }

    /// Returns whether both are the same node, and not one that was created again under the same path.
    pub fn is_same(&self, other: &Self) -> bool {
        self.czxid() == other.czxid() && self.path_bytes() == other.path_bytes()
    }

    pub(crate) fn czxid(&self) -> i64 {
        self.header().czxid
    }

    pub(crate) fn mzxid(&self) -> i64 {
        self.header().mzxid
    }

    /// Returns whether a read of the node returned what is here.
    pub(crate) fn is_up_to_date(&self, stat: &Stat, data: Option<&[u8]>) -> bool {
        *self.header() == Header::new(self.path_len(), stat, data.is_some()) && self.data() == data
    }

    /// Returns whether a read of the same node needs no event.
    pub(crate) fn has_content(&self, mzxid: i64, data: Option<&[u8]>) -> bool {
        // Different data under one `mzxid` means that one of the reads was wrong, and is reported.
        self.mzxid() == mzxid && self.data() == data
    }

    /// Returns the approximate memory footprint in bytes.
    pub(crate) fn bytes(&self) -> usize {
        // The reference count, the length, and the bytes.
        size_of::<[usize; 2]>() + size_of::<Header>() + self.0.slice.len()
    }

    fn header(&self) -> &Header {
        &self.0.header.header
    }

    fn path_len(&self) -> usize {
        (self.header().path_len & !NO_DATA) as usize
    }
}

impl HasPath for Node {
    fn path_bytes(&self) -> &[u8] {
        &self.0.slice[..self.path_len()]
    }
}

/// Omits the data.
impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("path", &self.path())
            .field("stat", &self.stat())
            .field("length", &self.data().map(<[u8]>::len))
            .finish()
    }
}

impl Header {
    fn new(path_len: usize, stat: &Stat, has_data: bool) -> Self {
        let path_len = u32::try_from(path_len).expect("a path fits into a message");
        Self {
            czxid: stat.czxid,
            mzxid: stat.mzxid,
            pzxid: stat.pzxid,
            ctime: to_millis(stat.ctime),
            mtime: to_millis(stat.mtime),
            ephemeral_owner: stat.ephemeral_owner.map_or(0, SessionId::as_i64),
            version: stat.version,
            cversion: stat.cversion,
            aversion: stat.aversion,
            data_length: stat.data_length,
            num_children: stat.num_children,
            path_len: if has_data {
                path_len
            } else {
                path_len | NO_DATA
            },
        }
    }

    fn stat(&self) -> Stat {
        let mut stat = Stat::zeroed();
        stat.czxid = self.czxid;
        stat.mzxid = self.mzxid;
        stat.pzxid = self.pzxid;
        stat.ctime = to_time(self.ctime);
        stat.mtime = to_time(self.mtime);
        stat.version = self.version;
        stat.cversion = self.cversion;
        stat.aversion = self.aversion;
        stat.ephemeral_owner =
            (self.ephemeral_owner != 0).then(|| SessionId::from_i64(self.ephemeral_owner));
        stat.data_length = self.data_length;
        stat.num_children = self.num_children;
        stat
    }
}

/// Returns the milliseconds since 1970 of a time that a server sent, which is a whole number of them.
fn to_millis(time: SystemTime) -> i64 {
    let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => millis(after),
        Err(error) => -millis(error.duration()),
    }
}

fn to_time(millis: i64) -> SystemTime {
    let distance = Duration::from_millis(millis.unsigned_abs());
    let time = if millis < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(distance)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(distance)
    };
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// No path is that long.
const NO_DATA: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_what_was_read() {
        let mut stat = Stat::zeroed();
        let nodes = [("/", None), ("/a", Some("")), ("/a/é", Some("data"))];
        for (at, (path, data)) in nodes.into_iter().enumerate() {
            stat.czxid = 1 << 40;
            stat.mzxid = stat.czxid + 1;
            stat.pzxid = stat.czxid + 2;
            stat.ctime = to_time(1_700_000_000_123);
            stat.mtime = to_time(-1);
            (stat.version, stat.cversion, stat.aversion) = (-3, 4, 5);
            (stat.data_length, stat.num_children) = (6, 7);
            stat.ephemeral_owner = (at > 0).then(|| SessionId::from_i64(-8));
            let data = data.map(str::as_bytes);
            let node = Node::new(path, &stat, data);
            assert_eq!((node.path(), node.stat(), node.data()), (path, stat, data));
            assert_eq!(node.to_node_path().as_str(), path);
            assert_eq!(node.name(), NodePath::parse(path).unwrap().name());
            assert!(node.is_up_to_date(&stat, data) && node.has_content(stat.mzxid, data));
            assert!(!node.is_up_to_date(&stat, Some(b"other")));
            stat.cversion += 1;
            assert!(!node.is_up_to_date(&stat, data) && node.has_content(stat.mzxid, data));
            stat.cversion -= 1;
        }
    }

    #[test]
    fn a_node_takes_88_bytes_with_its_path_and_data() {
        let node = Node::new("/cache/d12/n1234567", &Stat::zeroed(), Some(&[0; 100]));
        assert_eq!(node.bytes(), 88 + 19 + 100);
    }
}
