//! A future that continues in the background when its caller drops it.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use zk_core::Session;

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Cleanup<T> = Box<dyn FnOnce(T) -> Work<()> + Send>;

/// Runs `work`; if it is dropped before `work` ends, `work` and then `cleanup` run in the background.
///
/// A request that was sent cannot be called back: without this, dropping a call that takes an item would lose the item.
pub(crate) struct Detached<T: Send + 'static> {
    session: Session,
    work: Option<Work<T>>,
    cleanup: Option<Cleanup<T>>,
    has_begun: bool,
}

impl<T: Send + 'static> Detached<T> {
    /// `cleanup` receives the result if the caller has dropped the future.
    pub(crate) fn new<F>(
        session: &Session,
        work: impl Future<Output = T> + Send + 'static,
        cleanup: impl FnOnce(T) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self {
            session: session.clone(),
            work: Some(Box::pin(work)),
            cleanup: Some(Box::new(|result| Box::pin(cleanup(result)))),
            has_begun: false,
        }
    }
}

impl<T: Send + 'static> Future for Detached<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.has_begun = true;
        // Taken out, so that work that panics is not continued in the background.
        let Some(mut work) = self.work.take() else {
            return Poll::Pending;
        };
        let polled = work.as_mut().poll(context);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Detached<T> {
    fn drop(&mut self) {
        if let (true, Some(work), Some(cleanup)) =
            (self.has_begun, self.work.take(), self.cleanup.take())
        {
            let finished = async move { cleanup(work.await).await };
            self.session.finish(finished);
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Detached<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detached").finish_non_exhaustive()
    }
}
