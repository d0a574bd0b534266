//! The worker loop: claims items, runs a handler for each, and settles the claims.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _, future};
use zk_core::ErrorClass;

use super::held_claim::Unsettled;
use super::{Claim, Delivery, HeldClaim, WorkQueue};
use crate::codec_panic::panic_message;
use crate::deadline::Deadline;
use crate::deterministic_draw::draw_fraction;
use crate::error::TakeError;
use crate::measure::DeliveryOutcome;
use crate::options::WorkerOptions;

/// How many items a worker has settled, and how; returned by [`WorkQueue::work_until`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkStats {
    /// Items that were processed and acknowledged.
    pub acknowledged: u64,
    /// Items whose handler failed; they are delivered again, or became dead letters.
    pub rejected: u64,
    /// Items whose claims were lost while they were processed, or whose time to run was over.
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

/// How a handler ended.
enum Handled {
    /// It finished, with an error in the second case.
    Finished(Box<HeldClaim>, Result<(), String>),
    Lost,
}

impl<T: Send + 'static> WorkQueue<T> {
    /// Claims items and passes them to `handler`, as many concurrently as the options allow, until `stop` resolves.
    ///
    /// One transaction claims as many items as there are free handlers. It is sent together with the acknowledgements of
    /// the items before, which share one or two transactions, too. So while items are being acknowledged, the worker has
    /// up to twice as many claims as handlers.
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
    ///
    /// With one session of the application after the other:
    ///
    /// ```no_run
    /// # async fn send(_: &str) -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn demo(sessions: zk_core::Sessions) -> Result<(), Box<dyn std::error::Error>> {
    /// use zk_core::codec::Text;
    /// use zk_queue::{WorkQueue, WorkerOptions};
    ///
    /// let working = sessions.run(async |session| {
    ///     let letters = WorkQueue::<String>::new(&session, "/mail/outgoing", Text).expect("the path is one");
    ///     let handler = async |letter: zk_queue::Delivery<String>| send(letter.item()).await;
    ///     letters.work_until(std::future::pending(), &WorkerOptions::default(), handler).await
    /// });
    /// working.await?;
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
        let mut handling = FuturesUnordered::new();
        let mut settling = FuturesUnordered::new();
        let mut stop = pin!(stop);
        let mut claiming = Box::pin(future::Fuse::terminated());
        let mut is_claiming = false;
        loop {
            // All that have finished first: then one claim is for all free handlers.
            while let Some(Some(handled)) = handling.next().now_or_never() {
                settling.push(settle(handled, options));
            }
            while let Some(Some(outcome)) = settling.next().now_or_never() {
                stats.count(&outcome);
            }
            let max = claimable(options.concurrency, handling.len(), settling.len());
            if !is_claiming && max > 0 {
                claiming.set(self.claim_with_retry(max).fuse());
                is_claiming = true;
            }
            tokio::select! {
                biased;
                () = &mut stop => break,
                Some(handled) = handling.next() => settling.push(settle(handled, options)),
                Some(outcome) = settling.next() => stats.count(&outcome),
                claimed = &mut claiming, if is_claiming => {
                    is_claiming = false;
                    for claim in claimed? {
                        handling.push(handle(claim, &handler));
                    }
                }
            }
        }
        // A claim in flight is released in the background.
        claiming.set(future::Fuse::terminated());
        let grace = Deadline::after(options.grace);
        let ending = async {
            loop {
                tokio::select! {
                    biased;
                    Some(handled) = handling.next() => settling.push(settle(handled, options)),
                    Some(outcome) = settling.next() => stats.count(&outcome),
                    else => break,
                }
            }
        };
        if grace.bound(ending).await.is_none() {
            tracing::warn!(path = %self.path(), left = handling.len(), "handlers exceeded the grace period and are dropped");
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

/// Returns how many items to claim while so many are handled and settled.
///
/// A free handler does not wait until the item before is settled: that request and the next claim are sent together. So
/// there are at most twice as many claims as handlers.
const fn claimable(concurrency: usize, handled: usize, settled: usize) -> usize {
    let free = concurrency.saturating_sub(handled);
    let allowed = concurrency
        .saturating_mul(2)
        .saturating_sub(handled + settled);
    if free < allowed { free } else { allowed }
}

/// Runs the handler of an item.
async fn handle<T, F, E>(claim: Claim<T>, handler: &impl Fn(Delivery<T>) -> F) -> Handled
where
    F: Future<Output = Result<(), E>>,
    E: fmt::Display,
{
    let (delivery, mut held) = claim.split();
    tokio::select! {
        biased;
        loss = held.lost() => {
            tracing::warn!(path = %held.identity.item, ?loss, "the claim was lost while its item was processed");
            held.time.outcome = DeliveryOutcome::Lost;
            Handled::Lost
        }
        handled = catch_panic(async { handler(delivery).await.map_err(|error| error.to_string()) }) => {
            Handled::Finished(held, handled)
        }
    }
}

/// Settles the claim of an item that was handled.
async fn settle(handled: Handled, options: &WorkerOptions) -> HandlerOutcome {
    let Handled::Finished(held, result) = handled else {
        return HandlerOutcome::Lost;
    };
    let path = held.identity.item.clone();
    let (settled, outcome) = match result {
        Ok(()) => (held.acknowledge().await, HandlerOutcome::Acknowledged),
        Err(reason) => {
            let chance = || draw_fraction((path.as_str(), held.deliveries));
            let delay = options.delay_after(held.deliveries, chance);
            (held.reject(delay, reason).await, HandlerOutcome::Rejected)
        }
    };
    match settled {
        Ok(()) => outcome,
        // The claim is released.
        Err(Unsettled { error, .. }) => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_has_at_most_twice_as_many_claims_as_handlers() {
        for (concurrency, handled, settled, expected) in [
            (1, 0, 0, 1),
            (1, 0, 1, 1),
            (1, 1, 1, 0),
            (1, 0, 2, 0),
            (64, 0, 64, 64),
            (64, 0, 100, 28),
            (64, 60, 64, 4),
            (64, 60, 68, 0),
            (64, 0, 200, 0),
            (usize::MAX, 7, 9, usize::MAX - 16),
        ] {
            assert_eq!(
                claimable(concurrency, handled, settled),
                expected,
                "{concurrency}, {handled}, {settled}"
            );
        }
    }
}
