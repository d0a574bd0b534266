//! Calls a function with each item of a stream, such as the updates of a subscription.

use std::any::{Any, type_name};
use std::fmt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::pin;

use futures_util::future::{BoxFuture, Shared};
use futures_util::{FutureExt, Stream, StreamExt};
use tokio::task::{AbortHandle, JoinError};

use crate::subscription::Subscription;
use crate::update::Update;

/// A function that is called with each item of a stream, such as each update of a [`Subscription`], on a task of its own.
///
/// The function receives one item at a time, in order. A slow function delays neither the session nor its locks nor
/// other listeners, and it may call the session and await the result.
/// Updates that arrive meanwhile are buffered as [`Subscription`] describes.
///
/// # Dropping
///
/// Stops the function at its next `.await` and drops the stream, which removes the watch of a subscription. A running
/// call of a blocking function finishes first.
#[must_use = "the listener stops when it is dropped"]
pub struct Listener {
    end: Shared<BoxFuture<'static, ListenerEnd>>,
    task: AbortHandle,
}

/// How a [`Listener`] ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenerEnd {
    /// The stream has ended. A subscription ends with its session, after [`Update::SessionLost`].
    Finished,
    /// The function panicked with this message. It is not called again; the session and other listeners are unaffected.
    Panicked(String),
    /// The runtime of its task has shut down.
    Stopped,
}

impl Listener {
    /// Calls `function` with each item of `stream` on a new task, and awaits the returned future before the next call.
    ///
    /// # Panics
    ///
    /// If called outside of a Tokio runtime.
    pub fn new<S, F, T>(stream: S, mut function: F) -> Self
    where
        S: Stream + Send + 'static,
        S::Item: Send,
        F: FnMut(S::Item) -> T + Send + 'static,
        T: Future<Output = ()> + Send,
    {
        Self::run::<F>(async move {
            let mut stream = pin!(stream);
            while let Some(item) = stream.next().await {
                function(item).await;
            }
        })
    }

    /// Runs the calls of a function of type `F`.
    fn run<F>(calls: impl Future<Output = ()> + Send + 'static) -> Self {
        let calls = AssertUnwindSafe(calls).catch_unwind();
        let task = tokio::spawn(async move {
            let Err(panic) = calls.await else {
                return ListenerEnd::Finished;
            };
            let message = message_of(&*panic);
            let function = type_name::<F>();
            tracing::error!(
                function,
                message,
                "a listener panicked and is not called again"
            );
            ListenerEnd::Panicked(message)
        });
        Self {
            task: task.abort_handle(),
            end: task
                .map(|end| end.unwrap_or(ListenerEnd::Stopped))
                .boxed()
                .shared(),
        }
    }

    /// Returns how the listener ended, or `None` if it is running.
    pub fn end(&self) -> Option<ListenerEnd> {
        self.end.clone().now_or_never()
    }

    /// Waits until the listener ends, with its stream or by a panic.
    ///
    /// # Session loss
    ///
    /// Ends a subscription, and so returned as [`ListenerEnd::Finished`].
    pub async fn ended(&self) -> ListenerEnd {
        self.end.clone().await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("end", &self.end())
            .finish_non_exhaustive()
    }
}

impl Subscription {
    /// Calls `function` with each update on a new task, and awaits the returned future before the next call.
    ///
    /// ```no_run
    /// # async fn demo(session: zk_core::Session) -> Result<(), zk_core::Error> {
    /// let changes = session.subscribe("/app").recursive().await?;
    /// let reader = session.clone();
    /// let listener = changes.for_each(move |update| {
    ///     let session = reader.clone();
    ///     async move {
    ///         let now = session.list("/app").await;
    ///         println!("{update:?}: {now:?}");
    ///     }
    /// });
    /// listener.ended().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If called outside of a Tokio runtime.
    pub fn for_each<F, T>(self, function: F) -> Listener
    where
        F: FnMut(Update) -> T + Send + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        Listener::new(self, function)
    }

    /// Calls `function` with each update on a thread where it may block.
    ///
    /// # Panics
    ///
    /// If called outside of a Tokio runtime.
    pub fn for_each_blocking<F>(mut self, mut function: F) -> Listener
    where
        F: FnMut(Update) + Send + 'static,
    {
        Listener::run::<F>(async move {
            while let Some(update) = self.next().await {
                let called = tokio::task::spawn_blocking(move || {
                    function(update);
                    function
                });
                function = match called.await.map_err(JoinError::try_into_panic) {
                    Ok(function) => function,
                    Err(Ok(panic)) => resume_unwind(panic),
                    // The runtime is ending.
                    Err(Err(_)) => return std::future::pending().await,
                };
            }
        })
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no text".to_owned())
}
