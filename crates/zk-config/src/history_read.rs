//! Reads the history of a key: all of it, or one revision to roll back to.

use std::time::SystemTime;

use futures_util::future::join_all;
use tokio::time::Instant;
use zk_core::{Acl, Error, ErrorKind, NodePath, Session, SessionId};

use crate::error::PublishError;
use crate::history::{self, EntryName, remaining};
use crate::history_check::{Evidence, FoundEntry, verify};

/// A replaced revision in the history of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// The transaction that published it: the [`mzxid`](zk_core::Stat::mzxid) of the key while it had this value.
    pub revision: i64,
    /// When it was replaced or removed, by the leader's clock.
    pub replaced_at: SystemTime,
    /// The session that replaced it.
    pub replaced_by: SessionId,
    /// Whether the servers prove it: its node was created by the transaction that replaced the revision, and was not
    /// changed since.
    ///
    /// This cannot be proven if the node was written by another client, was imported or mirrored, or if another client
    /// has written or deleted the key between this revision and the next one in the history.
    /// The revision, the session and the data are then whatever the author of the node wrote.
    pub is_verified: bool,
    /// The node that keeps the revision.
    pub node: NodePath,
    /// The size of its data, in bytes.
    pub size: usize,
    /// Its data.
    ///
    /// `None` if the entry is not verified, or if it was not read because the data of newer ones is 8 MiB.
    /// [Read the node](zk_core::Session::get) then.
    pub data: Option<Vec<u8>>,
}

/// Whether an entry that is rolled back to has to be verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verification {
    Required,
    Waived,
}

/// A revision to roll back to.
pub(crate) struct KeptRevision {
    pub(crate) data: Vec<u8>,
    /// The ACL to create the key with; `None` if the key exists.
    pub(crate) acl: Option<Acl>,
}

/// The nodes of a history.
struct History {
    directory: NodePath,
    /// The ACL of the directory, which is that of the key.
    acl: Acl,
    /// The newest revision first.
    entries: Vec<(FoundEntry, bool)>,
    is_key_there: bool,
}

impl History {
    fn node(&self, entry: &FoundEntry) -> NodePath {
        node_of(&self.directory, entry.name)
    }
}

/// Reads the history of a key, the newest entry first.
pub(crate) async fn read_all(
    session: &Session,
    path: &NodePath,
    deadline: Instant,
) -> Result<Vec<HistoryEntry>, PublishError> {
    let Some(history) = read(session, path, deadline).await? else {
        return Ok(Vec::new());
    };
    let mut room = MAX_DATA;
    let reads = history.entries.iter().map(|(entry, is_verified)| {
        let node = history.node(entry);
        let is_read = *is_verified && size_of(entry) <= room;
        // The first one that does not fit is the last one that is tried.
        room = match *is_verified {
            true if is_read => room - size_of(entry),
            true => 0,
            false => room,
        };
        async move {
            let get = session.get(node.clone()).timeout(remaining(deadline));
            let data = if is_read { Some(get.await) } else { None };
            (entry, *is_verified, node, data)
        }
    });
    let reads: Vec<_> = reads.collect();
    let mut all = Vec::new();
    for (entry, is_verified, node, read) in join_all(reads).await {
        let data = match read {
            None => None,
            Some(Ok((data, _))) => Some(data.into()),
            // A publication has deleted it since the list.
            Some(Err(error)) if error.is_no_node() => continue,
            Some(Err(error)) if error.kind() == ErrorKind::NoAuth => {
                tracing::debug!(%path, %error, "skipping a revision without permission to read it");
                continue;
            }
            Some(Err(error)) => return Err(error.into()),
        };
        all.push(HistoryEntry {
            revision: entry.name.revision,
            replaced_at: entry.stat.ctime,
            replaced_by: SessionId::from_i64(entry.name.session),
            is_verified,
            node,
            size: size_of(entry),
            data,
        });
    }
    Ok(all)
}

/// Reads a revision to roll back to.
pub(crate) async fn read_revision(
    session: &Session,
    path: &NodePath,
    revision: i64,
    verification: Verification,
    deadline: Instant,
) -> Result<KeptRevision, PublishError> {
    // A lagging server may show neither the revision nor the newest entry, which proves the older ones.
    let sync = session
        .sync(path)
        .with_quorum()
        .timeout(remaining(deadline));
    let (synced, history) = tokio::join!(biased; sync.into_future(), read(session, path, deadline));
    synced?;
    let none = || PublishError::NoSuchRevision {
        path: path.clone(),
        revision,
    };
    let history = history?.ok_or_else(none)?;
    let of_revision = |(entry, _): &&(FoundEntry, bool)| entry.name.revision == revision;
    let found: Vec<_> = history.entries.iter().filter(of_revision).collect();
    let (entry, is_verified) = match found[..] {
        [] => return Err(none()),
        [one] => one,
        _ => {
            return Err(PublishError::AmbiguousRevision {
                path: path.clone(),
                revision,
                entries: found.iter().map(|(entry, _)| history.node(entry)).collect(),
            });
        }
    };
    let node = history.node(entry);
    let unverified = |entry| PublishError::UnverifiedRevision {
        path: path.clone(),
        revision,
        entry,
    };
    if !is_verified && verification == Verification::Required {
        return Err(unverified(node));
    }
    match session.get(&node).timeout(remaining(deadline)).await {
        Ok((_, stat)) if stat.mzxid != entry.stat.mzxid => Err(unverified(node)),
        Ok((data, _)) => Ok(KeptRevision {
            data: data.into(),
            acl: (!history.is_key_there).then_some(history.acl),
        }),
        // A publication has deleted it since the list.
        Err(error) if error.is_no_node() => Err(none()),
        Err(error) => Err(error.into()),
    }
}

/// Reads the names and stats of a history; `None` if there is none.
async fn read(
    session: &Session,
    path: &NodePath,
    deadline: Instant,
) -> Result<Option<History>, Error> {
    let Some(directory) = history::directory(path) else {
        return Ok(None);
    };
    let timeout = remaining(deadline);
    let key = || session.exists(path).timeout(timeout).into_future();
    // In one flight, and in this order: what is published meanwhile is in one of the two stats of the key.
    let (before, listed, after, acl) = tokio::join!(
        biased;
        key(),
        session.list(&directory).timeout(timeout).into_future(),
        key(),
        session.acl(&directory).timeout(timeout).into_future(),
    );
    let (before, after) = (before?, after?);
    let ((names, stat), (acl, _)) = match (listed, acl) {
        (Ok(listed), Ok(acl)) => (listed, acl),
        (Err(error), _) | (_, Err(error)) if error.is_no_node() => return Ok(None),
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    let mut entries = stats(session, &directory, &history::parse_all(&names), deadline).await?;
    entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.name));
    let evidence = Evidence {
        before,
        directory: stat,
        after,
    };
    let verified = verify(&entries, &evidence);
    Ok(Some(History {
        directory,
        acl,
        entries: entries.into_iter().zip(verified).collect(),
        is_key_there: after.is_some(),
    }))
}

/// Reads the stats of entries, and leaves out those that were deleted meanwhile or that this client may not read.
async fn stats(
    session: &Session,
    directory: &NodePath,
    names: &[EntryName],
    deadline: Instant,
) -> Result<Vec<FoundEntry>, Error> {
    let mut found = Vec::new();
    for names in names.chunks(AT_ONCE) {
        let stats = names.iter().map(|name| {
            let node = node_of(directory, *name);
            let stat = session.exists(node).timeout(remaining(deadline));
            stat.into_future()
        });
        for (name, stat) in names.iter().zip(join_all(stats).await) {
            match stat {
                Ok(stat) => found.extend(stat.map(|stat| FoundEntry { name: *name, stat })),
                Err(error) if error.kind() == ErrorKind::NoAuth => {
                    tracing::debug!(%directory, %error, "skipping a revision without permission to read it");
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(found)
}

/// Returns the number of bytes of an entry's data.
fn size_of(entry: &FoundEntry) -> usize {
    usize::try_from(entry.stat.data_length).unwrap_or(usize::MAX)
}

fn node_of(directory: &NodePath, name: EntryName) -> NodePath {
    let node = directory.join(&name.to_string());
    node.expect("the name of an entry is valid")
}

/// How many entries are read at once.
const AT_ONCE: usize = 64;
/// How many bytes of data one call reads.
const MAX_DATA: usize = 8 << 20;
