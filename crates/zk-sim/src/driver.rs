//! Drives the simulation: guards it with a mutex, completes the callers' futures, and runs a task that advances time.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use zk_core::transport::{
    Answer, LinkReceiver, LinkSender, Phase, Response, SessionEnd, TransportError,
    WatchNotification, Watched, Watching,
};
use zk_core::{SessionId, WatchEvent};

use crate::server_reply::{ServerReply, WatchNumber};
use crate::tree::Trigger;
use crate::world::{Attachment, Content, JobNumber, Output, SessionOptions, Settings, World};

/// The state that all handles of an ensemble share.
pub(crate) struct Driver {
    state: Mutex<State>,
    begin: OnceLock<Instant>,
    /// Wakes the timer task when an earlier event is scheduled.
    wake: Arc<Notify>,
    /// Notified whenever a rule has been applied.
    pub(crate) rule_applied: Notify,
}

struct State {
    world: World,
    answers: HashMap<JobNumber, (SessionId, oneshot::Sender<Answer>)>,
    watches: HashMap<WatchNumber, oneshot::Sender<WatchEvent>>,
    persistent: HashMap<WatchNumber, mpsc::UnboundedSender<WatchNotification>>,
    links: HashMap<SessionId, LinkSender>,
    openings: HashMap<SessionId, oneshot::Sender<()>>,
    /// The connections of sessions whose clients are on the other side of a byte stream.
    remotes: HashMap<SessionId, mpsc::UnboundedSender<ServerMessage>>,
    timer: Option<JoinHandle<()>>,
}

/// A message to a client on the other side of a byte stream.
#[derive(Debug)]
pub(crate) enum ServerMessage {
    Reply {
        job: JobNumber,
        zxid: i64,
        outcome: Result<ServerReply, TransportError>,
    },
    Event {
        trigger: Trigger,
        zxid: Option<i64>,
    },
    /// The server closes the connection.
    HangUp,
}

/// A connection of a client on the other side of a byte stream.
#[derive(Debug)]
pub(crate) struct RemoteConnection {
    pub(crate) session: SessionId,
    /// Its number.
    pub(crate) number: u64,
    pub(crate) timeout: Duration,
    pub(crate) is_read_only: bool,
    /// Resolves when the session's server has applied the opening of the session.
    pub(crate) opened: Option<oneshot::Receiver<()>>,
    pub(crate) messages: mpsc::UnboundedReceiver<ServerMessage>,
}

/// Responses whose receivers are gone. Drop them after the mutex is released: dropping a watch locks it again.
type Garbage = Vec<Answer>;

impl Driver {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            state: Mutex::new(State {
                world: World::new(settings),
                answers: HashMap::new(),
                watches: HashMap::new(),
                persistent: HashMap::new(),
                links: HashMap::new(),
                openings: HashMap::new(),
                remotes: HashMap::new(),
                timer: None,
            }),
            begin: OnceLock::new(),
            wake: Arc::new(Notify::new()),
            rule_applied: Notify::new(),
        }
    }

    /// Advances the world to the present, runs `act` on it, and processes the outputs.
    pub(crate) fn with<T>(self: &Arc<Self>, act: impl FnOnce(&mut World) -> T) -> T {
        self.with_state(|state| act(&mut state.world))
    }

    fn with_state<T>(self: &Arc<Self>, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let before = state.world.next_due();
        let now = self.now();
        state.world.advance(now);
        let result = act(&mut state);
        state.world.advance(now);
        let garbage = self.tell(&mut state);
        let is_planned_anew = state.world.next_due() != before;
        drop(state);
        drop(garbage);
        if is_planned_anew {
            self.wake.notify_one();
        }
        result
    }

    /// Processes all due events, and returns when the next one is due.
    fn pass(self: &Arc<Self>) -> Option<Instant> {
        let begin = *self.begin.get_or_init(Instant::now);
        let mut state = self.lock();
        state.world.advance(self.now());
        let garbage = self.tell(&mut state);
        let next = state.world.next_due();
        drop(state);
        drop(garbage);
        next.map(|due| begin + due)
    }

    /// Sends a request. The receiver gets the response.
    pub(crate) fn submit(
        self: &Arc<Self>,
        session: SessionId,
        content: Content,
    ) -> (JobNumber, oneshot::Receiver<Answer>) {
        let (sender, receiver) = oneshot::channel();
        let job = self.with_state(|state| {
            let job = state.world.submit(session, content);
            state.answers.insert(job, (session, sender));
            job
        });
        (job, receiver)
    }

    /// Takes back a request, whose receiver gets nothing then; returns `false` if it was sent.
    pub(crate) fn take_back(self: &Arc<Self>, job: JobNumber) -> bool {
        self.with_state(|state| {
            let is_taken_back = state.answers.contains_key(&job) && state.world.take_back(job);
            if is_taken_back {
                state.answers.remove(&job);
            }
            is_taken_back
        })
    }

    /// Opens a session, if a server grants one. The last receiver is notified when the session's server has applied
    /// that.
    pub(crate) fn open(
        self: &Arc<Self>,
        options: &SessionOptions,
    ) -> Option<(SessionId, LinkReceiver, oneshot::Receiver<()>)> {
        self.start_timer();
        let (opened, when_opened) = oneshot::channel();
        self.with_state(|state| {
            let session = state.world.open(options)?;
            let link = state.world.client(session).map(|client| client.link);
            let sender = LinkSender::new(link.expect("the session has just been opened"));
            let receiver = sender.subscribe();
            state.links.insert(session, sender);
            state.openings.insert(session, opened);
            Some((session, receiver, when_opened))
        })
    }

    /// Opens a session of a client on the other side of a byte stream; `None` if its server grants none.
    pub(crate) fn open_remote(
        self: &Arc<Self>,
        options: &SessionOptions,
    ) -> Option<RemoteConnection> {
        self.start_timer();
        let (opened, when_opened) = oneshot::channel();
        let (sender, messages) = mpsc::unbounded_channel();
        self.with_state(|state| {
            let session = state.world.open(options)?;
            state.openings.insert(session, opened);
            state.remotes.insert(session, sender);
            let client = state.world.client(session)?;
            Some(RemoteConnection {
                session,
                number: state.world.connection_of(session)?,
                timeout: options.timeout,
                is_read_only: client.link.phase == Phase::ReadOnly,
                opened: Some(when_opened),
                messages,
            })
        })
    }

    /// Resumes such a session on another connection.
    pub(crate) fn attach(
        self: &Arc<Self>,
        session: SessionId,
        server: usize,
        seen: i64,
    ) -> Result<RemoteConnection, Attachment> {
        self.start_timer();
        let (sender, messages) = mpsc::unbounded_channel();
        let mut garbage = Vec::new();
        let attached = self.with_state(|state| {
            match state.world.attach(session, server, seen) {
                Attachment::Resumed {
                    connection,
                    timeout,
                } => {
                    // The end of the last connection is for that one.
                    garbage = self.tell(state);
                    state.remotes.insert(session, sender);
                    Ok(RemoteConnection {
                        session,
                        number: connection,
                        timeout,
                        is_read_only: false,
                        opened: None,
                        messages,
                    })
                }
                other => Err(other),
            }
        });
        drop(garbage);
        attached
    }

    /// Carries out what the world has to tell. Nothing is dropped here that may come back for the lock.
    fn tell(self: &Arc<Self>, state: &mut State) -> Garbage {
        let mut garbage = Vec::new();
        for output in state.world.take_outputs() {
            match output {
                Output::RuleApplied => self.rule_applied.notify_waiters(),
                Output::Opened(session) => {
                    if let Some(opened) = state.openings.remove(&session) {
                        let _gone = opened.send(());
                    }
                }
                Output::RemoteReply {
                    session,
                    job,
                    zxid,
                    outcome,
                } => {
                    let message = ServerMessage::Reply { job, zxid, outcome };
                    Self::send(state, session, message);
                }
                Output::RemoteEvent {
                    session,
                    trigger,
                    zxid,
                } => Self::send(state, session, ServerMessage::Event { trigger, zxid }),
                Output::Link(session, link) => {
                    if matches!(link.phase, Phase::Down | Phase::Over(_)) {
                        Self::send(state, session, ServerMessage::HangUp);
                        state.remotes.remove(&session);
                    }
                    if let Some(links) = state.links.get(&session) {
                        links.send(link);
                    }
                }
                Output::Reply(job, outcome, header, watch) => {
                    let Some((session, sender)) = state.answers.remove(&job) else {
                        continue;
                    };
                    let result =
                        outcome.and_then(|answer| self.response(state, session, answer, watch));
                    if let Err(unwanted) = sender.send(Answer { result, header }) {
                        garbage.push(unwanted);
                    }
                }
                Output::Notify(watch, notice) => {
                    if let Some(sender) = state.persistent.get(&watch) {
                        let is_last = notice == WatchNotification::LinkLost;
                        let _gone = sender.send(notice);
                        if is_last {
                            state.persistent.remove(&watch);
                        }
                    }
                }
                Output::Fire(watch, event) => {
                    if let Some(sender) = state.watches.remove(&watch) {
                        let _gone = sender.send(event);
                    }
                }
            }
        }
        garbage
    }

    /// Sends a message to a client on the other side of a byte stream, if it has a connection.
    fn send(state: &State, session: SessionId, message: ServerMessage) {
        if let Some(remote) = state.remotes.get(&session) {
            let _gone = remote.send(message);
        }
    }

    fn response(
        self: &Arc<Self>,
        state: &mut State,
        session: SessionId,
        answer: ServerReply,
        watch: Option<WatchNumber>,
    ) -> Result<Response, TransportError> {
        let mut watched = || watch.map(|watch| self.watched(state, session, watch));
        Ok(match answer {
            ServerReply::Created { path, stat } => Response::Created { path, stat },
            ServerReply::Deleted => Response::Deleted,
            ServerReply::Data { data, stat } => Response::Data {
                data,
                stat,
                watch: watched(),
            },
            ServerReply::Stat(stat) => Response::Stat {
                stat,
                watch: watched(),
            },
            ServerReply::Children { names, stat } => Response::Children {
                names,
                stat,
                watch: watched(),
            },
            ServerReply::Set(stat) => Response::Set(stat),
            ServerReply::Synced => Response::Synced,
            ServerReply::Reads(results) => Response::Reads(results),
            ServerReply::Identities(identities) => Response::Identities(identities),
            ServerReply::Paths(paths) => Response::Paths(paths),
            ServerReply::Count(count) => Response::Count(count),
            ServerReply::Acl { acl, stat } => Response::Acl { acl, stat },
            ServerReply::Committed(changed) => Response::Committed(changed),
            ServerReply::Watching => {
                let (sender, receiver) = mpsc::unbounded_channel();
                let guard = watch.map(|watch| {
                    state.persistent.insert(watch, sender);
                    self.remove_on_drop(session, watch)
                });
                Response::Watching(watching(receiver, guard))
            }
            ServerReply::Wire(_) => unreachable!("only clients on byte streams request it"),
            ServerReply::Closed => return Err(TransportError::Ended(SessionEnd::Closed)),
        })
    }

    fn watched(
        self: &Arc<Self>,
        state: &mut State,
        session: SessionId,
        watch: WatchNumber,
    ) -> Watched {
        let (sender, event) = oneshot::channel();
        state.watches.insert(watch, sender);
        let guard = self.remove_on_drop(session, watch);
        Box::pin(async move {
            let event = event.await.unwrap_or(WatchEvent::SessionLost);
            drop(guard);
            event
        })
    }

    fn remove_on_drop(self: &Arc<Self>, session: SessionId, watch: WatchNumber) -> RemoveOnDrop {
        RemoveOnDrop {
            driver: Arc::clone(self),
            session,
            watch,
        }
    }

    /// Starts the timer task, unless it runs.
    fn start_timer(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.timer.as_ref().is_none_or(JoinHandle::is_finished) {
            let driver = Arc::downgrade(self);
            let wake = Arc::clone(&self.wake);
            state.timer = Some(tokio::spawn(run_timer(driver, wake)));
        }
    }

    /// Returns when the link of a session last broke.
    pub(crate) fn broken(&self, session: SessionId) -> Option<std::time::Instant> {
        let broken = self.lock().world.client(session)?.broken_at?;
        Some((*self.begin.get()? + broken).into_std())
    }

    fn now(&self) -> Duration {
        self.begin.get_or_init(Instant::now).elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

/// Advances the time of an ensemble until its last handle is dropped.
async fn run_timer(driver: Weak<Driver>, wake: Arc<Notify>) {
    loop {
        let next = match driver.upgrade() {
            Some(driver) => driver.pass(),
            None => return,
        };
        match next {
            // Either the next event is due, or an earlier one was scheduled.
            Some(next) => {
                let _in_time = tokio::time::timeout_at(next, wake.notified()).await;
            }
            None => wake.notified().await,
        }
    }
}

/// Creates the stream of a persistent watch, which ends with the link.
fn watching(
    notices: mpsc::UnboundedReceiver<WatchNotification>,
    guard: Option<RemoveOnDrop>,
) -> Watching {
    let begin = guard.map(|guard| (notices, guard));
    Watching::new(futures_util::stream::unfold(begin, |state| async move {
        let (mut notices, guard) = state?;
        match notices.recv().await {
            None | Some(WatchNotification::LinkLost) => Some((WatchNotification::LinkLost, None)),
            Some(notice) => Some((notice, Some((notices, guard)))),
        }
    }))
}

/// Removes a watch from the server when its future or stream is dropped.
struct RemoveOnDrop {
    driver: Arc<Driver>,
    session: SessionId,
    watch: WatchNumber,
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        let Self {
            driver,
            session,
            watch,
        } = self;
        driver.with_state(|state| {
            state.watches.remove(watch);
            state.persistent.remove(watch);
            state.world.drop_watch(*session, *watch);
        });
    }
}
