//! Sets and removes the watches of a session's subscriptions, and forwards their events.
//!
//! [`WatchTable`] decides which watches are wanted; this task executes the decisions.
//!
//! At most one request for a watch on a path is in flight, and the previous watch is removed first: when the last watch
//! on a path that it knows is dropped, the client crate removes *all* watches on the path, including one whose reply is
//! on its way.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{FuturesUnordered, SelectAll};
use tokio::sync::{Semaphore, mpsc, oneshot};
use zk_wire::NodePath;

use super::Engine;
use super::one_shot_watches::OneShotWatches;
use crate::deadline::Deadline;
use crate::retry::RetryPolicy;
use crate::transport::{
    Request, Response, TransportError, WatchEvent, WatchNotification, Watching,
};

mod cancellable_watch;
pub(crate) mod command;
mod fallback;
pub(crate) mod update_buffer;
pub(crate) mod watch_table;

use cancellable_watch::{CancellableWatch, Notifications};
use command::Command;
use update_buffer::UpdateBuffer;
use watch_table::{Id, SubscriptionEvent, WatchScope, WatchTable};

/// The session's handle of its watch manager.
#[derive(Debug)]
pub(crate) struct WatchManager {
    commands: mpsc::UnboundedSender<Command>,
    last_id: AtomicU64,
    one_shot_watches: Arc<OneShotWatches>,
}

/// Ends a subscription when it is dropped. Needs no runtime.
#[derive(Debug)]
pub(crate) struct Registration {
    id: Id,
    commands: mpsc::UnboundedSender<Command>,
}

/// Resolves when the watch of a new subscription is set for the first time.
pub(crate) type Armed = oneshot::Receiver<Result<(), TransportError>>;

impl WatchManager {
    /// Starts the task that sets the watches, on the current runtime.
    pub(crate) fn start(engine: &Arc<Engine>) -> Self {
        let (commands, queue) = mpsc::unbounded_channel();
        let one_shot_watches = Arc::new(OneShotWatches::new(commands.clone()));
        let task = Task {
            table: WatchTable::default(),
            engine: Arc::clone(engine),
            one_shot_watches: Arc::clone(&one_shot_watches),
            commands: queue,
            members: HashMap::new(),
            slots: HashMap::new(),
            arming: FuturesUnordered::new(),
            grace_periods: FuturesUnordered::new(),
            notices: SelectAll::new(),
            in_flight: Arc::new(Semaphore::new(MOST_IN_FLIGHT)),
            maybe_too_new: HashSet::new(),
        };
        tokio::spawn(task.run());
        Self {
            commands,
            last_id: AtomicU64::new(0),
            one_shot_watches,
        }
    }

    /// Returns the one-shot watches of the session.
    pub(crate) fn one_shot_watches(&self) -> &Arc<OneShotWatches> {
        &self.one_shot_watches
    }

    /// Starts a subscription to `path`, as the servers know it.
    pub(crate) fn register(
        &self,
        path: NodePath,
        scope: WatchScope,
        buffer: Arc<UpdateBuffer>,
    ) -> (Registration, Armed) {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let (armed, is_armed) = oneshot::channel();
        let subscribe = Command::Subscribe {
            id,
            path,
            scope,
            buffer,
            armed,
        };
        // If the task has ended with the session, the receiver returns an error.
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

struct Task {
    engine: Arc<Engine>,
    one_shot_watches: Arc<OneShotWatches>,
    commands: mpsc::UnboundedReceiver<Command>,
    table: WatchTable,
    members: HashMap<Id, Member>,
    /// The existing watches, by path.
    slots: HashMap<NodePath, Slot>,
    arming: FuturesUnordered<Arming>,
    /// Resolve to the paths of watches that have waited long enough to be removed.
    grace_periods: FuturesUnordered<Pin<Box<dyn Future<Output = NodePath> + Send>>>,
    notices: SelectAll<Notifications>,
    in_flight: Arc<Semaphore>,
    /// The nodes of which a watch may have been too new for the server once.
    maybe_too_new: HashSet<NodePath>,
}

/// The consumer of a subscription.
struct Member {
    buffer: Arc<UpdateBuffer>,
    /// Notified when the first watch is set.
    armed: Option<oneshot::Sender<Result<(), TransportError>>>,
}

/// The state of the watch on one path.
enum Slot {
    /// It was requested.
    Arming {
        /// Whether another kind of watch was set or removed there since.
        is_disturbed: bool,
    },
    Armed {
        is_recursive: bool,
        is_disturbed: bool,
        /// Whether it ended with its link and only has to be removed.
        is_lost: bool,
        /// Whether it is removed once no request on the node is in flight.
        waits: bool,
        cancellable: CancellableWatch,
    },
}

/// One attempt to set a watch.
type Arming = Pin<Box<dyn Future<Output = Attempt> + Send>>;

/// Which watch to set, and how.
struct Order {
    path: NodePath,
    is_recursive: bool,
    is_disturbed: bool,
    /// Whether to set a persistent watch instead of one-shot watches.
    is_persistent: bool,
    attempts: u32,
}

struct Attempt {
    order: Order,
    result: Result<Watching, TransportError>,
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
                    self.handle(command);
                    // Handles all pending commands before it plans.
                    while let Ok(command) = self.commands.try_recv() {
                        self.handle(command);
                    }
                }
                Some((path, notice)) = self.notices.next(), if !self.notices.is_empty() => {
                    self.notified(&path, notice);
                }
                Some(attempt) = self.arming.next(), if !self.arming.is_empty() => {
                    self.attempted(attempt);
                }
                Some(path) = self.grace_periods.next(), if !self.grace_periods.is_empty() => {
                    self.grace_period_ended(&path);
                }
            }
            self.settle();
            // Many changes in a row must not keep other tasks from running.
            tokio::task::consume_budget().await;
        }
        self.end();
    }

    fn handle(&mut self, command: Command) {
        match command {
            Command::Subscribe {
                id,
                path,
                scope,
                buffer,
                armed,
            } => {
                let armed = Some(armed);
                self.members.insert(id, Member { buffer, armed });
                self.table.subscribe(id, path, scope);
            }
            Command::Unsubscribe { id } => {
                self.members.remove(&id);
                self.table.unsubscribe(id);
            }
            Command::Disturbed { path } => match self.slots.get_mut(&path) {
                Some(Slot::Arming { is_disturbed }) => *is_disturbed = true,
                Some(Slot::Armed { is_disturbed, .. }) => {
                    *is_disturbed = true;
                    self.reconcile(&path, 0);
                }
                None => {}
            },
        }
    }

    fn notified(&mut self, path: &NodePath, notice: WatchNotification) {
        match notice {
            WatchNotification::Changed {
                path: node,
                event,
                zxid,
            } => {
                if matches!(event, WatchEvent::Created | WatchEvent::Deleted)
                    && let Some(Slot::Armed {
                        is_recursive: true, ..
                    }) = self.slots.get(path)
                    && node.parent().as_ref() == Some(path)
                {
                    self.one_shot_watches.fire_parents(path);
                }
                self.table.changed(path, &node, event, zxid);
            }
            WatchNotification::LinkLost => {
                if let Some(Slot::Armed { is_lost, .. }) = self.slots.get_mut(path) {
                    *is_lost = true;
                }
                self.table.lost(path);
                self.reconcile(path, 0);
            }
        }
    }

    fn attempted(&mut self, attempt: Attempt) {
        let Attempt { order, result } = attempt;
        let Order {
            path,
            is_recursive,
            attempts,
            ..
        } = order;
        let attempts = attempts + 1;
        let is_disturbed = matches!(
            self.slots.remove(&path),
            Some(Slot::Arming { is_disturbed: true })
        );
        match result {
            Ok(watching) => {
                self.maybe_too_new.clear();
                self.engine.counters.watch_set();
                let (cancellable, notices) = cancellable_watch::open(path.clone(), watching);
                self.notices.push(notices);
                let slot = Slot::Armed {
                    is_recursive,
                    is_disturbed,
                    is_lost: false,
                    waits: false,
                    cancellable,
                };
                self.slots.insert(path.clone(), slot);
                self.reconcile(&path, 0);
            }
            Err(TransportError::Ended(_) | TransportError::NotSent(_)) => {}
            Err(fault @ TransportError::Refused(..)) => {
                tracing::warn!(%path, ?fault, "a watch was refused");
                self.refused(&path, &fault);
                self.reconcile(&path, attempts);
            }
            // The second time it is not by chance.
            Err(fault @ TransportError::MaybeTooOld { .. })
                if !self.maybe_too_new.insert(path.clone()) =>
            {
                tracing::warn!(%path, ?fault, "the servers may not know persistent watches");
                self.refused(&path, &fault);
                self.reconcile(&path, attempts);
            }
            Err(fault) => {
                tracing::debug!(%path, ?fault, attempts, "setting a watch again");
                self.reconcile(&path, attempts);
            }
        }
    }

    /// Returns the error to subscriptions that wait for their first watch. The others stay stale until the watch is
    /// set.
    fn refused(&mut self, path: &NodePath, fault: &TransportError) {
        for id in self.table.served_by(path) {
            if let Some(member) = self.members.get_mut(&id)
                && let Some(armed) = member.armed.take()
            {
                let _gone = armed.send(Err(fault.clone()));
                self.members.remove(&id);
                self.table.unsubscribe(id);
            }
        }
    }

    /// Applies the changes of the table and forwards its events.
    fn settle(&mut self) {
        loop {
            for (id, event) in self.table.take_events() {
                let Some(member) = self.members.get_mut(&id) else {
                    continue;
                };
                let is_set = event == SubscriptionEvent::Resynchronize;
                member.buffer.push(event);
                if is_set && let Some(armed) = member.armed.take() {
                    let _gone = armed.send(Ok(()));
                }
            }
            let dirty = self.table.take_dirty();
            if dirty.is_empty() {
                return;
            }
            for path in dirty {
                self.reconcile(&path, 0);
            }
        }
    }

    /// Changes the watch on `path` to the wanted one.
    fn reconcile(&mut self, path: &NodePath, attempts: u32) {
        let wanted = self.table.wanted(path);
        let one_shot_watches = &self.one_shot_watches;
        let mut is_disturbed = false;
        match self.slots.get(path) {
            // Waits for the reply first, whatever is wanted now.
            Some(Slot::Arming { .. }) => return,
            Some(Slot::Armed { .. }) if self.is_as_wanted(path) => {
                if !self.table.is_armed(path) {
                    self.table.armed(path);
                }
                return;
            }
            // Removing it now could remove a watch that is in flight. A command follows when none is.
            Some(Slot::Armed { .. }) if one_shot_watches.wait_for_in_flight(path) => {
                self.begin_grace_period(path);
                return;
            }
            Some(Slot::Armed { .. }) => {
                if let Some(Slot::Armed {
                    cancellable,
                    is_disturbed: was_disturbed,
                    ..
                }) = self.slots.remove(path)
                {
                    cancellable.close();
                    is_disturbed = was_disturbed;
                    one_shot_watches.set_managed(path, false);
                }
            }
            None => {}
        }
        let Some(is_recursive) = wanted else {
            one_shot_watches.set_managed(path, false);
            return;
        };
        let is_persistent = !self.engine.is_older_than(3, 6);
        one_shot_watches.set_managed(path, is_persistent);
        let slot = Slot::Arming {
            is_disturbed: false,
        };
        self.slots.insert(path.clone(), slot);
        self.table.lost(path);
        self.arming.push(Box::pin(arm(
            Arc::clone(&self.engine),
            Arc::clone(&self.in_flight),
            Order {
                path: path.clone(),
                is_recursive,
                is_disturbed,
                is_persistent,
                attempts,
            },
        )));
    }

    /// Limits the wait for reads in flight: a read that its caller does not poll stays in flight forever.
    fn begin_grace_period(&mut self, path: &NodePath) {
        if let Some(Slot::Armed { waits, .. }) = self.slots.get_mut(path)
            && !std::mem::replace(waits, true)
        {
            let (engine, path) = (Arc::clone(&self.engine), path.clone());
            self.grace_periods.push(Box::pin(async move {
                // Without a connection the reads in flight wait too.
                let _ended = engine.connected().await;
                Deadline::after(Duration::MAX).pause(MAX_WAIT).await;
                path
            }));
        }
    }

    /// Removes the watch, whatever is in flight.
    fn grace_period_ended(&mut self, path: &NodePath) {
        let waited = match self.slots.get_mut(path) {
            Some(Slot::Armed { waits, .. }) => std::mem::take(waits),
            _ => false,
        };
        if waited && !self.is_as_wanted(path) {
            tracing::debug!(%path, "no longer waiting for a read with a watch that has taken too long");
            self.one_shot_watches.abandon_in_flight(path);
            self.reconcile(path, 0);
        }
    }

    /// Returns whether the wanted watch on `path` is set.
    fn is_as_wanted(&self, path: &NodePath) -> bool {
        let armed = match self.slots.get(path) {
            Some(Slot::Armed {
                is_recursive,
                is_disturbed: false,
                is_lost: false,
                ..
            }) => Some(*is_recursive),
            _ => None,
        };
        armed.is_some() && armed == self.table.wanted(path)
    }

    /// Notifies all subscriptions of the end of the session, including those that are just being added.
    fn end(&mut self) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            self.handle(command);
        }
        for id in self.table.ids() {
            if let Some(member) = self.members.remove(&id) {
                member.buffer.end();
            }
        }
    }
}

/// Tries to set a watch, once there is a connection.
async fn arm(engine: Arc<Engine>, in_flight: Arc<Semaphore>, order: Order) -> Attempt {
    let result = try_to_arm(&engine, &in_flight, &order).await;
    Attempt { order, result }
}

async fn try_to_arm(
    engine: &Arc<Engine>,
    in_flight: &Semaphore,
    order: &Order,
) -> Result<Watching, TransportError> {
    let path = &order.path;
    if order.attempts > 0 {
        let chance = || engine.chance();
        let pause = RetryPolicy::default().pause(order.attempts, Duration::ZERO, chance);
        let never = Deadline::after(Duration::MAX);
        never.pause(pause.unwrap_or_default()).await;
    }
    engine.connected().await.map_err(TransportError::Ended)?;
    // Bounds the number of requests that other users of the session wait behind.
    let _permit = in_flight.acquire().await;
    if !order.is_persistent {
        return fallback::follow(Arc::clone(engine), path.clone(), order.is_recursive).await;
    }
    if order.is_disturbed {
        // When this reply arrives, requests whose callers dropped them have replies too, and their watches were
        // removed.
        let barrier = Request::Exists {
            path: NodePath::root(),
            watch: false,
        };
        engine.send(barrier).await?;
    }
    let request = Request::AddWatch {
        path: path.clone(),
        recursive: order.is_recursive,
    };
    match engine.send(request).await? {
        Response::Watching(watching) => Ok(watching),
        other => Err(other.unexpected()),
    }
}

const MOST_IN_FLIGHT: usize = 64;

/// How long the removal of a watch waits for reads in flight, while there is a connection.
const MAX_WAIT: Duration = Duration::from_secs(5);
