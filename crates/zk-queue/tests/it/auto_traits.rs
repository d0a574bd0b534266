//! Which public types and futures are `Send` and `Sync`, checked by the compiler.

use std::time::Duration;

use zk_queue::*;

fn is_send<T: Send>() {}
fn is_sync<T: Sync>() {}
fn is_clone<T: Clone>() {}
fn is_error<T: std::error::Error + Send + Sync + 'static>() {}
fn is_send_future<T: 'static, F: Future + Send>(_: impl Fn(&'static T) -> F) {}
fn is_send_value<T: Send>(_: &T) {}

macro_rules! send_sync_clone {
    ($($type:ty),* $(,)?) => { $( is_send::<$type>(); is_sync::<$type>(); is_clone::<$type>(); )* };
}

type Text = Queue<String>;
type Work = WorkQueue<String>;

#[test]
fn public_types_are_send_and_sync() {
    send_sync_clone!(
        CancelOutcome,
        CancelledItems,
        ClaimInfo,
        DeadLetter,
        ItemId,
        Layout,
        ClaimLoss,
        PreparedOffer,
        QueueCounts,
        QueueOptions,
        WorkStats,
        Text,
        UnknownTake,
        Work,
        WorkCounts,
        WorkLayout,
        WorkOptions,
        WorkerOptions,
    );
    is_send::<Claim<String>>();
    is_sync::<Claim<String>>();
    is_send::<Delivery<String>>();
    is_sync::<Delivery<String>>();
    is_send::<Drained<String>>();
    is_send::<Offer>();
    is_send::<OfferAll>();
    is_error::<CancelError>();
    is_error::<DeadLetterError>();
    is_error::<LayoutError>();
    is_error::<DeadLetterBatchError>();
    is_error::<NotSettled<String>>();
    is_error::<OfferAllError>();
    is_error::<OfferError>();
    is_error::<ParseItemIdError>();
    is_error::<PathError>();
    is_error::<SettleError>();
    is_error::<TakeError>();
}

#[test]
fn public_futures_are_send() {
    is_send_future(Text::peek);
    is_send_future(Text::element);
    is_send_future(Text::poll);
    is_send_future(Text::remove);
    is_send_future(Text::take);
    is_send_future(|queue: &Text| queue.take_timeout(Duration::ZERO));
    is_send_future(|queue: &Text| queue.poll_batch(1));
    is_send_future(Text::drain);
    is_send_future(|queue: &Text| async {
        queue.cancel(&"/q/qn-0000000000@1".parse().unwrap()).await
    });
    is_send_future(|queue: &Work| async {
        queue.cancel(&"/q/qn-0000000000@1".parse().unwrap()).await
    });
    is_send_future(|queue: &Text| queue.cancel_with_id("7"));
    is_send_future(|queue: &Work| queue.cancel_with_id("7"));
    is_send_future(Text::len);
    is_send_future(Text::counts);
    is_send_future(Text::oldest_age);
    is_send_future(|queue: &Text| queue.offer(&String::new()).commit_with(|txn| txn));
    is_send_future(|queue: &Text| queue.offer(&String::new()).prepare());
    is_send_future(Work::claim);
    is_send_future(Work::try_claim);
    is_send_future(Work::claims);
    is_send_future(Work::len);
    is_send_future(Work::counts);
    is_send_future(Work::oldest_age);
    is_send_future(Work::dead_letters);
    is_send_future(|queue: &Work| queue.dead_letter_page(Some(""), 1));
    is_send_future(|queue: &Work| queue.redrive_up_to(1));
    is_send_future(|queue: &Work| queue.discard_older_than(Duration::ZERO, 1));
    is_send_future(Claim::<String>::lost);
    let _ = |queue: Text| is_send_value(&queue.into_stream());
    let _ = |queue: Work| is_send_value(&queue.into_stream());
    let _ = |claim: Claim<String>| is_send_value(&claim.acknowledge());
    let _ = |claims: Vec<Claim<String>>| is_send_value(&Claim::acknowledge_all(claims));
    let _ = |claim: Claim<String>| is_send_value(&claim.reject(Duration::ZERO, ""));
    let _ = |claim: Claim<String>| is_send_value(&claim.bury(""));
    let _ = |queue: &'static Work| {
        let handler = async |delivery: Delivery<String>| Err::<(), _>(delivery.into_item());
        let options = WorkerOptions::default();
        is_send_value(&async move {
            queue
                .work_until(std::future::pending(), &options, handler)
                .await
        });
    };
}
