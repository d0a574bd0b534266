//! Functions that are called with what a subscription tells.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use futures_util::FutureExt;
use tokio::sync::watch;

use crate::path::NodePath;
use crate::subscription::Subscription;
use crate::subscription::Update;
use crate::tracker::AbortOnDrop;

/// A function that is called with what a [`Subscription`] tells, on a task of its own.
///
/// It is called with one update after the other, in order, and may take its time: nobody else waits for it, neither the
/// session nor its locks nor other listeners, and it may use the session and wait for that.
/// What is told meanwhile is kept as [`Subscription`] says.
///
/// # Dropping
///
/// Ends it at its next `.await`, and takes the watch back; a call of a blocking function is finished first.
#[must_use = "it listens as long as it is held"]
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
    /// The function panicked, with this message. It is not called any more; nobody else is concerned.
    Panicked(String),
    /// The runtime that it was on has ended.
    Stopped,
}

impl Listener {
    /// Returns the node, below the namespace.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Returns how it ended, if it has.
    pub fn end(&self) -> Option<ListenerEnd> {
        self.end.borrow().clone()
    }

    /// Waits until it ends, by the end of the session or a panic.
    ///
    /// # Cancel safety
    ///
    /// Safe, it goes on.
    ///
    /// # Session loss
    ///
    /// Answered as [`ListenerEnd::SessionLost`].
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
    /// Calls `function` with each update, on a task of its own, and awaits what it answers before the next.
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
    /// Outside of a Tokio runtime.
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

    /// Calls `function` with each update, on a thread where it may block.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
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
                    tracing::error!(path = %named, message, "a listener panicked and is not called any more");
                    ListenerEnd::Panicked(message)
                }
            };
            // Nobody may hold the listener by now.
            let _gone = ended.send(Some(end));
        });
        Listener {
            path,
            end,
            _task: AbortOnDrop(task.abort_handle()),
        }
    }
}

/// What a function panicked with.
type Panic = Box<dyn Any + Send>;

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no text".to_owned())
}
