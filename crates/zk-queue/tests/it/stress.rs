//! Workers and consumers under stress: many items in flight, handlers that panic, two formats, consumers of equal
//! speed, servers that are away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Barrier, Semaphore};
use tokio::task::JoinSet;
use zk_core::codec::{Codec, DecodeError, EncodeError, Text};
use zk_harness::Ensemble;
use zk_queue::{Delivery, Queue, WorkOptions, WorkQueue, WorkerOptions};

use crate::{connect, with_servers};

/// Waits at most four minutes: several scenarios run concurrently.
fn within<T>(what: &str, happening: impl Future<Output = T>) -> impl Future<Output = T> {
    zk_testkit::within(Duration::from_secs(240), what, happening)
}

/// Polls a condition until it holds.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    within(what, async {
        let mut looks = tokio::time::interval(Duration::from_millis(50));
        while !is_so().await {
            looks.tick().await;
        }
    })
    .await;
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn stress_on_real_servers_matches_the_simulated_ensemble() {
    with_servers(3, async |ensemble| {
        tokio::join!(
            Box::pin(many_items_are_processed_at_once(ensemble)),
            Box::pin(a_panic_ends_its_delivery_alone(ensemble)),
            Box::pin(a_new_format_waits_for_who_reads_it(ensemble)),
            Box::pin(none_of_eight_consumers_starves(ensemble)),
        );
        Box::pin(a_claim_is_acknowledged_when_the_servers_are_back(ensemble)).await;
    })
    .await;
}

async fn many_items_are_processed_at_once(ensemble: &Ensemble) {
    const ITEMS: usize = 2_000;
    let session = connect(ensemble).await;
    let queue = WorkQueue::new(&session, "/many", Text).unwrap();
    queue.offer_all(texts(ITEMS)).await.unwrap();
    let (running, open) = (AtomicUsize::new(0), Semaphore::new(0));
    let handler = async |_| {
        running.fetch_add(1, Ordering::SeqCst);
        // An item whose claim is lost is delivered a second time.
        drop(open.acquire().await.expect("it stays open"));
        Ok::<_, String>(())
    };
    // The worker has capacity for more, so it waits for further items meanwhile.
    let options = WorkerOptions::default().with_concurrency(ITEMS + 1_000);
    let stop = async {
        let all_run = async || running.load(Ordering::SeqCst) >= ITEMS;
        until("all are being processed", all_run).await;
        open.add_permits(ITEMS);
        until("all are done", async || queue.is_empty().await.unwrap()).await;
    };
    let tally = within("it ends", queue.work_until(stop, &options, handler)).await;
    assert_eq!(tally.unwrap().acknowledged, 2_000);
    session.close().await.unwrap();
}

async fn a_panic_ends_its_delivery_alone(ensemble: &Ensemble) {
    let session = connect(ensemble).await;
    let options = WorkOptions::default().with_max_deliveries(2);
    let queue = WorkQueue::with_options(&session, "/panics", Text, &options).unwrap();
    queue.offer_all(texts(20)).await.unwrap();
    let again = AtomicUsize::new(0);
    let handler = async |delivery: Delivery<String>| {
        let is_poison = delivery.item() == "7";
        again.fetch_add(
            usize::from(delivery.deliveries() > 1 && !is_poison),
            Ordering::SeqCst,
        );
        // The others are being processed by then.
        tokio::task::yield_now().await;
        assert!(!is_poison, "it is poison");
        Ok::<_, String>(())
    };
    let delay = Duration::from_millis(50);
    let worker = WorkerOptions::default()
        .with_concurrency(8)
        .with_delays(delay, delay);
    let stop = until("all are done", async || queue.is_empty().await.unwrap());
    let tally = within("it ends", queue.work_until(stop, &worker, handler)).await;
    let tally = tally.unwrap();
    assert_eq!((tally.acknowledged, tally.rejected), (19, 2));
    assert_eq!(again.into_inner(), 0);
    let letters = queue.dead_letters().await.unwrap();
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert!(letters[0].reason.contains("it is poison"), "{letters:?}");
    session.close().await.unwrap();
}

/// Text in two versions, of which the earlier one does not know the later.
struct Format {
    is_new: bool,
}

impl Codec<String> for Format {
    fn encode(&self, value: &String) -> Result<Vec<u8>, EncodeError> {
        Text.encode(value)
    }

    fn decode(&self, data: &[u8]) -> Result<String, DecodeError> {
        let is_known = self.is_new || !data.starts_with(b"new");
        Text.decode(if is_known { data } else { b"\xff" })
    }
}

async fn a_new_format_waits_for_who_reads_it(ensemble: &Ensemble) {
    let (one, two) = (connect(ensemble).await, connect(ensemble).await);
    let work = |session, is_new| WorkQueue::new(session, "/formats", Format { is_new }).unwrap();
    let (old, new) = (work(&one, false), work(&two, true));
    new.offer_all(["old 1", "new 1", "new 2", "old 2"].map(str::to_owned))
        .await
        .unwrap();
    let done = std::sync::Mutex::new(Vec::new());
    let handler = async |delivery: Delivery<String>| {
        done.lock().unwrap().push(delivery.into_item());
        Ok::<_, String>(())
    };
    let options = WorkerOptions::default();
    let stop = || until("all are done", async || new.is_empty().await.unwrap());
    let late = async {
        // The old worker has seen all of them by then.
        until("the old ones are done", async || {
            done.lock().unwrap().len() == 2
        })
        .await;
        new.work_until(stop(), &options, handler).await
    };
    let both = async { tokio::join!(old.work_until(stop(), &options, handler), late) };
    let (old_tally, new_tally) = within("both end", both).await;
    assert_eq!(new.dead_letters().await.unwrap(), []);
    assert_eq!(old_tally.unwrap().acknowledged, 2);
    assert_eq!(new_tally.unwrap().acknowledged, 2);
    for session in [one, two] {
        session.close().await.unwrap();
    }
}

async fn none_of_eight_consumers_starves(ensemble: &Ensemble) {
    const ITEMS: usize = 2_000;
    let session = connect(ensemble).await;
    let queue = Queue::new(&session, "/equals", Text).unwrap();
    queue.offer_all(texts(ITEMS)).await.unwrap();
    let start = Arc::new(Barrier::new(8));
    let mut consumers = JoinSet::new();
    for _ in 0..8 {
        let session = connect(ensemble).await;
        let start = Arc::clone(&start);
        consumers.spawn(async move {
            let queue = Queue::new(&session, "/equals", Text).unwrap();
            let mut taken = Vec::new();
            start.wait().await;
            while let Some(item) = queue.poll().await.unwrap() {
                taken.push(item);
            }
            session.close().await.unwrap();
            taken
        });
    }
    let taken = within("all are taken", consumers.join_all()).await;
    let counts: Vec<_> = taken.iter().map(Vec::len).collect();
    let mut all: Vec<_> = taken.into_iter().flatten().collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!((all.len(), counts.iter().sum::<usize>()), (ITEMS, ITEMS));
    assert!(counts.iter().all(|count| *count >= 25), "{counts:?}");
    session.close().await.unwrap();
}

/// The outage is longer than the operation timeout, and shorter than the session timeout.
async fn a_claim_is_acknowledged_when_the_servers_are_back(ensemble: &Ensemble) {
    let session = connect(ensemble).await;
    let quick = session.with_operation_timeout(Duration::from_secs(1));
    let patient = WorkQueue::new(&session, "/max_wait", Text).unwrap();
    patient.offer(&"1".to_owned()).await.unwrap();
    let queue = WorkQueue::new(&quick, "/max_wait", Text).unwrap();
    let claim = within("it is claimed", async {
        loop {
            match queue.try_claim().await {
                Ok(Some(claim)) => break claim,
                // On a busy machine an attempt may fail, and what it has claimed is released in the background.
                other => println!("once more: {other:?}"),
            }
        }
    })
    .await;
    for server in ensemble.servers() {
        server.pause().await.unwrap();
    }
    let acknowledging = tokio::spawn(claim.acknowledge());
    let away = tokio::time::timeout(Duration::from_secs(4), std::future::pending::<()>());
    assert!(away.await.is_err());
    assert!(!acknowledging.is_finished(), "it gave up");
    for server in ensemble.servers() {
        server.resume().await.unwrap();
    }
    within("it is acknowledged", acknowledging)
        .await
        .unwrap()
        .unwrap();
    assert!(patient.is_empty().await.unwrap());
    assert_eq!(patient.dead_letters().await.unwrap(), []);
    session.close().await.unwrap();
}
