//! The loop of a worker.

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

/// What became of the items that a worker was delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// They were processed and acknowledged.
    pub acknowledged: u64,
    /// They could not be processed, and went back or to the dead letters.
    pub rejected: u64,
    /// Their claims were lost while they were processed.
    pub lost: u64,
    /// The handler was done, but what became of the item is not known: it may be delivered again.
    pub unsettled: u64,
}

enum End {
    Acknowledged,
    Rejected,
    Lost,
    Unsettled,
}

impl<T: Send + 'static> WorkQueue<T> {
    /// Claims items and hands them to `handler`, as many at once as the options allow, until `stop` resolves.
    ///
    /// It claims as many in one transaction as it can process at that moment.
    /// An item for which the handler answers `Ok` is acknowledged, another one is rejected with the handler's reason and
    /// a delay that grows.
    /// A handler that panics ends itself alone: its item is rejected as if it had answered an error, and goes to the dead
    /// letters if it panics each time.
    /// The handler is dropped, at one of its awaits, as soon as its claim can no longer be relied on.
    /// Once stopped, the worker claims nothing more, and waits for what is being processed.
    ///
    /// All handlers run on the task of the caller; one that computes for long has to do so on a task of its own.
    /// Failures that may pass are waited out.
    ///
    /// # Errors
    ///
    /// When the session is over, or something is not permitted. What was being processed is dropped, and delivered again.
    ///
    /// # Cancel safety
    ///
    /// Safe: handlers are dropped, and their items are delivered again.
    ///
    /// # Session loss
    ///
    /// A fatal error.
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
    ) -> Result<Tally, TakeError>
    where
        F: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        let mut tally = Tally::default();
        let mut running = FuturesUnordered::new();
        let mut stop = pin!(stop);
        let mut claiming = Box::pin(future::Fuse::terminated());
        let mut is_claiming = false;
        loop {
            if !is_claiming && running.len() < options.concurrency {
                let most = options.concurrency - running.len();
                claiming.set(self.claim_patiently(most).fuse());
                is_claiming = true;
            }
            tokio::select! {
                biased;
                () = &mut stop => break,
                Some(end) = running.next() => tally.count(&end),
                claimed = &mut claiming, if is_claiming => {
                    is_claiming = false;
                    for claim in claimed? {
                        running.push(process(claim, options, &handler));
                    }
                }
            }
        }
        // A claim that is on its way is released in the background.
        claiming.set(future::Fuse::terminated());
        let grace = Deadline::after(options.grace);
        while !running.is_empty() {
            match grace.bound(running.next()).await {
                Some(Some(end)) => tally.count(&end),
                Some(None) => break,
                None => {
                    tracing::warn!(path = %self.path(), left = running.len(), "handlers did not end in time and are dropped");
                    break;
                }
            }
        }
        Ok(tally)
    }

    /// Claims items, at most so many, whatever passes meanwhile.
    async fn claim_patiently(&self, most: usize) -> Result<Vec<Claim<T>>, TakeError> {
        let mut attempts = 0;
        loop {
            match self.claim_batch(most).await {
                Err(error) if error.class() == ErrorClass::Recoverable => {
                    tracing::debug!(path = %self.path(), %error, "claiming again");
                    attempts += 1;
                    self.line.deadline().pause(attempts).await;
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
) -> End
where
    F: Future<Output = Result<(), E>>,
    E: fmt::Display,
{
    let (delivery, held) = claim.split();
    let deliveries = delivery.deliveries();
    let handled = tokio::select! {
        biased;
        loss = held.lost() => {
            tracing::warn!(path = %held.grip.item, ?loss, "the claim of an item was lost while it was processed");
            return End::Lost;
        }
        handled = caught(async { handler(delivery).await.map_err(|reason| reason.to_string()) }) => handled,
    };
    let path = held.grip.item.clone();
    let (settled, end) = match handled {
        Ok(()) => {
            let settled = held
                .settle(Box::new(|nothing_else| nothing_else), None)
                .await;
            (settled, End::Acknowledged)
        }
        Err(reason) => {
            let delay = options.delay_after(deliveries);
            (held.reject(delay, reason).await, End::Rejected)
        }
    };
    match settled {
        Ok(()) => end,
        Err(error) => {
            tracing::warn!(%path, %error, "an item that was processed may be delivered again");
            match error {
                crate::SettleError::Lost { .. } => End::Lost,
                _ => End::Unsettled,
            }
        }
    }
}

/// Runs a handler; a panic of it is an error like another one, and must not reach the handlers beside it.
async fn caught(handler: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    // What the handler has left half-done is the handler's: nothing of ours is used by both.
    let handled = AssertUnwindSafe(handler).catch_unwind().await;
    handled.unwrap_or_else(|panic| Err(format!("the handler panicked: {}", message_of(&*panic))))
}

/// What a panic says.
pub(super) fn message_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it gave no message")
}

impl Tally {
    fn count(&mut self, end: &End) {
        let counted = match end {
            End::Acknowledged => &mut self.acknowledged,
            End::Rejected => &mut self.rejected,
            End::Lost => &mut self.lost,
            End::Unsettled => &mut self.unsettled,
        };
        *counted += 1;
    }
}
