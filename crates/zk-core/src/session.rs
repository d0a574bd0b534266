//! A ZooKeeper session as applications use it: creates operations, and reports the state of the session.

use std::time::{Duration, Instant};

use bytes::Bytes;
use zk_wire::{
    Acl, ConnectString, Credentials, IntoNodePath, NodePath, ParsePathError, SessionId, Stat,
};

use crate::call::Call;
use crate::counters::Counts;
use crate::deadline::Deadline;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Operation};
use crate::operation::{
    Create, Delete, DescendantCount, Ephemerals, Exists, Get, GetAcl, GetConfig, GetStat, List,
    OperationFuture, ReadMany, Set, SetAcl, Sync, Target, Transaction, WaitForCreation,
    WaitForDeletion, WhoAmI,
};
use crate::retry::RetryPolicy;
use crate::session_defaults::SessionDefaults;
use crate::session_handle::SessionHandle;
use crate::state::{ConnectionState, StateChanges};
use crate::subscription::Subscribe;
use crate::tracker::{self, NodeTracker};
use crate::transport::{SessionEnd, Transport, TransportError};

pub(crate) mod builder;
mod lease;

pub use lease::{SessionLease, Standby};

/// A connected ZooKeeper session.
///
/// Clones share the session.
/// It moves between servers by itself. When the ensemble expires it, it is lost for good and never replaced;
/// [`SessionBuilder::supervise`](crate::SessionBuilder::supervise) opens a new session for an application that wants
/// one.
///
/// Each operation takes a [`NodePath`] or a string that is parsed into one, and is sent when it is first polled.
/// The ensemble applies the requests of one session in the order in which they were sent. Requests polled one after the
/// other, as in `tokio::join!`, are in flight at once and keep that order.
/// After a connection loss the order holds for requests sent from then on; requests that wait for a connection are sent
/// in no particular order.
///
/// The `with_…` methods return views of the same session with other defaults.
///
/// # Cost
///
/// Apart from its operations, a session sends only pings, which its own server answers: one in each third of the
/// session timeout in which nothing else is sent.
/// While a recipe relies on the session, and for a minute after, it also sends requests that the leader and the quorum
/// answer; see [`SessionLease`] and [`Standby`].
///
/// # Dropping
///
/// Dropping the last clone ends the session in the background, as long as the runtime lives; its ephemeral nodes are
/// deleted soon after. Pending deletions of other nodes are completed first, for at most two minutes.
/// If the process dies, or the runtime is shut down, the ensemble ends the session after its timeout.
/// [`close`](Self::close) waits until the session has ended.
#[derive(Debug, Clone)]
pub struct Session {
    handle: SessionHandle,
}

impl Session {
    /// Creates a session on a connected transport, with the defaults of [`SessionBuilder`](crate::SessionBuilder): for
    /// tests, and for another client of the protocol. `servers` are those that errors name, and the chroot, below which the
    /// transport has all its paths.
    ///
    /// # Panics
    ///
    /// Panics if called outside a Tokio runtime, which runs the tasks of the session.
    pub fn with_transport(transport: impl Transport, servers: ConnectString) -> Self {
        // An instant of the lease clock for which that of the monotonic one is taken is too early, which is safe.
        let asked = transport.requested();
        Self::new(SessionHandle::start(
            Box::new(transport),
            servers,
            SessionDefaults::default(),
            asked,
        ))
    }

    pub(crate) fn new(handle: SessionHandle) -> Self {
        Self { handle }
    }

    pub(crate) fn handle(&self) -> &SessionHandle {
        &self.handle
    }

    fn engine(&self) -> &Engine {
        self.handle.engine()
    }

    fn defaults(&self) -> &SessionDefaults {
        self.handle.defaults()
    }

    /// Returns a view of this session whose paths are relative to `namespace`, which is relative to this view's own.
    ///
    /// Paths that operations return do not contain it.
    /// The node of the namespace is not created here; [`Create::parents`] creates it like other parents.
    ///
    /// # Errors
    ///
    /// If `namespace` is not a valid path.
    pub fn with_namespace(&self, namespace: impl IntoNodePath) -> Result<Self, ParsePathError> {
        let namespace = namespace.into_node_path()?;
        let namespace = self.defaults().wire(&namespace);
        Ok(self.with_defaults(|defaults| defaults.namespace = namespace))
    }

    /// Returns a view of this session with another default ACL for created nodes and their parents.
    #[must_use]
    pub fn with_acl(&self, acl: Acl) -> Self {
        self.with_defaults(|defaults| defaults.acl = acl)
    }

    /// Returns a view of this session with another retry policy.
    #[must_use]
    pub fn with_retry(&self, policy: RetryPolicy) -> Self {
        self.with_defaults(|defaults| defaults.retry = policy)
    }

    /// Returns a view of this session with another timeout for operations that set none.
    #[must_use]
    pub fn with_operation_timeout(&self, timeout: Duration) -> Self {
        self.with_defaults(|defaults| defaults.operation_timeout = timeout)
    }

    /// Returns the session id.
    pub fn id(&self) -> SessionId {
        self.engine().transport().session_id()
    }

    /// Returns the smallest session timeout that a server has granted so far, which may differ from the requested one.
    pub fn session_timeout(&self) -> Duration {
        self.engine().transport().session_timeout()
    }

    /// Returns the timeout of operations of this view that set none.
    pub fn operation_timeout(&self) -> Duration {
        self.defaults().operation_timeout
    }

    /// Returns the servers and the chroot of this session.
    pub fn servers(&self) -> &ConnectString {
        &self.engine().servers
    }

    /// Returns the namespace of this view, relative to the chroot.
    pub fn namespace(&self) -> NodePath {
        // It is never elsewhere.
        let namespace = &self.defaults().namespace;
        let below_chroot = namespace.relative_to(&self.servers().chroot);
        below_chroot.unwrap_or_else(|| namespace.clone())
    }

    /// Returns a path of this view as the servers know it: below the chroot and the namespace.
    pub fn server_path(&self, path: &NodePath) -> NodePath {
        self.defaults().wire(path)
    }

    /// Returns the ACL of the nodes that this view creates.
    pub fn default_acl(&self) -> &Acl {
        &self.defaults().acl
    }

    /// Returns the current state of the connection.
    pub fn state(&self) -> ConnectionState {
        ConnectionState::of(self.engine().link_now().phase)
    }

    /// Returns a stream of connection states that begins with the current one.
    pub fn state_changes(&self) -> StateChanges {
        StateChanges::new(self.engine().link())
    }

    /// Returns the counters of the session, which all views share.
    pub fn counters(&self) -> Counts {
        let engine = self.engine();
        Counts {
            calls: engine.counters.calls.get(),
            retries: engine.counters.retries.get(),
            connection_losses: engine.link_now().breaks,
            watches: engine.counters.watches.get(),
            unsettled: self.handle.cleanup().unsettled().count(),
        }
    }

    /// Returns the instant until which the ensemble certainly keeps this session, as far as this client can prove.
    ///
    /// The instant may be past. Returns `None` if the session is over or being closed: another client may then already
    /// have what the session held, before the server's reply arrives.
    ///
    /// Each reply of the ensemble may extend it. While a [`SessionLease`] exists, the session extends it by itself;
    /// that type lists the assumptions.
    pub fn valid_until(&self) -> Option<Instant> {
        self.engine().valid_until()
    }

    /// Keeps proving that this session is alive until the returned value is dropped.
    pub fn keep_lease(&self) -> SessionLease {
        SessionLease::new(self.handle.clone())
    }

    /// Returns the longest request of the session in bytes, see [`SessionBuilder::max_buffer`](crate::SessionBuilder::max_buffer).
    pub fn max_buffer(&self) -> usize {
        self.engine().transport().max_request()
    }

    /// Keeps the session ready for [`keep_lease`](Self::keep_lease), and so for locks, until the returned value is
    /// dropped.
    pub fn stand_by(&self) -> Standby {
        Standby::new(self.handle.clone())
    }

    /// Creates a node.
    pub fn create(&self, path: impl IntoNodePath, data: impl Into<Vec<u8>>) -> Create {
        Create::new(self.target(path), data.into())
    }

    /// Reads the data of a node.
    pub fn get(&self, path: impl IntoNodePath) -> Get {
        Get::new(self.target(path))
    }

    /// Replaces the data of a node.
    pub fn set(&self, path: impl IntoNodePath, data: impl Into<Vec<u8>>) -> Set {
        Set::new(self.target(path), data.into())
    }

    /// Checks whether a node exists.
    pub fn exists(&self, path: impl IntoNodePath) -> Exists {
        Exists::new(self.target(path))
    }

    /// Reads the stat of a node that must exist.
    pub fn stat(&self, path: impl IntoNodePath) -> GetStat {
        GetStat::new(self.target(path))
    }

    /// Lists the children of a node.
    pub fn list(&self, path: impl IntoNodePath) -> List {
        List::new(self.target(path))
    }

    /// Reads the data of several nodes, with one result for each.
    ///
    /// ```no_run
    /// # async fn demo(session: zk_core::Session) -> Result<(), zk_core::Error> {
    /// for (name, node) in ["/a", "/b"].iter().zip(session.get_many(["/a", "/b"]).await?) {
    ///     match node {
    ///         Ok((data, stat)) => println!("{name}: {} bytes, version {}", data.len(), stat.version),
    ///         Err(error) if error.is_no_node() => println!("{name} is not there"),
    ///         Err(error) => return Err(error),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_many(
        &self,
        paths: impl IntoIterator<Item = impl IntoNodePath>,
    ) -> ReadMany<(Bytes, Stat)> {
        ReadMany::get(self.handle.clone(), parsed(paths))
    }

    /// Lists the children of several nodes, with one result for each: the names in no particular order. There are no stats:
    /// servers do not return any with several lists.
    pub fn list_many(
        &self,
        paths: impl IntoIterator<Item = impl IntoNodePath>,
    ) -> ReadMany<Vec<String>> {
        ReadMany::list(self.handle.clone(), parsed(paths))
    }

    /// Lists the ephemeral nodes of this session at a path and below it; on servers since 3.6.
    pub fn ephemerals(&self, path: impl IntoNodePath) -> Ephemerals {
        Ephemerals::new(self.target(path))
    }

    /// Counts all nodes below a node; on servers since 3.6.
    pub fn descendant_count(&self, path: impl IntoNodePath) -> DescendantCount {
        DescendantCount::new(self.target(path))
    }

    /// Returns who this session is to its server; on servers since 3.7.
    pub fn whoami(&self) -> WhoAmI {
        WhoAmI::new(self.target(NodePath::root()))
    }

    /// Reads the dynamic configuration of the ensemble; on servers since 3.5.
    pub fn config(&self) -> GetConfig {
        GetConfig::new(self.target(NodePath::root()))
    }

    /// Deletes a node.
    pub fn delete(&self, path: impl IntoNodePath) -> Delete {
        Delete::new(self.target(path))
    }

    /// Subscribes to the changes of a node until the subscription is dropped.
    pub fn subscribe(&self, path: impl IntoNodePath) -> Subscribe {
        Subscribe::new(self.target(path))
    }

    /// Keeps a copy of the data of a node, which may be created and deleted meanwhile.
    ///
    /// Returns the node as it was at some moment during the call, within the session's operation timeout.
    ///
    /// # Errors
    ///
    /// Those of [`Subscribe`], and [`NoAuth`](crate::ErrorKind::NoAuth) if the session may not read the node.
    ///
    /// # Cost
    ///
    /// Two round trips; afterwards one for each change, each reconnection and each session timeout without a change.
    pub fn track(&self, path: impl IntoNodePath) -> OperationFuture<NodeTracker> {
        tracker::track(self.target(path))
    }

    /// Waits until a node exists.
    pub fn wait_for_creation(&self, path: impl IntoNodePath) -> WaitForCreation {
        WaitForCreation::new(self.target(path))
    }

    /// Waits until a node does not exist.
    pub fn wait_for_deletion(&self, path: impl IntoNodePath) -> WaitForDeletion {
        WaitForDeletion::new(self.target(path))
    }

    /// Lets the server of this session catch up with the leader, or with [the quorum](Sync::with_quorum).
    pub fn sync(&self, path: impl IntoNodePath) -> Sync {
        Sync::new(self.target(path))
    }

    /// Reads the ACL of a node.
    pub fn acl(&self, path: impl IntoNodePath) -> GetAcl {
        GetAcl::new(self.target(path))
    }

    /// Replaces the ACL of a node.
    pub fn set_acl(&self, path: impl IntoNodePath, acl: Acl) -> SetAcl {
        SetAcl::new(self.target(path), acl)
    }

    /// Starts a transaction, whose changes are applied together or not at all.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(self.handle.clone())
    }

    /// Waits until the session has a connection, which may be to a read-only server.
    ///
    /// It may break again before the next request is sent; operations wait for a connection by themselves.
    ///
    /// # Errors
    ///
    /// A fatal error when the session is over, or being closed.
    pub async fn connected(&self) -> Result<(), Error> {
        let connected = self.engine().connected().await;
        connected.map_err(|end| Error::new(Operation::Connect, None, end.into()))
    }

    /// Moves the session to one of the servers that is chosen at random, each with the same chance, which may be the present
    /// one: once no reply is missing, the connection is given up and another one is made. If all clients do this after
    /// servers have joined the ensemble, each server gets its share of them.
    ///
    /// It is as safe as any loss of a connection, and needs as long: requests wait meanwhile, and so does the proof that
    /// the session lives. A session never does this by itself. Call it while nothing is held that must not be lost, and
    /// not in all processes at the same moment.
    ///
    /// The Java client moves when its list of servers is replaced, with a probability that keeps the load balanced if it
    /// was balanced before (`StaticHostProvider.updateServerList`, ZOOKEEPER-1355).
    ///
    /// It returns at once. Over a transport that cannot move, nothing happens.
    pub fn rebalance(&self) {
        self.engine().rebalance();
    }

    /// Adds credentials, besides those that it has, and waits until a server has accepted them; for at most the operation
    /// timeout. They are sent again on each later connection.
    ///
    /// Operations that begin after it has returned have the new identity. With the scheme `digest` the data is
    /// `user:password`, which goes to the server in the clear; see [`add_digest_auth`](Self::add_digest_auth).
    /// The credentials are in no debug output, error or log of this crate.
    ///
    /// # Errors
    ///
    /// [`AuthFailed`](ErrorKind::AuthFailed) if a server refuses them, for example because it does not know the scheme.
    /// The session is over then.
    /// [`TimedOut`](ErrorKind::TimedOut) or [`ConnectionLost`](ErrorKind::ConnectionLost) if no reply arrived. With
    /// `zk-wire` the credentials stay added then.
    ///
    /// # Cancel safety
    ///
    /// Safe: credentials that were added stay.
    pub async fn add_auth(&self, scheme: &str, data: impl Into<Vec<u8>>) -> Result<(), Error> {
        let credentials = Credentials::new(scheme, data.into());
        self.authenticated(self.engine().add_auth(credentials))
            .await
    }

    /// Adds credentials as [`add_auth`](Self::add_auth) does, in place of all others of their scheme: later connections do
    /// not send those.
    ///
    /// It is for credentials that expire, such as tokens: the first reconnect would otherwise send the oldest, which is
    /// refused, and ends the session. Until the connection ends, the server may know the session by the replaced ones,
    /// too. A session that succeeds this one, of [`Sessions`](crate::Sessions), begins with the credentials of the builder.
    ///
    /// # Errors
    ///
    /// As [`add_auth`](Self::add_auth), which has the same cancel safety; and [`Unsupported`](ErrorKind::Unsupported) over
    /// a transport that does not have this.
    pub async fn replace_auth(&self, scheme: &str, data: impl Into<Vec<u8>>) -> Result<(), Error> {
        let credentials = Credentials::new(scheme, data.into());
        self.authenticated(self.engine().replace_auth(credentials))
            .await
    }

    /// Adds credentials of the scheme `digest`, as [`add_auth`](Self::add_auth) does.
    ///
    /// # Errors
    ///
    /// As [`add_auth`](Self::add_auth), which has the same cancel safety; and
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for a user that is empty or contains a `:`.
    pub async fn add_digest_auth(&self, user: &str, password: &str) -> Result<(), Error> {
        if user.is_empty() || user.contains(':') {
            let error = Error::new(Operation::AddAuth, None, ErrorKind::InvalidArgument);
            return Err(error.detail("the user must not be empty nor have a ':' in it"));
        }
        let credentials = Credentials::digest(user, password);
        self.authenticated(self.engine().add_auth(credentials))
            .await
    }

    /// Waits until a server has accepted credentials.
    async fn authenticated(
        &self,
        accepted: impl Future<Output = Result<(), TransportError>>,
    ) -> Result<(), Error> {
        let call = Call::new(self.handle.clone(), Operation::AddAuth, None);
        match call.deadline().bound(accepted).await {
            Some(Ok(())) => Ok(()),
            Some(Err(fault)) => {
                let error = call.failure(&NodePath::root(), false, 1, &fault);
                Err(error.without_path())
            }
            None => Err(Error::new(Operation::AddAuth, None, ErrorKind::TimedOut)),
        }
    }

    /// Waits until the session is over and returns the reason.
    ///
    /// The session is over when a server reports that it expired, or after 7/5 of the session timeout without a
    /// connection to any server. The ensemble may keep it for longer if the ensemble itself was down.
    pub async fn lost(&self) -> SessionEnd {
        self.engine().ended().await
    }

    /// Pauses before another attempt. Returns why the session is over if it ends before `pause` has passed, or is over
    /// already; even then other tasks run meanwhile.
    pub async fn pause(&self, pause: Duration) -> Option<SessionEnd> {
        let end = tokio::time::timeout(pause, self.lost()).await.ok();
        if end.is_some() {
            // A lost session refuses each attempt at once. Without this, a loop of attempts in one branch of a `select!`
            // would never let the branch run that ends it.
            tokio::task::yield_now().await;
        }
        end
    }

    /// Asks the leader whether the session is over. Returns `false` if there is no reply within the session timeout.
    ///
    /// Use it when an ephemeral node of this session is gone, to distinguish a deletion by another client from the
    /// expiry of the session. A server reports the deletion of ephemeral nodes before it reports the expiry, and may
    /// answer reads in between. The leader answers a [`sync`](Self::sync) only for a session that it has not ended.
    /// It takes one round trip, or longer while there is no connection.
    ///
    /// # Cost
    ///
    /// A request that the leader answers; no write.
    pub async fn is_over(&self) -> bool {
        let timeout = self.session_timeout();
        let asking = async {
            loop {
                match self.sync(NodePath::root()).await {
                    Ok(()) => return false,
                    Err(error) if error.is_fatal() => return true,
                    // Retries even if the retry policy of this view does not.
                    Err(_) => {
                        self.pause(timeout / 20).await;
                    }
                }
            }
        };
        tokio::time::timeout(timeout, asking).await.unwrap_or(false)
    }

    /// Waits until the background work is done: the deletion of nodes of dropped calls and handles, and the futures
    /// given to [`finish`](Self::finish).
    ///
    /// Returns at once if the session is over.
    pub async fn settled(&self) {
        tokio::select! {
            biased;
            () = self.handle.cleanup().unsettled().settled() => {}
            _ = self.engine().ended() => {}
        }
    }

    /// Returns whether no background deletion is pending at `path` or among its children.
    ///
    /// While this is false, a node of this session found there may be about to be deleted;
    /// [`settled_at`](Self::settled_at) waits for that.
    pub fn is_settled_at(&self, path: &NodePath) -> bool {
        self.handle
            .cleanup()
            .unsettled()
            .is_settled_at(&self.defaults().wire(path))
    }

    /// Waits until the background deletions that are pending now at `path` and among its children are done. It does not
    /// wait for deletions that begin later.
    ///
    /// Returns at once if the session is over.
    pub async fn settled_at(&self, path: &NodePath) {
        let path = self.defaults().wire(path);
        tokio::select! {
            biased;
            () = self.handle.cleanup().unsettled().settled_at(&path) => {}
            _ = self.engine().ended() => {}
        }
    }

    /// Spawns a task on the runtime of the session, which is the runtime that connected it.
    ///
    /// Use it for tasks that belong to the session: they outlive the caller's runtime, and end together with the
    /// session's.
    /// It may be called outside a runtime.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.engine().spawn(task)
    }

    /// Runs `work` in the background until it is done or the session is over. [`settled`](Self::settled) and
    /// [`close`](Self::close) wait for it.
    ///
    /// Use it in a `Drop` to complete what was begun with requests of this session: it does not block, and may be
    /// called outside a runtime.
    /// The work runs on the runtime of the session, and is dropped at an await point when the session is over.
    pub fn finish(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.cleanup().finish(work);
    }

    /// Waits for the background work, then closes the session and waits for the server's reply; for at most the
    /// operation timeout in all.
    ///
    /// When it returns `Ok`, the ephemeral nodes of the session are deleted. From the moment the request is sent,
    /// [`SessionLease`] reports that nothing the session held can be relied on.
    /// Requests in flight are answered first; later requests on any clone fail with
    /// [`SessionClosed`](ErrorKind::SessionClosed).
    /// Closing a closed session is not an error.
    ///
    /// # Errors
    ///
    /// [`SessionExpired`](ErrorKind::SessionExpired) or [`AuthFailed`](ErrorKind::AuthFailed) if the session, and with
    /// it its ephemeral nodes, had ended before.
    /// [`TimedOut`](ErrorKind::TimedOut) if no server replied: the ensemble then ends the session after its timeout.
    ///
    /// # Cancel safety
    ///
    /// If dropped while it waits for the background work, the session stays open; if dropped later, closing continues
    /// in the background.
    pub async fn close(&self) -> Result<(), Error> {
        let deadline = Deadline::after(self.defaults().operation_timeout);
        // Half of the time is reserved for closing itself.
        let for_settling = Deadline::after(self.defaults().operation_timeout / 2);
        if for_settling.bound(self.settled()).await.is_none() {
            tracing::warn!(session = %self.id(), "closing the session before its background work is done");
        }
        self.engine().close();
        match deadline.bound(self.engine().ended()).await {
            Some(SessionEnd::Closed) => Ok(()),
            Some(ending) => Err(Error::new(Operation::Close, None, ending.into())),
            None => Err(Error::new(Operation::Close, None, ErrorKind::TimedOut)
                .attempts_made(1)
                .detail(format!(
                    "no reply from {1} to closing session {2} within {0:?}",
                    deadline.allowed(),
                    self.servers(),
                    self.id()
                ))),
        }
    }

    fn with_defaults(&self, change: impl FnOnce(&mut SessionDefaults)) -> Self {
        Self::new(self.handle.with_defaults(change))
    }

    fn target(&self, path: impl IntoNodePath) -> Target {
        Target::new(self.handle.clone(), path)
    }
}

fn parsed(
    paths: impl IntoIterator<Item = impl IntoNodePath>,
) -> Vec<Result<NodePath, ParsePathError>> {
    let paths = paths.into_iter();
    paths.map(IntoNodePath::into_node_path).collect()
}
