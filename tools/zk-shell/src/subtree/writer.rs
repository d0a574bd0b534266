//! Writes nodes into an ensemble: many in one transaction, and some transactions at a time.
//!
//! A node that will get children is created with rules that let the user of this session continue, and gets its own
//! rules after its last child. Any other node has its rules from the beginning.

use std::time::Duration;

use futures_util::future::{join, join_all};
use zk_core::{Acl, AclEntry, CreateMode, ErrorKind, NodePath, Permissions, Session, Transaction};

use super::node::RelativePath;
use crate::escape;
use crate::failure::{Failure, chain};
use crate::file_io::blocking;
use crate::output::Output;

/// Changes that are sent in the order in which they are made.
pub(crate) struct Writer {
    session: Session,
    root: NodePath,
    output: Output,
    /// The transactions to be sent next, with the paths of their parts.
    full: Vec<(Transaction, Vec<NodePath>)>,
    filling: Option<(Transaction, Vec<NodePath>)>,
    filling_bytes: usize,
    unsent_bytes: usize,
    /// The ancestors of the current node whose rules are still to be set.
    open: Vec<Unfinished>,
    /// Nodes whose children are complete, and whose rules are still to be set.
    closed: Vec<Unfinished>,
    user: User,
}

/// As whom the session writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    /// A user that other sessions can be, too.
    Known,
    /// A user of this session alone.
    OfSession,
}

/// A node without its own rules yet.
struct Unfinished {
    path: RelativePath,
    acl: Acl,
    /// Whether it was created with temporary rules; otherwise it has those that it had before.
    is_created: bool,
}

impl Writer {
    /// The session must be authenticated as a user.
    pub(crate) fn new(session: &Session, root: &NodePath, output: &Output, user: User) -> Self {
        Self {
            session: session.clone(),
            root: root.clone(),
            output: output.clone(),
            full: Vec::new(),
            filling: None,
            filling_bytes: 0,
            unsent_bytes: 0,
            open: Vec::new(),
            closed: Vec::new(),
            user,
        }
    }

    /// Creates a persistent node; `has_children` says whether children of it follow.
    pub(crate) async fn create(
        &mut self,
        path: &RelativePath,
        data: Vec<u8>,
        acl: &Acl,
        has_children: bool,
    ) -> Result<(), Failure> {
        let first = if has_children && *acl != Acl::open() {
            self.open.push(Unfinished {
                path: path.clone(),
                acl: acl.clone(),
                is_created: true,
            });
            // What lets this session continue below a node whose rules would not; never everyone.
            let own = std::iter::once(AclEntry::new(Permissions::ALL, "auth", ""));
            Acl::new(acl.entries().iter().cloned().chain(own))
        } else {
            acl.clone()
        };
        let mode = CreateMode::Persistent;
        let bytes = data.len() + acl_bytes(&first);
        self.part(path, bytes, |transaction, path| {
            transaction.create_as(path, data, mode, Some(first))
        })
        .await
    }

    /// Replaces data of this version.
    pub(crate) async fn set(
        &mut self,
        path: &RelativePath,
        data: Vec<u8>,
        version: i32,
    ) -> Result<(), Failure> {
        let bytes = data.len();
        self.part(path, bytes, |transaction, path| {
            transaction.set_version(path, data, version)
        })
        .await
    }

    /// Replaces the rules of a node, once its children are complete.
    pub(crate) fn set_acl(&mut self, path: &RelativePath, acl: &Acl) {
        self.open.push(Unfinished {
            path: path.clone(),
            acl: acl.clone(),
            is_created: false,
        });
    }

    /// Says that the walk has come to a node: those that are not its ancestors are complete.
    pub(crate) fn reach(&mut self, path: &RelativePath) {
        while let Some(complete) = self.open.pop_if(|open| !path.is_at_or_below(&open.path)) {
            self.closed.push(complete);
        }
    }

    /// Carries out all changes.
    pub(crate) async fn finish(&mut self) -> Result<(), Failure> {
        while let Some(complete) = self.open.pop() {
            self.closed.push(complete);
        }
        self.flush().await
    }

    /// Sets the rules of the nodes that were created, as far as possible, after a failure or an interruption.
    ///
    /// The nodes to which children are still missing stay open to the user, if another session can be that user: it
    /// could not continue otherwise.
    pub(crate) async fn abandon(&mut self) {
        self.open.retain(|node| node.is_created);
        self.closed.retain(|node| node.is_created);
        match self.user {
            User::OfSession => self.closed.append(&mut self.open),
            User::Known => {
                let mut exist = Vec::with_capacity(self.open.len());
                for node in &self.open {
                    exist.push(self.may_exist(node).await);
                }
                let mut exist = exist.into_iter();
                self.open.retain(|_| exist.next() == Some(true));
            }
        }
        drop(self.set_rules().await);
    }

    /// [Abandons](Self::abandon) the nodes within a time, also if standard error is not read.
    pub(crate) async fn abandon_in(mut self, time: Duration) {
        let output = self.output.clone();
        let note = output.note(
            "interrupted; what was written stays: run the command again to continue, an import with --resume",
        );
        // What was not reached is named in the end.
        drop(tokio::time::timeout(time, join(note, self.abandon())).await);
        drop(tokio::time::timeout(NAMING, self.end()).await);
    }

    /// Names the nodes that are left with temporary rules, on another thread.
    pub(crate) async fn end(self) {
        blocking(move || drop(self)).await;
    }

    /// Returns whether a node was created, as far as that can be read.
    async fn may_exist(&self, node: &Unfinished) -> bool {
        match node.path.below(&self.root) {
            Ok(path) => !matches!(self.session.exists(&path).await, Ok(None)),
            Err(_) => false,
        }
    }

    /// Sets the rules of the nodes whose children are complete. Those that fail stay in the list.
    async fn set_rules(&mut self) -> Result<(), Failure> {
        let mut failed = None;
        let mut left = 0;
        while left < self.closed.len() {
            let end = self.closed.len().min(left + ACLS_AT_ONCE);
            let some = &self.closed[left..end];
            let mut paths = Vec::with_capacity(some.len());
            for node in some {
                paths.push(node.path.below(&self.root)?);
            }
            let set = paths
                .iter()
                .zip(some)
                .map(|(path, node)| self.session.set_acl(path, node.acl.clone()).into_future());
            let results = join_all(set).await;
            // At once, so that nothing is done again if the rest is dropped.
            let rest = self.closed.split_off(end);
            let some = self.closed.split_off(left);
            for (node, result) in some.into_iter().zip(results) {
                let Err(error) = result else { continue };
                // A node that does not exist is not open, and neither is one that refuses this session: it has its
                // own rules already, if those could be set and the reply was lost.
                if !error.is_no_node() && error.kind() != ErrorKind::NoAuth {
                    self.closed.push(node);
                }
                failed.get_or_insert(error);
            }
            left = self.closed.len();
            self.closed.extend(rest);
        }
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    async fn part(
        &mut self,
        path: &RelativePath,
        bytes: usize,
        add: impl FnOnce(Transaction, &NodePath) -> Transaction,
    ) -> Result<(), Failure> {
        let path = path.below(&self.root)?;
        let bytes = bytes + path.as_str().len() + BYTES_PER_PART;
        let parts = self.filling.as_ref().map_or(0, |(_, paths)| paths.len());
        if parts > 0 && (parts == PARTS || self.filling_bytes + bytes > TRANSACTION_BYTES) {
            self.full.extend(self.filling.take());
            self.filling_bytes = 0;
        }
        let must_flush = self.full.len() == TRANSACTIONS || self.closed.len() >= MOST_CLOSED;
        if must_flush || self.unsent_bytes + bytes > UNSENT_BYTES {
            self.flush().await?;
        }
        let (transaction, mut paths) = self
            .filling
            .take()
            .unwrap_or_else(|| (self.session.transaction(), Vec::new()));
        let transaction = add(transaction, &path);
        paths.push(path);
        self.filling = Some((transaction, paths));
        self.filling_bytes += bytes;
        self.unsent_bytes += bytes;
        Ok(())
    }

    /// Sends the changes, and waits until they are carried out.
    async fn flush(&mut self) -> Result<(), Failure> {
        self.full.extend(self.filling.take());
        (self.filling_bytes, self.unsent_bytes) = (0, 0);
        let (transactions, paths): (Vec<_>, Vec<_>) = self.full.drain(..).unzip();
        // They are carried out in this order, parents first. Those that follow a failed one may still succeed; a
        // repetition of the command finds what they wrote.
        let commits = join_all(transactions.into_iter().map(Transaction::commit));
        for (result, paths) in commits.await.into_iter().zip(paths) {
            result.map_err(|error| failure(&error, &paths))?;
        }
        // Not before all of their children exist.
        self.set_rules().await
    }
}

impl Drop for Writer {
    /// Names the nodes that are left with temporary rules, because of a failure or an interruption.
    fn drop(&mut self) {
        let until = match self.user {
            User::Known => ", until the command is run again as this user, an import with --resume",
            User::OfSession => "",
        };
        let left = self.closed.iter().chain(&self.open);
        let left = left.filter(|node| node.is_created);
        let warnings = left.filter_map(|node| {
            let path = node.path.below(&self.root).ok()?;
            Some(format!(
                "{} may be left with an entry in its access rules for the user of this session, beside its own{until}",
                escape::line(path.as_str())
            ))
        });
        self.output.warn_blocking(warnings);
    }
}

/// Authenticates a session as a user that no other session can be, so that nodes can be open to it alone.
pub(crate) async fn authenticate(session: &Session) -> Result<(), Failure> {
    let password = uuid::Uuid::new_v4().to_string();
    Ok(session.add_digest_auth("zk-import", &password).await?)
}

/// Creates the parents of the root of a subtree.
pub(crate) async fn create_parents(session: &Session, root: &NodePath) -> Result<(), Failure> {
    if let Some(parent) = root.parent().filter(|parent| !parent.is_root())
        && session.exists(&parent).await?.is_none()
    {
        session.create(&parent, "").parents().idempotent().await?;
    }
    Ok(())
}

/// Names the node that was refused, or says how to continue.
fn failure(error: &zk_core::Error, paths: &[NodePath]) -> Failure {
    if error.is_outcome_unknown() || error.failed_part().is_none() {
        return Failure::operation(
            chain(error),
            Some("run the command again to continue; an import needs --resume then"),
        );
    }
    let path = error.failed_part().and_then(|part| paths.get(part));
    let node = path.map(|path| format!("{path}: ")).unwrap_or_default();
    Failure::operation(
        format!("{node}{}", chain(error)),
        Some(
            "what was written before stays; after the correction, run the command again, an import with --resume",
        ),
    )
}

fn acl_bytes(acl: &Acl) -> usize {
    let bytes = acl
        .entries()
        .iter()
        .map(|entry| entry.scheme().len() + entry.id().len() + 12);
    bytes.sum()
}

/// How many changes are in one transaction.
const PARTS: usize = 128;
/// Servers refuse requests of more than 1 MiB.
const TRANSACTION_BYTES: usize = 256 << 10;
/// How many transactions are sent at once.
const TRANSACTIONS: usize = 8;
const UNSENT_BYTES: usize = 4 << 20;
const MOST_CLOSED: usize = 4096;
const ACLS_AT_ONCE: usize = 256;
/// How long naming nodes may take after a signal: standard error may not be read.
const NAMING: Duration = Duration::from_secs(1);
/// The header of a part and the numbers in it.
const BYTES_PER_PART: usize = 48;

#[cfg(test)]
mod tests {
    use zk_sim::Ensemble;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_nodes_without_their_own_rules_are_named_after_an_interruption() {
        let ensemble = Ensemble::builder()
            .latency(Duration::from_millis(3))
            .build();
        let session = ensemble.connect().digest("bob", "secret").await;
        let output = Output::new(false);
        let rules = Acl::read_only();
        let mut interrupted_at = Vec::new();
        for millis in 0.. {
            let root = NodePath::parse(&format!("/r{millis}")).unwrap();
            session.create(&root, "").await.unwrap();
            let mut writer = Writer::new(&session, &root, &output, User::Known);
            let nodes: Vec<_> = (0..NODES)
                .map(|node| RelativePath::parse(&node.to_string()).unwrap())
                .collect();
            for node in &nodes {
                let create = writer.create(node, Vec::new(), &rules, true);
                create.await.unwrap();
            }
            let finishing = writer.finish();
            let finished = tokio::time::timeout(Duration::from_millis(millis), finishing).await;
            interrupted_at.push(writer.closed.len());
            writer.abandon().await;
            assert!(
                writer.closed.is_empty() && writer.open.is_empty(),
                "{millis}"
            );
            for node in &nodes {
                let path = node.below(&root).unwrap();
                match session.acl(&path).await {
                    Ok((acl, _)) => assert_eq!(acl, rules, "{millis}: {path}"),
                    Err(error) => assert!(error.is_no_node(), "{millis}: {error}"),
                }
            }
            if let Ok(finished) = finished {
                finished.unwrap();
                break;
            }
        }
        interrupted_at.dedup();
        assert_eq!(interrupted_at, [NODES, 9, 0]);
    }

    /// More than get their rules at once.
    const NODES: usize = ACLS_AT_ONCE + 9;
}
