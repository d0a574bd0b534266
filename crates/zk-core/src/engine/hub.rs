//! The task that keeps the watches of all subscriptions of a session, and hands on what they tell.
//!
//! What is decided is in `book`; this sets watches and takes them back.
//!
//! There is at most one request for a watch on a path at a time, and the watch before is given back first: the client
//! crate takes back *all* watches on a path when the last one it knows is dropped, also one whose answer is on its way.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use futures_util::stream::SelectAll;
use tokio::sync::Semaphore;
use tokio::sync::mpsc;
use tokio::sync::oneshot;

use super::Engine;
use super::reaper::unexpected;
use crate::deadline::Deadline;
use crate::error::ErrorKind;
use crate::path::NodePath;
use crate::retry::RetryPolicy;
use crate::subscription::buffer::Buffer;
use crate::transport::Fault;
use crate::transport::Notice;
use crate::transport::Request;
use crate::transport::Response;
use crate::transport::Watching;
use crate::watch::MOST_WATCHED;
use crate::watch::Share;

mod book;
mod lane;

use book::Book;
use book::Id;
pub(crate) use book::Reach;
pub(crate) use book::Told;
use lane::Lane;
use lane::Notices;

/// What the session has of its hub.
#[derive(Debug)]
pub(crate) struct Hub {
    commands: mpsc::UnboundedSender<Command>,
    last_id: AtomicU64,
}

/// Ends a subscription when it is dropped. Needs no runtime.
#[derive(Debug)]
pub(crate) struct Registration {
    id: Id,
    commands: mpsc::UnboundedSender<Command>,
}

/// Tells when the watch of a new subscription is set for the first time.
pub(crate) type Armed = oneshot::Receiver<Result<(), Fault>>;

#[derive(Debug)]
pub(super) enum Command {
    Subscribe {
        id: Id,
        path: NodePath,
        reach: Reach,
        buffer: Arc<Buffer>,
        armed: oneshot::Sender<Result<(), Fault>>,
    },
    Unsubscribe {
        id: Id,
    },
}

impl Hub {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Command>) {
        let (commands, queue) = mpsc::unbounded_channel();
        let hub = Self {
            commands,
            last_id: AtomicU64::new(0),
        };
        (hub, queue)
    }

    /// Begins a subscription to `path`, which is below the chroot.
    pub(crate) fn register(
        &self,
        path: NodePath,
        reach: Reach,
        buffer: Arc<Buffer>,
    ) -> (Registration, Armed) {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let (armed, is_armed) = oneshot::channel();
        let subscribe = Command::Subscribe {
            id,
            path,
            reach,
            buffer,
            armed,
        };
        // When the task is gone with the session, the receiver says so.
        let _gone = self.commands.send(subscribe);
        let registration = Registration {
            id,
            commands: self.commands.clone(),
        };
        (registration, is_armed)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let _gone = self.commands.send(Command::Unsubscribe { id: self.id });
    }
}

pub(super) fn spawn(engine: &Arc<Engine>, commands: mpsc::UnboundedReceiver<Command>) {
    let task = Task {
        book: Book::new(engine.chroot_len(), ROOM),
        engine: Arc::clone(engine),
        commands,
        members: HashMap::new(),
        slots: HashMap::new(),
        arming: FuturesUnordered::new(),
        notices: SelectAll::new(),
        in_flight: Arc::new(Semaphore::new(MOST_IN_FLIGHT)),
    };
    tokio::spawn(task.run());
}

struct Task {
    engine: Arc<Engine>,
    commands: mpsc::UnboundedReceiver<Command>,
    book: Book,
    members: HashMap<Id, Member>,
    /// The watches there are, by their paths.
    slots: HashMap<NodePath, Slot>,
    arming: FuturesUnordered<Arming>,
    notices: SelectAll<Notices>,
    in_flight: Arc<Semaphore>,
}

/// Who is told.
struct Member {
    buffer: Arc<Buffer>,
    /// Who waits for the first watch.
    armed: Option<oneshot::Sender<Result<(), Fault>>>,
}

/// What there is of the watch on one path.
enum Slot {
    /// It has been asked for.
    Arming,
    Armed {
        is_recursive: bool,
        lane: Lane,
        _share: Share,
    },
}

/// One attempt to set a watch.
type Arming = Pin<Box<dyn Future<Output = Attempt> + Send>>;

struct Attempt {
    path: NodePath,
    is_recursive: bool,
    attempts: u32,
    result: Result<(Watching, Share), Fault>,
}

impl Task {
    async fn run(mut self) {
        let engine = Arc::clone(&self.engine);
        let mut ended = std::pin::pin!(engine.ended());
        loop {
            tokio::select! {
                biased;
                _ = &mut ended => break,
                command = self.commands.recv() => {
                    let Some(command) = command else { break };
                    self.obey(command);
                    // All that wait are planned for at once.
                    while let Ok(command) = self.commands.try_recv() {
                        self.obey(command);
                    }
                }
                Some((path, notice)) = self.notices.next(), if !self.notices.is_empty() => {
                    self.told(&path, notice);
                }
                Some(attempt) = self.arming.next(), if !self.arming.is_empty() => {
                    self.attempted(attempt);
                }
            }
            self.settle();
            // A storm of changes is not to keep other tasks from running.
            tokio::task::consume_budget().await;
        }
        self.end();
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Subscribe {
                id,
                path,
                reach,
                buffer,
                armed,
            } => {
                let armed = Some(armed);
                self.members.insert(id, Member { buffer, armed });
                self.book.subscribe(id, path, reach);
            }
            Command::Unsubscribe { id } => {
                self.members.remove(&id);
                self.book.unsubscribe(id);
            }
        }
    }

    fn told(&mut self, path: &NodePath, notice: Notice) {
        match notice {
            Notice::Changed {
                path: node, event, ..
            } => self.book.changed(path, &node, event),
            Notice::LinkLost => {
                self.slots.remove(path);
                self.book.lost(path);
                self.reconcile(path, 0);
            }
        }
    }

    fn attempted(&mut self, attempt: Attempt) {
        let Attempt {
            path,
            is_recursive,
            attempts,
            result,
        } = attempt;
        self.slots.remove(&path);
        match result {
            Ok((watching, share)) => {
                self.engine.counters.watches.add();
                let (lane, notices) = lane::open(path.clone(), watching);
                self.notices.push(notices);
                let slot = Slot::Armed {
                    is_recursive,
                    lane,
                    _share: share,
                };
                self.slots.insert(path.clone(), slot);
                self.reconcile(&path, 0);
            }
            Err(Fault::Ended(_)) => {}
            Err(Fault::Refused(ErrorKind::TooManyWatches, _)) if self.book.len() > 1 => {
                // Other watches have taken the room since: make do with what is left.
                self.book.set_room(self.book.bytes() / 2);
                self.reconcile(&path, attempts);
            }
            Err(fault @ Fault::Refused(..)) => {
                tracing::warn!(%path, ?fault, "a watch was refused");
                self.refused(&path, &fault);
                self.reconcile(&path, attempts);
            }
            Err(fault) => {
                tracing::debug!(%path, ?fault, attempts, "setting a watch again");
                self.reconcile(&path, attempts);
            }
        }
    }

    /// Those that wait for their first watch are told why there is none. The others are stale until there is.
    fn refused(&mut self, path: &NodePath, fault: &Fault) {
        for id in self.book.served_by(path) {
            if let Some(member) = self.members.get_mut(&id)
                && let Some(armed) = member.armed.take()
            {
                let _gone = armed.send(Err(fault.clone()));
                self.members.remove(&id);
                self.book.unsubscribe(id);
            }
        }
    }

    /// Does what the book wants to be otherwise, and hands on what it tells.
    fn settle(&mut self) {
        loop {
            for (id, told) in self.book.take_tells() {
                let Some(member) = self.members.get_mut(&id) else {
                    continue;
                };
                let is_set = told == Told::Resynchronize;
                member.buffer.push(told);
                if is_set && let Some(armed) = member.armed.take() {
                    let _gone = armed.send(Ok(()));
                }
            }
            let touched = self.book.take_touched();
            if touched.is_empty() {
                return;
            }
            for path in touched {
                self.reconcile(&path, 0);
            }
        }
    }

    /// Makes of the watch on `path` what is wanted.
    fn reconcile(&mut self, path: &NodePath, attempts: u32) {
        let wanted = self.book.wanted(path);
        match (self.slots.get(path), wanted) {
            // Its answer is waited for, whatever is wanted now.
            (Some(Slot::Arming), _) | (None, None) => return,
            (Some(Slot::Armed { is_recursive, .. }), Some(wanted)) if *is_recursive == wanted => {
                if !self.book.is_armed(path) {
                    self.book.armed(path);
                }
                return;
            }
            (Some(Slot::Armed { .. }), _) => {
                if let Some(Slot::Armed { lane, .. }) = self.slots.remove(path) {
                    lane.close();
                }
            }
            (None, Some(_)) => {}
        }
        if let Some(is_recursive) = wanted {
            self.slots.insert(path.clone(), Slot::Arming);
            self.arming.push(Box::pin(arm(
                Arc::clone(&self.engine),
                Arc::clone(&self.in_flight),
                path.clone(),
                is_recursive,
                attempts,
            )));
        }
    }

    /// The session is over: everyone is told, those that come now, too.
    fn end(&mut self) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            self.obey(command);
        }
        for id in self.book.ids() {
            if let Some(member) = self.members.remove(&id) {
                member.buffer.end();
            }
        }
    }
}

/// Sets a watch, or tries to, once there is a connection.
async fn arm(
    engine: Arc<Engine>,
    in_flight: Arc<Semaphore>,
    path: NodePath,
    is_recursive: bool,
    attempts: u32,
) -> Attempt {
    let result = try_to_arm(&engine, &in_flight, &path, is_recursive, attempts).await;
    Attempt {
        path,
        is_recursive,
        attempts: attempts + 1,
        result,
    }
}

async fn try_to_arm(
    engine: &Engine,
    in_flight: &Semaphore,
    path: &NodePath,
    is_recursive: bool,
    attempts: u32,
) -> Result<(Watching, Share), Fault> {
    if attempts > 0 {
        let pause = RetryPolicy::default().pause(attempts, Duration::ZERO, || engine.chance());
        let never = Deadline::after(Duration::MAX);
        never.pause(pause.unwrap_or_default()).await;
    }
    engine.connected().await.map_err(Fault::Ended)?;
    // Other users of the session wait behind so many requests at most.
    let _place = in_flight.acquire().await;
    let bytes = engine.chroot_len() + path.as_str().len();
    let share = Share::take(&engine.watched, bytes).map_err(|taken| {
        let detail = format!("{taken} of {MOST_WATCHED} bytes of paths are taken; drop watches");
        Fault::Refused(ErrorKind::TooManyWatches, Some(detail))
    })?;
    let request = Request::AddWatch {
        path: path.clone(),
        recursive: is_recursive,
    };
    match engine.send(request).await? {
        Response::Watching(watching) => Ok((watching, share)),
        other => Err(unexpected(&other)),
    }
}

/// How many bytes of paths the watches of subscriptions may take: half of what a session can have. The other half is for
/// one-shot watches.
const ROOM: usize = MOST_WATCHED / 2;
const MOST_IN_FLIGHT: usize = 64;
