//! The fair lock, and a counter that its guards protect; beside them the workers of other recipes.

use std::borrow::Cow;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use zk_core::{ConnectionState, ErrorKind, Sequence, Session};
use zk_harness::Ensemble;
use zk_harness::nemesis::{Fault, InjectedFault, Nemesis, tally};
use zk_history::check::{Counter, FencedMutex, Liveness};
use zk_history::{Held, Op, Recorder, ReturnValue, Run, now};
use zk_lock::{FairLock, Guard};

use super::work::{BOUND, Beside, Grants, Work, open};
use super::{
    agreed, breadcrumb, disagreement, inject_faults, leader, other_locks, rw, semaphore, spread,
    stage,
};

const PATH: &str = "/nemesis/lock";
const COUNTER: &str = "/nemesis/counter";
const PLACE: Place = Place {
    lock: Cow::Borrowed(PATH),
    counter: Cow::Borrowed(COUNTER),
};
const WORKERS: usize = 8;
const SCRIBBLERS: usize = 2;

/// A lock, and the counter that its guards protect.
#[derive(Clone)]
struct Place {
    lock: Cow<'static, str>,
    counter: Cow<'static, str>,
}

/// Opens one session after the other and works, until it is over.
async fn work(connect: String, place: Place, work: Work, mut random: fastrand::Rng) {
    let working = async {
        loop {
            let session = open(&connect).await;
            let lock = FairLock::new(&session, &*place.lock).expect("the path is one");
            while !session.state().is_lost() {
                turn(&session, &lock, &place, &work, &mut random).await;
            }
        }
    };
    work.until_over(working).await;
}

/// Writes to a node of its own, without any lock: traffic beside which the lock has to hold.
async fn scribble(connect: String, path: String, work: Work) {
    let writing = async {
        loop {
            let session = open(&connect).await;
            for number in 0_i64.. {
                let pending = work.recorder.invoke(Op::write(&path, number));
                let written = session.create(path.as_str(), number.to_string()).or_set();
                match written.await {
                    Ok(_) => pending.ok(()),
                    Err(error) => {
                        pending.unknown(error.to_string());
                        break;
                    }
                }
            }
        }
    };
    work.until_over(writing).await;
}

/// Acquires, adds one to the counter, now and then lets others have the lock in between, and releases.
async fn turn(
    session: &Session,
    lock: &FairLock,
    place: &Place,
    work: &Work,
    random: &mut fastrand::Rng,
) {
    let acquire = work.recorder.invoke(Op::acquire(&*place.lock));
    let mut guard = match lock.acquire().await {
        Ok(guard) => guard,
        Err(error) => return acquire.unknown(error.to_string()),
    };
    let mut held = work.granted(session, acquire, token_and_number(&guard));
    loop {
        let body = add_one(session, &guard, &place.counter, &work.recorder, random);
        let holds = tokio::select! {
            biased;
            _loss = guard.lost() => false,
            // What broke the connection may have ended the session, too.
            () = body => session.state() == ConnectionState::Connected,
        };
        if !holds || random.u8(..4) > 0 {
            return work.end(guard, held, holds).await;
        }
        let Some(next) = yielded(session, guard, held, place, work).await else {
            return;
        };
        (guard, held) = next;
    }
}

/// Lets the waiters have the lock, and waits for the next turn.
async fn yielded(
    session: &Session,
    guard: Guard,
    held: Held,
    place: &Place,
    work: &Work,
) -> Option<(Guard, Held)> {
    let token = guard.fencing_token();
    let handed_over = HandedOver {
        held: Some(held),
        at: now(),
        work,
    };
    let acquire = work.recorder.invoke(Op::acquire(&*place.lock));
    let next = guard.yield_now().await;
    if next
        .as_ref()
        .is_ok_and(|next| next.fencing_token() == token)
    {
        acquire.failed("there is no waiter, and it is still held");
        return next.ok().zip(handed_over.kept());
    }
    drop(handed_over);
    match next {
        Ok(guard) => {
            let held = work.granted(session, acquire, token_and_number(&guard));
            Some((guard, held))
        }
        Err(error) => {
            acquire.unknown(error.to_string());
            None
        }
    }
}

/// A lock that others may have since. Dropping this notes so, also if the yield never returns.
struct HandedOver<'a> {
    held: Option<Held>,
    at: u64,
    work: &'a Work,
}

impl HandedOver<'_> {
    /// Returns the lock, which no other one has had.
    fn kept(mut self) -> Option<Held> {
        self.held.take()
    }
}

impl Drop for HandedOver<'_> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.work.relied_until(&held, self.at);
            held.forget();
        }
    }
}

/// Returns what distinguishes a guard from others.
fn token_and_number(guard: &Guard) -> ReturnValue {
    let (_, sequence) = Sequence::split(guard.path().as_str()).expect("the node has a number");
    ReturnValue::token(guard.fencing_token().as_u64()).with_sequence(sequence.number())
}

async fn add_one(
    session: &Session,
    guard: &Guard,
    counter: &str,
    recorder: &Recorder,
    random: &mut fastrand::Rng,
) {
    // Half of the turns read and write; the others are as short as a turn can be.
    if random.bool() {
        return;
    }
    let Ok((data, _)) = session.get(counter).await else {
        return;
    };
    let value: i64 = String::from_utf8_lossy(&data)
        .parse()
        .expect("a number was written");
    let pending = recorder.invoke(Op::increment(counter, 1));
    match guard
        .txn()
        .set(counter, (value + 1).to_string())
        .commit()
        .await
    {
        Ok(_) => pending.ok(ReturnValue::value(value + 1)),
        Err(error) if error.is_outcome_unknown() => pending.unknown(error.to_string()),
        Err(error) => pending.failed(error.to_string()),
    }
}

/// How long after faults of these kinds the next lock was granted.
fn waits(struck: &[InjectedFault], grants: &[u64], kinds: &[Fault]) -> Vec<Duration> {
    let after = |began: u64| grants.iter().find(|at| **at > began).map(|at| at - began);
    struck
        .iter()
        .filter(|one| kinds.contains(&one.fault))
        .filter_map(|one| after(one.began))
        .map(Duration::from_nanos)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_breaks_one_holds_the_lock_and_nothing_is_lost_or_left() {
    // Before the run, so that a run that fails finds the servers' files.
    let ensemble = stage().await;
    let run = Run::seeded("nemesis-lock")
        .unwrap()
        .judged_by(FencedMutex::default().with_order())
        .unwrap()
        .judged_by(Counter::default())
        .unwrap()
        .judged_by(Liveness::default().with_rate(5))
        .unwrap()
        .judged_by(
            Liveness::default()
                .with_op("acquire")
                .with_progress_after(1)
                .with_bound(BOUND),
        )
        .unwrap();
    run.keep_with(ensemble.directories());
    let observer = observer(&ensemble).await;
    // A parent that stays, so that numbers do not begin anew.
    observer.create(PATH, "").parents().await.unwrap();
    for path in [
        rw::PATH,
        leader::PATH,
        breadcrumb::PATH,
        other_locks::COHORT,
        other_locks::REENTRANT,
        other_locks::MULTI_LOCK[0],
        other_locks::MULTI_LOCK[1],
        other_locks::MULTI_LOCK[2],
    ] {
        observer.create(path, "").await.unwrap();
    }
    observer.create(COUNTER, "0").await.unwrap();

    let (end, ends) = watch::channel(false);
    let grants = Grants::default();
    let recorder = run.recorder("workers").unwrap();
    let mut random = fastrand::Rng::with_seed(run.seed());
    let mut workers = JoinSet::new();
    for at in 0..WORKERS {
        let task = Work {
            recorder: recorder.task(at.to_string()),
            grants: grants.clone(),
            ends: ends.clone(),
        };
        workers.spawn(work(ensemble.connect_string(), PLACE, task, random.fork()));
    }
    for at in 0..SCRIBBLERS {
        let task = Work {
            recorder: recorder.task(format!("scribbler-{at}")),
            grants: grants.clone(),
            ends: ends.clone(),
        };
        let path = format!("/nemesis/scribble-{at}");
        workers.spawn(scribble(ensemble.connect_string(), path, task));
    }
    let connect = ensemble.connect_string();
    let mut beside = vec![
        rw::start(&connect, &ends, &mut random),
        semaphore::start(&connect, &ends, &mut random),
        leader::start(&connect, &ends, &mut random),
        breadcrumb::start(&connect, &ends, &mut random),
    ];
    beside.extend(other_locks::start(&connect, &ends, &mut random));
    let struck = inject_faults(&run, &ensemble).await;
    assert!(!struck.is_empty(), "nothing was broken");
    // If the lock is not granted any more, the checkers say so, with the history.
    drop(tokio::time::timeout(BOUND, grants.since(&struck, WORKERS)).await);
    let mut idle = Vec::new();
    for one in &beside {
        if !one.goes_on(&struck).await {
            idle.push(one.name());
        }
    }
    end.send(true).unwrap();
    workers.join_all().await;
    agreed(&ensemble);
    for one in beside {
        one.finish(&struck, &ensemble).await;
    }
    assert!(
        idle.is_empty(),
        "no more grants since the last fault: {idle:?}"
    );
    let excused = grants.excuse(&recorder, &struck);
    drop(recorder);

    // Sessions that were dropped with a lock of theirs end by and by.
    let paths = [
        PATH,
        rw::PATH,
        semaphore::QUEUE,
        semaphore::LEASES,
        leader::PATH,
        breadcrumb::PATH,
        other_locks::COHORT,
        other_locks::REENTRANT,
        other_locks::MULTI_LOCK[0],
        other_locks::MULTI_LOCK[1],
        other_locks::MULTI_LOCK[2],
    ];
    let at = watch::Sender::new(String::new());
    let left = async {
        let mut looks = tokio::time::interval(Duration::from_millis(50));
        for path in paths {
            loop {
                let left = match observer.list(path).await {
                    Ok((names, _)) => names,
                    // An unused container is deleted as well.
                    Err(error) if error.kind() == ErrorKind::NoNode => Vec::new(),
                    Err(error) => panic!("{path}: {error}"),
                };
                // The record of the last one that did not remove it.
                if left.iter().all(|name| name == breadcrumb::BREADCRUMB) {
                    break;
                }
                at.send_replace(format!("in {path}: {left:?}"));
                looks.tick().await;
            }
        }
    };
    let left = async {
        left.await;
        at.send_replace(format!("the node {}", other_locks::RACE));
        let gone = observer.wait_for_deletion(other_locks::RACE);
        gone.timeout(BOUND).await.unwrap();
    };
    let left = tokio::time::timeout(BOUND, left).await;
    assert!(left.is_ok(), "left behind {}", *at.borrow());
    let read = run.recorder("observer").unwrap();
    let pending = read.invoke(Op::read(COUNTER));
    observer.sync(COUNTER).with_quorum().await.unwrap();
    let (data, _) = observer.get(COUNTER).await.unwrap();
    let value: i64 = String::from_utf8_lossy(&data).parse().unwrap();
    pending.ok(ReturnValue::value(value));
    drop(read);

    let seed = run.seed();
    run.finish().unwrap_or_else(|error| panic!("{error}"));
    let grants = grants.times();
    println!(
        "seed {seed}: {} grants, {} faults: {:?}",
        grants.len(),
        struck.len(),
        tally(&struck)
    );
    println!("0 violations, 0 nodes left, counter at {value}");
    println!("{excused} guards of sessions that were ended by force");
    println!(
        "next grant after a kill: {}",
        spread(waits(&struck, &grants, &[Fault::Kill]))
    );
    let cuts = [Fault::Cut, Fault::LoseReply, Fault::LoseRequest];
    println!(
        "next grant after a cut: {}",
        spread(waits(&struck, &grants, &cuts))
    );
    println!(
        "next grant after a pause: {}",
        spread(waits(&struck, &grants, &[Fault::Pause]))
    );
    ensemble.down().await.unwrap();
}

async fn observer(ensemble: &Ensemble) -> Session {
    Session::builder(ensemble.direct_connect_string())
        .session_timeout(Duration::from_secs(60))
        .operation_timeout(Duration::from_secs(60))
        .connect()
        .await
        .expect("the ensemble grants a session")
}

mod deep {
    use super::*;

    /// Faults of connections and sessions, and elections. Between faults there is time for many turns.
    const FAULTS: [Fault; 7] = [
        Fault::Cut,
        Fault::LoseRequest,
        Fault::LoseReply,
        Fault::Silence,
        Fault::Slow,
        Fault::Expire,
        Fault::Kill,
    ];
    const ROUND: Duration = Duration::from_secs(30);
    /// The mean time of a grant at which the run is given up: a machine that does something else needs less.
    const LONGEST_EACH: Duration = Duration::from_millis(25);
    /// Locks apart from each other: the servers have room for more than one chain of turns.
    const LOCKS: usize = 8;
    const WORKERS_EACH: usize = 3;

    /// Returns how many grants are enough: `GRANTS`, or 100,000.
    fn enough() -> usize {
        std::env::var("GRANTS").map_or(100_000, |grants| grants.parse().expect("it is a number"))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_hundred_thousand_grants_under_faults_never_overlap() {
        let ensemble = stage().await;
        let run = Run::seeded("nemesis-grants").unwrap();
        let run = run.judged_by(FencedMutex::default().with_order()).unwrap();
        run.keep_with(ensemble.directories());
        let seed = run.seed();
        let mut random = fastrand::Rng::with_seed(seed);
        let recorder = run.recorder("nemesis").unwrap();
        let observer = observer(&ensemble).await;

        let (end, ends) = watch::channel(false);
        let mut lock = Beside::new("fair lock", run, "grants");
        for at in 0..LOCKS {
            let place = Place {
                lock: format!("{PATH}-{at}").into(),
                counter: format!("{COUNTER}-{at}").into(),
            };
            // A parent that stays, so that numbers do not begin anew.
            observer.create(&*place.lock, "").parents().await.unwrap();
            observer.create(&*place.counter, "0").await.unwrap();
            for _ in 0..WORKERS_EACH {
                let task = lock.task(&ends);
                let connect = ensemble.connect_string();
                lock.spawn(work(connect, place.clone(), task, random.fork()));
            }
        }
        let began = Instant::now();
        let mut struck = Vec::new();
        let enough = enough();
        let longest = ROUND * 4 + LONGEST_EACH * u32::try_from(enough).unwrap();
        while lock.granted() < enough {
            let granted = lock.granted();
            assert!(
                began.elapsed() < longest,
                "seed {seed}: only {granted} grants within {longest:?}"
            );
            let nemesis = Nemesis::new(random.u64(..))
                .faults(FAULTS)
                .pausing(Duration::from_secs(1), Duration::from_secs(4))
                .recorder(recorder.clone());
            let round = nemesis.run(&ensemble, ROUND).await;
            struck.extend(round.expect("faults can be made and undone"));
        }
        let took = began.elapsed();
        assert!(
            lock.goes_on(&struck).await,
            "seed {seed}: no more grants since the last fault"
        );
        end.send(true).unwrap();
        drop(recorder);
        let (granted, faults) = (lock.granted(), tally(&struck));
        // Said before the clients are judged: if the trees differ, a violation need not be theirs. Without one, the lock
        // has held all the same.
        if let Some(differs) = disagreement(&ensemble) {
            println!("{differs}");
        }
        lock.finish(&struck, &ensemble).await;
        println!(
            "seed {seed}: {granted} grants in {took:?} with {} faults, 0 violations: {faults:?}",
            struck.len()
        );
        observer.close().await.unwrap();
        ensemble.down().await.unwrap();
    }
}
