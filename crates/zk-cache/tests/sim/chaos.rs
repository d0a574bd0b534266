//! Random changes and random faults at the same time, by seed.

use std::cell::Cell;
use std::time::Duration;

use zk_cache::{CacheOptions, Event, Events, Snapshot, TreeCache};
use zk_core::Session;
use zk_sim::{Chaos, Check, Disturbance, Ensemble};

use crate::replay::{Replay, nodes_of};
use crate::{ROOT, nodes_on, pass, soon};

/// Makes a number of random changes, with a new session after each session loss.
async fn write(ensemble: Ensemble, mut random: fastrand::Rng) {
    let mut session: Session = ensemble.connect().await;
    for round in 0..CHANGES {
        if session.state().is_lost() {
            session = ensemble.connect().await;
        }
        let path = match random.u8(0..10) {
            0 => ROOT.to_owned(),
            1..4 => format!("{ROOT}/{}", random.u8(0..3)),
            _ => format!("{ROOT}/{}/{}", random.u8(0..3), random.u8(0..3)),
        };
        let data = format!("{round}");
        match random.u8(0..10) {
            0..4 => drop(session.create(&path, data).parents().await),
            4..7 => drop(session.set(&path, data).await),
            7 => drop(session.delete(&path).recursive().await),
            8 => {
                // Deleted and created again in one transaction, with the same version.
                let again = session.transaction().delete(&path).create(&path, data);
                drop(again.commit().await);
            }
            _ => drop(session.delete(&path).await),
        }
        pass(Duration::from_micros(random.u64(0..150_000))).await;
    }
}

/// A cache that resumes on a new session after each session loss.
struct Reader {
    ensemble: Ensemble,
    options: CacheOptions,
    session: Session,
    cache: TreeCache,
    events: Events,
    replay: Replay,
    resumed: usize,
}

impl Reader {
    async fn new(ensemble: &Ensemble, options: CacheOptions) -> Self {
        let session = ensemble.connect().await;
        let cache = TreeCache::start_with(&session, ROOT, &options).unwrap();
        let events = cache.events();
        Self {
            ensemble: ensemble.clone(),
            options,
            session,
            cache,
            events,
            replay: Replay::default(),
            resumed: 0,
        }
    }

    /// Applies events until the time is over.
    async fn play_for(&mut self, time: Duration) {
        let until = tokio::time::Instant::now() + time;
        while let Ok(event) = tokio::time::timeout_at(until, self.events.next()).await {
            match event {
                Some(event) => {
                    self.replay.play(&event);
                    if matches!(event, Event::Ended(_)) {
                        self.resume().await;
                    }
                }
                None => panic!("the events ended without `Ended`"),
            }
        }
    }

    async fn resume(&mut self) {
        let last: Snapshot = self.cache.snapshot();
        assert_eq!(nodes_of(&last), self.replay.nodes);
        assert!(last.end().is_some());
        self.session = self.ensemble.connect().await;
        self.cache = TreeCache::resume(&self.session, &last, &self.options);
        self.events = self.cache.events_since(&last);
        self.resumed += 1;
    }

    /// Waits until the contents are those of the ensemble.
    async fn settle(&mut self) {
        for _ in 0..60 {
            self.play_for(Duration::from_secs(1)).await;
            let there = nodes_on(&self.ensemble, ROOT);
            let snapshot = self.cache.snapshot();
            if snapshot.is_synchronized() && nodes_of(&snapshot) == there {
                assert_eq!(
                    self.replay.nodes, there,
                    "the events lead to other contents"
                );
                return;
            }
        }
        let there = nodes_on(&self.ensemble, ROOT);
        panic!(
            "after a minute of rest:\n{:?} has\n{:?}, there is\n{there:?}",
            self.cache,
            nodes_of(&self.cache.snapshot())
        );
    }
}

fn chaos() -> Chaos {
    Chaos::default()
        .lasting(Duration::from_secs(4))
        .every(Duration::from_millis(120))
        .longest(Duration::from_secs(3))
        .weight(Disturbance::Expire, 1)
}

async fn run(ensemble: Ensemble, seed: u64) -> (usize, usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut quick = Reader::new(&ensemble, CacheOptions::default()).await;
    // One that reads now and then, with a small event buffer.
    let options = CacheOptions::default().with_event_buffer(2).with_window(2);
    let mut slow = Reader::new(&ensemble, options).await;
    for _ in 0..=seed % 2 {
        let mut writers = Vec::new();
        for _ in 0..3 {
            writers.push(tokio::spawn(write(ensemble.clone(), random.fork())));
        }
        let disturbing = tokio::spawn(chaos().run(&ensemble));
        for _ in 0..12 {
            let pause = Duration::from_millis(random.u64(0..800));
            tokio::join!(biased;
                quick.play_for(Duration::from_millis(500)),
                async {
                    pass(pause).await;
                    slow.play_for(Duration::from_millis(30)).await;
                }
            );
        }
        for writer in writers {
            soon("the writer finishes", writer).await.unwrap();
        }
        soon("the faults end", disturbing).await.unwrap();
        ensemble.heal();
        quick.settle().await;
        slow.settle().await;
    }
    (
        quick.replay.played + slow.replay.played,
        quick.resumed + slow.resumed,
    )
}

/// After the faults the caches have the contents of the ensemble. Each event fits those before it: none is duplicated
/// or out of order, and a node that was created again is reported as such.
#[test]
fn events_lead_to_the_contents_of_the_ensemble_under_chaos() {
    let (played, resumed) = (Cell::new(0), Cell::new(0));
    let checked = Check::new(0..SEEDS)
        .seeds_from_env()
        .run(async |ensemble, seed| {
            let (events, sessions) = run(ensemble, seed).await;
            played.set(played.get() + events);
            resumed.set(resumed.get() + sessions);
        });
    println!(
        "{} events, {} sessions lost, in {checked}",
        played.get(),
        resumed.get()
    );
    assert!(
        checked.seeds == 1
            || (played.get() > 100 * checked.seeds && resumed.get() > checked.seeds / 4),
        "{} events over {} sessions prove nothing",
        played.get(),
        resumed.get()
    );
}

const SEEDS: u64 = 200;
const CHANGES: usize = 60;
