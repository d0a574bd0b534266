//! One ZooKeeper session.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use crate::acl::Acl;
use crate::connect_string::ConnectString;
use crate::counters::Counts;
use crate::deadline::Deadline;
use crate::engine::Engine;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Operation;
use crate::operation::Create;
use crate::operation::Delete;
use crate::operation::Exists;
use crate::operation::Get;
use crate::operation::GetAcl;
use crate::operation::GetStat;
use crate::operation::List;
use crate::operation::Set;
use crate::operation::SetAcl;
use crate::operation::Sync;
use crate::operation::Target;
use crate::operation::Transaction;
use crate::operation::WaitForCreation;
use crate::operation::WaitForDeletion;
use crate::path::NodePath;
use crate::path::ParsePathError;
use crate::retry::RetryPolicy;
use crate::stat::SessionId;
use crate::state::ConnectionState;
use crate::state::StateChanges;
use crate::subscription::Subscribe;
use crate::tracker::Track;
use crate::transport::Phase;
use crate::transport::SessionEnd;
use crate::transport::Transport;

mod builder;
#[cfg(feature = "tls")]
mod tls;
mod trusted;
mod view;

pub use builder::ConnectError;
pub use builder::SessionBuilder;
#[cfg(feature = "tls")]
pub use tls::Tls;
pub use trusted::Standby;
pub use trusted::Trusted;
pub(crate) use view::View;

/// One ZooKeeper session, connected.
///
/// Clones share the session.
/// Between servers it moves by itself; when the ensemble expires it, it is lost for ever and never replaced.
/// [`SessionBuilder::supervise`] opens the next one for an application that wants it.
///
/// Each operation takes a [`NodePath`] or a text that is parsed into one, and is sent when it is first polled.
/// Requests of one session are carried out in the order in which they were sent, so that requests polled one after
/// the other, as `tokio::join!` does, are in flight at once and in that order.
/// After the connection broke this holds for what is sent from then on; requests that wait for a connection leave in no
/// particular order once there is one.
///
/// The `with_…` methods give views of the same session with other defaults.
///
/// # Cost
///
/// Besides what is asked of it, a session sends pings only, which its own server answers: one per fifth of the session
/// timeout in which nothing else is sent.
/// While something relies on it, and for a minute after, it also asks the leader and the quorum; see [`Trusted`] and
/// [`Standby`].
///
/// # Dropping
///
/// Dropping the last clone ends the session in the background, while the runtime lives: ephemeral nodes go soon after.
/// What it still has to remove and would outlive it goes first, for at most two minutes.
/// When the process dies, or the runtime ends at once, the ensemble ends the session after its timeout.
/// [`close`](Self::close) waits for the end.
#[derive(Debug, Clone)]
pub struct Session {
    shared: Arc<Shared>,
    view: Arc<View>,
}

/// Dropped with the last handle of a session; the tasks of the session hold the engine and not this.
#[derive(Debug)]
struct Shared {
    engine: Arc<Engine>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.engine.abandon();
    }
}

impl Session {
    /// Starts to describe a session to the ensemble at `connect`: `host:port,host:port/chroot`.
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), zk_core::ConnectError> {
    /// use std::time::Duration;
    /// use zk_core::Session;
    ///
    /// let session = Session::builder("zk1,zk2:2182,[::1]/app")
    ///     .session_timeout(Duration::from_secs(15))
    ///     .connect_timeout(Duration::from_secs(5))
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(connect: impl Into<String>) -> SessionBuilder {
        SessionBuilder::new(connect.into())
    }

    /// Makes a session of a transport that has one open, with the defaults of [`SessionBuilder`]: for tests.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime, on which the tasks of the session run.
    pub fn over(transport: impl Transport, servers: ConnectString) -> Self {
        Self::start(
            Box::new(transport),
            servers,
            View::default(),
            tokio::time::Instant::now(),
        )
    }

    fn start(
        transport: Box<dyn Transport>,
        servers: ConnectString,
        view: View,
        asked: tokio::time::Instant,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                engine: Engine::start(transport, servers, asked),
            }),
            view: Arc::new(view),
        }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.shared.engine
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    fn viewed(&self, change: impl FnOnce(&mut View)) -> Self {
        let mut view = View::clone(&self.view);
        change(&mut view);
        Self {
            shared: Arc::clone(&self.shared),
            view: Arc::new(view),
        }
    }

    /// Returns a view of this session whose paths are all below `namespace`, itself below this view's namespace.
    ///
    /// The paths that operations answer are without it.
    /// The node it names is not created by this; [`Create::parents`] makes it with the rest of a path.
    ///
    /// # Errors
    ///
    /// When `namespace` is not a path.
    pub fn with_namespace<P>(&self, namespace: P) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let namespace = namespace.try_into().map_err(Into::into)?;
        let namespace = self.view.wire(&namespace);
        Ok(self.viewed(|view| view.namespace = namespace))
    }

    /// Returns a view of this session that creates nodes, parents included, with other access rules by default.
    #[must_use]
    pub fn with_acl(&self, acl: Acl) -> Self {
        self.viewed(|view| view.acl = acl)
    }

    /// Returns a view of this session with another retry policy.
    #[must_use]
    pub fn with_retry(&self, policy: RetryPolicy) -> Self {
        self.viewed(|view| view.retry = policy)
    }

    /// Returns a view of this session that bounds operations without a timeout of their own by `timeout`.
    #[must_use]
    pub fn with_operation_timeout(&self, timeout: Duration) -> Self {
        self.viewed(|view| view.operation_timeout = timeout)
    }

    /// Returns the number by which the ensemble knows this session.
    pub fn id(&self) -> SessionId {
        self.engine().transport().session_id()
    }

    /// Returns the session timeout the server granted, which may differ from the one asked for.
    pub fn session_timeout(&self) -> Duration {
        self.engine().transport().session_timeout()
    }

    /// Returns the time that bounds operations of this view that have no timeout of their own.
    pub fn operation_timeout(&self) -> Duration {
        self.view.operation_timeout
    }

    /// Returns the servers and the chroot of this session.
    pub fn servers(&self) -> &ConnectString {
        &self.engine().servers
    }

    /// Returns the node that is the root of this view's paths, below the chroot.
    pub fn namespace(&self) -> &NodePath {
        &self.view.namespace
    }

    /// Returns the state of the connection now.
    pub fn state(&self) -> ConnectionState {
        ConnectionState::of(self.engine().link_now().phase)
    }

    /// Follows the state of the connection, beginning with the state of now.
    pub fn state_changes(&self) -> StateChanges {
        StateChanges::new(self.engine().link())
    }

    /// Returns what the session has done so far, in numbers. All views share them.
    pub fn counters(&self) -> Counts {
        let engine = self.engine();
        Counts {
            calls: engine.counters.calls.get(),
            retries: engine.counters.retries.get(),
            connection_losses: engine.link_now().breaks,
            watches: engine.counters.watches.get(),
            watched_bytes: engine.watched.load(Ordering::SeqCst),
            unsettled: engine.unsettled().count(),
        }
    }

    /// Returns the instant until which the ensemble certainly keeps this session, as far as this client can prove;
    /// it may be past, and `None` when the session is over or is being closed: whatever it held may be somebody else's
    /// before the server's acknowledgement is here.
    ///
    /// It moves with the traffic of the session, and by itself while there is a [`Trusted`]; see there for what it
    /// rests on.
    pub fn trusted_until(&self) -> Option<Instant> {
        match self.engine().link_now().phase {
            Phase::Over(_) => None,
            _ if self.engine().is_closing() => None,
            _ => Some(self.engine().trust().until()),
        }
    }

    /// Keeps the proof fresh that this session is alive, for as long as the answer lives.
    pub fn keep_trusted(&self) -> Trusted {
        Trusted::new(self.clone())
    }

    /// Keeps the session ready for [`keep_trusted`](Self::keep_trusted), and so for locks, for as long as the answer lives.
    pub fn stand_by(&self) -> Standby {
        Standby::new(self.clone())
    }

    /// Creates a node.
    pub fn create<P>(&self, path: P, data: impl Into<Vec<u8>>) -> Create
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Create::new(self.target(path), data.into())
    }

    /// Reads the data of a node.
    pub fn get<P>(&self, path: P) -> Get
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Get::new(self.target(path))
    }

    /// Replaces the data of a node.
    pub fn set<P>(&self, path: P, data: impl Into<Vec<u8>>) -> Set
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Set::new(self.target(path), data.into())
    }

    /// Looks whether a node exists.
    pub fn exists<P>(&self, path: P) -> Exists
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Exists::new(self.target(path))
    }

    /// Reads the stat of a node that must exist.
    pub fn stat<P>(&self, path: P) -> GetStat
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        GetStat::new(self.target(path))
    }

    /// Lists the children of a node.
    pub fn list<P>(&self, path: P) -> List
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        List::new(self.target(path))
    }

    /// Deletes a node.
    pub fn delete<P>(&self, path: P) -> Delete
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Delete::new(self.target(path))
    }

    /// Subscribes to what happens to a node, from now until the subscription is dropped.
    pub fn subscribe<P>(&self, path: P) -> Subscribe
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Subscribe::new(self.target(path))
    }

    /// Follows the data of a node that may come and go.
    pub fn track<P>(&self, path: P) -> Track
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Track::new(self.target(path))
    }

    /// Waits until a node exists.
    pub fn wait_for_creation<P>(&self, path: P) -> WaitForCreation
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        WaitForCreation::new(self.target(path))
    }

    /// Waits until a node does not exist.
    pub fn wait_for_deletion<P>(&self, path: P) -> WaitForDeletion
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        WaitForDeletion::new(self.target(path))
    }

    /// Makes this session's server catch up with the leader.
    pub fn sync<P>(&self, path: P) -> Sync
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Sync::new(self.target(path))
    }

    /// Reads the access rules of a node.
    pub fn acl<P>(&self, path: P) -> GetAcl
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        GetAcl::new(self.target(path))
    }

    /// Replaces the access rules of a node.
    pub fn set_acl<P>(&self, path: P, acl: Acl) -> SetAcl
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        SetAcl::new(self.target(path), acl)
    }

    /// Starts a transaction: changes of which all are made or none.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(self.clone())
    }

    /// Waits until the session is over, and returns why.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// This is how to be told of it.
    /// An expiry is noticed when a server says so, or after 7/5 of the session timeout without any server, although
    /// the ensemble may keep the session for longer when it was down itself.
    pub async fn lost(&self) -> SessionEnd {
        self.engine().ended().await
    }

    /// Asks whether the session is over, for at most the session timeout; `false` if nothing says so.
    ///
    /// A server tells that a session has expired after it has told of its ephemeral nodes, and may answer reads in
    /// between. This is how to learn, when such a node is gone, whether somebody deleted it or it went with the session:
    /// the leader answers a [`sync`](Self::sync), and only for a session that it has not ended.
    /// It takes a round trip, and longer only while there is no connection.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
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
                    // However few tries this view allows.
                    Err(_) => drop(tokio::time::timeout(timeout / 20, self.lost()).await),
                }
            }
        };
        tokio::time::timeout(timeout, asking).await.unwrap_or(false)
    }

    /// Waits until everything is removed that is being removed in the background, nodes of dropped calls and handles,
    /// and until what was left to [`finish`](Self::finish) is done.
    ///
    /// Returns at once when the session is over.
    ///
    /// # Cancel safety
    ///
    /// Safe, the removal goes on.
    pub async fn settled(&self) {
        tokio::select! {
            biased;
            () = self.engine().unsettled().settled() => {}
            _ = self.engine().ended() => {}
        }
    }

    /// Tells whether nothing is being removed in the background at `path` or right below it.
    ///
    /// While this is false, a node of this session that is found there may be about to be deleted;
    /// [`settled_at`](Self::settled_at) waits for that.
    pub fn is_settled_at(&self, path: &NodePath) -> bool {
        self.engine()
            .unsettled()
            .is_settled_at(&self.view.wire(path))
    }

    /// Waits until everything at `path` and right below it is removed that is being removed in the background now; what
    /// is dropped later is not waited for.
    ///
    /// Returns at once when the session is over.
    ///
    /// # Cancel safety
    ///
    /// Safe, the removal goes on.
    pub async fn settled_at(&self, path: &NodePath) {
        let path = self.view.wire(path);
        tokio::select! {
            biased;
            () = self.engine().unsettled().settled_at(&path) => {}
            _ = self.engine().ended() => {}
        }
    }

    /// Runs a task on the runtime of the session, which is the one on which it was opened.
    ///
    /// For tasks that belong to the session: they go on when the runtime of the caller ends, and end with that of the
    /// session, which ends the session as well.
    /// This needs no runtime around it.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.engine().spawn(task)
    }

    /// Lets `work` go on in the background, at most until the session is over; [`settled`](Self::settled) and
    /// [`close`](Self::close) wait for it.
    ///
    /// It is for what was begun with requests of this session and has to be brought to its end although its caller was
    /// dropped: to be called in a `Drop`, it neither blocks nor needs a runtime around it.
    /// The work runs on the runtime of the session, and is dropped at one of its awaits when the session is over.
    pub fn finish(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.engine().finish(work);
    }

    /// Finishes what is being removed in the background, ends the session and waits until the server has
    /// acknowledged it; at most for the operation timeout in all.
    ///
    /// Ephemeral nodes are gone then; from the moment in which the end is sent, [`Trusted`] tells that nothing that the
    /// session held can be relied on.
    /// Requests in flight are answered first; later ones on any clone fail with
    /// [`SessionClosed`](ErrorKind::SessionClosed).
    /// Closing twice is no error.
    ///
    /// # Errors
    ///
    /// [`SessionExpired`](ErrorKind::SessionExpired) or [`AuthFailed`](ErrorKind::AuthFailed) when the session had
    /// ended before, and its ephemeral nodes with it.
    /// [`TimedOut`](ErrorKind::TimedOut) when no server acknowledged: the ensemble then ends the session after its
    /// timeout.
    ///
    /// # Cancel safety
    ///
    /// Dropped while it waits for the background, the session stays open; dropped later, the end of the session
    /// continues by itself.
    ///
    /// # Session loss
    ///
    /// Reported as an error, see above.
    pub async fn close(&self) -> Result<(), Error> {
        let deadline = Deadline::after(self.view.operation_timeout);
        // Half of the time is kept for the end itself.
        let for_settling = Deadline::after(self.view.operation_timeout / 2);
        if for_settling.bound(self.settled()).await.is_none() {
            tracing::warn!(session = %self.id(), "closing although something could not be removed in time");
        }
        self.engine().close();
        match deadline.bound(self.engine().ended()).await {
            Some(SessionEnd::Closed) => Ok(()),
            Some(ending) => Err(Error::new(Operation::Close, None, ending.kind())),
            None => Err(Error::new(Operation::Close, None, ErrorKind::TimedOut)
                .attempts_made(1)
                .detail(format!(
                    "waited {:?} for {} to acknowledge the end of session {}",
                    deadline.allowed(),
                    self.servers(),
                    self.id()
                ))),
        }
    }

    fn target<P>(&self, path: P) -> Target
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Target::new(self.clone(), path)
    }
}
