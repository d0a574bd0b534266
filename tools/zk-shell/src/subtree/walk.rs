//! Reads a subtree of an ensemble in the order of a walk, many nodes at a time and with bounded memory.
//!
//! What is read ahead is bounded: the data, and the paths of children whose parent was not returned yet. The paths of the
//! other children that are still to come are held in any case.
//!
//! It is not a snapshot: each node is as it was at one moment, but those moments differ.

use std::collections::VecDeque;

use futures_util::future::{join_all, try_join};
use zk_core::{Acl, Error, ErrorKind, NodePath, Session, Stat};

use super::node::{RelativePath, SubtreeNode};
use crate::failure::Failure;

/// A walk over a subtree.
#[derive(Debug)]
pub(crate) struct Walk {
    session: Session,
    root: NodePath,
    /// What comes next, in order.
    sequence: VecDeque<Entry>,
    /// The bytes that were read ahead: the sum of those of each [`Entry::Read`].
    held_bytes: usize,
    batch: usize,
}

/// A node of the ensemble.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    Node {
        node: SubtreeNode,
        stat: Stat,
    },
    /// It exists, and the session may not read it or what is below it.
    Unreadable(RelativePath),
}

#[derive(Debug)]
enum Entry {
    Unread(RelativePath),
    Read {
        found: Found,
        /// The length of its data, and of the paths of its children, which follow in the sequence.
        bytes: usize,
    },
}

impl Walk {
    /// Begins a walk at `root`. If that does not exist, the walk has no nodes.
    pub(crate) fn new(session: &Session, root: &NodePath) -> Self {
        Self {
            session: session.clone(),
            root: root.clone(),
            sequence: VecDeque::from([Entry::Unread(RelativePath::root())]),
            held_bytes: 0,
            batch: FIRST_BATCH,
        }
    }

    /// Returns the next node, or `None` at the end. Nodes that vanish meanwhile are left out.
    pub(crate) async fn next(&mut self) -> Result<Option<Found>, Failure> {
        loop {
            match self.sequence.pop_front() {
                None => return Ok(None),
                Some(Entry::Read { found, bytes }) => {
                    self.held_bytes -= bytes;
                    return Ok(Some(found));
                }
                Some(entry) => {
                    self.sequence.push_front(entry);
                    self.read_ahead().await?;
                }
            }
        }
    }

    /// Returns the stat of a node, which needs no permission on older servers.
    pub(crate) async fn stat(&self, path: &RelativePath) -> Result<Read<Stat>, Failure> {
        possible(self.session.stat(&path.below(&self.root)?).await)
    }

    /// Returns the node that is the root for the session.
    pub(crate) fn chroot(&self) -> &NodePath {
        &self.session.servers().chroot
    }

    /// Reads the first entry and some of those behind it. The children of each take their places in the sequence.
    async fn read_ahead(&mut self) -> Result<(), Failure> {
        let most = if self.held_bytes < BYTES_AHEAD {
            self.batch
        } else {
            1
        };
        let mut window = Vec::new();
        let mut paths = Vec::new();
        while paths.len() < most && window.len() < ENTRIES_AHEAD {
            match self.sequence.pop_front() {
                None => break,
                Some(entry) => {
                    if let Entry::Unread(path) = &entry {
                        paths.push(path.clone());
                    }
                    window.push(entry);
                }
            }
        }
        let mut read = self.read(&paths).await?.into_iter();
        self.batch = if read.len() < paths.len() {
            read.len().max(1)
        } else {
            (self.batch * 2).min(LARGEST_BATCH)
        };
        for entry in window.into_iter().rev() {
            // The entries are restored from the last one on, so that results are taken from the end, too.
            match entry {
                Entry::Unread(path) if paths.len() > read.len() => {
                    paths.pop();
                    self.sequence.push_front(Entry::Unread(path));
                }
                Entry::Unread(_) => {
                    paths.pop();
                    if let Some(Some((found, mut names))) = read.next_back() {
                        names.sort_unstable_by(|a, b| b.cmp(a));
                        let mut bytes = found.data_length();
                        for name in names {
                            let child = found.path().child(&name);
                            bytes += child.as_str().len();
                            self.sequence.push_front(Entry::Unread(child));
                        }
                        self.held_bytes += bytes;
                        self.sequence.push_front(Entry::Read { found, bytes });
                    }
                }
                entry @ Entry::Read { .. } => self.sequence.push_front(entry),
            }
        }
        Ok(())
    }

    /// Reads nodes with the names of their children: the first of them at least, and no more than fit into memory.
    /// Nodes that do not exist are `None`.
    async fn read(
        &self,
        nodes: &[RelativePath],
    ) -> Result<Vec<Option<(Found, Vec<String>)>>, Failure> {
        let mut paths = Vec::with_capacity(nodes.len());
        for node in nodes {
            paths.push(node.below(&self.root)?);
        }
        let acls = join_all(
            paths
                .iter()
                .map(|path| self.session.acl(path).into_future()),
        );
        let acls: Vec<Result<(Acl, Stat), Error>> = acls.await;
        let lengths = acls
            .iter()
            .zip(nodes)
            .map(|(acl, node)| acl.as_ref().map_or(0, |(_, stat)| length_of(node, stat)));
        let fitting = fitting(lengths);
        let lists = self.session.list_many(&paths[..fitting]).into_future();
        let data = self.session.get_many(&paths[..fitting]).into_future();
        let (lists, data) = try_join(lists, data).await?;
        let mut found = Vec::with_capacity(fitting);
        let parts = acls.into_iter().zip(lists).zip(data);
        for ((path, node), ((acl, names), data)) in paths.iter().zip(nodes).zip(parts) {
            let (acl, names, data) = match (possible(acl)?, possible(names)?, possible(data)?) {
                (Read::Done(acl), Read::Done(names), Read::Done(data)) => (acl, names, data),
                (Read::Gone, _, _) | (_, Read::Gone, _) | (_, _, Read::Gone) => {
                    found.push(None);
                    continue;
                }
                _ => {
                    found.push(Some((Found::Unreadable(node.clone()), Vec::new())));
                    continue;
                }
            };
            let (acl, (data, stat)) = if is_same(&acl.1, &data.1) {
                (acl.0, data)
            } else {
                let Some(both) = self.read_again(path).await? else {
                    found.push(None);
                    continue;
                };
                both
            };
            check_visible(path, &acl)?;
            let node = SubtreeNode {
                path: node.clone(),
                data,
                acl,
                is_ephemeral: stat.ephemeral_owner.is_some(),
            };
            let names = self.without_reserved(&node.path, names);
            found.push(Some((Found::Node { node, stat }, names)));
        }
        Ok(found)
    }

    /// Reads the data and the access rules of a node that changed between two reads, until they belong together.
    async fn read_again(
        &self,
        path: &NodePath,
    ) -> Result<Option<(Acl, (zk_core::Bytes, Stat))>, Failure> {
        for _ in 0..ATTEMPTS {
            let data = self.session.get(path).into_future();
            let acl = self.session.acl(path).into_future();
            match try_join(data, acl).await {
                Ok((data, acl)) if is_same(&acl.1, &data.1) => return Ok(Some((acl.0, data))),
                Ok(_) => {}
                Err(error) if error.is_no_node() => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        Err(Failure::operation(
            format!(
                "the access rules of {path} change all the time, so that they cannot be read with its data"
            ),
            Some("try again when they do not"),
        ))
    }

    /// Leaves out `/zookeeper`, which belongs to the ensemble.
    fn without_reserved(&self, path: &RelativePath, mut names: Vec<String>) -> Vec<String> {
        let has_reserved = self.root.is_root() && self.session.servers().chroot.is_root();
        if path.is_root() && has_reserved {
            names.retain(|name| name != RESERVED);
        }
        names
    }
}

impl Found {
    pub(crate) fn path(&self) -> &RelativePath {
        match self {
            Self::Node { node, .. } => &node.path,
            Self::Unreadable(path) => path,
        }
    }

    fn data_length(&self) -> usize {
        match self {
            Self::Node { node, .. } => node.data.len(),
            Self::Unreadable(_) => 0,
        }
    }
}

/// The result of a read, without failures of the whole call.
pub(crate) enum Read<T> {
    Done(T),
    Gone,
    Refused,
}

fn possible<T>(read: Result<T, Error>) -> Result<Read<T>, Failure> {
    match read {
        Ok(value) => Ok(Read::Done(value)),
        Err(error) if error.is_no_node() => Ok(Read::Gone),
        Err(error) if error.kind() == ErrorKind::NoAuth => Ok(Read::Refused),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether two reads found the same node with the same access rules.
fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.czxid, one.aversion) == (other.czxid, other.aversion)
}

/// Servers hide the password hashes from sessions that may read a node, but not change its access rules.
fn check_visible(path: &NodePath, acl: &Acl) -> Result<(), Failure> {
    let mut entries = acl.entries().iter();
    if entries.any(|entry| entry.scheme() == "digest" && entry.id().ends_with(":x")) {
        return Err(Failure::operation(
            format!(
                "the server hides the access rules of {path}, because this session lacks the permission ADMIN"
            ),
            Some(
                "put the credentials of a user with that permission into the environment: ZK_AUTH=user:password",
            ),
        ));
    }
    Ok(())
}

/// Returns about how many bytes reading a node takes. How long the names of its children are shows when they are read.
fn length_of(node: &RelativePath, stat: &Stat) -> usize {
    let child = node.as_str().len() + LENGTH_OF_NAME;
    let children = (stat.num_children as usize).saturating_mul(child);
    children.saturating_add(stat.data_length as usize)
}

/// Returns how many nodes to read: the first, and further ones while they fit.
fn fitting(lengths: impl Iterator<Item = usize>) -> usize {
    let mut bytes = 0;
    let fitting = lengths.take_while(|length| {
        let is_first = bytes == 0;
        bytes = length.max(&1).saturating_add(bytes);
        is_first || bytes <= BYTES_AHEAD
    });
    fitting.count()
}

/// How much is read ahead of what is returned.
const BYTES_AHEAD: usize = 8 << 20;
/// Names of recipes are a little shorter, as `_c_<uuid>-lock-0000000001` is.
const LENGTH_OF_NAME: usize = 64;
/// How many entries of the sequence one read may skip.
const ENTRIES_AHEAD: usize = 8 * LARGEST_BATCH;
const FIRST_BATCH: usize = 16;
const LARGEST_BATCH: usize = 512;
/// How often a node is read whose access rules change meanwhile.
const ATTEMPTS: usize = 8;
/// The child of `/` that belongs to the ensemble.
pub(crate) const RESERVED: &str = "zookeeper";

#[cfg(test)]
mod tests {
    use zk_sim::Ensemble;

    use super::*;

    #[test]
    fn many_children_take_as_much_room_as_much_data() {
        let path = RelativePath::parse("queue/items").unwrap();
        let length = |data_length, num_children| {
            let mut stat = Stat::default();
            (stat.data_length, stat.num_children) = (data_length, num_children);
            length_of(&path, &stat)
        };
        assert_eq!(length(7, 0), 7);
        assert_eq!(length(7, 2), 7 + 2 * (11 + LENGTH_OF_NAME));
        let families = [length(0, 100_000), length(0, 100_000)];
        assert_eq!(fitting(families.into_iter()), 1);
        assert_eq!(fitting([length(0, 10); 512].into_iter()), 512);
    }

    #[tokio::test(start_paused = true)]
    async fn names_count_until_their_parent_is_returned() {
        let ensemble = Ensemble::new(1);
        let session = ensemble.connect().await;
        for path in ["/r/a/one", "/r/a/three", "/r/b/two"] {
            session.create(path, "1234").parents().await.unwrap();
        }
        let root = NodePath::parse("/r").unwrap();
        let mut walk = Walk::new(&session, &root);
        let mut held = Vec::new();
        while let Some(found) = walk.next().await.unwrap() {
            held.push((found.path().as_str().to_owned(), walk.held_bytes));
        }
        // `b` is read together with `a`, and each with its data; parents have none.
        let below_b = "b/two".len();
        let held: Vec<_> = held
            .iter()
            .map(|(path, held)| (path.as_str(), *held))
            .collect();
        assert_eq!(
            held,
            [
                ("", 0),
                ("a", below_b),
                ("a/one", below_b + 8),
                ("a/three", below_b + 4),
                ("b", 4),
                ("b/two", 0),
            ]
        );
    }

    #[test]
    fn what_is_read_ahead_fits_into_memory_or_is_one_node() {
        for (lengths, expected) in [
            (vec![], 0),
            (vec![usize::MAX >> 1], 1),
            (vec![BYTES_AHEAD, 1], 1),
            (vec![BYTES_AHEAD - 1, 1, 0], 2),
            (vec![0, BYTES_AHEAD - 1, 0], 2),
            (vec![0; 100], 100),
            (vec![1 << 20; 100], 8),
        ] {
            assert_eq!(fitting(lengths.iter().copied()), expected, "{lengths:?}");
        }
    }
}
