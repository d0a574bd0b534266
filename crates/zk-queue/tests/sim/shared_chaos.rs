//! Random faults while consumers of this crate and of another client share a path, by seed.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_core::codec::Text;
use zk_core::{Error, ErrorClass, Session};
use zk_queue::{OfferError, WorkLayout, WorkOptions, WorkQueue};
use zk_sim::{Chaos, Check, Ensemble};

use crate::other_client::{OtherClient, TheirItem, curator, parents};
use crate::{PATH, children, ephemerals, pass, soon};

/// What happened to the items.
#[derive(Debug, Default)]
struct Record {
    offered: BTreeSet<String>,
    maybe_offered: BTreeSet<String>,
    /// How often each one was delivered, to us and to the other client.
    delivered: BTreeMap<String, [usize; 2]>,
    /// The items for which a consumer of ours has a claim that it relies on.
    relied_on: BTreeSet<String>,
    /// Items that a consumer was certain to have finished.
    finished: BTreeSet<String>,
    /// Items that were delivered after that.
    late: Vec<String>,
    /// Items that expired consumers of the other client finished all the same.
    blind: BTreeSet<String>,
}

const OURS: usize = 0;
const THEIRS: usize = 1;

type Shared = Arc<Mutex<Record>>;

impl Record {
    fn deliver(&mut self, item: &str, to: usize) {
        self.delivered.entry(item.to_owned()).or_default()[to] += 1;
        if self.finished.contains(item) {
            self.late.push(item.to_owned());
        }
    }
}

async fn open(ensemble: &Ensemble) -> Session {
    ensemble.connect().within(Duration::from_secs(600)).await
}

fn queue(session: &Session, layout: &WorkLayout) -> WorkQueue<String> {
    let options = WorkOptions::default()
        .with_layout(layout.clone())
        .with_max_deliveries(1000);
    WorkQueue::with_options(session, PATH, Text, &options).unwrap()
}

async fn produce(ensemble: Ensemble, layout: WorkLayout, record: Shared, me: u64) {
    let mut next = 0;
    while next < ITEMS {
        let session = open(&ensemble).await;
        let queue = queue(&session, &layout);
        while next < ITEMS {
            let item = format!("{me} {next:03}");
            next += 1;
            match queue.offer(&item).await {
                Ok(_) => drop(record.lock().unwrap().offered.insert(item)),
                Err(error) => {
                    if matches!(error, OfferError::Unknown(_)) {
                        record.lock().unwrap().maybe_offered.insert(item);
                    }
                    if error.class() == ErrorClass::Fatal {
                        break;
                    }
                }
            }
            pass(Duration::from_millis(20)).await;
        }
    }
}

/// A consumer of this crate.
async fn consume(ensemble: Ensemble, layout: WorkLayout, record: Shared, me: u64) {
    let mut random = fastrand::Rng::with_seed(me);
    let mut rounds = 0;
    'sessions: while rounds < ROUNDS {
        let session = open(&ensemble).await;
        let queue = queue(&session, &layout);
        while rounds < ROUNDS {
            rounds += 1;
            let claim = match queue.claim_timeout(Duration::from_millis(200)).await {
                Ok(Some(claim)) => claim,
                Err(error) if error.class() == ErrorClass::Fatal => continue 'sessions,
                Ok(None) | Err(_) => continue,
            };
            let item = claim.item().clone();
            {
                let mut record = record.lock().unwrap();
                record.deliver(&item, OURS);
                let is_first = !claim.is_valid() || record.relied_on.insert(item.clone());
                assert!(is_first, "{item} has two valid claims");
            }
            let pause = Duration::from_millis(random.u64(0..60));
            drop(tokio::time::timeout(pause, claim.lost()).await);
            record.lock().unwrap().relied_on.remove(&item);
            let settled = match random.u8(0..6) {
                0 => {
                    drop(claim);
                    continue;
                }
                1 => claim.reject(Duration::ZERO, "by chance").await,
                2 => {
                    let delay = Duration::from_millis(random.u64(1..400));
                    claim.reject(delay, "by chance").await
                }
                _ => {
                    let settled = claim.acknowledge().await;
                    if settled.is_ok() {
                        record.lock().unwrap().finished.insert(item);
                    }
                    settled
                }
            };
            if settled.is_err_and(|error| error.class() == ErrorClass::Fatal) {
                continue 'sessions;
            }
        }
        soon("it settles", async {
            tokio::select! {
                biased;
                _ = session.lost() => {}
                () = session.settled() => {}
            }
        })
        .await;
    }
}

/// A consumer of the other client. One whose session expired sometimes finishes its item with the next session.
async fn consume_theirs(ensemble: Ensemble, layout: WorkLayout, record: Shared, me: u64) {
    let mut random = fastrand::Rng::with_seed(me);
    let mut rounds = 0;
    let mut unfinished: Option<TheirItem> = None;
    'sessions: while rounds < ROUNDS {
        let session = open(&ensemble).await;
        let client = OtherClient::new(&session, &layout);
        if let Some(taken) = unfinished.take()
            && random.bool()
        {
            record.lock().unwrap().blind.insert(taken.item.clone());
            // Its outcome does not matter to this client.
            drop(client.finish(&taken).await);
        }
        while rounds < ROUNDS {
            rounds += 1;
            let taken = match client.take().await {
                Ok(Some(taken)) => taken,
                Ok(None) => {
                    pass(Duration::from_millis(100)).await;
                    continue;
                }
                Err(error) if error.is_fatal() => continue 'sessions,
                Err(_) => continue,
            };
            {
                let mut record = record.lock().unwrap();
                record.deliver(&taken.item, THEIRS);
                let is_relied_on = record.relied_on.contains(&taken.item);
                assert!(!is_relied_on, "a consumer of ours relies on {taken:?}");
            }
            pass(Duration::from_millis(random.u64(0..60))).await;
            // While its session lives, the item and the claim are what they were.
            let seen = retry(|| async {
                let claim = session.exists(&taken.claim).await?;
                Ok((claim, session.exists(&taken.path).await?))
            });
            let Ok((claim, item)) = seen.await else {
                unfinished = Some(taken);
                continue 'sessions;
            };
            // An expired consumer of its own kind may have deleted either.
            if !record.lock().unwrap().blind.contains(&taken.item) {
                let owner = claim.and_then(|stat| stat.ephemeral_owner);
                assert_eq!(owner, Some(session.id()), "{taken:?} is another's");
                assert!(item.is_some(), "{taken:?} was deleted");
            }
            if random.u8(0..5) == 0 {
                // Like kazoo, it does not repeat this; the claim may remain as long as the session.
                drop(client.release(&taken).await);
                continue;
            }
            let ended = retry(|| async {
                match client.finish(&taken).await {
                    // A repetition, or an expired consumer was faster: there is nothing left to do.
                    Err(error) if error.is_no_node() => Ok(false),
                    ended => ended.map(|()| true),
                }
            });
            match ended.await {
                Ok(true) => drop(record.lock().unwrap().finished.insert(taken.item)),
                Ok(false) => {}
                Err(_) => {
                    unfinished = Some(taken);
                    continue 'sessions;
                }
            }
        }
        drop(session.close().await);
    }
}

/// Repeats requests until there is a reply or the session ends.
async fn retry<T, F>(requests: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    loop {
        match requests().await {
            Err(error) if error.class() == ErrorClass::Recoverable => {
                pass(Duration::from_millis(50)).await;
            }
            other => return other,
        }
    }
}

async fn run(ensemble: Ensemble, layout: WorkLayout, seed: u64) -> [usize; 2] {
    let record = Shared::default();
    let mut tasks = Vec::new();
    for me in 0..2 {
        let all = || (ensemble.clone(), layout.clone(), Arc::clone(&record));
        let (ours, l, r) = all();
        tasks.push(tokio::spawn(produce(ours, l, r, me)));
        let (ours, l, r) = all();
        tasks.push(tokio::spawn(consume(ours, l, r, seed * 10 + me)));
        let (ours, l, r) = all();
        tasks.push(tokio::spawn(consume_theirs(ours, l, r, seed * 10 + 5 + me)));
    }
    let chaos = Chaos::default()
        .lasting(Duration::from_secs(6))
        .every(Duration::from_millis(150))
        .longest(Duration::from_secs(16));
    let disturbing = tokio::spawn(chaos.run(&ensemble));
    for task in tasks {
        let ended = tokio::time::timeout(Duration::from_secs(1800), task).await;
        ended.expect("no task waits for ever").unwrap();
    }
    disturbing.await.unwrap();
    // The ephemeral nodes of ended sessions are deleted.
    pass(Duration::from_secs(60)).await;
    let session = ensemble.connect().await;
    let queue = queue(&session, &layout);
    while let Some(claim) = queue.claim_timeout(Duration::from_secs(5)).await.unwrap() {
        record.lock().unwrap().deliver(claim.item(), OURS);
        claim.acknowledge().await.unwrap();
    }
    assert_eq!(queue.claims().await.unwrap(), [], "seed {seed}");
    drop(queue);
    soon("it settles", session.settled()).await;
    assert_eq!(ephemerals(&ensemble), [""; 0], "seed {seed}");
    let (_, claims) = parents(&layout);
    assert_eq!(children(&ensemble, &claims), [""; 0], "seed {seed}");
    let record = record.lock().unwrap();
    assert_eq!(record.late, [""; 0], "seed {seed}: delivered when finished");
    let is_offered =
        |item: &&String| record.offered.contains(*item) || record.maybe_offered.contains(*item);
    assert!(record.delivered.keys().all(|item| is_offered(&item)));
    for item in &record.offered {
        let is_delivered = record.delivered.contains_key(item);
        assert!(is_delivered, "seed {seed}: {item} was lost");
    }
    let count = |who: usize| record.delivered.values().map(|times| times[who]).sum();
    [count(OURS), count(THEIRS)]
}

fn chaos_of(layout: &WorkLayout) {
    let delivered = Cell::new([0, 0]);
    let checked = Check::new(0..SEEDS)
        .seeds_from_env()
        .run(async |ensemble, seed| {
            let [ours, theirs] = run(ensemble, layout.clone(), seed).await;
            let before = delivered.get();
            delivered.set([before[0] + ours, before[1] + theirs]);
        });
    let [ours, theirs] = delivered.get();
    println!("{ours} deliveries to us, {theirs} to the other client, in {checked}");
    assert!(ours.min(theirs) > 20 * checked.seeds, "this proves nothing");
}

#[test]
fn chaos_shares_the_items_with_kazoos_locking_queue() {
    chaos_of(&WorkLayout::KazooLocking);
}

#[test]
fn chaos_shares_the_items_with_curators_queue_and_lock_path() {
    chaos_of(&curator());
}

const SEEDS: u64 = 40;
const ITEMS: u64 = 60;
const ROUNDS: usize = 120;
