//! Writes nodes into an ensemble: many in one transaction, and some transactions at a time.
//!
//! A node that will get children is created with rules that let this session continue, and gets its own rules after its
//! last child. Any other node has its rules from the beginning.

use futures_util::future::join_all;
use zk_core::Acl;
use zk_core::AclEntry;
use zk_core::CreateMode;
use zk_core::NodePath;
use zk_core::Permissions;
use zk_core::Session;
use zk_core::Transaction;

use super::node::RelativePath;
use crate::failure::Failure;
use crate::failure::chain;

/// Changes that are sent in the order in which they are made.
pub(crate) struct Writer {
    session: Session,
    root: NodePath,
    /// What lets this session continue below a node whose rules would not.
    own_entry: AclEntry,
    /// The transactions to be sent next, with the paths of their parts.
    full: Vec<(Transaction, Vec<NodePath>)>,
    filling: Option<(Transaction, Vec<NodePath>)>,
    filling_bytes: usize,
    unsent_bytes: usize,
    /// The ancestors of the current node whose rules are still to be set.
    open: Vec<(RelativePath, Acl)>,
    /// Nodes whose children are complete.
    closed: Vec<(NodePath, Acl)>,
}

impl Writer {
    /// `has_credentials` says whether the session is authenticated as a user.
    pub(crate) fn new(session: &Session, root: &NodePath, has_credentials: bool) -> Self {
        let own_entry = if has_credentials {
            AclEntry::new(Permissions::ALL, "auth", "")
        } else {
            let needed = Permissions::READ | Permissions::CREATE | Permissions::ADMIN;
            AclEntry::new(needed, "world", "anyone")
        };
        Self {
            session: session.clone(),
            root: root.clone(),
            own_entry,
            full: Vec::new(),
            filling: None,
            filling_bytes: 0,
            unsent_bytes: 0,
            open: Vec::new(),
            closed: Vec::new(),
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
            self.open.push((path.clone(), acl.clone()));
            let own = std::iter::once(self.own_entry.clone());
            Acl::new(acl.entries().iter().cloned().chain(own))
        } else {
            acl.clone()
        };
        let mode = CreateMode::Persistent {
            sequential: false,
            ttl: None,
        };
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
        self.open.push((path.clone(), acl.clone()));
    }

    /// Says that the walk has come to a node: those that are not its ancestors are complete.
    pub(crate) fn reach(&mut self, path: &RelativePath) -> Result<(), Failure> {
        while let Some((complete, acl)) = self.open.pop_if(|(open, _)| !path.is_at_or_below(open)) {
            self.closed.push((complete.below(&self.root)?, acl));
        }
        Ok(())
    }

    /// Carries out all changes.
    pub(crate) async fn finish(&mut self) -> Result<(), Failure> {
        while let Some((complete, acl)) = self.open.pop() {
            self.closed.push((complete.below(&self.root)?, acl));
        }
        self.flush().await
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
        // A transaction that follows a failed one fails as well, because its parents are missing.
        let commits = join_all(transactions.into_iter().map(Transaction::commit));
        for (result, paths) in commits.await.into_iter().zip(paths) {
            result.map_err(|error| failure(&error, &paths))?;
        }
        // Not before all of their children exist.
        let closed = std::mem::take(&mut self.closed);
        for some in closed.chunks(ACLS_AT_ONCE) {
            let set = |(path, acl): &(NodePath, Acl)| {
                self.session.set_acl(path, acl.clone()).into_future()
            };
            for result in join_all(some.iter().map(set)).await {
                result?;
            }
        }
        Ok(())
    }
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
/// The header of a part and the numbers in it.
const BYTES_PER_PART: usize = 48;
