//! Listening to one key: what becomes of it, as a stream and as callbacks.

use std::fmt;
use std::pin::Pin;
use std::task::Context;
use std::task::Poll;
use std::task::ready;

use futures_util::Stream;
use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::task::JoinHandle;
use zk_core::Error;
use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Session;
use zk_core::Stat;
use zk_core::codec::Codec;
use zk_core::codec::DecodeError;

use crate::life::Delivery;
use crate::life::Lasting;
use crate::life::Life;
use crate::life::Turn;
use crate::life::Wishes;
use crate::plan::Found;
use crate::sight::Eye;
use crate::sight::Node;
use crate::sight::Sight;

/// Listens to one key; the node need not exist.
///
/// Nothing is asked of a server before [`events`](Self::events) are taken or [`call`](Self::call) is made.
///
/// # Defaults
///
/// - [`initial`](Self::initial): a value that is there at the start is delivered
/// - [`on_create`](Self::on_create): the value of a node that is created later is delivered
/// - [`lasting`](Self::lasting): it listens until it is dropped or the session is over
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
///         Event::Absent | Event::Deleted => println!("there is none"),
///         other => println!("{other:?}"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is listened to before its events are taken"]
pub struct Listener<C> {
    session: Session,
    path: NodePath,
    codec: C,
    wishes: Wishes,
}

/// What a listener tells.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event<T> {
    /// There is no node at the start.
    Absent,
    /// The node is there at the start.
    Present(Value<T>),
    /// The node was created.
    Created(Value<T>),
    /// The data was replaced.
    Changed(Value<T>),
    /// The node was deleted.
    Deleted,
    /// The data is not what the codec expects. The value before stays the last good one.
    Invalid {
        /// What is wrong: path, format and position.
        error: DecodeError,
        /// The stat of the node with that data.
        stat: Box<Stat>,
    },
    /// The node cannot be read, for want of a permission perhaps. It is tried again every ten seconds.
    Failed(Error),
    /// The session is over; the last event.
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
    /// Prepares to listen to a key.
    ///
    /// # Errors
    ///
    /// When `path` is not a path.
    pub fn new<P>(session: &Session, path: P, codec: C) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Ok(Self {
            session: session.clone(),
            path: path.try_into().map_err(Into::into)?,
            codec,
            wishes: Wishes {
                initial: Delivery::default(),
                on_create: Delivery::default(),
                lasting: Lasting::default(),
            },
        })
    }

    /// Sets whether a value that is there at the start is delivered; the default is that it is.
    pub fn initial(mut self, delivery: Delivery) -> Self {
        self.wishes.initial = delivery;
        self
    }

    /// Sets whether the value of a node that is created later is delivered; the default is that it is.
    pub fn on_create(mut self, delivery: Delivery) -> Self {
        self.wishes.on_create = delivery;
        self
    }

    /// Sets how long it listens; the default is [`Lasting::Forever`].
    ///
    /// With [`Lasting::Once`] the first value that is delivered is the last event.
    /// That a node is absent, deleted or invalid delivers no value.
    pub fn lasting(mut self, lasting: Lasting) -> Self {
        self.wishes.lasting = lasting;
        self
    }

    /// Listens, as a stream.
    pub fn events<T>(self) -> Events<T>
    where
        C: Codec<T> + 'static,
        T: Send + 'static,
    {
        let hearing = Hearing {
            eye: Eye::new(&self.session, Node(self.path.clone())),
            path: self.path,
            codec: self.codec,
            wishes: self.wishes,
            life: Life::default(),
            is_over: false,
        };
        let batches = stream::unfold(hearing, async |mut hearing| {
            let events = hearing.next().await?;
            Some((stream::iter(events), hearing))
        });
        Events {
            inner: Box::pin(batches.flatten()),
            is_done: false,
        }
    }

    /// Listens, and calls back one event after the other on a task of its own.
    ///
    /// The callback may wait and may use the session; it holds up nobody but itself.
    /// What changes meanwhile is told as one change, when it has returned.
    /// If it panics, this listener ends, and [`Listening::ended`] says so.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime, on which the task runs.
    pub fn call<T, F>(self, mut callback: impl FnMut(Event<T>) -> F + Send + 'static) -> Listening
    where
        C: Codec<T> + 'static,
        T: Send + 'static,
        F: Future<Output = ()> + Send,
    {
        let mut events = self.events::<T>();
        Listening {
            end: None,
            task: tokio::spawn(async move {
                while let Some(event) = events.next().await {
                    callback(event).await;
                }
            }),
        }
    }
}

/// What becomes of a key, as a stream; made by [`Listener::events`].
///
/// It asks a server only while it is polled, and keeps nothing: a consumer that looks seldom is told what became of the
/// key since its last look, and misses values that were replaced meanwhile, but never the last one.
/// A node that was deleted and made anew meanwhile is told as both.
///
/// # Dropping
///
/// Takes the watch back in the background.
#[must_use = "nothing is listened to unless it is polled"]
pub struct Events<T> {
    inner: Pin<Box<dyn Stream<Item = Event<T>> + Send>>,
    is_done: bool,
}

impl<T> Events<T> {
    /// Waits for the next event; `None` after the last one.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing is missed.
    ///
    /// # Session loss
    ///
    /// Told as [`Event::SessionLost`], then `None`.
    pub async fn next(&mut self) -> Option<Event<T>> {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Event<T>>> {
        if self.is_done {
            return Poll::Ready(None);
        }
        let event = ready!(self.inner.as_mut().poll_next(context));
        self.is_done = event.is_none();
        Poll::Ready(event)
    }
}

impl<T> Stream for Events<T> {
    type Item = Event<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(context)
    }
}

impl<T> fmt::Debug for Events<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events")
            .field("is_done", &self.is_done)
            .finish_non_exhaustive()
    }
}

/// A listener that calls back; made by [`Listener::call`].
///
/// # Dropping
///
/// Ends the listener at the next await of its callback, and takes its watch back in the background.
#[derive(Debug)]
#[must_use = "dropping it ends the listener"]
pub struct Listening {
    task: JoinHandle<()>,
    /// How it ended, once somebody has waited for that.
    end: Option<Result<(), CallbackPanicked>>,
}

impl Listening {
    /// Waits until the listener has ended: with its session, after its one value, or by a panic of its callback.
    ///
    /// Asked again, it answers the same.
    ///
    /// # Cancel safety
    ///
    /// Safe, the listener goes on.
    ///
    /// # Session loss
    ///
    /// Ends the listener, after the callback was told.
    ///
    /// # Errors
    ///
    /// When the callback panicked.
    pub async fn ended(&mut self) -> Result<(), CallbackPanicked> {
        if let Some(end) = &self.end {
            return end.clone();
        }
        let end = match (&mut self.task).await {
            Err(error) if error.is_panic() => Err(CallbackPanicked(())),
            _ => Ok(()),
        };
        self.end = Some(end.clone());
        end
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The callback of a listener panicked, which ended the listener.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the callback of a listener panicked; it is not called any more")]
pub struct CallbackPanicked(());

/// A listener at work.
struct Hearing<C> {
    eye: Eye<Node>,
    path: NodePath,
    codec: C,
    wishes: Wishes,
    life: Life,
    is_over: bool,
}

impl<C> Hearing<C> {
    /// Waits for a look that shows something to be told; `None` when it is over.
    async fn next<T>(&mut self) -> Option<Vec<Event<T>>>
    where
        C: Codec<T>,
    {
        loop {
            if self.is_over {
                return None;
            }
            let events = match self.eye.next().await {
                Sight::Seen(found) => {
                    let turns = self.life.see(found.as_ref().map(|found| &found.stat));
                    let mut events = Vec::new();
                    for turn in turns.into_iter().filter(|turn| self.wishes.includes(*turn)) {
                        let event = self.event(turn, found.as_ref());
                        let is_value = matches!(
                            event,
                            Event::Present(_) | Event::Created(_) | Event::Changed(_)
                        );
                        self.is_over |= is_value && self.wishes.lasting == Lasting::Once;
                        events.push(event);
                    }
                    events
                }
                Sight::Stale | Sight::Moving => Vec::new(),
                Sight::Failed(error) => vec![Event::Failed(error)],
                Sight::SessionLost => {
                    self.is_over = true;
                    vec![Event::SessionLost]
                }
            };
            if !events.is_empty() {
                return Some(events);
            }
        }
    }

    fn event<T>(&self, turn: Turn, found: Option<&Found>) -> Event<T>
    where
        C: Codec<T>,
    {
        let with_value: fn(Value<T>) -> Event<T> = match turn {
            Turn::Absent => return Event::Absent,
            Turn::Deleted => return Event::Deleted,
            Turn::Present => Event::Present,
            Turn::Created => Event::Created,
            Turn::Changed => Event::Changed,
        };
        let found = found.expect("a node that is there was found");
        let stat = found.stat;
        match self.codec.decode(&found.data) {
            Ok(value) => with_value(Value { value, stat }),
            Err(error) => Event::Invalid {
                error: error.of_node(&self.path),
                stat: Box::new(stat),
            },
        }
    }
}
