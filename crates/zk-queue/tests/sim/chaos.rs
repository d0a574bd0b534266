//! Random faults, clients and drops together, by seed.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use zk_core::codec::Text;
use zk_core::{ErrorClass, Session};
use zk_queue::{
    CancelError, CancelOutcome, ItemId, OfferError, Queue, QueueOptions, SettleError, TakeError,
    WorkOptions, WorkQueue,
};
use zk_sim::{Chaos, Check, Checked, Ensemble, matching};

use crate::{PATH, ephemerals, pass, soon, triggered};

/// What happened to the items.
#[derive(Debug, Default)]
struct Record {
    offered: BTreeSet<String>,
    /// The items whose ids are known.
    ids: Vec<(String, ItemId)>,
    /// How many of them were removed by their ids.
    cancelled: usize,
    /// The outcome of their offers is unknown.
    maybe_offered: BTreeSet<String>,
    /// How often each one was delivered.
    delivered: BTreeMap<String, usize>,
    /// The outcome of a take, cancellation or settlement of theirs is unknown.
    maybe_taken: BTreeSet<String>,
    /// How many takes were dropped and not settled when their session ended: one item of each cannot be put back.
    unsettled: usize,
    acknowledged: BTreeSet<String>,
    /// Items that were delivered after they had been acknowledged.
    late: Vec<String>,
}

impl Record {
    fn deliver(&mut self, item: &str) {
        *self.delivered.entry(item.to_owned()).or_default() += 1;
        if self.acknowledged.contains(item) {
            self.late.push(item.to_owned());
        }
    }

    fn offer(&mut self, item: &str, id: Option<&ItemId>) {
        self.offered.insert(item.to_owned());
        self.ids.extend(id.map(|id| (item.to_owned(), id.clone())));
    }

    /// Returns one of the newest items with a known id.
    fn newest(&self, random: &mut fastrand::Rng) -> Option<(String, ItemId)> {
        let newest = self.ids.len().checked_sub(random.usize(1..4))?;
        self.ids.get(newest).cloned()
    }

    /// Notes the outcome of a cancellation in a work queue.
    fn cancel_work(&mut self, item: String, outcome: &Result<CancelOutcome, CancelError>) {
        match outcome {
            Ok(CancelOutcome::Removed) => {
                self.deliver(&item);
                self.acknowledged.insert(item);
                self.cancelled += 1;
            }
            // Not a delivery: another consumer may have had it before.
            Err(CancelError::Unknown(_)) => {
                self.maybe_taken.insert(item);
            }
            Ok(_) | Err(_) => {}
        }
    }

    fn times(&self, item: &str) -> usize {
        self.delivered.get(item).copied().unwrap_or(0)
    }
}

type Shared = Arc<Mutex<Record>>;

/// What the runs did, which shows whether they prove anything.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    items: usize,
    cancelled: usize,
}

impl Counts {
    fn and(self, other: Self) -> Self {
        Self {
            items: self.items + other.items,
            cancelled: self.cancelled + other.cancelled,
        }
    }

    fn judge(self, checked: &Checked) {
        println!("{self:?} in {checked}");
        assert!(self.items > 50 * checked.seeds, "{self:?} prove nothing");
        assert!(self.cancelled > checked.seeds / 4, "{self:?} prove nothing");
    }
}

/// Opens a session as soon as a server grants one.
async fn open(ensemble: &Ensemble) -> Session {
    ensemble.connect().within(Duration::from_secs(600)).await
}

async fn produce(ensemble: Ensemble, setting: Setting, record: Shared, me: u64) {
    let Setting { options, at_once } = setting;
    let mut next = 0;
    'sessions: loop {
        let session = open(&ensemble).await;
        let queue = Queue::with_options(&session, PATH, Text, &options).unwrap();
        while next < ITEMS {
            let items: Vec<_> = (next..next + at_once)
                .map(|number| format!("{me} {number:03}"))
                .collect();
            next += at_once;
            let offers = items.iter().map(|item| queue.offer(item).into_future());
            let mut is_over = false;
            for (item, offered) in items.iter().zip(join_all(offers).await) {
                let mut record = record.lock().unwrap();
                match &offered {
                    Ok(id) => record.offer(item, id.as_ref()),
                    Err(error) => {
                        if matches!(error, OfferError::Unknown(_)) {
                            record.maybe_offered.insert(item.clone());
                        }
                        is_over |= error.class() == ErrorClass::Fatal;
                        assert_ne!(error.class(), ErrorClass::Outcome, "{error:?}");
                    }
                }
            }
            if is_over {
                continue 'sessions;
            }
            pass(Duration::from_millis(20)).await;
        }
        return;
    }
}

async fn consume(ensemble: Ensemble, options: QueueOptions, record: Shared, me: u64) {
    let mut random = fastrand::Rng::with_seed(me);
    let mut rounds = 0;
    'sessions: loop {
        let session = open(&ensemble).await;
        let queue = Queue::with_options(&session, PATH, Text, &options).unwrap();
        let mut last: BTreeMap<String, String> = BTreeMap::new();
        let mut unsettled = 0;
        while rounds < 150 {
            rounds += 1;
            if session.settled().now_or_never().is_some() && !session.state().is_lost() {
                unsettled = 0;
            }
            let newest = record.lock().unwrap().newest(&mut random);
            if let Some((item, id)) = newest.filter(|_| random.u8(0..4) == 0) {
                let outcome = queue.cancel(&id).await;
                let mut record = record.lock().unwrap();
                match outcome {
                    Ok(CancelOutcome::Removed) => {
                        record.deliver(&item);
                        record.cancelled += 1;
                    }
                    Ok(outcome) => assert_eq!(outcome, CancelOutcome::Gone),
                    Err(error) => {
                        if matches!(error, CancelError::Unknown(_)) {
                            record.maybe_taken.insert(item);
                        }
                        if error.class() == ErrorClass::Fatal {
                            record.unsettled += unsettled;
                            continue 'sessions;
                        }
                        assert_eq!(error.class(), ErrorClass::Recoverable, "{error:?}");
                    }
                }
                continue;
            }
            let taken = match random.u8(0..4) {
                0 => queue.poll_batch(3).await,
                1 => {
                    let max_wait = Duration::from_millis(random.u64(1..60));
                    if let Ok(taken) = tokio::time::timeout(max_wait, queue.take()).await {
                        taken.map(|item| vec![item])
                    } else {
                        unsettled += 1;
                        Ok(Vec::new())
                    }
                }
                _ => queue
                    .take_timeout(Duration::from_millis(200))
                    .await
                    .map(Vec::from_iter),
            };
            match taken {
                Ok(items) => {
                    for item in items {
                        let (producer, _) = item.split_once(' ').unwrap();
                        last.insert(producer.to_owned(), item.clone());
                        record.lock().unwrap().deliver(&item);
                    }
                }
                Err(TakeError::Unknown(unknown)) => {
                    let mut record = record.lock().unwrap();
                    for (_, data) in &unknown.items {
                        record
                            .maybe_taken
                            .insert(String::from_utf8(data.clone()).unwrap());
                    }
                    if unknown.source.is_fatal() {
                        record.unsettled += unsettled;
                        continue 'sessions;
                    }
                }
                Err(error) if error.class() == ErrorClass::Fatal => {
                    record.lock().unwrap().unsettled += unsettled;
                    continue 'sessions;
                }
                Err(error) => assert_eq!(error.class(), ErrorClass::Recoverable, "{error:?}"),
            }
        }
        // Items of dropped calls are put back before this returns.
        soon("it settles", async {
            tokio::select! {
                biased;
                _ = session.lost() => record.lock().unwrap().unsettled += unsettled,
                () = session.settled() => {}
            }
        })
        .await;
        return;
    }
}

fn chaos() -> Chaos {
    Chaos::default()
        .lasting(Duration::from_secs(6))
        .every(Duration::from_millis(150))
        .longest(Duration::from_secs(16))
}

async fn all_of(tasks: Vec<tokio::task::JoinHandle<()>>, ensemble: &Ensemble) {
    let disturbing = tokio::spawn(chaos().run(ensemble));
    for task in tasks {
        let ended = tokio::time::timeout(Duration::from_secs(1800), task).await;
        ended
            .unwrap_or_else(|_| panic!("a task waits for ever: {:?}", ensemble.tree().paths()))
            .unwrap();
    }
    disturbing.await.unwrap();
    // The ephemeral nodes of ended sessions are deleted.
    pass(Duration::from_secs(60)).await;
}

/// What the producers of a queue do.
#[derive(Debug, Clone)]
struct Setting {
    options: QueueOptions,
    /// How many items each of them offers concurrently, so that the offers are joined.
    at_once: u64,
}

async fn run_queue(ensemble: Ensemble, seed: u64, at_once: u64) -> Counts {
    let options =
        QueueOptions::default().with_segment_size(if seed.is_multiple_of(2) { 5 } else { 1000 });
    let record = Shared::default();
    let mut tasks = Vec::new();
    for me in 0..3 {
        tasks.push(tokio::spawn(produce(
            ensemble.clone(),
            Setting {
                options: options.clone(),
                at_once,
            },
            Arc::clone(&record),
            me,
        )));
        let consuming = consume(
            ensemble.clone(),
            options.clone(),
            Arc::clone(&record),
            seed * 10 + me,
        );
        tasks.push(tokio::spawn(consuming));
    }
    all_of(tasks, &ensemble).await;
    let session = ensemble.connect().await;
    let queue = Queue::with_options(&session, PATH, Text, &options).unwrap();
    let drained = queue.drain().await;
    drained.end.unwrap();
    let mut record = record.lock().unwrap();
    for item in drained.items {
        record.deliver(&item);
    }
    for (item, times) in &record.delivered {
        assert!(
            record.offered.contains(item) || record.maybe_offered.contains(item),
            "seed {seed}: {item} came from nowhere"
        );
        assert_eq!(*times, 1, "seed {seed}: {item} was delivered {times} times");
    }
    let is_gone = |item: &&String| record.times(item) == 0 && !record.maybe_taken.contains(*item);
    let gone: Vec<_> = record.offered.iter().filter(is_gone).collect();
    // A consumer whose session ended could not put an item back any more.
    assert!(
        gone.len() <= record.unsettled,
        "seed {seed}: {gone:?} were lost, at most {} may be",
        record.unsettled
    );
    Counts {
        items: record.delivered.len(),
        cancelled: record.cancelled,
    }
}

#[test]
fn chaos_takes_every_item_once() {
    chaos_of_a_queue(1);
}

/// Ten offers at once: the second transaction has nine of them.
#[test]
fn chaos_takes_every_item_of_joined_offers_once() {
    chaos_of_a_queue(10);
}

fn chaos_of_a_queue(at_once: u64) {
    let items = Cell::new(Counts::default());
    let ensemble = Ensemble::builder().reap_every(Duration::from_millis(700));
    let checked = Check::new(0..SEEDS)
        .seeds_from_env()
        .ensemble(ensemble)
        .run(async |ensemble, seed| {
            items.set(items.get().and(run_queue(ensemble, seed, at_once).await));
        });
    items.get().judge(&checked);
}

async fn offer_work(ensemble: Ensemble, options: WorkOptions, record: Shared, me: u64) {
    let mut next = 0;
    'sessions: loop {
        let session = open(&ensemble).await;
        let queue = WorkQueue::with_options(&session, PATH, Text, &options).unwrap();
        while next < ITEMS {
            let item = format!("{me} {next:03}");
            next += 1;
            let offer = queue
                .offer(&item)
                .priority(i32::try_from(next % 3).unwrap());
            match offer.await {
                Ok(id) => record.lock().unwrap().offer(&item, id.as_ref()),
                Err(error) => {
                    if matches!(error, OfferError::Unknown(_)) {
                        record.lock().unwrap().maybe_offered.insert(item);
                    }
                    match error.class() {
                        ErrorClass::Fatal => continue 'sessions,
                        class => assert_eq!(class, ErrorClass::Recoverable, "{error:?}"),
                    }
                }
            }
            pass(Duration::from_millis(20)).await;
        }
        return;
    }
}

async fn work(ensemble: Ensemble, options: WorkOptions, record: Shared, me: u64) {
    let mut random = fastrand::Rng::with_seed(me);
    let mut rounds = 0;
    'sessions: loop {
        let session = open(&ensemble).await;
        let queue = WorkQueue::with_options(&session, PATH, Text, &options).unwrap();
        while rounds < 120 {
            rounds += 1;
            let newest = record.lock().unwrap().newest(&mut random);
            if let Some((item, id)) = newest.filter(|_| random.u8(0..4) == 0) {
                let outcome = queue.cancel(&id).await;
                record.lock().unwrap().cancel_work(item, &outcome);
                if let Err(error) = outcome {
                    match error.class() {
                        ErrorClass::Fatal => continue 'sessions,
                        class => assert_eq!(class, ErrorClass::Recoverable, "{error:?}"),
                    }
                }
                continue;
            }
            let claim = match queue.claim_timeout(Duration::from_millis(200)).await {
                Ok(Some(claim)) => claim,
                Ok(None) => continue,
                Err(error) if error.class() == ErrorClass::Fatal => continue 'sessions,
                Err(error) => {
                    assert_eq!(error.class(), ErrorClass::Recoverable, "{error:?}");
                    continue;
                }
            };
            let item = claim.item().clone();
            record.lock().unwrap().deliver(&item);
            let pause = Duration::from_millis(random.u64(0..40));
            drop(tokio::time::timeout(pause, claim.lost()).await);
            let settled = match random.u8(0..6) {
                0 => {
                    drop(claim);
                    continue;
                }
                1 => claim.reject(Duration::ZERO, "by chance").await,
                2 => {
                    claim
                        .reject(Duration::from_millis(random.u64(1..400)), "by chance")
                        .await
                }
                _ => {
                    let settled = claim.acknowledge().await;
                    if settled.is_ok() {
                        record.lock().unwrap().acknowledged.insert(item.clone());
                    }
                    settled
                }
            };
            if let Err(failed) = &settled
                && let SettleError::Unknown(_) = failed.error
            {
                record.lock().unwrap().maybe_taken.insert(item);
            }
            if settled.is_err_and(|error| error.class() == ErrorClass::Fatal) {
                continue 'sessions;
            }
        }
        return;
    }
}

async fn run_work(ensemble: Ensemble, seed: u64) -> Counts {
    let options = WorkOptions::default().with_max_deliveries(1000);
    let options = options.with_segment_size(if seed.is_multiple_of(2) { 5 } else { 1000 });
    let record = Shared::default();
    let mut tasks = Vec::new();
    for me in 0..3 {
        let (ensemble, record) = (ensemble.clone(), Arc::clone(&record));
        tasks.push(tokio::spawn(offer_work(
            ensemble.clone(),
            options.clone(),
            Arc::clone(&record),
            me,
        )));
        tasks.push(tokio::spawn(work(
            ensemble,
            options.clone(),
            record,
            seed * 10 + me,
        )));
    }
    all_of(tasks, &ensemble).await;
    let session = ensemble.connect().await;
    let queue = WorkQueue::with_options(&session, PATH, Text, &options).unwrap();
    while let Some(claim) = queue.claim_timeout(Duration::from_secs(5)).await.unwrap() {
        record.lock().unwrap().deliver(claim.item());
        claim.acknowledge().await.unwrap();
    }
    assert!(queue.is_empty().await.unwrap(), "seed {seed}");
    assert_eq!(queue.claims().await.unwrap(), [], "seed {seed}");
    drop(queue);
    soon("it settles", session.settled()).await;
    assert_eq!(ephemerals(&ensemble), [""; 0], "seed {seed}");
    let record = record.lock().unwrap();
    assert_eq!(
        record.late, [""; 0],
        "seed {seed}: delivered after it was acknowledged"
    );
    for item in record.delivered.keys() {
        assert!(
            record.offered.contains(item) || record.maybe_offered.contains(item),
            "seed {seed}: {item} came from nowhere"
        );
    }
    for item in &record.offered {
        let is_known = record.times(item) >= 1 || record.maybe_taken.contains(item);
        assert!(is_known, "seed {seed}: {item} was lost");
    }
    Counts {
        items: record.delivered.len(),
        cancelled: record.cancelled,
    }
}

#[test]
fn chaos_delivers_work_at_least_once_and_none_after_its_ack() {
    let items = Cell::new(Counts::default());
    let ensemble = Ensemble::builder().reap_every(Duration::from_millis(700));
    let checked = Check::new(0..SEEDS)
        .seeds_from_env()
        .ensemble(ensemble)
        .run(async |ensemble, seed| items.set(items.get().and(run_work(ensemble, seed).await)));
    items.get().judge(&checked);
}

/// A partitioned consumer does not learn that another one was first.
#[tokio::test(start_paused = true)]
async fn a_cancellation_with_an_unknown_outcome_is_not_a_delivery() {
    let ensemble = Ensemble::new(3);
    let (partitioned, other) = (ensemble.connect().await, ensemble.connect().await);
    let item = "1".to_owned();
    let id = crate::work(&other).offer(&item).await.unwrap().unwrap();
    let stalled = ensemble
        .on(matching::transactions("/queues/a/items/*"))
        .session(partitioned.id())
        .stall();
    let cancelling = {
        let (queue, id) = (crate::work(&partitioned), id.clone());
        tokio::spawn(async move { queue.cancel(&id).await })
    };
    triggered(&stalled).await;
    ensemble.session(partitioned.id()).partition();

    let mut record = Record::default();
    let first = crate::work(&other).cancel(&id).await;
    assert!(matches!(first, Ok(CancelOutcome::Removed)), "{first:?}");
    record.cancel_work(item.clone(), &first);
    let second = soon("it fails", cancelling).await.unwrap();
    assert!(matches!(second, Err(CancelError::Unknown(_))), "{second:?}");
    record.cancel_work(item.clone(), &second);
    assert_eq!(record.late, [""; 0]);
    assert_eq!(record.times(&item), 1);
}

const SEEDS: u64 = 40;
const ITEMS: u64 = 40;
