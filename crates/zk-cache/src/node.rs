//! A node as a cache has read it, in one allocation.

use std::fmt;
use std::time::{Duration, SystemTime};

use triomphe::ThinArc;
use zk_core::{NodePath, SessionId, Stat};

use crate::path_map::HasPath;

/// A node as a cache has read it. It is cheap to clone and never changes.
#[derive(Clone, PartialEq, Eq)]
pub struct Node(
    /// The bytes of the path, those of the [`PackedStat`], and the data: a read by path needs the reference count, the
    /// lengths and the path, which are next to each other.
    ThinArc<Lengths, u8>,
);

#[derive(Clone, Copy, PartialEq, Eq)]
struct Lengths {
    /// The length of the path; the bit [`NO_DATA`] is set if only the stat was read.
    path: u32,
    /// The length of the data on the server.
    data: u32,
}

/// A [`Stat`] without the length of the data: six numbers of 64 bits, and two pairs of numbers of 32 bits.
/// Times are in milliseconds, as they are on the wire.
type PackedStat = [[u8; 8]; 8];

impl Node {
    pub(crate) fn new(path: &str, stat: &Stat, data: Option<&[u8]>) -> Self {
        let packed = pack(stat);
        let parts = [
            path.as_bytes(),
            packed.as_flattened(),
            data.unwrap_or_default(),
        ];
        let lengths = Lengths::new(path.len(), stat, data.is_some());
        Self(ThinArc::from_header_and_slice(lengths, &parts.concat()))
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
        let has_data = self.lengths().path & NO_DATA == 0;
        has_data.then(|| &self.0.slice[self.path_len() + size_of::<PackedStat>()..])
    }

    /// Returns the stat that belongs to the data. All its fields are zero if the cache keeps
    /// [the name](crate::Content::NamesOnly) alone.
    ///
    /// The fields about the children (`pzxid`, `cversion`, `num_children`) and about the ACL (`aversion`) are those of
    /// the last read: a watch on a node does not report their changes.
    /// The children themselves are up to date, see [`Snapshot::children`](crate::Snapshot::children).
    pub fn stat(&self) -> Stat {
        let owner = self.number(OWNER);
        let [version, cversion] = unpack_pair(self.number(VERSIONS));
        let [aversion, num_children] = unpack_pair(self.number(ACL_AND_CHILDREN));
        Stat {
            czxid: self.czxid(),
            mzxid: self.mzxid(),
            pzxid: self.number(PZXID),
            ctime: Stat::time(self.number(CTIME)),
            mtime: Stat::time(self.number(MTIME)),
            version,
            cversion,
            aversion,
            ephemeral_owner: (owner != 0).then(|| SessionId::from_i64(owner)),
            data_length: self.lengths().data,
            num_children: num_children.cast_unsigned(),
        }
    }

    /// Returns whether both are the same node, and not one that was created again under the same path.
    pub fn is_same(&self, other: &Self) -> bool {
        self.czxid() == other.czxid() && self.path_bytes() == other.path_bytes()
    }

    pub(crate) fn czxid(&self) -> i64 {
        self.number(CZXID)
    }

    pub(crate) fn mzxid(&self) -> i64 {
        self.number(MZXID)
    }

    /// Returns whether a stat is that of the data that is here, also on an ensemble that was set up anew.
    pub(crate) fn has_data_of(&self, stat: &Stat) -> bool {
        let [version, _] = unpack_pair(self.number(VERSIONS));
        self.czxid() == stat.czxid
            && self.mzxid() == stat.mzxid
            && self.number(MTIME) == to_millis(stat.mtime)
            && version == stat.version
            && self.lengths().data == stat.data_length
    }

    /// Returns whether a read of the node returned what is here.
    pub(crate) fn is_up_to_date(&self, stat: &Stat, data: Option<&[u8]>) -> bool {
        *self.lengths() == Lengths::new(self.path_len(), stat, data.is_some())
            && self.packed_stat() == pack(stat).as_flattened()
            && self.data() == data
    }

    /// Returns whether a read of the same node needs no event.
    pub(crate) fn has_content(&self, mzxid: i64, data: Option<&[u8]>) -> bool {
        // Different data under one `mzxid` means that one of the reads was wrong, and is reported.
        self.mzxid() == mzxid && self.data() == data
    }

    /// Returns the approximate memory footprint in bytes.
    pub(crate) fn bytes(&self) -> usize {
        Self::bytes_of(self.path_len(), self.data().map_or(0, <[u8]>::len))
    }

    /// Returns the memory footprint of a node with a path and data of these lengths.
    pub(crate) const fn bytes_of(path: usize, data: usize) -> usize {
        // The reference count, the length, the lengths of the parts, and the parts.
        size_of::<[usize; 2]>() + size_of::<Lengths>() + size_of::<PackedStat>() + path + data
    }

    fn lengths(&self) -> &Lengths {
        &self.0.header.header
    }

    fn path_len(&self) -> usize {
        (self.lengths().path & !NO_DATA) as usize
    }

    fn packed_stat(&self) -> &[u8] {
        &self.0.slice[self.path_len()..][..size_of::<PackedStat>()]
    }

    /// Returns a number of the stat.
    fn number(&self, index: usize) -> i64 {
        let (numbers, _) = self.packed_stat().as_chunks();
        i64::from_le_bytes(numbers[index])
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

impl Lengths {
    fn new(path: usize, stat: &Stat, has_data: bool) -> Self {
        let path = u32::try_from(path).expect("a path fits into a message");
        Self {
            path: if has_data { path } else { path | NO_DATA },
            data: stat.data_length,
        }
    }
}

fn pack(stat: &Stat) -> PackedStat {
    let mut numbers = [0; 8];
    numbers[CZXID] = stat.czxid;
    numbers[MZXID] = stat.mzxid;
    numbers[PZXID] = stat.pzxid;
    numbers[CTIME] = to_millis(stat.ctime);
    numbers[MTIME] = to_millis(stat.mtime);
    numbers[OWNER] = stat.ephemeral_owner.map_or(0, SessionId::as_i64);
    numbers[VERSIONS] = pack_pair([stat.version, stat.cversion]);
    numbers[ACL_AND_CHILDREN] = pack_pair([stat.aversion, stat.num_children.cast_signed()]);
    numbers.map(i64::to_le_bytes)
}

/// Makes one number of two.
fn pack_pair([first, second]: [i32; 2]) -> i64 {
    i64::from(first) << 32 | i64::from(second.cast_unsigned())
}

/// Returns the two numbers that one was made of.
#[expect(
    clippy::cast_possible_truncation,
    reason = "each is a half of the number"
)]
const fn unpack_pair(number: i64) -> [i32; 2] {
    [(number >> 32) as i32, number as i32]
}

/// Returns the milliseconds since 1970 of a time that a server sent, which is a whole number of them.
fn to_millis(time: SystemTime) -> i64 {
    let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => millis(after),
        Err(error) => -millis(error.duration()),
    }
}

const CZXID: usize = 0;
const MZXID: usize = 1;
const PZXID: usize = 2;
const CTIME: usize = 3;
const MTIME: usize = 4;
const OWNER: usize = 5;
/// The versions of the data and of the children.
const VERSIONS: usize = 6;
/// The version of the ACL, and the number of children.
const ACL_AND_CHILDREN: usize = 7;

/// No path is that long.
const NO_DATA: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_what_was_read() {
        let mut stat = Stat::default();
        let nodes = [("/", None), ("/a", Some("")), ("/a/é", Some("data"))];
        for (at, (path, data)) in nodes.into_iter().enumerate() {
            stat.czxid = 1 << 40;
            stat.mzxid = stat.czxid + 1;
            stat.pzxid = stat.czxid + 2;
            stat.ctime = Stat::time(1_700_000_000_123);
            stat.mtime = Stat::time(-1);
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
        let node = Node::new("/cache/d12/n1234567", &Stat::default(), Some(&[0; 100]));
        assert_eq!(node.bytes(), 88 + 19 + 100);
    }
}
