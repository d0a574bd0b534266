//! Caches under random faults of servers and connections.

use std::time::Duration;

use tokio::task::JoinSet;
use zk_cache::{CacheOptions, Event, Events, TreeCache};
use zk_core::{NodePath, Session};
use zk_fault_proxy::{Clients, Close};
use zk_harness::nemesis::{Fault, Nemesis, fault_time};
use zk_harness::{DataStore, Ensemble};

use crate::replay::{Nodes, Replay, Seen, nodes_of};
use crate::{connect, connect_for, pass, soon};

/// The seed: `SEED`, or a constant.
fn seed() -> u64 {
    let asked = std::env::var("SEED").ok();
    asked.map_or(6, |text| text.parse().expect("SEED is a number"))
}

/// Makes random changes until it is dropped, with a new session after each session loss.
async fn write(connect_string: String, mut random: fastrand::Rng) {
    loop {
        let connecting = Session::builder(connect_string.as_str())
            .session_timeout(SHORT)
            .operation_timeout(Duration::from_secs(2))
            .connect();
        let Ok(session) = connecting.await else {
            continue;
        };
        while !session.state().is_lost() {
            let path = match random.u8(0..10) {
                0 => "/t".to_owned(),
                1..4 => format!("/t/{}", random.u8(0..4)),
                _ => format!("/t/{}/{}", random.u8(0..4), random.u8(0..4)),
            };
            let data = random.u32(..).to_string();
            match random.u8(0..10) {
                0..4 => drop(session.create(&path, data).parents().await),
                4..7 => drop(session.set(&path, data).await),
                7 => drop(session.delete(&path).recursive().await),
                8 => {
                    let again = session.transaction().delete(&path).create(&path, data);
                    drop(again.commit().await);
                }
                _ => drop(session.delete(&path).await),
            }
            pass(Duration::from_millis(random.u64(0..10))).await;
        }
    }
}

/// A cache that resumes on a new session after each session loss.
struct Reader<'a> {
    ensemble: &'a Ensemble,
    cache: TreeCache,
    events: Events,
    replay: Replay,
    resumed: usize,
    stale: usize,
}

impl Reader<'_> {
    /// Applies events until the time is over. Cancel safe.
    async fn play_for(&mut self, time: Duration) {
        let until = tokio::time::Instant::now() + time;
        while let Ok(event) = tokio::time::timeout_at(until, self.events.next()).await {
            let Some(event) = event else {
                self.resume().await;
                continue;
            };
            self.replay.play(&event);
            self.stale += usize::from(matches!(event, Event::Stale));
        }
    }

    /// Resumes with another cache, on a new session.
    async fn resume(&mut self) {
        let session = connect_for(self.ensemble, SHORT).await;
        let last = self.cache.snapshot();
        assert_eq!(nodes_of(&last), self.replay.nodes);
        self.cache = TreeCache::resume(&session, &last, &CacheOptions::default());
        self.events = self.cache.events_since(&last);
        self.resumed += 1;
    }

    async fn settle(&mut self, seed: u64) {
        let session = connect(self.ensemble).await;
        let mut there = Nodes::new();
        for _ in 0..60 {
            self.play_for(Duration::from_millis(500)).await;
            session.sync("/").with_quorum().await.unwrap();
            there = soon("everything is read", nodes_on(&session)).await;
            let snapshot = self.cache.snapshot();
            // Later events are applied in the next round.
            let is_there = nodes_of(&snapshot) == there && self.replay.nodes == there;
            if snapshot.is_synchronized() && is_there {
                return;
            }
        }
        panic!(
            "seed {seed}: after half a minute of rest {:?} has\n{:?}, the events lead to\n{:?}, there is\n{there:?}",
            self.cache,
            nodes_of(&self.cache.snapshot()),
            self.replay.nodes
        );
    }
}

async fn nodes_on(session: &Session) -> Nodes {
    let mut nodes = Nodes::new();
    let mut next: Vec<NodePath> = vec!["/t".parse().unwrap()];
    while let Some(path) = next.pop() {
        let (Ok((data, stat)), Ok((names, _))) =
            (session.get(&path).await, session.list(&path).await)
        else {
            continue;
        };
        next.extend(names.iter().map(|name| path.join(name).unwrap()));
        let seen = Seen {
            czxid: stat.czxid,
            mzxid: stat.mzxid,
            version: stat.version,
            data: Some(data.into()),
        };
        nodes.insert(path.to_string(), seen);
    }
    nodes
}

#[tokio::test(flavor = "multi_thread")]
async fn events_lead_to_the_contents_under_all_faults_on_3_9() {
    events_lead_to_the_contents("3.9", &Fault::ALL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_lead_to_the_contents_under_link_faults_on_3_8() {
    // No elections: 3.8.0 may roll back what clients have read, see docs/compatibility.md.
    let faults = [
        Fault::Cut,
        Fault::LoseRequest,
        Fault::LoseReply,
        Fault::Silence,
        Fault::Expire,
    ];
    events_lead_to_the_contents("3.8", &faults).await;
}

/// After each round the cache has the contents of the ensemble. Each event fits those before it: none is duplicated or
/// out of order.
async fn events_lead_to_the_contents(version: &str, faults: &[Fault]) {
    let seed = seed();
    let ensemble = Ensemble::builder()
        .zookeeper(version)
        .servers(3)
        .data(DataStore::Memory)
        .sync_limit(5)
        .proxied(true)
        .quorum_links(true)
        .movable_clock(true)
        .start_timeout(Duration::from_secs(180))
        .start()
        .await
        .expect("the servers start");
    let mut random = fastrand::Rng::with_seed(seed);
    let session = connect_for(&ensemble, SHORT).await;
    let cache = TreeCache::start(&session, "/t").unwrap();
    drop(session);
    let events = cache.events();
    let mut reader = Reader {
        ensemble: &ensemble,
        cache,
        events,
        replay: Replay::default(),
        resumed: 0,
        stale: 0,
    };
    let mut struck = 0;
    for round in 0..ROUNDS {
        let mut writers = JoinSet::new();
        for _ in 0..3 {
            writers.spawn(write(ensemble.connect_string(), random.fork()));
        }
        let nemesis = Nemesis::new(seed.wrapping_add(round)).faults(faults.iter().copied());
        let time = fault_time(Duration::from_secs(10)) / u32::try_from(ROUNDS).unwrap();
        let mut faults = std::pin::pin!(nemesis.run(&ensemble, time));
        let dealt = loop {
            tokio::select! {
                dealt = &mut faults => break dealt.expect("faults can be made and undone"),
                () = reader.play_for(Duration::from_secs(1)) => {}
            }
        };
        struck += dealt.len();
        // A slow machine may have produced few events so far.
        let enough = reader.replay.played + ENOUGH;
        let playing = async {
            while reader.replay.played < enough {
                reader.play_for(Duration::from_millis(100)).await;
            }
        };
        soon("events arrive", playing).await;
        // The nemesis may not have hit the reader.
        let proxy = ensemble.proxy().expect("it was asked for");
        proxy.cut(Clients::All, Close::Rst).await;
        writers.shutdown().await;
        reader.settle(seed).await;
    }
    println!(
        "seed {seed}, ZooKeeper {}: {} events, {struck} faults, {} times stale, {} sessions lost",
        ensemble.version(),
        reader.replay.played,
        reader.stale,
        reader.resumed
    );
    assert!(
        reader.stale > 0 && struck > 0,
        "a run without faults proves nothing"
    );
    drop(reader);
    ensemble.down().await.unwrap();
}

const ROUNDS: u64 = 3;

/// A session timeout that some faults outlast.
const SHORT: Duration = Duration::from_secs(4);

/// The minimum number of events in a round after its faults.
const ENOUGH: usize = 50;
