//! The breadcrumb of the process that acts as the leader.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_core::{Acl, Session};
use zk_leader::{
    Breadcrumb, LatchParticipant, LeaderLatch, LeaderLease, LeadershipLoss, TakeOverError,
};
use zk_sim::{Chaos, Check, Disturbance, DropFault, Ensemble, Script, Scripted, matching};

use crate::{PATH, latch, led_and_waited_for, left, options, pass, polled, soon};

const NODE: &str = "/leaders/a/ActiveBreadCrumb";

/// The data of the breadcrumb on the leading server.
fn found(ensemble: &Ensemble) -> Option<String> {
    let tree = ensemble.tree();
    let data = tree.node(NODE)?.data().to_vec();
    Some(String::from_utf8(data).unwrap())
}

async fn lead(session: &Session) -> (LatchParticipant, LeaderLease) {
    let participant = latch(session).join();
    let lease = soon("it leads", participant.leading()).await.unwrap();
    (participant, lease)
}

/// Takes over, and notes whom it fences.
async fn take_over(
    lease: &LeaderLease,
    data: &str,
    fenced: &RefCell<Vec<String>>,
) -> Result<Breadcrumb, TakeOverError<Infallible>> {
    let fence = |old| {
        fenced.borrow_mut().push(String::from_utf8(old).unwrap());
        std::future::ready(Ok(()))
    };
    let taking_over = Breadcrumb::take_over(lease, data, fence);
    soon("it takes over or not", taking_over).await
}

async fn unfenced(lease: &LeaderLease, data: &str) -> Breadcrumb {
    let fenced = RefCell::default();
    let breadcrumb = take_over(lease, data, &fenced).await.unwrap();
    assert_eq!(fenced.into_inner(), [""; 0]);
    breadcrumb
}

/// Lets a session take over and die, and its breadcrumb stay.
async fn died(ensemble: &Ensemble, data: &str) {
    let session = ensemble.connect().await;
    let (_participant, lease) = lead(&session).await;
    drop(unfenced(&lease, data).await);
    session.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_died_is_fenced_and_one_that_resigned_is_not() {
    let ensemble = Ensemble::new(3);
    died(&ensemble, "a").await;
    assert_eq!(found(&ensemble).as_deref(), Some("a"));
    let session = ensemble.connect().await;
    let (participant, lease) = lead(&session).await;
    let fenced = RefCell::default();
    let breadcrumb = take_over(&lease, "b", &fenced).await.unwrap();
    assert_eq!(fenced.into_inner(), ["a"]);
    assert_eq!(found(&ensemble).as_deref(), Some("b"));
    soon("it is removed", breadcrumb.remove()).await.unwrap();
    assert_eq!(found(&ensemble), None);
    participant.leave().await;

    let (_participant, lease) = lead(&session).await;
    drop(unfenced(&lease, "c").await);
}

#[tokio::test(start_paused = true)]
async fn a_leader_does_not_fence_by_its_own_breadcrumb() {
    let ensemble = Ensemble::new(3);
    died(&ensemble, "a").await;
    let session = ensemble.connect().await;
    let (participant, lease) = lead(&session).await;
    let breadcrumb = unfenced(&lease, "a").await;
    soon("it is removed", breadcrumb.remove()).await.unwrap();
    assert_eq!(found(&ensemble), None);
    participant.leave().await;
    assert_eq!(left(&ensemble), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_fails_leaves_the_old_breadcrumb() {
    let ensemble = Ensemble::new(3);
    died(&ensemble, "a").await;
    let session = ensemble.connect().await;
    let (_participant, lease) = lead(&session).await;
    let error = Breadcrumb::take_over(&lease, "b", async |_| Err("it does not answer")).await;
    let error = error.expect_err("it is not fenced");
    assert!(matches!(error, TakeOverError::Fence("it does not answer")));
    assert_eq!(found(&ensemble).as_deref(), Some("a"));
    let fenced = RefCell::default();
    drop(take_over(&lease, "b", &fenced).await.unwrap());
    assert_eq!(fenced.into_inner(), ["a"]);
}

/// The fence is dropped at once, and nothing is written.
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_deposed_while_it_fences_gives_up() {
    let ensemble = Ensemble::new(3);
    died(&ensemble, "a").await;
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let (_first, lease, second) = led_and_waited_for(&one, &two).await;
    let fences = Cell::new(false);
    let taking_over = Breadcrumb::take_over(&lease, "b", async |_| {
        fences.set(true);
        std::future::pending::<Result<(), Infallible>>().await
    });
    let depose = async {
        pass(Duration::from_secs(1)).await;
        assert!(fences.get());
        two.delete(lease.path()).await.unwrap();
    };
    let (error, ()) = soon("it gives up", async { tokio::join!(taking_over, depose) }).await;
    let loss = LeadershipLoss::NodeDeleted;
    assert!(matches!(error, Err(TakeOverError::Lost(it)) if it == loss));
    assert_eq!(found(&ensemble).as_deref(), Some("a"));
    let next = soon("the next one leads", second.leading()).await.unwrap();
    let fenced = RefCell::default();
    drop(take_over(&next, "c", &fenced).await.unwrap());
    assert_eq!(fenced.into_inner(), ["a"]);
}

/// It is paused after it has read that there is no breadcrumb, and is no longer the leader when it writes.
#[tokio::test(start_paused = true)]
async fn a_former_leader_writes_no_breadcrumb() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let (_first, lease, second) = led_and_waited_for(&one, &two).await;
    let node = lease.path().clone();
    let held = ensemble.on(matching::gets(NODE)).session(one.id()).hold();
    let late = tokio::spawn(async move {
        let fence = async |_| Ok::<_, Infallible>(());
        Breadcrumb::take_over(&lease, "a", fence).await.is_err()
    });
    soon("it reads", held.happened()).await;
    two.delete(node).await.unwrap();
    let next = soon("the next one leads", second.leading()).await.unwrap();
    held.release();
    assert!(soon("it fails", late).await.unwrap());
    pass(Duration::from_secs(1)).await;
    assert_eq!(found(&ensemble), None);
    drop(unfenced(&next, "b").await);
}

#[tokio::test(start_paused = true)]
async fn a_former_leader_does_not_remove_the_breadcrumb_of_the_next() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let (_first, lease, second) = led_and_waited_for(&one, &two).await;
    let stale = unfenced(&lease, "a").await;
    two.delete(lease.path()).await.unwrap();
    let next = soon("the next one leads", second.leading()).await.unwrap();
    // Not fenced yet.
    let error = soon("it is refused", stale.remove()).await.unwrap_err();
    assert_eq!(error.failed_part(), Some(0));
    assert_eq!(found(&ensemble).as_deref(), Some("a"));
    let fenced = RefCell::default();
    drop(take_over(&next, "b", &fenced).await.unwrap());
    assert_eq!(fenced.into_inner(), ["a"]);
}

/// Notified of the end of the former leader, it moves to a server that has not seen the breadcrumbs of the last leaders.
#[tokio::test(start_paused = true)]
async fn a_leader_does_not_fence_by_what_a_slow_server_shows() {
    let ensemble = Ensemble::new(3);
    died(&ensemble, "a").await;
    let session = ensemble.connect().server(1).await;
    let other = ensemble.connect().server(3).await;
    let (first, lease, second) = led_and_waited_for(&other, &session).await;
    ensemble.server(2).lag();
    let fenced = RefCell::default();
    let breadcrumb = take_over(&lease, "b", &fenced).await.unwrap();
    soon("it is removed", breadcrumb.remove()).await.unwrap();
    drop(unfenced(&lease, "c").await);
    drop(first);
    let lease = soon("it leads", second.leading()).await.unwrap();
    ensemble.session(session.id()).move_to(2);
    let catches_up = async {
        pass(Duration::from_secs(2)).await;
        ensemble.server(2).catch_up();
    };
    let fenced = RefCell::default();
    let taken = async { tokio::join!(take_over(&lease, "d", &fenced), catches_up) };
    drop(soon("it takes over", taken).await.0.unwrap());
    assert_eq!(fenced.into_inner(), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn the_breadcrumb_has_the_acl_of_the_election() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().digest("me", "secret").await;
    let options = options().with_acl(Acl::creator_only());
    let latch = LeaderLatch::with_options(&session, PATH, &options).unwrap();
    let participant = latch.join();
    let lease = soon("it leads", participant.leading()).await.unwrap();
    drop(unfenced(&lease, "a").await);
    let stranger = ensemble.connect().await;
    assert!(stranger.get(NODE).await.is_err());
    session.get(NODE).await.unwrap();
}

/// Each fault of each request: the old one is fenced once, and both calls succeed.
#[tokio::test(start_paused = true)]
async fn a_leader_takes_over_whichever_request_or_reply_is_lost() {
    for (what, strike) in STRIKES {
        for old in [None, Some("a")] {
            for nth in 1.. {
                let what = format!("{what}, request {nth}, after {old:?}");
                let ensemble = Ensemble::new(3);
                if let Some(old) = old {
                    died(&ensemble, old).await;
                }
                let session = ensemble.connect().server(1).await;
                let (participant, lease) = lead(&session).await;
                let script = ensemble.on(matching::anything());
                let struck = strike(script.session(session.id()).nth(nth));
                let fenced = RefCell::default();
                let breadcrumb = take_over(&lease, "b", &fenced).await.expect(&what);
                assert_eq!(fenced.into_inner(), Vec::from_iter(old), "{what}");
                assert_eq!(found(&ensemble).as_deref(), Some("b"), "{what}");
                soon(&what, breadcrumb.remove()).await.expect(&what);
                struck.release();
                pass(Duration::from_secs(1)).await;
                assert_eq!(found(&ensemble), None, "{what}");
                participant.leave().await;
                if struck.count() == 0 {
                    assert!(nth > 5, "{what}: too few requests");
                    break;
                }
            }
        }
    }
}

/// The leader that takes over next fences the old one or this one, whatever became of the request in flight.
#[tokio::test(start_paused = true)]
async fn a_dropped_take_over_leaves_the_old_breadcrumb_or_its_own() {
    for drop_fault in DropFault::ALL {
        for polls in 0.. {
            let what = format!("{drop_fault:?} after {polls} polls");
            let ensemble = Ensemble::new(3);
            died(&ensemble, "a").await;
            let session = ensemble.connect().await;
            let (participant, lease) = lead(&session).await;
            let fenced = Cell::new(false);
            let done = soon(&what, {
                let fence = async |_| {
                    tokio::task::yield_now().await;
                    fenced.set(true);
                    Ok::<_, Infallible>(())
                };
                polled(polls, Breadcrumb::take_over(&lease, "b", fence))
            })
            .await;
            drop_fault.inject(&ensemble, session.id());
            pass(Duration::from_secs(3)).await;
            let now = found(&ensemble);
            let is_own = now.as_deref() == Some("b");
            assert!(is_own || now.as_deref() == Some("a"), "{what}: {now:?}");
            assert!(!is_own || fenced.get(), "{what}");
            drop(participant);
            soon(&what, session.settled()).await;
            let next = ensemble.connect().await;
            let (_participant, lease) = lead(&next).await;
            let fenced = RefCell::default();
            drop(take_over(&lease, "c", &fenced).await.expect(&what));
            assert_eq!(fenced.into_inner(), Vec::from_iter(now), "{what}");
            if done.is_some() {
                assert!(is_own && polls > 3, "{what}");
                break;
            }
        }
    }
}

/// What all processes share: who acts, and how often each was fenced.
#[derive(Debug, Default)]
struct Oracle {
    acts: [bool; PROCESSES],
    fences: [usize; PROCESSES],
    take_overs: usize,
}

impl Oracle {
    /// `process` takes over, unless it was fenced since it began to: then it does not act any more.
    fn acts(&mut self, process: usize, fences: usize, seed: u64) {
        if self.fences[process] != fences {
            return;
        }
        self.acts[process] = true;
        self.take_overs += 1;
        let acting = self.acts.iter().filter(|it| **it).count();
        assert_eq!(acting, 1, "seed {seed}: {process} begins: {self:?}");
    }

    /// A fence is final, whatever the process was about to do.
    fn fenced(&mut self, process: usize) {
        self.acts[process] = false;
        self.fences[process] += 1;
    }
}

/// Takes over and resigns, or loses its session and does not notice: it acts until it is fenced.
async fn contend(ensemble: Ensemble, oracle: Arc<Mutex<Oracle>>, process: usize, seed: u64) {
    let number = u64::try_from(process).unwrap();
    let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(1000).wrapping_add(number));
    let connect = || ensemble.connect().within(Duration::from_secs(60));
    let mut session = connect().await;
    for _ in 0..ROUNDS {
        if session.state().is_lost() {
            session = connect().await;
        }
        let participant = latch(&session).join();
        let Ok(lease) = participant.leading().await else {
            continue;
        };
        let fences = oracle.lock().unwrap().fences[process];
        let mut within = random.fork();
        let fence = |old: Vec<u8>| {
            let old: usize = String::from_utf8(old).unwrap().parse().unwrap();
            assert_ne!(old, process, "seed {seed}");
            let (takes, fails) = (Duration::from_millis(within.u64(0..2000)), within.bool());
            let oracle = &oracle;
            async move {
                pass(takes).await;
                if fails {
                    return Err(());
                }
                oracle.lock().unwrap().fenced(old);
                Ok(())
            }
        };
        let taking_over = Breadcrumb::take_over(&lease, process.to_string(), fence);
        let limit = Duration::from_millis(random.u64(1..20_000));
        if let Ok(Ok(breadcrumb)) = tokio::time::timeout(limit, taking_over).await {
            oracle.lock().unwrap().acts(process, fences, seed);
            pass(Duration::from_millis(random.u64(0..500))).await;
            if random.bool() {
                oracle.lock().unwrap().acts[process] = false;
                drop(breadcrumb.remove().await);
            }
        }
        if random.bool() {
            participant.leave().await;
        }
    }
}

async fn run(ensemble: Ensemble, seed: u64) -> usize {
    let oracle: Arc<Mutex<Oracle>> = Arc::default();
    let tasks: Vec<_> = (0..PROCESSES)
        .map(|process| {
            let oracle = Arc::clone(&oracle);
            tokio::spawn(contend(ensemble.clone(), oracle, process, seed))
        })
        .collect();
    Chaos::default()
        .lasting(Duration::from_secs(20))
        .every(Duration::from_millis(300))
        .longest(Duration::from_secs(16))
        .weight(Disturbance::Expire, 2)
        .run_during(&ensemble, tasks)
        .await;
    // Once all faults are healed, a new process takes over.
    let session = ensemble.connect().await;
    let (_participant, lease) = lead(&session).await;
    let fence = async |_| Ok::<_, Infallible>(());
    let taking_over = Breadcrumb::take_over(&lease, "new", fence);
    drop(soon("it takes over", taking_over).await.unwrap());
    oracle.lock().unwrap().take_overs
}

#[test]
fn chaos_lets_no_process_act_beside_one_that_was_not_fenced() {
    let take_overs = Cell::new(0);
    let checked = Check::new(0..SEEDS)
        .seeds_from_env()
        .run(async |ensemble, seed| {
            take_overs.set(take_overs.get() + run(ensemble, seed).await);
        });
    println!("{} processes took over in {checked}", take_overs.get());
    assert!(
        checked.seeds == 1 || take_overs.get() > 3 * checked.seeds,
        "{} processes that took over prove nothing",
        take_overs.get()
    );
}

/// A fault of one request.
type Strike = (&'static str, fn(Script) -> Scripted);

const STRIKES: [Strike; 5] = [
    ("request lost", Script::lose_request),
    ("reply lost", Script::lose_reply),
    ("stalled", Script::stall),
    ("stalled, then moved to a server that lags", |script| {
        script.stall_then_move(2)
    }),
    ("stalled, then moved to the leader", |script| {
        script.stall_then_move(3)
    }),
];

const SEEDS: u64 = 200;
const PROCESSES: usize = 3;
const ROUNDS: usize = 8;
