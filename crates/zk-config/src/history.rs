//! Where replaced data is kept, and under which names.

use std::fmt;
use std::time::Duration;
use std::time::SystemTime;

use futures_util::future::join_all;
use tokio::time::Instant;
use zk_core::Acl;
use zk_core::Error;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::Session;
use zk_core::SessionId;

/// A revision that was replaced, as the history of a key keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replaced {
    /// The transaction that had published it: what [`mzxid`](zk_core::Stat::mzxid) was while it was there.
    pub revision: i64,
    /// When it was replaced or removed, by the leader's clock.
    pub replaced: SystemTime,
    /// The session that replaced it.
    pub by: SessionId,
    /// Its data.
    pub data: Vec<u8>,
}

/// The name of the node that keeps a revision.
///
/// It is known before the transaction that makes it is sent, and nobody else makes one of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) revision: i64,
    session: i64,
    number: u32,
}

impl Entry {
    /// The entry that the attempt with this number of a session makes when it replaces a revision.
    pub(crate) fn new(revision: i64, session: SessionId, number: u32) -> Self {
        Self {
            revision,
            session: session.as_i64(),
            number,
        }
    }

    /// Reads a name, unless it is one of another kind.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('-');
        let mut number = |digits: usize| {
            let part = parts.next()?;
            let is_ours = part.len() == digits
                && part
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            is_ours
                .then(|| u64::from_str_radix(part, 16).ok())
                .flatten()
        };
        let entry = Self {
            revision: number(16)?.cast_signed(),
            session: number(16)?.cast_signed(),
            number: u32::try_from(number(8)?).ok()?,
        };
        parts.next().is_none().then_some(entry)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            revision,
            session,
            number,
        } = self;
        write!(f, "{revision:016x}-{session:016x}-{number:08x}")
    }
}

/// The node whose children keep what was replaced at `path`; the root has none.
pub(crate) fn directory(path: &NodePath) -> Option<NodePath> {
    let name = path.name()?;
    let parent = path.parent()?.join(HISTORY).ok()?;
    parent.join(name).ok()
}

/// Whether a path belongs to a history.
pub(crate) fn is_history(path: &NodePath) -> bool {
    path.as_str().split('/').any(|name| name == HISTORY)
}

/// Whether access rules are not those of the node: servers since 3.5.6 tell a client without the permission ADMIN a
/// digest of `x` instead of the true one.
///
/// A copy of them would let nobody in; a true digest is never that short.
pub(crate) fn is_masked(acl: &Acl) -> bool {
    let mut entries = acl.entries().iter();
    entries.any(|entry| entry.scheme() == "digest" && entry.id().ends_with(":x"))
}

/// The entries that go when `left` of them may stay; of the oldest first.
///
/// Entries of one revision go together: one that is there without another one tells that the other was never made.
///
/// Of many only some go at once, since a request has room for so many: the others follow with the next publications.
pub(crate) fn surplus(entries: &[Entry], left: usize) -> &[Entry] {
    let mut count = entries.len().saturating_sub(left).min(AT_ONCE);
    while count > 0
        && count < entries.len()
        && entries[count].revision == entries[count - 1].revision
    {
        count += 1;
    }
    &entries[..count]
}

/// Lists the entries of a key, the oldest first; none when there is no history.
pub(crate) async fn entries(
    session: &Session,
    path: &NodePath,
    timeout: Duration,
) -> Result<Vec<Entry>, Error> {
    let Some(directory) = directory(path) else {
        return Ok(Vec::new());
    };
    match session.list(&directory).timeout(timeout).await {
        Ok((names, _)) => {
            let mut entries: Vec<_> = names.iter().filter_map(|name| Entry::parse(name)).collect();
            entries.sort_unstable();
            Ok(entries)
        }
        Err(error) if error.is_no_node() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Reads the history of a key, the newest first.
pub(crate) async fn read(
    session: &Session,
    path: &NodePath,
    deadline: Instant,
) -> Result<Vec<Replaced>, Error> {
    let Some(directory) = directory(path) else {
        return Ok(Vec::new());
    };
    let mut entries = entries(session, path, remaining(deadline)).await?;
    entries.reverse();
    let reads = entries.iter().map(|entry| async {
        let node = directory
            .join(&entry.to_string())
            .expect("a name that was listed");
        (*entry, session.get(node).timeout(remaining(deadline)).await)
    });
    let mut all = Vec::new();
    for (entry, read) in join_all(reads).await {
        match read {
            Ok((data, stat)) => all.push(Replaced {
                revision: entry.revision,
                replaced: stat.ctime,
                by: SessionId::from_i64(entry.session),
                data,
            }),
            // Another publication has come since the list.
            Err(error) if error.kind() == ErrorKind::NoNode => {}
            Err(error) if error.kind() == ErrorKind::NoAuth => {
                tracing::debug!(%path, %error, "a revision that may not be read is left out");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// Reads what the history keeps of a revision, and the access rules that the key had last; `None` when it does not have
/// the revision.
pub(crate) async fn kept(
    session: &Session,
    path: &NodePath,
    revision: i64,
    deadline: Instant,
) -> Result<Option<(Vec<u8>, Acl)>, Error> {
    let entries = entries(session, path, remaining(deadline)).await?;
    let mut newest_first = entries.iter().rev();
    let (Some(directory), Some(newest), Some(entry)) = (
        directory(path),
        entries.last(),
        newest_first.find(|entry| entry.revision == revision),
    ) else {
        return Ok(None);
    };
    let node = |entry: &Entry| {
        let node = directory.join(&entry.to_string());
        node.expect("a name that was listed")
    };
    let timeout = remaining(deadline);
    // The rules of the revision may be wider than those that were set later.
    let read = tokio::try_join!(
        session.get(node(entry)).timeout(timeout).into_future(),
        session.acl(node(newest)).timeout(timeout).into_future()
    );
    match read {
        Ok(((data, _), (acl, _))) => Ok(Some((data, acl))),
        // Another publication has come since the list.
        Err(error) if error.is_no_node() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Lists all nodes of the histories of the children of a node.
pub(crate) async fn of_children(
    session: &Session,
    path: &NodePath,
    timeout: Duration,
) -> Result<Vec<NodePath>, Error> {
    let mut all = Vec::new();
    let mut level = vec![path.join(HISTORY).expect("a good name")];
    while !level.is_empty() {
        let lists = level
            .iter()
            .map(|node| session.list(node).timeout(timeout).into_future());
        let lists = join_all(lists).await;
        let mut below = Vec::new();
        for (node, listed) in level.into_iter().zip(lists) {
            match listed {
                Ok((names, _)) => {
                    below.extend(names.iter().filter_map(|name| node.join(name).ok()));
                    all.push(node);
                }
                Err(error) if error.is_no_node() => {}
                Err(error) => return Err(error),
            }
        }
        level = below;
    }
    Ok(all)
}

/// Removes the history of a key.
pub(crate) async fn purge(
    session: &Session,
    path: &NodePath,
    deadline: Instant,
) -> Result<(), Error> {
    let Some(directory) = directory(path) else {
        return Ok(());
    };
    let delete = session.delete(&directory).recursive();
    match delete.timeout(remaining(deadline)).await {
        Err(error) if !error.is_no_node() => return Err(error),
        _ => {}
    }
    let Some(place) = directory.parent() else {
        return Ok(());
    };
    // Unless it has the history of another key.
    match session.delete(place).timeout(remaining(deadline)).await {
        Err(error) if !error.is_no_node() && error.kind() != ErrorKind::NotEmpty => Err(error),
        _ => Ok(()),
    }
}

/// The time that is left.
pub(crate) fn remaining(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// How many entries one transaction removes.
const AT_ONCE: usize = 64;
/// The name that no key may have.
const HISTORY: &str = "_history_";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // covers: G5
        #[test]
        fn names_sort_as_their_revisions_do_and_come_back(
            first in (0..i64::MAX, any::<i64>(), any::<u32>()),
            second in (0..i64::MAX, any::<i64>(), any::<u32>()),
        ) {
            let entry = |(revision, session, number)| {
                Entry::new(revision, SessionId::from_i64(session), number)
            };
            let (first, second) = (entry(first), entry(second));
            prop_assert_eq!(Entry::parse(&first.to_string()), Some(first));
            if first.revision != second.revision {
                prop_assert_eq!(first.to_string() < second.to_string(), first < second);
            }
        }

        // covers: G5
        #[test]
        fn garbage_is_no_entry(name: String) {
            prop_assert_eq!(Entry::parse(&name), None);
        }
    }

    // covers: G5
    #[test]
    fn names_that_only_look_like_entries_are_none() {
        let good = "00000003000000ff-0100001a2b3c0001-00000004";
        assert!(Entry::parse(good).is_some());
        for bad in [
            "0000000300000ff-0100001a2b3c0001-00000004".to_owned(),
            good.to_uppercase(),
            format!("{good}-0"),
            good[..33].to_owned(),
            good.replace('-', "_"),
            good.replacen('0', "+", 1),
        ] {
            assert_eq!(Entry::parse(&bad), None, "{bad}");
        }
    }

    // covers: G5
    #[test]
    fn the_oldest_go_first_and_those_of_one_revision_together() {
        let entry = |revision, number| Entry::new(revision, SessionId::from_i64(1), number);
        let all = [entry(1, 0), entry(2, 0), entry(2, 1), entry(3, 0)];
        for (left, gone) in [(9, 0), (4, 0), (3, 1), (2, 3), (1, 3), (0, 4)] {
            assert_eq!(surplus(&all, left).len(), gone, "{left} may stay");
        }
    }

    // covers: G5
    #[test]
    fn not_more_go_at_once_than_a_request_has_room_for() {
        let session = SessionId::from_i64(1);
        let all: Vec<_> = (0..5000)
            .map(|revision| Entry::new(revision, session, 0))
            .collect();
        assert_eq!(surplus(&all, 1), &all[..64]);
    }

    // covers: G5
    #[test]
    fn history_stands_beside_the_key() {
        let of = |path: &str| directory(&path.parse().unwrap()).map(|path| path.to_string());
        assert_eq!(of("/app/db").unwrap(), "/app/_history_/db");
        assert_eq!(of("/app").unwrap(), "/_history_/app");
        assert_eq!(of("/"), None);
        assert!(is_history(&"/app/_history_/db".parse().unwrap()));
        assert!(!is_history(&"/app/_history/db".parse().unwrap()));
    }
}
