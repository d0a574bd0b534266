//! The worker loop: claims items, runs a handler for each, and settles the claims.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;

use futures_util::FutureExt as _;
use futures_util::StreamExt as _;
use futures_util::future;
use futures_util::stream::FuturesUnordered;
use zk_core::ErrorClass;

use super::Claim;
use super::Delivery;
use super::WorkQueue;
use crate::deadline::Deadline;
use crate::error::TakeError;
use crate::options::WorkerOptions;

/// How many items a worker has settled, and how; returned by [`WorkQueue::work_until`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkStats {
    /// Items that were processed and acknowledged.
    pub acknowledged: u64,
    /// Items whose handler failed; they are delivered again, or became dead letters.
    pub rejected: u64,
    /// Items whose claims were lost while they were processed.
    pub lost: u64,
    /// Items whose handler finished, but whose claims were not settled for sure; they may be delivered again.
    pub unsettled: u64,
}

/// How the processing of one item ended.
enum HandlerOutcome {
    Acknowledged,
    Rejected,
    Lost,
    Unsettled,
}

impl<T: Send + 'static> WorkQueue<T> {
    /// Claims items and passes them to `handler`, as many concurrently as the options allow, until `stop` resolves.
    ///
    /// One transaction claims as many items as there are free handlers.
    /// If the handler returns `Ok`, the item is acknowledged; otherwise it is rejected, with the handler's error as the
    /// reason and a delay that grows.
    /// A handler that panics does not affect the others: its item is rejected like after an error, and becomes a dead
    /// letter if it panics each time.
    /// A handler is dropped, at one of its awaits, as soon as its claim can no longer be relied on.
    /// Once stopped, the worker claims no more items, and waits for the running handlers.
    ///
    /// All handlers run on the caller's task; a handler that computes for long should spawn a task of its own.
    /// The worker retries after temporary failures.
    ///
    /// # Errors
    ///
    /// If the session ended, or an operation is not permitted. Running handlers are dropped, and their items are
    /// delivered again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: handlers are dropped, and their items are delivered again.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn send(_: &str) -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn demo(queue: zk_queue::WorkQueue<String>, stop: tokio::sync::oneshot::Receiver<()>) -> Result<(), zk_queue::TakeError> {
    /// let options = zk_queue::WorkerOptions::default().with_concurrency(8);
    /// let stopped = async { drop(stop.await) };
    /// queue.work_until(stopped, &options, async |delivery| send(delivery.item()).await).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn work_until<F, E>(
        &self,
        stop: impl Future<Output = ()>,
        options: &WorkerOptions,
        handler: impl Fn(Delivery<T>) -> F,
    ) -> Result<WorkStats, TakeError>
    where
        F: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        let mut stats = WorkStats::default();
        let mut running = FuturesUnordered::new();
        let mut stop = pin!(stop);
        let mut claiming = Box::pin(future::Fuse::terminated());
        let mut is_claiming = false;
        loop {
            if !is_claiming && running.len() < options.concurrency {
                let max = options.concurrency - running.len();
                claiming.set(self.claim_with_retry(max).fuse());
                is_claiming = true;
            }
            tokio::select! {
                biased;
                () = &mut stop => break,
                Some(outcome) = running.next() => stats.count(&outcome),
                claimed = &mut claiming, if is_claiming => {
                    is_claiming = false;
                    for claim in claimed? {
                        running.push(process(claim, options, &handler));
                    }
                }
            }
        }
        // A claim in flight is released in the background.
        claiming.set(future::Fuse::terminated());
        let grace = Deadline::after(options.grace);
        while !running.is_empty() {
            match grace.bound(running.next()).await {
                Some(Some(outcome)) => stats.count(&outcome),
                Some(None) => break,
                None => {
                    tracing::warn!(path = %self.path(), left = running.len(), "handlers exceeded the grace period and are dropped");
                    break;
                }
            }
        }
        Ok(stats)
    }

    /// Claims up to `max` items, and retries after temporary failures.
    async fn claim_with_retry(&self, max: usize) -> Result<Vec<Claim<T>>, TakeError> {
        let mut attempts = 0;
        loop {
            match self.claim_batch(max).await {
                Err(error) if error.class() == ErrorClass::Recoverable => {
                    tracing::debug!(path = %self.path(), %error, "claiming again");
                    attempts += 1;
                    self.store.context.deadline().pause(attempts).await;
                }
                other => return other,
            }
        }
    }
}

async fn process<T, F, E>(
    claim: Claim<T>,
    options: &WorkerOptions,
    handler: &impl Fn(Delivery<T>) -> F,
) -> HandlerOutcome
where
    F: Future<Output = Result<(), E>>,
    E: fmt::Display,
{
    let (delivery, held) = claim.split();
    let deliveries = delivery.deliveries();
    let handled = tokio::select! {
        biased;
        loss = held.lost() => {
            tracing::warn!(path = %held.identity.item, ?loss, "the claim was lost while its item was processed");
            return HandlerOutcome::Lost;
        }
        handled = catch_panic(async { handler(delivery).await.map_err(|error| error.to_string()) }) => handled,
    };
    let path = held.identity.item.clone();
    let (settled, outcome) = match handled {
        Ok(()) => {
            let settled = held
                .settle(Box::new(|nothing_else| nothing_else), None)
                .await;
            (settled, HandlerOutcome::Acknowledged)
        }
        Err(reason) => {
            let delay = options.delay_after(deliveries);
            (held.reject(delay, reason).await, HandlerOutcome::Rejected)
        }
    };
    match settled {
        Ok(()) => outcome,
        Err(error) => {
            tracing::warn!(%path, %error, "the item was processed, but may be delivered again");
            match error {
                crate::SettleError::Lost { .. } => HandlerOutcome::Lost,
                _ => HandlerOutcome::Unsettled,
            }
        }
    }
}

/// Runs a handler, and returns its panic as an error, so that it does not reach the other handlers.
async fn catch_panic(handler: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    // Unwind safe: the handler shares no data with this crate.
    let handled = AssertUnwindSafe(handler).catch_unwind().await;
    handled.unwrap_or_else(|panic| Err(format!("the handler panicked: {}", panic_message(&*panic))))
}

/// Returns the message of a panic.
pub(super) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it gave no message")
}

impl WorkStats {
    fn count(&mut self, outcome: &HandlerOutcome) {
        let counted = match outcome {
            HandlerOutcome::Acknowledged => &mut self.acknowledged,
            HandlerOutcome::Rejected => &mut self.rejected,
            HandlerOutcome::Lost => &mut self.lost,
            HandlerOutcome::Unsettled => &mut self.unsettled,
        };
        *counted += 1;
    }
}
