//! The semaphore, beside the workers of the fair lock.

use std::time::Duration;

use tokio::sync::watch;
use zk_core::{ConnectionState, Session};
use zk_history::{Op, Run, check};
use zk_lock::Semaphore;

use super::work::{Beside, Work, open, pass};

const PATH: &str = "/nemesis/semaphore";
pub(super) const QUEUE: &str = "/nemesis/semaphore/locks";
pub(super) const LEASES: &str = "/nemesis/semaphore/leases";
const WORKERS: usize = 4;
const LIMIT: u32 = 2;

/// Lets workers take leases and give them back until `ends` says so.
pub(super) fn start(
    connect: &str,
    ends: &watch::Receiver<bool>,
    random: &mut fastrand::Rng,
) -> Beside {
    let run = Run::seeded("nemesis-semaphore")
        .unwrap()
        .judged_by(check::Semaphore::new(LIMIT))
        .unwrap();
    let mut beside = Beside::new("semaphore", run, "grants");
    for _ in 0..WORKERS {
        let task = beside.task(ends);
        beside.spawn(work(connect.to_owned(), task, random.fork()));
    }
    beside
}

async fn work(connect: String, work: Work, mut random: fastrand::Rng) {
    let working = async {
        loop {
            let session = open(&connect).await;
            let semaphore = Semaphore::new(&session, PATH, LIMIT).expect("the path is one");
            while !session.state().is_lost() {
                turn(&session, &semaphore, &work, &mut random).await;
            }
        }
    };
    work.until_over(working).await;
}

/// Acquires one or more leases, holds them for a moment, and gives them back.
async fn turn(session: &Session, semaphore: &Semaphore, work: &Work, random: &mut fastrand::Rng) {
    let count = random.u32(1..=LIMIT);
    let acquire = work.recorder.invoke(Op::acquire_permits(PATH, count));
    let lease = match semaphore.with_count(count).acquire().await {
        Ok(lease) => lease,
        Err(error) => return acquire.unknown(error.to_string()),
    };
    let held = work.granted(session, acquire, ());
    let time = Duration::from_millis(random.u64(0..8));
    let holding = async {
        pass(time).await;
        lease.txn().commit().await.is_ok()
    };
    let holds = tokio::select! {
        biased;
        _loss = lease.lost() => false,
        is_held = holding => is_held && session.state() == ConnectionState::Connected,
    };
    work.end(lease, held, holds).await;
}
