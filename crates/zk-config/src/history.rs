//! The history of a key: the nodes that keep its replaced revisions, and their names.

use std::fmt;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;
use zk_core::{Acl, Error, ErrorKind, NodePath, Session, SessionId};

/// The name of the node that keeps a revision.
///
/// It is chosen before the transaction that creates the node is sent, and is unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryName {
    pub(crate) revision: i64,
    pub(crate) session: i64,
    number: u32,
}

impl EntryName {
    /// Returns the name for a revision that a session replaces, in the attempt with this number.
    pub(crate) fn new(revision: i64, session: SessionId, number: u32) -> Self {
        Self {
            revision,
            session: session.as_i64(),
            number,
        }
    }

    /// Parses a name; `None` if it is not one of an entry.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('-');
        let mut number = |digits: usize| {
            let part = parts.next()?;
            let is_hex = part.len() == digits
                && part
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            is_hex.then(|| u64::from_str_radix(part, 16).ok()).flatten()
        };
        let entry = Self {
            revision: number(16)?.cast_signed(),
            session: number(16)?.cast_signed(),
            number: u32::try_from(number(8)?).ok()?,
        };
        parts.next().is_none().then_some(entry)
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            revision,
            session,
            number,
        } = self;
        write!(f, "{revision:016x}-{session:016x}-{number:08x}")
    }
}

/// Returns the node whose children are the history of `path`; `None` for the root.
pub(crate) fn directory(path: &NodePath) -> Option<NodePath> {
    let name = path.name()?;
    let parent = path.parent()?.join(HISTORY).ok()?;
    parent.join(name).ok()
}

/// Returns whether a path belongs to a history.
pub(crate) fn is_history(path: &NodePath) -> bool {
    path.as_str().split('/').any(|name| name == HISTORY)
}

/// Returns whether the digests of an ACL are masked: servers since 3.5.6 return the digest `x` to a client without the
/// permission ADMIN.
///
/// A copy of a masked ACL would lock every client out. A true digest is never that short.
pub(crate) fn is_masked(acl: &Acl) -> bool {
    let mut entries = acl.entries().iter();
    entries.any(|entry| entry.scheme() == "digest" && entry.id().ends_with(":x"))
}

/// Returns the entries to delete so that about `kept` remain, when the revision `replaced` is being replaced.
///
/// Those that cannot be of this key come first: a revision that has not been replaced yet has no entry. The others
/// follow, the oldest first.
/// Entries of one revision are deleted together: an entry without another one of its revision is evidence that the
/// other transaction was not applied.
///
/// At most a number that fits into one request is returned. Later publications delete the rest.
pub(crate) fn surplus(entries: &[EntryName], replaced: i64, kept: usize) -> Vec<EntryName> {
    let mut entries = entries.to_vec();
    entries.sort_by_key(|entry| (entry.revision < replaced, *entry));
    let mut count = entries.len().saturating_sub(kept).min(MAX_DELETED);
    while count > 0
        && count < entries.len()
        && entries[count].revision == entries[count - 1].revision
    {
        count += 1;
    }
    entries.truncate(count);
    entries
}

/// Lists the entries of a key, the oldest first; none if there is no history.
pub(crate) async fn list(
    session: &Session,
    path: &NodePath,
    timeout: Duration,
) -> Result<Vec<EntryName>, Error> {
    let Some(directory) = directory(path) else {
        return Ok(Vec::new());
    };
    match session.list(&directory).timeout(timeout).await {
        Ok((names, _)) => {
            let mut entries = parse_all(&names);
            entries.sort_unstable();
            Ok(entries)
        }
        Err(error) if error.is_no_node() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Returns the entries among the names of nodes, and leaves out all others.
pub(crate) fn parse_all(names: &[String]) -> Vec<EntryName> {
    let entries = names.iter().filter_map(|name| EntryName::parse(name));
    entries.collect()
}

/// Lists all nodes of the histories of the children of a node.
pub(crate) async fn list_below(
    session: &Session,
    path: &NodePath,
    timeout: Duration,
) -> Result<Vec<NodePath>, Error> {
    let mut all = Vec::new();
    let mut level = vec![path.join(HISTORY).expect("the name is valid")];
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
    let Some(parent) = directory.parent() else {
        return Ok(());
    };
    // It stays if it has the history of another key.
    match session.delete(parent).timeout(remaining(deadline)).await {
        Err(error) if !error.is_no_node() && error.kind() != ErrorKind::NotEmpty => Err(error),
        _ => Ok(()),
    }
}

/// Returns the time until a deadline.
pub(crate) fn remaining(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// The maximum number of entries that one transaction deletes.
const MAX_DELETED: usize = 64;
/// The name of the nodes with histories. No key may have it.
const HISTORY: &str = "_history_";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_sort_by_revision_and_parse(
            first in (0..i64::MAX, any::<i64>(), any::<u32>()),
            second in (0..i64::MAX, any::<i64>(), any::<u32>()),
        ) {
            let entry = |(revision, session, number)| {
                EntryName::new(revision, SessionId::from_i64(session), number)
            };
            let (first, second) = (entry(first), entry(second));
            prop_assert_eq!(EntryName::parse(&first.to_string()), Some(first));
            if first.revision != second.revision {
                prop_assert_eq!(first.to_string() < second.to_string(), first < second);
            }
        }

        #[test]
        fn garbage_is_not_an_entry(name: String) {
            prop_assert_eq!(EntryName::parse(&name), None);
        }
    }

    #[test]
    fn names_similar_to_entries_are_refused() {
        let good = "00000003000000ff-0100001a2b3c0001-00000004";
        assert!(EntryName::parse(good).is_some());
        for bad in [
            "0000000300000ff-0100001a2b3c0001-00000004".to_owned(),
            good.to_uppercase(),
            format!("{good}-0"),
            good[..33].to_owned(),
            good.replace('-', "_"),
            good.replacen('0', "+", 1),
        ] {
            assert_eq!(EntryName::parse(&bad), None, "{bad}");
        }
    }

    #[test]
    fn the_oldest_are_deleted_first_and_a_revision_as_a_whole() {
        let entry = |revision, number| EntryName::new(revision, SessionId::from_i64(1), number);
        let all = [entry(1, 0), entry(2, 0), entry(2, 1), entry(3, 0)];
        for (kept, deleted) in [(9, 0), (4, 0), (3, 1), (2, 3), (1, 3), (0, 4)] {
            assert_eq!(surplus(&all, 4, kept), all[..deleted], "{kept} are kept");
        }
    }

    #[test]
    fn an_entry_of_a_revision_to_come_displaces_no_other() {
        let entry = |revision| EntryName::new(revision, SessionId::from_i64(1), 0);
        let all = [entry(1), entry(2), entry(7), entry(i64::MAX)];
        assert_eq!(surplus(&all, 7, 2), [entry(7), entry(i64::MAX)]);
        assert_eq!(surplus(&all, 7, 1), [entry(7), entry(i64::MAX), entry(1)]);
    }

    #[test]
    fn one_transaction_deletes_a_bounded_number() {
        let session = SessionId::from_i64(1);
        let all: Vec<_> = (0..5000)
            .map(|revision| EntryName::new(revision, session, 0))
            .collect();
        assert_eq!(surplus(&all, 5000, 1), all[..64]);
    }

    #[test]
    fn a_history_is_beside_its_key() {
        let of = |path: &str| directory(&path.parse().unwrap()).map(|path| path.to_string());
        assert_eq!(of("/app/db").unwrap(), "/app/_history_/db");
        assert_eq!(of("/app").unwrap(), "/_history_/app");
        assert_eq!(of("/"), None);
        assert!(is_history(&"/app/_history_/db".parse().unwrap()));
        assert!(!is_history(&"/app/_history/db".parse().unwrap()));
    }
}
