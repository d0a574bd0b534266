//! What all views of one session share, and the tasks that serve them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::OnceLock;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::connect_string::ConnectString;
use crate::counters::Counters;
use crate::deadline::Deadline;
use crate::error::ErrorKind;
use crate::lease_proof::LeaseProof;
use crate::operation::MakingAtOnce;
use crate::path::NodePath;
use crate::transport::Link;
use crate::transport::LinkReceiver;
use crate::transport::Phase;
use crate::transport::Request;
use crate::transport::Response;
use crate::transport::SessionEnd;
use crate::transport::Transport;
use crate::transport::TransportError;

pub(crate) mod claims;
pub(crate) mod cleanup;
pub(crate) mod heartbeat;
pub(crate) mod watch_manager;

use cleanup::Begun;
use cleanup::Job;

/// One session on the wire and what is known of it.
#[derive(Debug)]
pub(crate) struct Engine {
    transport: Box<dyn Transport>,
    pub(crate) servers: ConnectString,
    pub(crate) counters: Counters,
    lease_proof: Mutex<LeaseProof>,
    /// Who relies on the session.
    uses: watch::Sender<heartbeat::Uses>,
    /// Changes with each answer, after what it proves has been noted.
    proven: watch::Sender<()>,
    jobs: mpsc::UnboundedSender<Begun>,
    watch_manager: watch_manager::WatchManager,
    claims: Arc<claims::Claims>,
    unsettled: Arc<cleanup::Unsettled>,
    /// Where the tasks of the session run.
    runtime: Handle,
    is_abandoned: watch::Sender<bool>,
    is_closing: watch::Sender<bool>,
    /// The ending that an answer told, maybe before the link does.
    ended_by_reply: OnceLock<SessionEnd>,
    /// Whether a server has said that it has no persistent watches.
    has_only_one_shots: AtomicBool,
    /// The newest transaction that an answer has shown.
    newest_zxid: AtomicI64,
    /// Bytes of paths under watch.
    pub(crate) watched: Arc<AtomicUsize>,
    /// Ephemeral nodes that calls of this session are making under names of their own choice.
    pub(crate) making: Mutex<HashMap<NodePath, MakingAtOnce>>,
}

impl Engine {
    /// Starts the tasks of a session that was opened after `asked`, on the current runtime.
    pub(crate) fn start(
        transport: Box<dyn Transport>,
        servers: ConnectString,
        asked: Instant,
    ) -> Arc<Self> {
        let (jobs, queue) = mpsc::unbounded_channel();
        let (watch_manager, commands) = watch_manager::WatchManager::new();
        // A server that is cut off grants sessions that the quorum does not know.
        let opened = match transport.link().now().phase {
            Phase::ReadOnly => LeaseProof::unproven,
            _ => LeaseProof::opened,
        };
        let engine = Arc::new(Self {
            lease_proof: Mutex::new(opened(transport.session_timeout(), asked.into_std())),
            uses: watch::Sender::default(),
            proven: watch::Sender::default(),
            transport,
            servers,
            counters: Counters::default(),
            jobs,
            claims: Arc::new(claims::Claims::new(watch_manager.commands())),
            watch_manager,
            unsettled: Arc::default(),
            runtime: Handle::current(),
            is_abandoned: watch::Sender::new(false),
            is_closing: watch::Sender::new(false),
            ended_by_reply: OnceLock::new(),
            has_only_one_shots: AtomicBool::new(false),
            newest_zxid: AtomicI64::new(i64::MIN),
            watched: Arc::default(),
            making: Mutex::default(),
        });
        heartbeat::spawn(&engine);
        cleanup::spawn(&engine, queue);
        watch_manager::spawn(&engine, commands);
        engine
    }

    pub(crate) fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    pub(crate) fn watch_manager(&self) -> &watch_manager::WatchManager {
        &self.watch_manager
    }

    pub(crate) fn claims(&self) -> &Arc<claims::Claims> {
        &self.claims
    }

    /// The bytes the chroot adds to every path on the wire.
    pub(crate) fn chroot_len(&self) -> usize {
        match self.servers.chroot() {
            chroot if chroot.is_root() => 0,
            chroot => chroot.as_str().len(),
        }
    }

    pub(crate) fn link(&self) -> LinkReceiver {
        self.transport.link()
    }

    /// A number by chance.
    pub(crate) fn draw(&self) -> u64 {
        self.transport.draw().unwrap_or_else(|| fastrand::u64(..))
    }

    /// A fraction by chance, from 0 up to 1.
    pub(crate) fn chance(&self) -> f64 {
        let high = u32::try_from(self.draw() >> 32).expect("half of a number");
        f64::from(high) / (f64::from(u32::MAX) + 1.0)
    }

    /// An id that nobody else has, for the name of a node.
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
        let receiver = self.transport.link();
        let link = receiver.now();
        let over = match (link.phase, self.ended_by_reply.get()) {
            (Phase::Over(ending), _) | (_, Some(&ending)) => ending,
            // Whoever kept the link is gone, with the runtime of the session.
            _ if receiver.is_gone() => self.unserved(),
            _ => return link,
        };
        Link {
            phase: Phase::Over(over),
            ..link
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.link_now().phase, Phase::Up | Phase::ReadOnly)
    }

    /// Waits until requests can be sent; the ending when they never will be again.
    pub(crate) async fn connected(&self) -> Result<(), SessionEnd> {
        match self.link_now().phase {
            Phase::Over(ending) => return Err(ending),
            // It will not be connected again for this.
            Phase::Down if self.is_closing() => return Err(SessionEnd::Closed),
            _ => {}
        }
        let mut link = self.link();
        let link = link.wait_for(|link| link.phase != Phase::Down).await;
        match link.map(|link| link.phase) {
            Ok(Phase::Over(ending)) => Err(ending),
            // What comes after the closing is not sent, although the server has not acknowledged it yet.
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

    /// Why the session is over when the task that kept the link is gone without a word.
    fn unserved(&self) -> SessionEnd {
        if self.is_closing() {
            SessionEnd::Closed
        } else {
            SessionEnd::RuntimeEnded
        }
    }

    /// Makes one request, and learns from the answer how long the session can be relied on.
    pub(crate) async fn send(&self, request: Request) -> Result<Response, TransportError> {
        let answerer = Answerer::of(&request);
        let breaks = self.link_now().breaks;
        let reply = self.transport.submit(request);
        let sent = Instant::now();
        let answer = reply.await;
        if let Some(zxid) = answer.as_ref().ok().and_then(Response::newest_zxid) {
            self.newest_zxid.fetch_max(zxid, Ordering::SeqCst);
        }
        if let Err(TransportError::Ended(ending @ (SessionEnd::Expired | SessionEnd::AuthFailed))) =
            &answer
        {
            // Whoever is told this finds the session lost at once, although its link may say so a moment later.
            self.ended_by_reply.get_or_init(|| *ending);
        }
        if let Some(answerer) = answerer.of_answer(&answer) {
            let (sent, answered) = (sent.into_std(), Instant::now().into_std());
            let mut proof = lock(&self.lease_proof);
            let breaks_now = self.link_now().breaks;
            proof.broke(breaks_now, self.transport.broken());
            match answerer {
                Answerer::Server => {}
                Answerer::Leader => proof.reached(sent, answered),
                Answerer::Quorum => proof.committed(sent, answered),
            }
            // Which of the links an answer came over is not known if it broke meanwhile.
            if breaks == breaks_now {
                proof.touched(sent, answered);
            }
            drop(proof);
            self.proven.send_replace(());
        }
        answer
    }

    /// Returns the newest transaction that any answer has shown so far.
    ///
    /// A write that is sent after this call gets a greater number.
    /// Servers of the ensemble may have carried out newer ones.
    pub(crate) fn newest_zxid(&self) -> i64 {
        self.newest_zxid.load(Ordering::SeqCst)
    }

    pub(crate) fn lease_proof(&self) -> MutexGuard<'_, LeaseProof> {
        lock(&self.lease_proof)
    }

    pub(crate) fn uses(&self) -> &watch::Sender<heartbeat::Uses> {
        &self.uses
    }

    /// Changes whenever the proof that the session is alive may have.
    pub(crate) fn proven(&self) -> watch::Receiver<()> {
        self.proven.subscribe()
    }

    pub(crate) fn unsettled(&self) -> &cleanup::Unsettled {
        &self.unsettled
    }

    /// Begins a clean-up and hands it to the cleanup. Never blocks, and needs no runtime.
    ///
    /// Its first request has been sent when this returns, if there is a connection: requests that are made later by
    /// this session are carried out after it.
    pub(crate) fn clean_up(self: &Arc<Self>, job: Job) {
        if let Err(refused) = self.jobs.send(Begun::new(self, job)) {
            // The runtime has ended, and the session ends with it.
            self.unsettled.remove(&refused.0);
        }
    }

    /// Runs a task on the runtime of the session, whichever runtime the caller is on.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.runtime.spawn(task)
    }

    /// Lets work go on that its caller no longer waits for, at most until the session is over. Never blocks.
    pub(crate) fn finish(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let hold = self.unsettled.hold();
        let engine = Arc::clone(self);
        // On a runtime that is shut down the task is dropped, and the session ends with the runtime.
        self.spawn(async move {
            let _hold = hold;
            tokio::select! {
                biased;
                () = work => {}
                _ = engine.ended() => {}
            }
        });
    }

    /// Ends the session as soon as nothing is left that outlives it, and at the latest after [`LONGEST_CLEANUP`]. Called
    /// when no handle of it is left.
    pub(crate) fn abandon(&self) {
        self.is_abandoned.send_replace(true);
        self.close_if_abandoned();
    }

    fn close_if_abandoned(&self) {
        if *self.is_abandoned.borrow() && !self.unsettled.outlive_the_session() {
            self.close();
        }
    }

    /// Waits until the session has had no handle for [`LONGEST_CLEANUP`].
    async fn abandoned_for_long(&self) {
        let mut abandoned = self.is_abandoned.subscribe();
        // The sender lives as long as this.
        drop(abandoned.wait_for(|is_abandoned| *is_abandoned).await);
        Deadline::after(Duration::MAX).pause(LONGEST_CLEANUP).await;
    }

    /// Starts to end the session.
    pub(crate) fn close(&self) {
        self.is_closing.send_replace(true);
        self.transport.close();
    }

    /// Whether the end of the session may be on its way to the ensemble.
    pub(crate) fn is_closing(&self) -> bool {
        *self.is_closing.borrow()
    }

    /// Waits until the session is over, or may be because it is being closed.
    pub(crate) async fn closing(&self) {
        let mut closing = self.is_closing.subscribe();
        tokio::select! {
            biased;
            _ = closing.wait_for(|is_closing| *is_closing) => {}
            _ = self.ended() => {}
        }
    }
}

/// Who it takes to answer a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answerer {
    /// The server that the session is connected to.
    Server,
    /// The leader, or one that was deposed and does not know it.
    Leader,
    /// A leader and enough followers.
    Quorum,
}

impl Answerer {
    fn of(request: &Request) -> Self {
        match request {
            Request::Create(_)
            | Request::Delete { .. }
            | Request::Set { .. }
            | Request::SetAcl { .. }
            | Request::Transaction(_) => Self::Quorum,
            Request::Sync { .. } => Self::Leader,
            Request::Get { .. }
            | Request::Exists { .. }
            | Request::List { .. }
            | Request::GetAcl { .. }
            | Request::AddWatch { .. } => Self::Server,
        }
    }

    /// Who has certainly answered the request that this is for; `None` if maybe no server has.
    ///
    /// Most refusals of a write are transactions of the quorum like any other. With `enableEagerACLCheck` a server
    /// refuses single writes for lack of access by itself, but no transactions of several parts.
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

/// How long a session without handles goes on to remove what outlives it.
pub(crate) const LONGEST_CLEANUP: Duration = Duration::from_secs(120);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
