//! Calls a function with each update of a subscription.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use futures_util::FutureExt;
use tokio::sync::watch;

use crate::path::NodePath;
use crate::subscription::Subscription;
use crate::tracker::AbortOnDrop;
use crate::update::Update;

/// A function that is called with each update of a [`Subscription`], on a task of its own.
///
/// The function receives one update at a time, in order. A slow function delays neither the session nor its locks nor
/// other listeners, and it may call the session and await the result.
/// Updates that arrive meanwhile are buffered as [`Subscription`] describes.
///
/// # Dropping
///
/// Stops the function at its next `.await` and removes the watch. A running call of a blocking function finishes first.
#[must_use = "the listener stops when it is dropped"]
pub struct Listener {
    path: NodePath,
    end: watch::Receiver<Option<ListenerEnd>>,
    _task: AbortOnDrop,
}

/// How a [`Listener`] ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenerEnd {
    /// The session is over. The function was called with [`Update::SessionLost`] last.
    SessionLost,
    /// The function panicked with this message. It is not called again; the session and other listeners are unaffected.
    Panicked(String),
    /// The runtime of its task has shut down.
    Stopped,
}

impl Listener {
    /// Returns the node, below the namespace.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Returns how the listener ended, or `None` if it is running.
    pub fn end(&self) -> Option<ListenerEnd> {
        self.end.borrow().clone()
    }

    /// Waits until the listener ends, with the session or by a panic.
    ///
    /// # Cancel safety
    ///
    /// Safe, the listener continues.
    ///
    /// # Session loss
    ///
    /// Returned as [`ListenerEnd::SessionLost`].
    pub async fn ended(&self) -> ListenerEnd {
        let mut end = self.end.clone();
        let ended = end.wait_for(Option::is_some).await;
        ended
            .ok()
            .and_then(|end| end.clone())
            .unwrap_or(ListenerEnd::Stopped)
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("path", &self.path)
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
    pub fn for_each<F, T>(self, mut function: F) -> Listener
    where
        F: FnMut(Update) -> T + Send + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        self.listen(|mut updates| async move {
            while let Some(update) = updates.next().await {
                let answer = catch_unwind(AssertUnwindSafe(|| function(update)))?;
                AssertUnwindSafe(answer).catch_unwind().await?;
            }
            Ok(())
        })
    }

    /// Calls `function` with each update on a thread where it may block.
    ///
    /// # Panics
    ///
    /// If called outside of a Tokio runtime.
    pub fn for_each_blocking<F>(self, function: F) -> Listener
    where
        F: FnMut(Update) + Send + 'static,
    {
        self.listen(|mut updates| async move {
            let mut function = function;
            while let Some(update) = updates.next().await {
                let called = tokio::task::spawn_blocking(move || {
                    catch_unwind(AssertUnwindSafe(|| function(update)))?;
                    Ok(function)
                });
                function = match called.await {
                    Ok(called) => called?,
                    // The runtime is ending.
                    Err(_) => return std::future::pending().await,
                };
            }
            Ok(())
        })
    }

    fn listen<F, T>(self, body: F) -> Listener
    where
        F: FnOnce(Self) -> T,
        T: Future<Output = Result<(), Panic>> + Send + 'static,
    {
        let path = self.path().clone();
        let (ended, end) = watch::channel(None);
        let body = body(self);
        let named = path.clone();
        let task = tokio::spawn(async move {
            let end = match body.await {
                Ok(()) => ListenerEnd::SessionLost,
                Err(panic) => {
                    let message = message_of(&*panic);
                    tracing::error!(path = %named, message, "a listener panicked and is not called again");
                    ListenerEnd::Panicked(message)
                }
            };
            // The listener may have been dropped.
            let _gone = ended.send(Some(end));
        });
        Listener {
            path,
            end,
            _task: AbortOnDrop(task.abort_handle()),
        }
    }
}

/// The payload of a panic.
type Panic = Box<dyn Any + Send>;

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no text".to_owned())
}
