//! Publishes values: one key, several keys in one transaction, or an earlier revision.

use std::pin::Pin;
use std::sync::Arc;

use zk_core::codec::Codec;
use zk_core::{Acl, IntoNodePath, NodePath, ParsePathError, Session};

use crate::error::PublishError;
use crate::history;
use crate::history_read::{self, HistoryEntry, Verification};
use crate::options::PublishOptions;
use crate::plan::{Expected, KeyRequest};
use crate::publication::Publication;
use crate::published::Published;

/// Publishes values as the data of nodes, in one format.
///
/// Every write is conditional on the version that was read before it, also with [`Expected::Any`]: a value that was not
/// read is never overwritten, but for the exception that [`Expected::Revision`] describes.
/// Creating a publisher sends no request. Clones share the session.
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_config::{Expected, PublishOptions, Publisher};
/// use zk_core::codec::Text;
///
/// let options = PublishOptions::default().with_history(10);
/// let publisher = Publisher::with_options(&session, Text, options);
/// let first = publisher.publish("/app/motto", &"one for all".to_owned()).await?;
///
/// // Replace only the revision that was read.
/// let revision = first.stat.map_or(0, |stat| stat.mzxid);
/// publisher
///     .publish("/app/motto", &"all for one".to_owned())
///     .expecting(Expected::Revision(revision))
///     .await?;
///
/// // Roll back, unless another client has published since.
/// publisher.roll_back("/app/motto", revision, Expected::Version(1)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Publisher<C> {
    session: Session,
    codec: C,
    options: Arc<PublishOptions>,
}

impl<C> Publisher<C> {
    /// Creates a publisher with default options.
    pub fn new(session: &Session, codec: C) -> Self {
        Self::with_options(session, codec, PublishOptions::default())
    }

    /// Creates a publisher.
    pub fn with_options(session: &Session, codec: C, options: PublishOptions) -> Self {
        Self {
            session: session.clone(),
            codec,
            options: Arc::new(options),
        }
    }

    /// Publishes a value: replaces the data of the node, or creates the node and missing parents.
    pub fn publish<T>(&self, path: impl IntoNodePath, value: &T) -> Publish
    where
        C: Codec<T>,
    {
        Publish {
            keys: self.transaction().set(path, value).keys,
        }
    }

    /// Removes a key. Its node must have no children, except histories of keys that were removed below it; these are
    /// deleted with it.
    ///
    /// Its own history stays, for a [rollback](Self::roll_back), until the node above is removed or the history is
    /// [purged](Self::purge_history).
    /// A missing node is no error, unless something else is [expected](Publish::expecting).
    pub fn remove(&self, path: impl IntoNodePath) -> Publish {
        Publish {
            keys: self.transaction().remove(path).keys,
        }
    }

    /// Starts a publication of several keys, which all change in one transaction.
    pub fn transaction(&self) -> PublishTransaction<'_, C> {
        PublishTransaction {
            codec: &self.codec,
            keys: KeyRequests {
                session: self.session.clone(),
                options: Arc::clone(&self.options),
                requests: Ok(Vec::new()),
            },
        }
    }

    /// Lists the revisions of a key that were replaced or removed, the newest first.
    ///
    /// Entries that this client may not read are left out.
    /// Who may create nodes there can add entries: [`HistoryEntry::is_verified`] returns which ones are proven. The data
    /// of the others is not read, and not more than 8 MiB altogether.
    ///
    /// # Errors
    ///
    /// Those of a list and a read. A key without a history has an empty one.
    ///
    /// # Cost
    ///
    /// Two round trips, and one for every 64 entries.
    pub async fn history(
        &self,
        path: impl IntoNodePath,
    ) -> Result<Vec<HistoryEntry>, PublishError> {
        let path = path.into_node_path()?;
        let deadline = self.options.deadline(&self.session);
        history_read::read_all(&self.session, &path, deadline).await
    }

    /// Removes the history of a key, whether or not the key exists.
    ///
    /// Its revisions cannot be restored afterwards. A concurrent publication with a history may start a new one.
    ///
    /// # Errors
    ///
    /// Those of a delete. A missing history is no error.
    ///
    /// # Cancel safety
    ///
    /// Not safe: all entries, some or none may be deleted. Purge again. The same holds after a session loss.
    ///
    /// # Cost
    ///
    /// A few round trips, whatever the number of revisions.
    pub async fn purge_history(&self, path: impl IntoNodePath) -> Result<(), PublishError> {
        let path = path.into_node_path()?;
        let deadline = self.options.deadline(&self.session);
        Ok(history::purge(&self.session, &path, deadline).await?)
    }

    /// Publishes the data of an earlier revision as a new revision, if the current node is as expected.
    ///
    /// The condition should be the version or revision that the decision to roll back is based on, or
    /// [`Expected::Absent`] for a removed key. Then a publication that was not seen is not overwritten.
    /// The data is restored as it was, whatever the codec.
    ///
    /// An existing node keeps its ACL. A removed one is created with the ACL it had last, which is that of the directory
    /// of its history and not that of the revision. If this client cannot see all of that ACL, the node is created with
    /// [`PublishOptions::with_acl`], or the call fails.
    ///
    /// # Errors
    ///
    /// [`PublishError::NoSuchRevision`] if the history does not have the revision, or no longer.
    /// [`PublishError::AmbiguousRevision`] if it has several entries of it, and [`PublishError::UnverifiedRevision`] if
    /// nothing proves that the key had the revision, as after a write by a client without a history.
    /// [`PublishError::Conflict`] if the node is not as expected, or is removed by another client meanwhile.
    /// [`PublishError::HiddenAcl`] if the node must be created with an ACL that this client cannot see. Otherwise those
    /// of [`Publish`], which has the same cancel safety.
    ///
    /// # Cost
    ///
    /// Three round trips more than [`Publish`], one more for every 64 entries, and a transaction that changes nothing;
    /// two before [`PublishError::NoSuchRevision`].
    pub async fn roll_back(
        &self,
        path: impl IntoNodePath,
        revision: i64,
        expected: Expected,
    ) -> Result<Published, PublishError> {
        let path = path.into_node_path()?;
        self.restore(path, revision, expected, Verification::Required)
            .await
    }

    /// Publishes the data of an entry of the history that is not [verified](HistoryEntry::is_verified).
    ///
    /// Who may create nodes in the history of the key can have written that data: read the entry first.
    /// Otherwise as [`roll_back`](Self::roll_back).
    ///
    /// # Errors
    ///
    /// Those of [`roll_back`](Self::roll_back), but [`PublishError::UnverifiedRevision`] only if the entry changes
    /// meanwhile.
    pub async fn roll_back_unverified(
        &self,
        path: impl IntoNodePath,
        revision: i64,
        expected: Expected,
    ) -> Result<Published, PublishError> {
        let path = path.into_node_path()?;
        self.restore(path, revision, expected, Verification::Waived)
            .await
    }

    async fn restore(
        &self,
        path: NodePath,
        revision: i64,
        expected: Expected,
        verification: Verification,
    ) -> Result<Published, PublishError> {
        let deadline = self.options.deadline(&self.session);
        let kept =
            history_read::read_revision(&self.session, &path, revision, verification, deadline);
        let kept = kept.await?;
        let mut keys = self.transaction().keys;
        keys.add(Ok(path), |_| Ok(Some(kept.data)));
        keys.restore_with_acl(match (kept.acl, &self.options.acl) {
            (Some(acl), Some(configured)) if history::is_masked(&acl) => Some(configured.clone()),
            (acl, _) => acl,
        });
        keys.expecting(expected);
        Publish { keys }.await
    }
}

/// A publication of one key; made by [`Publisher::publish`] and [`Publisher::remove`].
///
/// # Errors
///
/// [`PublishError::Conflict`] if the node is not as [expected](Self::expecting).
/// [`PublishError::Operation`] with [`TooLarge`](zk_core::ErrorKind::TooLarge) if the value is larger than servers
/// accept, and with any other error of the session, such as [`NoAuth`](zk_core::ErrorKind::NoAuth) and
/// [`NotConnected`](zk_core::ErrorKind::NotConnected).
/// [`PublishError::OutcomeUnknown`] if the reply was lost and the nodes do not show the outcome.
/// [`PublishError::Encode`], [`PublishError::InvalidPath`], [`PublishError::ReservedPath`]: nothing was sent.
///
/// # After a lost reply
///
/// The server catches up, and the node is compared with the node that was read before.
/// If it is unchanged, or was replaced by another client, the publication is repeated if its condition still holds.
/// If it has the published data, the publication has succeeded, provided that nothing was expected (then it does not
/// matter who wrote the data) or that the [history](PublishOptions::with_history) proves it. Otherwise the outcome is
/// unknown.
///
/// # Cancel safety
///
/// Not safe once it was polled: a request that was sent cannot be cancelled, and may still be carried out. Read the
/// keys afterwards. Before the first poll nothing is sent.
///
/// # Session loss
///
/// A fatal error; [`PublishError::is_outcome_unknown`] returns whether the request was in flight.
///
/// # Cost
///
/// Two round trips: a read and the transaction. Three more if a removed key has histories below it.
/// With a history the first one also lists its entries and reads two ACLs.
/// Two more for each missing parent of a key or of its history, once; one more if the ACL of the history is another one
/// than that of the key.
#[derive(Debug)]
#[must_use = "nothing is published until it is awaited"]
pub struct Publish {
    keys: KeyRequests,
}

impl Publish {
    /// Sets the condition of the publication. The default is [`Expected::Any`].
    pub fn expecting(mut self, expected: Expected) -> Self {
        self.keys.expecting(expected);
        self
    }

    /// Leaves a node that has this data already, so that its listeners receive no event.
    pub fn only_if_changed(mut self) -> Self {
        self.keys.only_if_changed();
        self
    }
}

impl IntoFuture for Publish {
    type Output = Result<Published, PublishError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut published = self.keys.publish().await?;
            Ok(published.pop().expect("one result for one key"))
        })
    }
}

/// A publication of several keys; made by [`Publisher::transaction`].
///
/// Either all keys change, in one transaction, or none does: a reader sees all old values or all new ones.
/// Errors, cancel safety and cost are those of [`Publish`]. Each path may occur once.
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_config::{Expected, Publisher};
/// use zk_core::codec::Text;
///
/// let publisher = Publisher::new(&session, Text);
/// let published = publisher
///     .transaction()
///     .set("/app/host", &"db2".to_owned())
///     .expecting(Expected::Version(3))
///     .set("/app/port", &"5433".to_owned())
///     .remove("/app/socket")
///     .publish()
///     .await?;
/// assert_eq!(published.len(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is published until `publish` is awaited"]
pub struct PublishTransaction<'a, C> {
    codec: &'a C,
    keys: KeyRequests,
}

impl<C> PublishTransaction<'_, C> {
    /// Adds a key to create or replace.
    pub fn set<T>(mut self, path: impl IntoNodePath, value: &T) -> Self
    where
        C: Codec<T>,
    {
        self.keys.set(self.codec, path, value);
        self
    }

    /// Adds a key to remove.
    pub fn remove(mut self, path: impl IntoNodePath) -> Self {
        self.keys.add(path.into_node_path(), |_| Ok(None));
        self
    }

    /// Sets the condition of the key that was added last. All keys are published only if all conditions hold.
    pub fn expecting(mut self, expected: Expected) -> Self {
        self.keys.expecting(expected);
        self
    }

    /// Leaves the key that was added last if it has this data already.
    ///
    /// The other keys are published only if it still has the data then.
    pub fn only_if_changed(mut self) -> Self {
        self.keys.only_if_changed();
        self
    }

    /// Publishes all keys or none, and returns the results in the order in which the keys were added.
    ///
    /// # Errors
    ///
    /// See [`Publish`], also for cancel safety.
    pub async fn publish(self) -> Result<Vec<Published>, PublishError> {
        self.keys.publish().await
    }
}

/// The keys of one publication.
#[derive(Debug)]
struct KeyRequests {
    session: Session,
    options: Arc<PublishOptions>,
    /// The keys, or the first error in them.
    requests: Result<Vec<KeyRequest>, PublishError>,
}

impl KeyRequests {
    fn set<T>(&mut self, codec: &impl Codec<T>, path: impl IntoNodePath, value: &T) {
        self.add(path.into_node_path(), |path| {
            let encoded = codec.encode(value).map_err(|source| PublishError::Encode {
                path: path.clone(),
                source,
            });
            Ok(Some(encoded?))
        });
    }

    fn add(
        &mut self,
        path: Result<NodePath, ParsePathError>,
        wanted: impl FnOnce(&NodePath) -> Result<Option<Vec<u8>>, PublishError>,
    ) {
        let Ok(requests) = &mut self.requests else {
            return;
        };
        let request = path.map_err(PublishError::from).and_then(|path| {
            if let Some(rule) = reserved_path_rule(&path, requests) {
                return Err(PublishError::ReservedPath { path, rule });
            }
            Ok(KeyRequest {
                wanted: wanted(&path)?,
                path,
                acl: None,
                only_replace: false,
                expected: Expected::default(),
                only_if_changed: false,
            })
        });
        match request {
            Ok(request) => requests.push(request),
            Err(error) => self.requests = Err(error),
        }
    }

    fn last_mut(&mut self) -> Option<&mut KeyRequest> {
        self.requests.as_mut().ok()?.last_mut()
    }

    fn expecting(&mut self, expected: Expected) {
        if let Some(key) = self.last_mut() {
            key.expected = expected;
        }
    }

    /// Sets the ACL that a removed key is created with; `None` if the key exists, and is not to be created.
    fn restore_with_acl(&mut self, acl: Option<Acl>) {
        if let Some(key) = self.last_mut() {
            key.only_replace = acl.is_none();
            key.acl = acl;
        }
    }

    fn only_if_changed(&mut self) {
        if let Some(key) = self.last_mut() {
            key.only_if_changed = true;
        }
    }

    async fn publish(self) -> Result<Vec<Published>, PublishError> {
        Publication::new(&self.session, &self.options, self.requests?)
            .run()
            .await
    }
}

/// Returns why a path cannot be published at, with the remedy.
fn reserved_path_rule(path: &NodePath, others: &[KeyRequest]) -> Option<&'static str> {
    if path.is_root() {
        Some("the root is not a key; name a node below it")
    } else if history::is_history(path) {
        Some("it belongs to a history; use `Publisher::roll_back` for a revision")
    } else if others.iter().any(|other| other.path == *path) {
        Some("the publication contains it already; add each key once")
    } else {
        None
    }
}
