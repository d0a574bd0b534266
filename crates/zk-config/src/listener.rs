//! Listeners of one key: its changes as a stream, or through callbacks.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::{Stream, StreamExt as _, stream};
use zk_cache::{Node, Snapshot};
use zk_core::codec::{Codec, DecodeError};
use zk_core::{Error, IntoNodePath, NodePath, ParsePathError, Session, Stat};

use crate::node_watcher::{NodeWatcher, Observation};
use crate::snapshot_check::Extent;

/// A listener of one key. The node need not exist.
///
/// It sends no request before [`events`](Self::events) or [`for_each`](Self::for_each) is called.
///
/// # Defaults
///
/// - [`initial`](Self::initial): a value that exists at the start is delivered
/// - [`on_create`](Self::on_create): the value of a node that is created later is delivered
/// - [`mode`](Self::mode): it listens until it is dropped or the session is over
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_config::{Event, Listener};
/// use zk_core::codec::Text;
///
/// let mut events = Listener::new(&session, "/app/motto", Text)?.events::<String>();
/// while let Some(event) = events.next().await {
///     match event {
///         Event::Present(motto) | Event::Created(motto) | Event::Changed(motto) => {
///             println!("{}, revision {:#x}", motto.value, motto.stat.mzxid);
///         }
///         Event::Absent | Event::Deleted => println!("no motto"),
///         other => println!("{other:?}"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a listener does nothing until `events` or `for_each` is called"]
pub struct Listener<C> {
    session: Session,
    path: NodePath,
    codec: C,
    options: ListenOptions,
}

/// The settings of a listener.
#[derive(Debug, Clone, Copy, Default)]
struct ListenOptions {
    initial: ValueDelivery,
    on_create: ValueDelivery,
    mode: ListenMode,
}

/// Whether a listener delivers a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ValueDelivery {
    /// Deliver it.
    #[default]
    Deliver,
    /// Do not deliver it, only the next change.
    Skip,
}

/// How long a listener listens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ListenMode {
    /// Until it is dropped or the session is over.
    #[default]
    Forever,
    /// Until it has delivered one value.
    Once,
}

/// A change of a key, or a problem with it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event<T> {
    /// At the start, the node does not exist.
    Absent,
    /// At the start, the node exists.
    Present(Value<T>),
    /// The node was created.
    Created(Value<T>),
    /// The data was replaced.
    Changed(Value<T>),
    /// The node was deleted.
    Deleted,
    /// The codec cannot decode the data. The previous value stays the last good one.
    Invalid {
        /// The error with path, format and position.
        error: DecodeError,
        /// The stat that belongs to the data.
        stat: Box<Stat>,
    },
    /// The node cannot be read, for example without the permission. The listener retries every ten seconds.
    Failed(Error),
    /// The session is over. This is the last event.
    SessionLost,
}

/// A value and the stat that belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Value<T> {
    /// The value.
    pub value: T,
    /// The stat of the node; [`mzxid`](Stat::mzxid) is the revision.
    pub stat: Stat,
}

impl<C> Listener<C> {
    /// Creates a listener.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn new(
        session: &Session,
        path: impl IntoNodePath,
        codec: C,
    ) -> Result<Self, ParsePathError> {
        Ok(Self {
            session: session.clone(),
            path: path.into_node_path()?,
            codec,
            options: ListenOptions::default(),
        })
    }

    /// Sets whether a value that exists at the start is delivered. It is by default.
    pub fn initial(mut self, delivery: ValueDelivery) -> Self {
        self.options.initial = delivery;
        self
    }

    /// Sets whether the value of a node that is created later is delivered. It is by default.
    pub fn on_create(mut self, delivery: ValueDelivery) -> Self {
        self.options.on_create = delivery;
        self
    }

    /// Sets how long it listens. The default is [`ListenMode::Forever`].
    ///
    /// With [`ListenMode::Once`] the first delivered value is the last event.
    /// Events without a value, such as [`Event::Absent`] and [`Event::Invalid`], do not count.
    pub fn mode(mut self, mode: ListenMode) -> Self {
        self.options.mode = mode;
        self
    }

    /// Returns the changes as a stream.
    pub fn events<T>(self) -> Events<T>
    where
        C: Codec<T> + 'static,
        T: Send + 'static,
    {
        let listener = ListenerState {
            listener: self,
            watcher: None,
            last: None,
            is_over: false,
        };
        let batches = stream::unfold(listener, async |mut listener| {
            let events = listener.next().await?;
            Some((stream::iter(events), listener))
        });
        Events(Box::pin(batches.flatten().fuse()))
    }

    /// Calls `callback` with each event, one after the other, on a task of its own.
    ///
    /// The callback may wait and may use the session. It delays no other listener.
    /// Changes during a call are merged into one, and delivered when the callback has returned.
    /// The returned listener ends with its session, after its one value, or by a panic of its callback.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime, which runs the task.
    pub fn for_each<T, F>(
        self,
        callback: impl FnMut(Event<T>) -> F + Send + 'static,
    ) -> zk_core::Listener
    where
        C: Codec<T> + 'static,
        T: Send + 'static,
        F: Future<Output = ()> + Send,
    {
        zk_core::Listener::new(self.events::<T>(), callback)
    }
}

/// The changes of a key as a stream; made by [`Listener::events`].
///
/// It starts with the first poll. A slow consumer receives the difference between the node that it received last and the
/// current one: it misses values that were replaced in between, but never the last one.
/// A node that was deleted and created again in between is reported as both.
///
/// # Dropping
///
/// Removes the watch in the background.
#[must_use = "streams do nothing unless polled"]
pub struct Events<T>(Pin<Box<dyn Stream<Item = Event<T>> + Send>>);

impl<T> Events<T> {
    /// Waits for the next event; `None` after the last one.
    ///
    /// # Session loss
    ///
    /// Returned as [`Event::SessionLost`], then `None`.
    pub async fn next(&mut self) -> Option<Event<T>> {
        self.0.next().await
    }
}

impl<T> Stream for Events<T> {
    type Item = Event<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event<T>>> {
        self.0.as_mut().poll_next(context)
    }
}

impl<T> fmt::Debug for Events<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

/// The state of a running listener.
struct ListenerState<C> {
    listener: Listener<C>,
    /// Started by the first poll.
    watcher: Option<NodeWatcher>,
    /// The node as of the last read.
    last: Option<Snapshot>,
    is_over: bool,
}

impl<C> ListenerState<C> {
    /// Waits for a read that causes events; `None` at the end.
    async fn next<T>(&mut self) -> Option<Vec<Event<T>>>
    where
        C: Codec<T>,
    {
        while !self.is_over {
            let Listener { session, path, .. } = &self.listener;
            let watcher = self
                .watcher
                .get_or_insert_with(|| NodeWatcher::new(session, path, Extent::Node));
            let events = match watcher.next().await {
                Observation::Read(reading) => self.changes(reading.snapshot),
                Observation::Stale | Observation::Contended => Vec::new(),
                Observation::Failed(error) => vec![Event::Failed(error)],
                Observation::SessionLost => {
                    self.is_over = true;
                    vec![Event::SessionLost]
                }
            };
            let is_value = |event: &Event<T>| {
                matches!(
                    event,
                    Event::Present(_) | Event::Created(_) | Event::Changed(_)
                )
            };
            self.is_over |=
                self.listener.options.mode == ListenMode::Once && events.iter().any(is_value);
            if !events.is_empty() {
                return Some(events);
            }
        }
        None
    }

    /// Returns the changes since the last read that the listener receives.
    fn changes<T>(&mut self, now: Snapshot) -> Vec<Event<T>>
    where
        C: Codec<T>,
    {
        let ListenOptions {
            initial, on_create, ..
        } = self.listener.options;
        let events = match (&self.last, now.root()) {
            (None, None) => vec![Event::Absent],
            (None, Some(_)) if initial == ValueDelivery::Skip => Vec::new(),
            (None, Some(node)) => vec![self.decoded(node, Event::Present)],
            (Some(last), _) => {
                let changes = now.since(last).into_iter();
                changes
                    .filter_map(|change| match change {
                        zk_cache::Event::Created(_) if on_create == ValueDelivery::Skip => None,
                        zk_cache::Event::Created(node) => Some(self.decoded(&node, Event::Created)),
                        zk_cache::Event::Changed { new, .. } => {
                            Some(self.decoded(&new, Event::Changed))
                        }
                        zk_cache::Event::Deleted(_) => Some(Event::Deleted),
                        _ => None,
                    })
                    .collect()
            }
        };
        self.last = Some(now);
        events
    }

    fn decoded<T>(&self, node: &Node, with_value: fn(Value<T>) -> Event<T>) -> Event<T>
    where
        C: Codec<T>,
    {
        let stat = node.stat();
        match self.listener.codec.decode(node.data().unwrap_or_default()) {
            Ok(value) => with_value(Value { value, stat }),
            Err(error) => Event::Invalid {
                error: error.of_node(&self.listener.path),
                stat: Box::new(stat),
            },
        }
    }
}
