//! Which public types and futures are `Send` and `Sync`, checked by the compiler.

use std::future::pending;
use std::time::Duration;

use zk_queue::*;
use zk_testkit::{assert_impl, assert_send_futures};

type Text = Queue<String>;
type Work = WorkQueue<String>;

const ZERO: Duration = Duration::ZERO;

#[test]
fn public_types_are_send_and_sync() {
    assert_impl! {
        Send + Sync + Clone:
            CancelOutcome, CancelledItems, ClaimInfo, ClaimLoss, DeadLetter, ItemId, Layout, PreparedOffer,
            QueueCounts, QueueOptions, Text, UnknownTake, Work, WorkCounts, WorkLayout, WorkOptions, WorkStats,
            WorkerOptions;
        Send + Sync: Claim<String>, Delivery<String>;
        Send: Drained<String>, Offer, OfferAll;
        Error + Send + Sync:
            CancelError, DeadLetterBatchError, DeadLetterError, LayoutError, NotSettled<String>, OfferAllError,
            OfferError, ParseItemIdError, PathError, SettleError, TakeError;
    }
}

#[test]
fn public_futures_are_send() {
    let handler = async |delivery: Delivery<String>| Err::<(), _>(delivery.into_item());
    assert_send_futures! {
        (queue: Text) =>
            queue.peek(), queue.element(), queue.poll(), queue.remove(), queue.take(), queue.take_timeout(ZERO),
            queue.poll_batch(1), queue.drain(), queue.cancel_with_id("7"), queue.len(), queue.counts(),
            queue.oldest_age(), queue.offer(&String::new()).commit_with(|txn| txn),
            queue.offer(&String::new()).prepare(), queue.into_stream();
        (queue: Work) =>
            queue.claim(), queue.try_claim(), queue.claims(), queue.len(), queue.counts(), queue.oldest_age(),
            queue.dead_letters(), queue.dead_letter_page(Some(""), 1), queue.redrive_up_to(1),
            queue.discard_older_than(ZERO, 1), queue.cancel_with_id("7"), queue.into_stream();
        (queue: Text, item: ItemId) => queue.cancel(&item);
        (queue: Work, item: ItemId) => queue.cancel(&item);
        (claim: Claim<String>) =>
            claim.lost(), claim.acknowledge(), claim.reject(ZERO, ""), claim.bury("");
        (claims: Vec<Claim<String>>) => Claim::acknowledge_all(claims);
        (queue: Work, options: WorkerOptions) => queue.work_until(pending(), &options, handler);
    }
}
