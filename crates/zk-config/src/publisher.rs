//! Publishing values: one key, several at once, and what was there before again.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use zk_core::Acl;
use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Session;
use zk_core::Stat;
use zk_core::codec::Codec;

use crate::error::PublishError;
use crate::history;
use crate::history::Replaced;
use crate::plan::Expected;
use crate::plan::Key;
use crate::publication::Publication;

/// Publishes values as the data of nodes, in one format.
///
/// Nothing is overwritten unseen: every write is made under the version that was read before, also where the caller
/// wants whatever is there replaced.
/// Making one takes no round trip; clones share the session.
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
/// // Only over what was read.
/// let revision = first.stat.map_or(0, |stat| stat.mzxid);
/// publisher
///     .publish("/app/motto", &"all for one".to_owned())
///     .expecting(Expected::Revision(revision))
///     .await?;
///
/// // And back, unless another client has published since.
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

/// The settings of a publisher.
///
/// # Defaults
///
/// - [`history`](Self::with_history): none is kept
/// - [`acl`](Self::with_acl): that of the session's view
/// - [`timeout`](Self::with_timeout): the operation timeout of the session's view
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublishOptions {
    pub(crate) history: usize,
    pub(crate) acl: Option<Acl>,
    pub(crate) timeout: Option<Duration>,
}

impl PublishOptions {
    /// Keeps the last `revisions` that were replaced or removed, in nodes beside the key.
    ///
    /// The default is 0: none is kept, and what others have kept is left alone.
    /// The entry is made in the transaction that replaces the data, so that there is one for each revision that a
    /// publisher with this setting replaced, and it is how a publication whose answer was lost is recognised.
    /// The old and the new data then have to fit into one request together: about half a megabyte each.
    /// An entry has the access rules of the node whose data it keeps.
    /// Where those are by digest, the client needs the permission ADMIN on the key, since others are not told the
    /// digests: [`PublishError::HiddenAcl`].
    #[must_use]
    pub fn with_history(mut self, revisions: usize) -> Self {
        self.history = revisions;
        self
    }

    /// Sets the access rules of nodes that are made; those that exist keep theirs.
    ///
    /// The default is that of the session's view, which missing parents have in any case.
    #[must_use]
    pub fn with_acl(mut self, acl: Acl) -> Self {
        self.acl = Some(acl);
        self
    }

    /// Bounds each publication, from its first read to the last question about a lost answer, and each look at a history.
    ///
    /// The default is the operation timeout of the session's view.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Returns when what begins now has to be over.
    pub(crate) fn deadline(&self, session: &Session) -> Instant {
        let timeout = self.timeout.unwrap_or_else(|| session.operation_timeout());
        let now = Instant::now();
        now.checked_add(timeout).unwrap_or_else(|| now + FAR)
    }
}

/// What became of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// The path.
    pub path: NodePath,
    /// What was done.
    pub change: Change,
    /// The stat after the change: [`version`](Stat::version) and [`mzxid`](Stat::mzxid) are what a later publication
    /// may [expect](Expected).
    ///
    /// `None` when there is no node, and when it cannot be told from what somebody else has done since: the answer was
    /// lost, or a server before 3.8.1 made the node, and it had changed again before it was read.
    /// Read the key then, and decide anew what to expect of it.
    pub stat: Option<Stat>,
}

/// What was done to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// It was made.
    Created,
    /// Its data was replaced.
    Replaced,
    /// It is as it was.
    Unchanged,
    /// It was removed.
    Removed,
}

impl<C> Publisher<C> {
    /// Makes a publisher with the default options.
    pub fn new(session: &Session, codec: C) -> Self {
        Self::with_options(session, codec, PublishOptions::default())
    }

    /// Makes a publisher.
    pub fn with_options(session: &Session, codec: C, options: PublishOptions) -> Self {
        Self {
            session: session.clone(),
            codec,
            options: Arc::new(options),
        }
    }

    /// Publishes a value: creates the node, and missing parents, or replaces its data.
    pub fn publish<T, P>(&self, path: P, value: &T) -> Publish
    where
        C: Codec<T>,
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Publish {
            all: self.several().set(path, value).all,
        }
    }

    /// Removes a key, whose node must have no children but the histories of keys that were removed below it: these go with
    /// it.
    ///
    /// Its own history stays, so that one can [roll back](Self::roll_back), until the node above goes, too, or it is
    /// [purged](Self::purge_history).
    /// A node that is not there is no error, unless something else is [expected](Publish::expecting).
    pub fn remove<P>(&self, path: P) -> Publish
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Publish {
            all: self.several().remove(path).all,
        }
    }

    /// Starts a publication of several keys at once, of which all change or none.
    pub fn several(&self) -> PublishSeveral<'_, C> {
        PublishSeveral {
            codec: &self.codec,
            all: Several {
                session: self.session.clone(),
                options: Arc::clone(&self.options),
                keys: Ok(Vec::new()),
            },
        }
    }

    /// Lists what was replaced or removed at a path, the newest first.
    ///
    /// Entries that this client may not read are left out.
    ///
    /// # Errors
    ///
    /// Those of a list and a read. A key without a history has an empty one.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// Two round trips, whatever the number of revisions.
    pub async fn history<P>(&self, path: P) -> Result<Vec<Replaced>, PublishError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let path = path.try_into().map_err(Into::into)?;
        let deadline = self.options.deadline(&self.session);
        Ok(history::read(&self.session, &path, deadline).await?)
    }

    /// Removes the history of a key, whether the key is there or not.
    ///
    /// There is no way back to its revisions then. A publication with a history that is on its way may begin it anew.
    ///
    /// # Errors
    ///
    /// Those of a delete. A key without a history is none.
    ///
    /// # Cancel safety
    ///
    /// Not safe: all of it may be gone, or some, or nothing. Purge it again.
    ///
    /// # Session loss
    ///
    /// A fatal error; as above.
    ///
    /// # Cost
    ///
    /// A few round trips, whatever the number of revisions.
    pub async fn purge_history<P>(&self, path: P) -> Result<(), PublishError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let path = path.try_into().map_err(Into::into)?;
        let deadline = self.options.deadline(&self.session);
        Ok(history::purge(&self.session, &path, deadline).await?)
    }

    /// Publishes what an earlier revision was, as a new revision, if what is there is as expected.
    ///
    /// What is expected is what the decision to roll back rests on, so that a publication that was not seen is not
    /// overwritten: the version or revision that is to be replaced, or [`Expected::Absent`] for a key that was removed.
    /// The data is taken as it was, whatever the codec.
    ///
    /// A node that is there keeps its access rules; one that was removed is made with those that it had when it was removed,
    /// which are those of the newest entry of the history, whatever those of the revision were.
    /// Where this client may not see all of them, it is made with those of [`PublishOptions::with_acl`], or refused.
    ///
    /// # Errors
    ///
    /// [`PublishError::NoSuchRevision`] when the history does not have it, or no longer.
    /// [`PublishError::Conflict`] when what is expected is not so.
    /// [`PublishError::HiddenAcl`] when the node is to be made with access rules that this client may not see.
    /// Otherwise as of [`Publish`].
    ///
    /// # Cancel safety
    ///
    /// As of [`Publish`].
    ///
    /// # Session loss
    ///
    /// As of [`Publish`].
    ///
    /// # Cost
    ///
    /// Two round trips more than [`Publish`]; five before [`PublishError::NoSuchRevision`].
    pub async fn roll_back<P>(
        &self,
        path: P,
        revision: i64,
        expected: Expected,
    ) -> Result<Published, PublishError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let path = path.try_into().map_err(Into::into)?;
        let deadline = self.options.deadline(&self.session);
        let mut kept = history::kept(&self.session, &path, revision, deadline).await?;
        if kept.is_none() {
            // The server may lag behind the one that it was replaced at.
            let sync = self.session.sync(&path);
            sync.timeout(history::remaining(deadline)).await?;
            kept = history::kept(&self.session, &path, revision, deadline).await?;
        }
        let Some((data, acl)) = kept else {
            return Err(PublishError::NoSuchRevision { path, revision });
        };
        let acl = match &self.options.acl {
            Some(ours) if history::is_masked(&acl) => ours.clone(),
            _ => acl,
        };
        let mut all = self.several().all;
        all.add(Ok::<_, ParsePathError>(path), |_| Ok(Some(data)));
        all.making_with(acl);
        all.expecting(expected);
        Publish { all }.await
    }
}

/// A publication of one key; made by [`Publisher::publish`] and [`Publisher::remove`].
///
/// # Errors
///
/// [`PublishError::Conflict`] when what was [expected](Self::expecting) is not so.
/// [`PublishError::Operation`] with [`TooLarge`](zk_core::ErrorKind::TooLarge) when the value is larger than servers take,
/// and with whatever else a session may say: [`NoAuth`](zk_core::ErrorKind::NoAuth),
/// [`NotConnected`](zk_core::ErrorKind::NotConnected).
/// [`PublishError::OutcomeUnknown`] when the answer was lost and what is there does not tell what became of it.
/// [`PublishError::Encode`], [`PublishError::InvalidPath`], [`PublishError::ReservedPath`]: nothing was sent.
///
/// # After a lost answer
///
/// The server is made to catch up, and the node is compared with what it was: whether it is untouched, replaced by
/// somebody else, or as this was to make it.
/// Untouched or replaced by somebody else, it is tried again if what is expected still holds.
/// As this was to make it, it is taken for the work of this call if nothing was expected, because then it makes no
/// difference who made it so, or if the [history](PublishOptions::with_history) says so; otherwise the outcome is unknown.
///
/// # Cancel safety
///
/// Not safe once it was polled, because a request that has left cannot be called back: all may still change, or nothing.
/// Read the keys afterwards. Dropped before its first poll, nothing has happened.
///
/// # Session loss
///
/// A fatal error; [`PublishError::is_outcome_unknown`] tells whether the request was in flight.
///
/// # Cost
///
/// Two round trips: what is there, and the change; three more where a key goes that has histories below it.
/// A list and, when something is replaced, the access rules are read in
/// the first with a history.
/// When parents or the place for the history are missing, two more per missing node, once.
#[derive(Debug)]
#[must_use = "nothing is published until it is awaited"]
pub struct Publish {
    all: Several,
}

impl Publish {
    /// Publishes only if this is so; the default is [`Expected::Any`].
    pub fn expecting(mut self, expected: Expected) -> Self {
        self.all.expecting(expected);
        self
    }

    /// Leaves the node as it is if it has this data already, so that nobody is told of a change that is none.
    pub fn only_if_changed(mut self) -> Self {
        self.all.only_if_changed();
        self
    }
}

impl IntoFuture for Publish {
    type Output = Result<Published, PublishError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut published = self.all.publish().await?;
            Ok(published.pop().expect("one answer for one key"))
        })
    }
}

/// A publication of several keys at once; made by [`Publisher::several`].
///
/// All keys change in one transaction or none does: a reader sees the old ones or the new ones.
/// Errors, cancel safety and cost are those of [`Publish`]; each path may occur once.
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_config::{Expected, Publisher};
/// use zk_core::codec::Text;
///
/// let publisher = Publisher::new(&session, Text);
/// let published = publisher
///     .several()
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
pub struct PublishSeveral<'a, C> {
    codec: &'a C,
    all: Several,
}

impl<C> PublishSeveral<'_, C> {
    /// Adds a key to be created or replaced.
    pub fn set<T, P>(mut self, path: P, value: &T) -> Self
    where
        C: Codec<T>,
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        self.all.set(self.codec, path, value);
        self
    }

    /// Adds a key to be removed.
    pub fn remove<P>(mut self, path: P) -> Self
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        self.all.add(path.try_into(), |_| Ok(None));
        self
    }

    /// Publishes all only if this is so of the key that was added last.
    pub fn expecting(mut self, expected: Expected) -> Self {
        self.all.expecting(expected);
        self
    }

    /// Leaves the key that was added last as it is if it has this data already.
    ///
    /// The others are published only if it still has.
    pub fn only_if_changed(mut self) -> Self {
        self.all.only_if_changed();
        self
    }

    /// Publishes all or nothing, and answers what became of each key in the order in which they were added.
    ///
    /// # Errors
    ///
    /// As of [`Publish`].
    ///
    /// # Cancel safety
    ///
    /// As of [`Publish`].
    ///
    /// # Session loss
    ///
    /// As of [`Publish`].
    pub async fn publish(self) -> Result<Vec<Published>, PublishError> {
        self.all.publish().await
    }
}

/// Keys that are published together.
#[derive(Debug)]
struct Several {
    session: Session,
    options: Arc<PublishOptions>,
    /// Or the first thing that is wrong with them.
    keys: Result<Vec<Key>, PublishError>,
}

impl Several {
    fn set<T, P>(&mut self, codec: &impl Codec<T>, path: P, value: &T)
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        self.add(path.try_into(), |path| {
            let encoded = codec.encode(value).map_err(|source| PublishError::Encode {
                path: path.clone(),
                source,
            });
            Ok(Some(encoded?))
        });
    }

    fn add<E: Into<ParsePathError>>(
        &mut self,
        path: Result<NodePath, E>,
        wanted: impl FnOnce(&NodePath) -> Result<Option<Vec<u8>>, PublishError>,
    ) {
        let Ok(keys) = &mut self.keys else {
            return;
        };
        let key = path.map_err(|error| error.into().into()).and_then(|path| {
            if let Some(rule) = problem_of(&path, keys) {
                return Err(PublishError::ReservedPath { path, rule });
            }
            Ok(Key {
                wanted: wanted(&path)?,
                path,
                acl: None,
                expected: Expected::default(),
                only_if_changed: false,
            })
        });
        match key {
            Ok(key) => keys.push(key),
            Err(error) => self.keys = Err(error),
        }
    }

    fn expecting(&mut self, expected: Expected) {
        if let Some(key) = self.keys.as_mut().ok().and_then(|keys| keys.last_mut()) {
            key.expected = expected;
        }
    }

    fn making_with(&mut self, acl: Acl) {
        if let Some(key) = self.keys.as_mut().ok().and_then(|keys| keys.last_mut()) {
            key.acl = Some(acl);
        }
    }

    fn only_if_changed(&mut self) {
        if let Some(key) = self.keys.as_mut().ok().and_then(|keys| keys.last_mut()) {
            key.only_if_changed = true;
        }
    }

    async fn publish(self) -> Result<Vec<Published>, PublishError> {
        Publication::new(&self.session, &self.options, self.keys?)
            .run()
            .await
    }
}

const FAR: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

fn problem_of(path: &NodePath, others: &[Key]) -> Option<&'static str> {
    if path.is_root() {
        Some("the root is no key; name a node below it")
    } else if history::is_history(path) {
        Some("it belongs to a history; roll back to a revision instead")
    } else if others.iter().any(|other| other.path == *path) {
        Some("the same publication has it already; name each key once")
    } else {
        None
    }
}
