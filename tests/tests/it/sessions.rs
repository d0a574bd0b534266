//! What an application keeps for its whole life goes on over session after session.
//!
//! Two processes, each with one [`Sessions`]. The first one has a handle of every kind; the second one writes what those
//! have to show, and competes for the leadership. After each disturbance every handle of the first process has to be
//! current again, and checkers judge what was recorded.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use zk_cache::{Event, Events, TreeCache};
use zk_config::Typed;
use zk_core::codec::Text;
use zk_core::{Error, ErrorClass, Kept, ParsePathError, RetryPolicy, Session, Sessions};
use zk_discovery::{Instance, Providers, Registration, Registry};
use zk_fault_proxy::{Clients, Close, Route};
use zk_harness::{DataStore, Ensemble};
use zk_history::check::FencedMutex;
use zk_history::{Op, Recorder, ReturnValue, Run, now};
use zk_id::{Id, Layout, Snowflake, Snowflakes, WorkerId, WorkerIds};
use zk_leader::{LatchParticipant, LeaderLatch};
use zk_queue::{OfferError, WorkQueue, WorkerOptions};
use zk_sim::wait::{pass, soon, until};

const TREE: &str = "/app/tree";
const MOTTO: &str = "/app/motto";
const SERVICES: &str = "/app/services";
const LEADER: &str = "/app/leader";
const WORK: &str = "/app/work";
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// The handles of the first process.
struct Handles {
    sessions: Sessions,
    cache: TreeCache,
    shown: Shown,
    motto: Typed<String>,
    _following: zk_config::FollowHandle,
    providers: Providers<String>,
    registration: Kept<Registration<String>>,
    worker: Kept<WorkerId>,
    snowflake: Kept<Snowflake>,
    ids: HashSet<Id>,
    /// The items that its worker loop has finished.
    done: watch::Receiver<HashSet<u32>>,
    /// How often it has led.
    led: watch::Receiver<u32>,
    tasks: JoinSet<()>,
}

/// What the events of a cache add up to.
struct Shown {
    events: Events,
    nodes: BTreeMap<String, Vec<u8>>,
}

impl Shown {
    /// Applies the events until these nodes are shown, and fails if one contradicts those before.
    async fn until(&mut self, path: &str, data: &str) {
        let shows = |nodes: &BTreeMap<String, Vec<u8>>| {
            nodes
                .get(path)
                .is_some_and(|known| known == data.as_bytes())
        };
        let applying = async {
            while !shows(&self.nodes) {
                match self.events.next().await.expect("the cache goes on") {
                    Event::Created(node) => {
                        let data = node.data().unwrap_or_default().to_vec();
                        let known = self.nodes.insert(node.path().to_owned(), data);
                        assert!(known.is_none(), "{} was created twice", node.path());
                    }
                    Event::Changed { old, new } => {
                        let data = new.data().unwrap_or_default().to_vec();
                        let known = self.nodes.insert(new.path().to_owned(), data);
                        assert_eq!(known.as_deref(), old.data(), "{}", new.path());
                    }
                    Event::Deleted(node) => {
                        let known = self.nodes.remove(node.path());
                        assert_eq!(known.as_deref(), node.data(), "{}", node.path());
                    }
                    Event::Ended(end) => panic!("the cache has ended: {end}"),
                    _ => {}
                }
            }
        };
        let shown = tokio::time::timeout(LONG, applying).await;
        assert!(
            shown.is_ok(),
            "waited {LONG:?} for {data:?} at {path}: {:?}",
            self.nodes
        );
    }
}

fn registry(session: &Session) -> Registry {
    Registry::new(session, SERVICES).expect("the path is one")
}

fn open(ensemble: &Ensemble) -> Sessions {
    Session::builder(ensemble.connect_string())
        .session_timeout(SESSION_TIMEOUT)
        .sessions(RetryPolicy::default())
}

impl Handles {
    async fn start(ensemble: &Ensemble, recorder: Recorder) -> Self {
        let sessions = open(ensemble);
        let first = sessions.session().await.expect("the servers grant one");
        let cache = TreeCache::start(&sessions, TREE).unwrap();
        let motto = Typed::<String>::node(MOTTO, Text).unwrap().build();
        let providers = registry(&first).providers("orders").unwrap();
        providers.follow(&sessions);
        let registration = sessions.keep(async |session| register(&session, "ours").await);
        let worker = sessions.keep(async |session| {
            let workers = WorkerIds::new(&session, "/app/workers", 4).unwrap();
            workers.claim().await
        });
        let snowflake = sessions.keep(async |session| {
            let snowflakes = Snowflakes::new(&session, "/app/ids", Layout::TWITTER).unwrap();
            snowflakes.claim().await
        });
        let (finish, done) = watch::channel(HashSet::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(work(sessions.clone(), finish));
        let (lead_again, led) = watch::channel(0);
        tasks.spawn(lead(sessions.clone(), recorder, lead_again));
        Self {
            shown: Shown {
                events: cache.events(),
                nodes: BTreeMap::new(),
            },
            _following: motto.follow(&sessions),
            ids: HashSet::new(),
            done,
            led,
            tasks,
            sessions,
            cache,
            motto,
            providers,
            registration,
            worker,
            snowflake,
        }
    }

    /// Waits until every handle shows what the other process wrote in this round.
    async fn are_current(&mut self, round: u32) {
        let value = round.to_string();
        self.shown.until(&format!("{TREE}/node"), &value).await;
        until("the cache is synchronised", async || {
            self.cache.snapshot().is_synchronized()
        })
        .await;
        until("the value is current", async || {
            let current = self.motto.current();
            current.is_some_and(|current| **current == value) && self.motto.problem().is_none()
        })
        .await;
        until("both instances are listed", async || {
            let list = self.providers.instances();
            list.is_synchronized() && list.get("ours").is_some() && list.get("theirs").is_some()
        })
        .await;
        until("it is registered", async || {
            self.registration.current().is_some()
        })
        .await;
        until("it has a number", async || {
            let worker = self.worker.current();
            worker.is_some_and(|worker| worker.is_valid())
        })
        .await;
        let id = soon("there are new ids", async {
            loop {
                let snowflake = self.snowflake.ready().await.expect("it goes on");
                if let Ok(id) = snowflake.generator().next().await {
                    return id;
                }
                snowflake.lost().await;
            }
        })
        .await;
        assert!(self.ids.insert(id), "{id} was given twice");
        self.led.mark_unchanged();
        soon("it leads again", self.led.changed()).await.unwrap();
        soon(
            "the item is worked on",
            self.done.wait_for(|done| done.contains(&round)),
        )
        .await
        .unwrap();
    }
}

async fn register(
    session: &Session,
    id: &str,
) -> Result<Registration<String>, zk_discovery::RegisterError> {
    let instance = Instance::builder("orders", id.to_owned()).id(id).build();
    registry(session)
        .register(instance.expect("it is complete"))
        .await
}

/// Works on the items of the queue with one session after the other.
async fn work(sessions: Sessions, done: watch::Sender<HashSet<u32>>) {
    let working = sessions.run(async |session| {
        let queue = WorkQueue::<String>::new(&session, WORK, Text).expect("the path is one");
        let options = WorkerOptions::default().with_concurrency(4);
        let handled = async |delivery: zk_queue::Delivery<String>| {
            let item = delivery.item().parse().expect("a number was offered");
            done.send_if_modified(|done| done.insert(item));
            Ok::<_, std::convert::Infallible>(())
        };
        queue
            .work_until(std::future::pending(), &options, handled)
            .await
    });
    drop(working.await);
}

/// Leads now and then, for as long as the process has sessions.
async fn lead(sessions: Sessions, recorder: Recorder, led: watch::Sender<u32>) {
    let participants = sessions
        .keep(async |session| Ok::<_, ParsePathError>(LeaderLatch::new(&session, LEADER)?.join()));
    while let Ok(participant) = participants.ready().await {
        participate(&participant, &recorder, &led).await;
        participant.ended().await;
    }
}

/// Leads for half a second at a time, until the participant has ended.
async fn participate(
    participant: &LatchParticipant,
    recorder: &Recorder,
    led: &watch::Sender<u32>,
) {
    loop {
        let acquire = recorder.invoke(Op::acquire(LEADER));
        let lease = match participant.leading().await {
            Ok(lease) => lease,
            Err(end) => return acquire.failed(end.to_string()),
        };
        led.send_modify(|led| *led += 1);
        let mut relied = now();
        let held = acquire.granted(ReturnValue::token(lease.fencing_token().as_u64()));
        for _ in 0..100 {
            // The clock is read first: what is valid now was valid then.
            let at = now();
            if !lease.is_valid() {
                break;
            }
            relied = at;
            pass(Duration::from_millis(5)).await;
        }
        held.believed_until(relied);
        held.forget();
        drop(participant.resign().await);
    }
}

/// The other process: writes what the first one has to show.
struct Writer {
    sessions: Sessions,
    _registration: Kept<Registration<String>>,
}

impl Writer {
    fn start(ensemble: &Ensemble) -> Self {
        let sessions = open(ensemble);
        Self {
            _registration: sessions.keep(async |session| register(&session, "theirs").await),
            sessions,
        }
    }

    /// Writes the values of a round, as soon as there is a session with which that can be done.
    async fn write(&self, round: u32) {
        let value = round.to_string();
        let writing = self.sessions.run(async |session| {
            loop {
                match write(&session, &value).await {
                    // The connection may break again. Values and items are sets.
                    Err(error) if error.class() == ErrorClass::Recoverable => {}
                    written => return written,
                }
            }
        });
        soon("it is written", writing).await.expect("it can be");
    }
}

/// Writes a value to all that shows it.
async fn write(session: &Session, value: &str) -> Result<(), Error> {
    // The node is another one each time, which a cache must not take for the old one.
    let node = format!("{TREE}/node");
    match session.delete(&node).await {
        Err(error) if !error.is_no_node() => return Err(error),
        _ => {}
    }
    session.create(&node, value).parents().await?;
    session.create(MOTTO, value).or_set().parents().await?;
    let queue = WorkQueue::<String>::new(session, WORK, Text).expect("the path is one");
    match queue.offer(&value.to_owned()).await {
        Err(OfferError::Core(error) | OfferError::Unknown(error)) => Err(error),
        offered => {
            offered.expect("the item can be offered");
            Ok(())
        }
    }
}

async fn three_servers() -> Ensemble {
    Ensemble::builder()
        .servers(3)
        .data(DataStore::Memory)
        .proxied(true)
        .start()
        .await
        .expect("the servers start")
}

/// Lets `disturb` happen before each of three rounds, and lets every handle become current after it.
async fn handles_go_on(name: &str, disturb: impl AsyncFn(&Ensemble, &Handles)) {
    let ensemble = three_servers().await;
    let run = Run::seeded(name).unwrap();
    let run = run.judged_by(FencedMutex::default()).unwrap();
    run.keep_with(ensemble.directories());
    let recorder = run.recorder("leaders").unwrap();
    let writer = Writer::start(&ensemble);
    let mut handles = Handles::start(&ensemble, recorder.task("ours")).await;
    let mut theirs = JoinSet::new();
    let led = watch::Sender::new(0);
    theirs.spawn(lead(writer.sessions.clone(), recorder.task("theirs"), led));
    writer.write(0).await;
    handles.are_current(0).await;
    for round in 1..=3 {
        disturb(&ensemble, &handles).await;
        writer.write(round).await;
        handles.are_current(round).await;
    }
    theirs.shutdown().await;
    handles.tasks.shutdown().await;
    drop(recorder);
    let seed = run.seed();
    let report = run
        .finish()
        .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let grants = report.verdicts[0].counts["grants"];
    assert!(grants > 3, "only {grants} leaderships were judged");
    handles.sessions.close().await.unwrap();
    writer.sessions.close().await.unwrap();
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_handle_goes_on_when_its_session_expires() {
    handles_go_on("sessions-expiry", async |ensemble, handles| {
        let expired = handles.sessions.session().await.unwrap();
        let clients = Clients::Session(expired.id().as_i64());
        let proxy = ensemble.proxy().expect("it is proxied");
        proxy.route(clients, Route::Refuse).unwrap();
        proxy.cut(clients, Close::Rst).await;
        // Refused for so long that the servers have ended it.
        pass(SESSION_TIMEOUT * 2).await;
        proxy.route(clients, Route::SameServer).unwrap();
        soon("it is lost", expired.lost()).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_handle_goes_on_after_a_rolling_restart() {
    handles_go_on("sessions-restart", async |ensemble, _| {
        ensemble.restart_rolling().await.unwrap();
    })
    .await;
}

/// Stops all servers for a while, in which the last known instances stay listed.
async fn outage(ensemble: &Ensemble, handles: &Handles, time: Duration) {
    ensemble.kill_all().await.unwrap();
    pass(time).await;
    assert!(handles.providers.instances().get("theirs").is_some());
    ensemble.start_stopped().unwrap();
    ensemble.wait_serving().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_handle_goes_on_after_an_outage() {
    handles_go_on("sessions-outage", async |ensemble, handles| {
        outage(ensemble, handles, SESSION_TIMEOUT * 2).await;
    })
    .await;
}

mod deep {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn every_handle_goes_on_after_an_outage_of_a_minute() {
        handles_go_on("sessions-long-outage", async |ensemble, handles| {
            outage(ensemble, handles, Duration::from_secs(60)).await;
        })
        .await;
    }
}

const LONG: Duration = Duration::from_secs(60);
