//! What all views of one session share, and the tasks that serve them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::OnceLock;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::connect_string::ConnectString;
use crate::counters::Counters;
use crate::error::ErrorKind;
use crate::path::NodePath;
use crate::transport::Ending;
use crate::transport::Fault;
use crate::transport::Link;
use crate::transport::LinkReceiver;
use crate::transport::Phase;
use crate::transport::Request;
use crate::transport::Response;
use crate::transport::Transport;
use crate::trust::Trust;

pub(crate) mod claims;
pub(crate) mod hub;
pub(crate) mod pulse;
pub(crate) mod reaper;

use reaper::Job;

/// One session on the wire and what is known of it.
#[derive(Debug)]
pub(crate) struct Engine {
    transport: Box<dyn Transport>,
    pub(crate) servers: ConnectString,
    pub(crate) counters: Counters,
    trust: Mutex<Trust>,
    /// How many holders of a proof there are.
    holders: watch::Sender<usize>,
    jobs: mpsc::UnboundedSender<Job>,
    hub: hub::Hub,
    claims: Arc<claims::Claims>,
    unsettled: Arc<reaper::Unsettled>,
    /// Where the tasks of the session run.
    runtime: Handle,
    is_abandoned: AtomicBool,
    is_closing: watch::Sender<bool>,
    /// The ending that an answer told, maybe before the link does.
    told: OnceLock<Ending>,
    /// Whether a server has said that it has no persistent watches.
    has_only_one_shots: AtomicBool,
    /// Bytes of paths under watch.
    pub(crate) watched: Arc<AtomicUsize>,
    /// Ephemeral nodes that calls of this session make or have made under names of their own choice.
    pub(crate) made: Mutex<HashMap<NodePath, Made>>,
}

/// What calls of this session do about one ephemeral node.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// How many calls are making it.
    pub(crate) calls: usize,
    /// The transaction by which one has made it.
    pub(crate) czxid: Option<i64>,
}

impl Engine {
    /// Starts the tasks of a session that was opened after `asked`, on the current runtime.
    pub(crate) fn start(
        transport: Box<dyn Transport>,
        servers: ConnectString,
        asked: Instant,
    ) -> Arc<Self> {
        let (jobs, queue) = mpsc::unbounded_channel();
        let (hub, commands) = hub::Hub::new();
        // A server that is cut off grants sessions that the quorum does not know.
        let trust = match transport.link().now().phase {
            Phase::ReadOnly => Trust::of_nobody,
            _ => Trust::opened,
        };
        let engine = Arc::new(Self {
            trust: Mutex::new(trust(transport.session_timeout(), asked.into_std())),
            holders: watch::Sender::new(0),
            transport,
            servers,
            counters: Counters::default(),
            jobs,
            claims: Arc::new(claims::Claims::new(hub.commands())),
            hub,
            unsettled: Arc::default(),
            runtime: Handle::current(),
            is_abandoned: AtomicBool::new(false),
            is_closing: watch::Sender::new(false),
            told: OnceLock::new(),
            has_only_one_shots: AtomicBool::new(false),
            watched: Arc::default(),
            made: Mutex::default(),
        });
        pulse::spawn(&engine);
        reaper::spawn(&engine, queue);
        hub::spawn(&engine, commands);
        engine
    }

    pub(crate) fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    pub(crate) fn hub(&self) -> &hub::Hub {
        &self.hub
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
        let over = match (link.phase, self.told.get()) {
            (Phase::Over(ending), _) | (_, Some(&ending)) => ending,
            // Whoever kept the link is gone, with the runtime of the session.
            _ if receiver.is_gone() => Ending::Closed,
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
    pub(crate) async fn connected(&self) -> Result<(), Ending> {
        match self.link_now().phase {
            Phase::Over(ending) => return Err(ending),
            // It will not be connected again for this.
            Phase::Down if self.is_closing() => return Err(Ending::Closed),
            _ => {}
        }
        let mut link = self.link();
        let link = link.wait_for(|link| link.phase != Phase::Down).await;
        match link.map(|link| link.phase) {
            Ok(Phase::Over(ending)) => Err(ending),
            // What comes after the closing is not sent, although the server has not acknowledged it yet.
            Ok(_) if self.is_closing() => Err(Ending::Closed),
            Ok(_) => Ok(()),
            // The task that kept the link is gone, and with it the runtime of the session.
            Err(_) => Err(Ending::Closed),
        }
    }

    /// Waits until the session is over.
    pub(crate) async fn ended(&self) -> Ending {
        let mut link = self.link();
        let over = link
            .wait_for(|link| matches!(link.phase, Phase::Over(_)))
            .await;
        match over.map(|link| link.phase) {
            Ok(Phase::Over(ending)) => ending,
            _ => Ending::Closed,
        }
    }

    /// Makes one request, and learns from the answer how long the session can be relied on.
    pub(crate) async fn send(&self, request: Request) -> Result<Response, Fault> {
        let answerer = Answerer::of(&request);
        let broken = self.transport.broken();
        let reply = self.transport.submit(request);
        let sent = Instant::now();
        let answer = reply.await;
        let is_answered = match &answer {
            Ok(_) => true,
            Err(Fault::Refused(kind, _) | Fault::RefusedAt { kind, .. }) => is_server_made(*kind),
            Err(Fault::Ended(ending @ (Ending::Expired | Ending::AuthFailed))) => {
                // Whoever is told this finds the session lost at once, although its link may say so a moment later.
                self.told.get_or_init(|| *ending);
                false
            }
            Err(_) => false,
        };
        if is_answered {
            let answered = Instant::now().into_std();
            let mut trust = lock(&self.trust);
            trust.touched(sent.into_std(), answered);
            match answerer {
                Answerer::Server => {}
                Answerer::Leader => trust.reached(sent.into_std(), answered),
                Answerer::Quorum => {
                    if let Some(broken) = broken {
                        trust.broke(broken);
                    }
                    trust.committed(sent.into_std(), answered);
                }
            }
        }
        answer
    }

    pub(crate) fn trust(&self) -> MutexGuard<'_, Trust> {
        lock(&self.trust)
    }

    pub(crate) fn holders(&self) -> &watch::Sender<usize> {
        &self.holders
    }

    pub(crate) fn unsettled(&self) -> &reaper::Unsettled {
        &self.unsettled
    }

    /// Hands a clean-up to the reaper. Never blocks, and needs no runtime.
    pub(crate) fn clean_up(&self, job: Job) {
        self.unsettled.add(&job);
        if let Err(refused) = self.jobs.send(job) {
            // The runtime has ended, and the session ends with it.
            self.unsettled.remove(&refused.0);
        }
    }

    /// Lets work go on that its caller no longer waits for, at most until the session is over. Never blocks.
    pub(crate) fn finish(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let hold = self.unsettled.hold();
        let engine = Arc::clone(self);
        // On a runtime that is shut down the task is dropped, and the session ends with the runtime.
        self.runtime.spawn(async move {
            let _hold = hold;
            tokio::select! {
                biased;
                () = work => {}
                _ = engine.ended() => {}
            }
        });
    }

    /// Ends the session as soon as nothing is left that outlives it. Called when nobody holds it any more.
    pub(crate) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::SeqCst);
        self.close_if_abandoned();
    }

    fn close_if_abandoned(&self) {
        if self.is_abandoned.load(Ordering::SeqCst) && !self.unsettled.outlive_the_session() {
            self.close();
        }
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
}

/// Whether a refusal of this kind is a transaction of the quorum like any other, rather than somebody's own check.
fn is_server_made(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NoNode
            | ErrorKind::NodeExists
            | ErrorKind::BadVersion
            | ErrorKind::NotEmpty
            | ErrorKind::ParentIsEphemeral
            | ErrorKind::NoAuth
    )
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
