//! The client: a handle that submits requests to a session, which a task drives over TCP.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};

use crate::config::{Config, SavedSession};
use crate::connect_string::{ConnectString, ParseConnectStringError};
use crate::driver::{self, Connector, Resolver};
use crate::host_provider::HostProvider;
use crate::proto::{Credentials, DecodeError, ErrorCode, Reply, Request, WatchEvent};
use crate::session::{Host, Loss, Outcome, Server, Session, SessionEnd, SubmitError, Ticket};
use crate::shared::{ConnectionState, Shared};

/// A session with an ensemble. Clones are handles to the same session.
///
/// # Dropping
///
/// The last handle closes the session in the background, as [`close`](Self::close) does. A session from elsewhere that
/// was not [resumed](Config::resume) yet is left as it is, so that the attempt can be repeated.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

/// The reply to a request, and the connection and transaction that it came with.
#[derive(Debug)]
#[non_exhaustive]
pub struct Answer {
    /// What the server returned.
    pub reply: Reply,
    /// The newest transaction that the server had applied.
    pub zxid: i64,
    /// The number of the connection that the reply came over.
    pub epoch: u64,
    /// The watch that the request has set, if it asked for one.
    pub watch: Option<Watch>,
}

/// A request was refused or not sent, or its outcome is unknown.
#[derive(Debug)]
#[non_exhaustive]
pub struct RequestError {
    /// What is known.
    pub kind: RequestErrorKind,
    /// The watch that the request has set all the same: an `exists` that finds no node sets one, no other request does.
    pub watch: Option<Watch>,
}

/// What is known of a request that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestErrorKind {
    /// The request was not accepted, and not sent.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// It was not sent.
    #[error("the request was not sent: {0}")]
    NotSent(SessionEnd),
    /// The server refused it, and nothing was changed.
    #[error("the server refused the request: {code}")]
    Refused {
        /// Why.
        code: ErrorCode,
        /// The newest transaction that the server had applied.
        zxid: i64,
        /// The number of the connection.
        epoch: u64,
    },
    /// The server carried it out, and its reply cannot be read.
    #[error("the server carried out the request, and its reply cannot be read: {why}")]
    Unreadable {
        /// What is wrong with the reply: it is [too long](DecodeError::TooLong) for
        /// [`max_reply`](Config::max_reply), or makes no sense.
        why: DecodeError,
        /// The newest transaction that the server had applied.
        zxid: i64,
        /// The number of the connection.
        epoch: u64,
    },
    /// It was not written by the deadline, and is taken back: it will not be sent.
    #[error("the request was not sent by the deadline")]
    TakenBack,
    /// It was sent, and there was no reply by the deadline: it was carried out, or will be, or not.
    #[error("there was no reply by the deadline, and the outcome of the request is unknown")]
    Unanswered,
    /// It was sent, and no reply arrived that says what became of it: it was carried out, or will be, or not.
    #[error("the outcome of the request is unknown: {why}")]
    Unknown {
        /// The number of the connection.
        epoch: u64,
        /// Why there is no such reply.
        why: Loss,
    },
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl std::error::Error for RequestError {}

impl Client {
    /// Begins a session with the ensemble of these hosts, in the background; see [`connected`](Self::connected).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and if there is no host.
    pub fn new(hosts: Vec<Host>, config: Config) -> Self {
        assert!(!hosts.is_empty(), "a session needs a host");
        Self::start(Arc::new(hosts), false, Resolver::system(), config)
    }

    /// Begins a session with the ensemble whose hosts a provider returns. Otherwise as [`new`](Self::new).
    ///
    /// Until it has returned hosts, the state is [`Disconnected`](ConnectionState::Disconnected) with
    /// [the reason](Loss::NoHosts).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn with_host_provider(provider: impl HostProvider, config: Config) -> Self {
        Self::start(Arc::new(provider), true, Resolver::system(), config)
    }

    /// Begins a session with the ensemble of a connect string, for example `zk1:2181,zk2:2181/app`.
    ///
    /// A chroot in it replaces that of `config`. Otherwise as [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// If the text is not a connect string.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn from_connect_string(
        text: &str,
        mut config: Config,
    ) -> Result<Self, ParseConnectStringError> {
        let ConnectString { hosts, chroot } = text.parse()?;
        if !chroot.is_root() {
            config.chroot = chroot;
        }
        Ok(Self::new(hosts, config))
    }

    /// Waits until the session has a connection; without end if no server can be reached.
    ///
    /// # Errors
    ///
    /// Why the session is over.
    pub async fn connected(&self) -> Result<(), SessionEnd> {
        let is_known = |state: &ConnectionState| {
            matches!(
                state,
                ConnectionState::Connected { .. } | ConnectionState::Over(_)
            )
        };
        let mut states = self.states();
        match states.wait_for(is_known).await.as_deref() {
            Ok(ConnectionState::Over(end)) => Err(*end),
            Ok(_) => Ok(()),
            // The task reports the end of the session before it ends itself.
            Err(_) => Err(SessionEnd::RuntimeEnded),
        }
    }

    /// Returns a receiver of the states of the connection. It may skip states that were replaced quickly.
    pub fn states(&self) -> watch::Receiver<ConnectionState> {
        self.handle.states.clone()
    }

    /// Sends a request and waits for the reply.
    ///
    /// The first poll submits it; the requests of one session are sent in the order in which they were submitted, and
    /// carried out in that order.
    /// Without a connection it waits for one; [`request_by`](Self::request_by) bounds the wait.
    ///
    /// # Errors
    ///
    /// See [`RequestErrorKind`].
    ///
    /// # Cancel safety
    ///
    /// A request that was not sent yet is taken back. Any other may be carried out.
    pub async fn request(&self, request: &Request) -> Result<Answer, RequestError> {
        let (mut pending, watch) = self.submit(request)?;
        let outcome = (&mut pending.outcome).await;
        pending.is_settled = true;
        Self::answer(request, answered(outcome), watch)
    }

    /// Sends a request and waits for the reply until a deadline, which does not bring forward what is sent before it.
    /// Otherwise as [`request`](Self::request).
    ///
    /// # Errors
    ///
    /// See [`RequestErrorKind`]. At the deadline the error says whether the request was sent:
    /// [`TakenBack`](RequestErrorKind::TakenBack) or [`Unanswered`](RequestErrorKind::Unanswered).
    ///
    /// # Cancel safety
    ///
    /// As [`request`](Self::request). To know whether the request was sent, let the deadline pass instead.
    pub async fn request_by(
        &self,
        request: &Request,
        deadline: Instant,
    ) -> Result<Answer, RequestError> {
        let (mut pending, watch) = self.submit(request)?;
        let result = match timeout_at(deadline, &mut pending.outcome).await {
            Ok(outcome) => {
                pending.is_settled = true;
                answered(outcome)
            }
            Err(_) if pending.take_back() => Err(RequestErrorKind::TakenBack),
            Err(_) => match pending.outcome.try_recv() {
                // It came between the deadline and the question.
                Ok(outcome) => answered(Ok(outcome)),
                Err(_) => Err(RequestErrorKind::Unanswered),
            },
        };
        Self::answer(request, result, watch)
    }

    fn answer(
        request: &Request,
        result: Result<(Reply, i64, u64), RequestErrorKind>,
        watch: Option<Watch>,
    ) -> Result<Answer, RequestError> {
        match result {
            Ok((reply, zxid, epoch)) => Ok(Answer {
                reply,
                zxid,
                epoch,
                watch,
            }),
            Err(kind) => {
                let no_node = ErrorCode::NO_NODE;
                let is_set = matches!(kind, RequestErrorKind::Refused { code, .. } if code == no_node)
                    && matches!(request, Request::Exists { .. });
                let watch = watch.filter(|_| is_set);
                Err(RequestError { kind, watch })
            }
        }
    }

    /// Adds credentials to those of the [`Config`], and waits until a server has accepted them.
    ///
    /// The first poll adds them. They are sent at once, before the requests that wait to be sent, and again on every
    /// later connection. Requests that are submitted afterwards have the new identity.
    ///
    /// # Errors
    ///
    /// [`Refused`](RequestErrorKind::Refused) with [`AUTH_FAILED`](ErrorCode::AUTH_FAILED) if a server refuses them. It
    /// closes the connection then, and the session is over: [`SessionEnd::AuthFailed`]. The ensemble keeps what belongs
    /// to the session, such as ephemeral nodes, until its timeout.
    /// [`Unknown`](RequestErrorKind::Unknown) if the session ends otherwise before a server has replied.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: credentials that were added stay.
    pub async fn add_auth(&self, credentials: Credentials) -> Result<(), RequestError> {
        self.authenticate(|session| session.add_auth(credentials))
            .await
    }

    /// Adds credentials as [`add_auth`](Self::add_auth) does, in place of all others of their scheme: later connections
    /// do not send those. For example, a token that replaces one which is about to expire.
    ///
    /// Until the connection ends, the server may know the session by the replaced ones, too. Calls that wait until a server
    /// has accepted replaced ones have the outcome of this one.
    ///
    /// # Errors
    ///
    /// As [`add_auth`](Self::add_auth).
    ///
    /// # Cancel safety
    ///
    /// As [`add_auth`](Self::add_auth).
    pub async fn replace_auth(&self, credentials: Credentials) -> Result<(), RequestError> {
        self.authenticate(|session| session.replace_auth(credentials))
            .await
    }

    async fn authenticate(
        &self,
        add: impl FnOnce(&mut Session) -> Result<Ticket, SubmitError>,
    ) -> Result<(), RequestError> {
        let outcome = {
            let mut inner = self.handle.shared.lock();
            let ticket = add(&mut inner.session);
            ticket.map(|ticket| {
                let (answer, outcome) = oneshot::channel();
                inner.answers.insert(ticket, answer);
                outcome
            })
        };
        self.handle.shared.wake_driver.notify_one();
        let kind = match outcome {
            Ok(outcome) => match answered(outcome.await) {
                Ok(_) => return Ok(()),
                Err(kind) => kind,
            },
            Err(error) => error.into(),
        };
        Err(RequestError { kind, watch: None })
    }

    /// Returns what [resumes](Config::resume) the session elsewhere; `None` before its first connection, and while only
    /// a read-only server knows it.
    ///
    /// The ensemble keeps the session for its timeout after the last connection, unless it was closed.
    pub fn saved_session(&self) -> Option<SavedSession> {
        self.handle.shared.lock().session.saved()
    }

    /// Returns the smallest session timeout that a server has granted; `None` before the first connection.
    ///
    /// A new leader may count with the timeout of an earlier grant.
    pub fn smallest_timeout(&self) -> Option<Duration> {
        self.handle.shared.lock().session.smallest_timeout()
    }

    /// Returns the server that the session is connected to, and the number of the connection.
    pub(crate) fn server(&self) -> Option<(Server, u64)> {
        self.handle.shared.lock().server()
    }

    pub(crate) fn connector(&self) -> &Connector {
        &self.handle.connector
    }

    /// Replaces the list of hosts. An empty list is ignored. The connection is given up if its host is not in the list.
    ///
    /// The list is in force until a [provider](Self::with_host_provider) is asked again, and for good without one. Call
    /// [`rebalance`](Self::rebalance) to use servers that have joined.
    pub fn update_hosts(&self, hosts: Vec<Host>) {
        let shared = &self.handle.shared;
        let mut inner = shared.lock();
        inner.session.update_hosts(&hosts, shared.now());
        if !hosts.is_empty() {
            inner.replaced_hosts = Some(hosts.clone());
            if !self.handle.has_provider {
                inner.provider = Arc::new(hosts);
            }
        }
        drop(inner);
        shared.wake_driver.notify_one();
    }

    /// Chooses one of the known servers at random, each with the same chance, and moves the session there: once all
    /// requests in flight have their replies, the connection is given up and the next one made. If all clients do this
    /// after servers have joined, each server has its share of them.
    ///
    /// Nothing is lost by it, but until the next connection requests wait, for as long as a server takes to resume the
    /// session. A client never does this by itself. The Java client does, when its list of servers is replaced: it moves with
    /// a probability that balances the load if it was balanced before (ZOOKEEPER-1355), at once, whatever is in flight.
    pub fn rebalance(&self) {
        self.handle.shared.lock().session.rebalance();
        self.handle.shared.wake_driver.notify_one();
    }

    /// Ends the session after all requests that were submitted before, and waits until it is over; returns how it ended.
    ///
    /// If a server refuses to close it, the next connection is tried, without end; bound the wait with a timeout.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the session ends in the background.
    pub async fn close(&self) -> SessionEnd {
        self.handle.shared.close();
        let is_over = |state: &ConnectionState| matches!(state, ConnectionState::Over(_));
        match self.states().wait_for(is_over).await.as_deref() {
            Ok(ConnectionState::Over(end)) => *end,
            _ => SessionEnd::Closed,
        }
    }

    pub(crate) fn start(
        provider: Arc<dyn HostProvider>,
        has_provider: bool,
        resolver: Resolver,
        config: Config,
    ) -> Self {
        let connector = Connector::of(&config);
        let session = Session::new(config, provider.refresh_interval(), Duration::ZERO);
        let (shared, states) = Shared::new(session, provider);
        let driven = driver::run(Arc::clone(&shared), resolver, connector.clone());
        tokio::spawn(driven);
        Self {
            handle: Arc::new(Handle {
                shared,
                states,
                connector,
                has_provider,
            }),
        }
    }

    fn submit(&self, request: &Request) -> Result<(Pending, Option<Watch>), RequestError> {
        let shared = &self.handle.shared;
        let (answer, outcome) = oneshot::channel();
        let mut inner = shared.lock();
        let ticket = inner.session.submit(request);
        let ticket = ticket.map_err(|error| RequestError {
            kind: error.into(),
            watch: None,
        })?;
        inner.answers.insert(ticket, answer);
        let watch = request.sets_watch().then(|| {
            let (sender, events) = mpsc::unbounded_channel();
            inner.watches.insert(ticket, sender);
            Watch {
                shared: Arc::clone(shared),
                ticket,
                events,
                epoch: 0,
            }
        });
        drop(inner);
        shared.wake_driver.notify_one();
        let pending = Pending {
            shared: Arc::clone(shared),
            ticket,
            outcome,
            is_settled: false,
        };
        Ok((pending, watch))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.handle.states.borrow();
        f.debug_struct("Client").field("state", &*state).finish()
    }
}

/// A watch on the server.
///
/// One-shot watches report one event, persistent ones every one. A watch moves to each new connection of its session:
/// the server reports then what a one-shot watch has missed. Persistent watches miss what happens without a connection
/// (ZOOKEEPER-4698).
///
/// Servers before 3.9 keep one kind of watch for a node and a session (ZOOKEEPER-4466): a persistent watch replaces a
/// one-shot one on the same node, whose event is lost, also when both are set again on a new connection.
///
/// # Dropping
///
/// Ends the events. The watch is also removed from the server, in the background, where that is possible without removing
/// another one. A server that does not know how closes the connection; if it does not name its release either, as
/// `ClickHouse` Keeper, its host is not asked again, and the watch stays there until it fires or the connection ends.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    ticket: Ticket,
    events: mpsc::UnboundedReceiver<(WatchEvent, u64)>,
    epoch: u64,
}

impl Watch {
    /// Waits for the next event; `None` if there is none any more: the session is over, a one-shot watch has reported
    /// its event, or the session has moved to a server before 3.6, which has no persistent watches.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        let (event, epoch) = self.events.recv().await?;
        self.epoch = epoch;
        Some(event)
    }

    /// Returns the number of the connection that the last event came over; 0 if there was no event yet.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        // A watch that has fired, or was never set, is not there.
        if inner.watches.remove(&self.ticket).is_some() {
            inner.session.forget_watch(self.ticket);
            self.shared.wake_driver.notify_one();
        }
    }
}

/// A submitted request. Dropping it takes the request back if it was not sent.
struct Pending {
    shared: Arc<Shared>,
    ticket: Ticket,
    outcome: oneshot::Receiver<Outcome>,
    /// Whether it has an outcome, or was to be taken back.
    is_settled: bool,
}

impl Pending {
    /// Takes the request back; returns `false` if it may have been sent.
    fn take_back(&mut self) -> bool {
        self.is_settled = true;
        let mut inner = self.shared.lock();
        let is_taken_back = inner.session.cancel(self.ticket);
        if is_taken_back {
            inner.answers.remove(&self.ticket);
        }
        is_taken_back
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.is_settled {
            self.take_back();
        }
    }
}

/// Returns the reply, its zxid and its epoch, or why there is none.
fn answered(
    outcome: Result<Outcome, oneshot::error::RecvError>,
) -> Result<(Reply, i64, u64), RequestErrorKind> {
    Err(match outcome {
        Ok(Outcome::Done { reply, zxid, epoch }) => return Ok((reply, zxid, epoch)),
        Ok(Outcome::Refused { code, zxid, epoch }) => {
            RequestErrorKind::Refused { code, zxid, epoch }
        }
        Ok(Outcome::Unreadable { why, zxid, epoch }) => {
            RequestErrorKind::Unreadable { why, zxid, epoch }
        }
        Ok(Outcome::Unknown { epoch, why }) => RequestErrorKind::Unknown { epoch, why },
        Ok(Outcome::NotSent { end }) => RequestErrorKind::NotSent(end),
        // The task reports the outcome of each request before it ends.
        Err(_) => RequestErrorKind::Unknown {
            epoch: 0,
            why: Loss::Over(SessionEnd::RuntimeEnded),
        },
    })
}

/// The session is closed when the last of the client's clones is gone.
struct Handle {
    shared: Arc<Shared>,
    states: watch::Receiver<ConnectionState>,
    connector: Connector,
    /// Whether the hosts come from a provider of the caller.
    has_provider: bool,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.last_handle_dropped();
    }
}
