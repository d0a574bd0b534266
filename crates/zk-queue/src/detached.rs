//! Requests that have to be brought to an end although nobody waits for them any more.

use std::fmt;
use std::pin::Pin;
use std::task::Context;
use std::task::Poll;

use zk_core::Session;

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Then<T> = Box<dyn FnOnce(T) -> Work<()> + Send>;

/// Work that goes on in the background when this is dropped before its end, with what is to be done about its result.
///
/// A request that has left cannot be called back: whoever drops a call that takes an item would lose the item.
pub(crate) struct Detached<T: Send + 'static> {
    session: Session,
    work: Option<Work<T>>,
    then: Option<Then<T>>,
    has_begun: bool,
}

impl<T: Send + 'static> Detached<T> {
    /// `then` gets the result that the caller is no longer there for.
    pub(crate) fn new<F>(
        session: &Session,
        work: impl Future<Output = T> + Send + 'static,
        then: impl FnOnce(T) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self {
            session: session.clone(),
            work: Some(Box::pin(work)),
            then: Some(Box::new(|result| Box::pin(then(result)))),
            has_begun: false,
        }
    }
}

impl<T: Send + 'static> Future for Detached<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.has_begun = true;
        let Some(work) = &mut self.work else {
            return Poll::Pending;
        };
        let polled = work.as_mut().poll(context);
        if polled.is_ready() {
            self.work = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Detached<T> {
    fn drop(&mut self) {
        if let (true, Some(work), Some(then)) = (self.has_begun, self.work.take(), self.then.take())
        {
            self.session.finish(async move { then(work.await).await });
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Detached<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detached").finish_non_exhaustive()
    }
}
