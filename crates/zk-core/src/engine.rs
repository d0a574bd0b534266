//! One session on the wire: sends its requests, follows its link, and keeps what its replies prove.
//!
//! The tasks in the files of this directory are above it; it knows none of them.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::counters::Counters;
use crate::error::ErrorKind;
use crate::lease_clock;
use crate::lease_proof::LeaseProof;
use crate::transport::{
    Answer, Link, LinkReceiver, Phase, Request, Response, ServerRole, SessionEnd, Transport,
    TransportError,
};
use zk_wire::{ConnectString, Credentials, Release};

pub(crate) mod catch_up;
pub(crate) mod cleanup;
pub(crate) mod concurrent_creates;
pub(crate) mod fresh_read;
pub(crate) mod heartbeat;
pub(crate) mod one_shot_watches;
pub(crate) mod watch_manager;

/// One session on the wire and what is known of it.
#[derive(Debug)]
pub(crate) struct Engine {
    transport: Box<dyn Transport>,
    link: LinkReceiver,
    pub(crate) servers: ConnectString,
    pub(crate) counters: Counters,
    lease_proof: Mutex<LeaseProof>,
    /// Changes with each reply, after the lease proof was updated.
    proven: watch::Sender<()>,
    /// Where the tasks of the session run.
    runtime: Handle,
    is_closing: AtomicBool,
    /// Notifies of a change of `is_closing`.
    close_started: watch::Sender<()>,
    /// The greatest zxid of any reply.
    newest_zxid: AtomicI64,
}

impl Engine {
    /// Creates the engine of a session that was opened after `asked`, an instant of the lease clock if it is known. Its
    /// tasks run on the current runtime.
    pub(crate) fn new(
        transport: Box<dyn Transport>,
        servers: ConnectString,
        asked: Option<std::time::Instant>,
    ) -> Self {
        let timeout = transport.session_timeout();
        let lease_proof = match (transport.link().now().phase, asked) {
            // A server that is cut off grants sessions that the quorum does not know.
            (Phase::ReadOnly, _) | (_, None) => LeaseProof::unproven(timeout, lease_clock::now()),
            (_, Some(asked)) => LeaseProof::opened(timeout, asked),
        };
        Self {
            lease_proof: Mutex::new(lease_proof),
            proven: watch::Sender::default(),
            link: transport.link(),
            transport,
            servers,
            counters: Counters::default(),
            runtime: Handle::current(),
            is_closing: AtomicBool::new(false),
            close_started: watch::Sender::default(),
            newest_zxid: AtomicI64::new(i64::MIN),
        }
    }

    pub(crate) fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    /// Returns whether servers are [taken to be](Transport::assumed_release) older than this release.
    pub(crate) fn is_older_than(&self, major: u16, minor: u16) -> bool {
        let assumed = self.transport.assumed_release();
        assumed.is_some_and(|assumed| assumed < Release::new(major, minor, 0))
    }

    pub(crate) fn link(&self) -> LinkReceiver {
        self.link.clone()
    }

    /// Returns a random number.
    pub(crate) fn draw(&self) -> u64 {
        self.transport.draw().unwrap_or_else(|| fastrand::u64(..))
    }

    /// Returns a random fraction, from 0 up to 1.
    pub(crate) fn chance(&self) -> f64 {
        let high = u32::try_from(self.draw() >> 32).expect("half of a number");
        f64::from(high) / (f64::from(u32::MAX) + 1.0)
    }

    /// Returns a unique id for the name of a node.
    pub(crate) fn new_id(&self) -> uuid::Uuid {
        match (self.transport.draw(), self.transport.draw()) {
            (Some(high), Some(low)) => {
                let bits = u128::from(high) << 64 | u128::from(low);
                uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
            }
            _ => uuid::Uuid::new_v4(),
        }
    }

    pub(crate) fn link_now(&self) -> Link {
        let link = self.link.now();
        let is_over = matches!(link.phase, Phase::Over(_));
        if is_over || !self.link.is_gone() {
            return link;
        }
        // The sender of the link is gone, with the runtime of the session.
        let phase = Phase::Over(self.unserved());
        Link { phase, ..link }
    }

    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.link_now().phase, Phase::Up | Phase::ReadOnly)
    }

    /// Returns whether requests can be sent, or why they never will be again; `None` while there is no connection.
    pub(crate) fn connection(&self) -> Option<Result<(), SessionEnd>> {
        match self.link_now().phase {
            Phase::Over(ending) => Some(Err(ending)),
            // Requests after the close are not sent, although the server has not acknowledged it yet; and a session that is
            // being closed does not connect again.
            _ if self.is_closing() => Some(Err(SessionEnd::Closed)),
            Phase::Up | Phase::ReadOnly => Some(Ok(())),
            Phase::Down => None,
        }
    }

    /// Waits until requests can be sent, or returns why they never will be again.
    pub(crate) async fn connected(&self) -> Result<(), SessionEnd> {
        if let Some(connection) = self.connection() {
            return connection;
        }
        let mut link = self.link();
        let link = tokio::select! {
            biased;
            link = link.wait_for(|link| link.phase != Phase::Down) => link,
            () = self.closing() => return Err(self.unserved()),
        };
        match link.map(|link| link.phase) {
            Ok(Phase::Over(ending)) => Err(ending),
            Ok(_) if self.is_closing() => Err(SessionEnd::Closed),
            Ok(_) => Ok(()),
            // The task that kept the link is gone, and with it the runtime of the session.
            Err(_) => Err(self.unserved()),
        }
    }

    /// Waits until the session is over.
    pub(crate) async fn ended(&self) -> SessionEnd {
        let mut link = self.link();
        let over = link
            .wait_for(|link| matches!(link.phase, Phase::Over(_)))
            .await;
        match over.map(|link| link.phase) {
            Ok(Phase::Over(ending)) => ending,
            _ => self.unserved(),
        }
    }

    /// Returns why the session is over when the task that kept the link ended without a reason.
    fn unserved(&self) -> SessionEnd {
        if self.is_closing() {
            SessionEnd::Closed
        } else {
            SessionEnd::RuntimeEnded
        }
    }

    /// Sends one request, and updates the lease proof from the reply.
    pub(crate) async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.send_with(request, None).await
    }

    /// Sends one request, as [`send`](Self::send) does, and waits for the reply until a deadline: then the error says
    /// whether the request was sent, see [`Transport::submit_by`].
    pub(crate) async fn send_by(
        &self,
        request: Request,
        deadline: Instant,
    ) -> Result<Response, TransportError> {
        self.send_with(request, Some(deadline)).await
    }

    async fn send_with(
        &self,
        request: Request,
        deadline: Option<Instant>,
    ) -> Result<Response, TransportError> {
        let answerer = Answerer::of(&request);
        let reply = match deadline {
            Some(deadline) => self.transport.submit_by(request, deadline.into_std()),
            None => self.transport.submit(request),
        };
        let sent = lease_clock::now();
        let Answer { mut result, header } = reply.await;
        if let Ok(response) = &mut result {
            response.keep_valid_names();
        }
        self.note_end(&result);
        let Some(header) = header else {
            return result;
        };
        self.newest_zxid.fetch_max(header.zxid, Ordering::SeqCst);
        if let Some(answerer) = answerer.of_answer(&result) {
            let mut proof = self.lease_proof();
            // Read under the lock, so that the replies are recorded in the order of their instants.
            let answered = lease_clock::now();
            let breaks_now = self.link_now().breaks;
            // The transport may update the link later than it answers.
            proof.broke(breaks_now.max(header.breaks), self.transport.broken());
            let is_of_this_link = header.breaks == proof.breaks();
            if is_of_this_link {
                proof.applied(header.zxid, answered);
            }
            match answerer {
                Answerer::Server => {}
                // It is a `sync`.
                Answerer::Leader => {
                    proof.reached(sent, answered);
                    if is_of_this_link && result.is_ok() {
                        proof.synced(sent, header.zxid);
                    }
                }
                Answerer::Quorum => proof.committed(sent, answered),
            }
            if is_of_this_link {
                proof.touched(sent, answered);
            }
            drop(proof);
            if self.proven.receiver_count() > 0 {
                self.proven.send_replace(());
            }
        }
        result
    }

    /// Adds credentials, and waits until a server has accepted them.
    pub(crate) async fn add_auth(&self, credentials: Credentials) -> Result<(), TransportError> {
        let accepted = self.transport.add_auth(credentials).await;
        self.note_end(&accepted);
        accepted
    }

    /// Adds credentials in place of others, as [`add_auth`](Self::add_auth) does.
    pub(crate) async fn replace_auth(
        &self,
        credentials: Credentials,
    ) -> Result<(), TransportError> {
        let accepted = self.transport.replace_auth(credentials).await;
        self.note_end(&accepted);
        accepted
    }

    /// Ends the link if an answer says that the session is over: the transport may update the link later than it answers.
    fn note_end<T>(&self, answer: &Result<T, TransportError>) {
        let Err(fault) = answer else {
            return;
        };
        let end = match fault {
            TransportError::Refused(ErrorKind::AuthRequired, _) => Some(SessionEnd::AuthRequired),
            fault => fault.session_end(),
        };
        if let Some(
            end @ (SessionEnd::Expired | SessionEnd::AuthFailed | SessionEnd::AuthRequired),
        ) = end
        {
            self.link.end(end);
        }
    }

    /// Returns the greatest zxid of any reply so far.
    ///
    /// A write that is sent after this call gets a greater one.
    /// The ensemble may have committed newer transactions.
    pub(crate) fn newest_zxid(&self) -> i64 {
        self.newest_zxid.load(Ordering::SeqCst)
    }

    pub(crate) fn lease_proof(&self) -> MutexGuard<'_, LeaseProof> {
        let mut proof = lock(&self.lease_proof);
        proof.limit_timeout(self.transport.session_timeout());
        proof
    }

    /// Records the role of the server at the other end of the link that had broken this often before.
    pub(crate) fn connected_to(&self, role: ServerRole, breaks: u64) {
        let mut proof = self.lease_proof();
        let breaks_now = self.link_now().breaks;
        proof.broke(breaks_now, self.transport.broken());
        if proof.breaks() == breaks {
            proof.connected_to(role);
        }
    }

    /// Returns the instant of the monotonic clock until which the ensemble certainly keeps the session, or `None` if the
    /// session is over or being closed.
    pub(crate) fn valid_until(&self) -> Option<std::time::Instant> {
        match self.link_now().phase {
            Phase::Over(_) => None,
            _ if self.is_closing() => None,
            _ => Some(lease_clock::to_monotonic(self.lease_proof().until())),
        }
    }

    /// Returns a receiver that changes whenever the lease proof may have changed.
    pub(crate) fn proven(&self) -> watch::Receiver<()> {
        self.proven.subscribe()
    }

    /// Runs a task on the runtime of the session, whichever runtime the caller is on.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.runtime.spawn(task)
    }

    /// Moves the session to a server that is chosen at random.
    pub(crate) fn rebalance(&self) {
        self.transport.rebalance();
    }

    /// Starts to close the session.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
        self.close_started.send_replace(());
        self.transport.close();
    }

    /// Returns whether a close request may be on its way to the ensemble.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::SeqCst)
    }

    /// Waits until the session is over or being closed.
    pub(crate) async fn closing(&self) {
        let mut closing = self.close_started.subscribe();
        tokio::select! {
            biased;
            _ = closing.wait_for(|()| self.is_closing()) => {}
            _ = self.ended() => {}
        }
    }
}

/// The servers that a reply to a request requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answerer {
    /// The server that the session is connected to.
    Server,
    /// The leader, or a deposed leader that does not know it yet.
    Leader,
    /// The leader and a quorum of followers.
    Quorum,
}

impl Answerer {
    fn of(request: &Request) -> Self {
        match request {
            Request::Create(_)
            | Request::Create2(_)
            | Request::Delete { .. }
            | Request::SetData { .. }
            | Request::SetAcl { .. }
            | Request::Multi(_) => Self::Quorum,
            Request::Sync { .. } => Self::Leader,
            // Others prove no more than that a server has answered.
            _ => Self::Server,
        }
    }

    /// Returns which servers have certainly answered the request, or `None` if possibly none has.
    ///
    /// Most refused writes are transactions of the quorum like any other. With `enableEagerACLCheck` a server refuses
    /// single writes without access by itself, but not transactions of several operations.
    fn of_answer(self, answer: &Result<Response, TransportError>) -> Option<Self> {
        match answer {
            Ok(_) => Some(self),
            Err(TransportError::Refused(ErrorKind::NoAuth, _)) => Some(Self::Server),
            Err(TransportError::Refused(kind, _) | TransportError::RefusedAt { kind, .. }) => {
                match kind {
                    ErrorKind::NoNode
                    | ErrorKind::NodeExists
                    | ErrorKind::BadVersion
                    | ErrorKind::NotEmpty
                    | ErrorKind::ParentIsEphemeral
                    | ErrorKind::NoAuth => Some(self),
                    _ => None,
                }
            }
            Err(_) => None,
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
