//! The one-shot lease, on servers whose clocks are not moved: leases end by the clock of the leader.

use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;
use zk_core::Session;
use zk_harness::nemesis::{Fault, Nemesis, fault_time};
use zk_history::check::FencedMutex;
use zk_history::{Op, ReturnValue, Run, now};
use zk_lock::{OneShotLease, OneShotLeaseOptions};

use super::work::{Beside, Work, open, pass};
use super::{agreed, stage};

const PATH: &str = "/nemesis/lease";
const WORKERS: usize = 3;
const DURATION: Duration = Duration::from_secs(1);
/// The servers are on one machine.
const CLOCK_ERROR: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread")]
async fn whatever_breaks_one_has_the_lease() {
    let ensemble = stage().await;
    let run = Run::seeded("nemesis-lease").unwrap();
    let run = run.judged_by(FencedMutex::default()).unwrap();
    run.keep_with(ensemble.directories());
    let seed = run.seed();
    let recorder = run.recorder("nemesis").unwrap();
    let (end, ends) = watch::channel(false);
    let mut leases = Beside::new("one-shot lease", run, "grants").without_excuses();
    for at in 0..WORKERS {
        let task = leases.task(&ends);
        leases.spawn(work(ensemble.connect_string(), task, at));
    }
    let faults = Fault::ALL.into_iter().filter(|one| *one != Fault::Clock);
    let nemesis = Nemesis::new(seed).faults(faults).recorder(recorder);
    let struck = nemesis.run(&ensemble, fault_time(Duration::from_secs(15)));
    let struck = struck.await.expect("faults can be made and undone");
    assert!(!struck.is_empty(), "nothing was broken");
    let goes_on = leases.goes_on(&struck).await;
    end.send(true).unwrap();
    agreed(&ensemble);
    leases.finish(&struck, &ensemble).await;
    assert!(goes_on, "seed {seed}: no more leases since the last fault");
    ensemble.down().await.unwrap();
}

async fn work(connect: String, work: Work, at: usize) {
    let working = async {
        let mut turns = 0_u32;
        loop {
            let session = open(&connect).await;
            while !session.state().is_lost() {
                // A name of its own for each lease: none is renewed.
                turns += 1;
                let holder = format!("{at}-{turns}");
                turn(&session, &work, holder).await;
            }
        }
    };
    work.until_over(working).await;
}

/// Takes the lease when the one before has ended, and relies on it for as long as it may.
async fn turn(session: &Session, work: &Work, holder: String) {
    let acquire = work.recorder.invoke(Op::acquire(PATH));
    let options = OneShotLeaseOptions::new(holder, DURATION).with_clock_error(CLOCK_ERROR);
    let lease = loop {
        match OneShotLease::try_take(session, PATH, &options).await {
            Ok(Some(lease)) => break lease,
            Ok(None) => pass(Duration::from_millis(50)).await,
            Err(error) => return acquire.unknown(error.to_string()),
        }
    };
    let granted = now();
    let valid_for = lease
        .valid_until()
        .saturating_duration_since(Instant::now());
    let end = lease.end().duration_since(SystemTime::UNIX_EPOCH);
    let end = end.expect("it is after 1970").as_secs();
    let held = work.granted(session, acquire, ReturnValue::token(end));
    lease.ended().await;
    let valid_for = u64::try_from(valid_for.as_nanos()).expect("it is a second");
    work.relied_until(&held, granted + valid_for);
    held.forget();
}
