//! The read/write lock, beside the workers of the fair lock.

use std::time::Duration;

use tokio::sync::watch;
use zk_core::{ConnectionState, Session};
use zk_history::check::ReadWriteLock;
use zk_history::{Op, ReturnValue, Run};
use zk_lock::{Guard, RwLock};

use super::work::{Beside, Work, open, pass};

pub(super) const PATH: &str = "/nemesis/rw";
const WORKERS: usize = 4;

/// Lets readers and writers work until `ends` says so.
pub(super) fn start(
    connect: &str,
    ends: &watch::Receiver<bool>,
    random: &mut fastrand::Rng,
) -> Beside {
    let run = Run::seeded("nemesis-rw")
        .unwrap()
        .judged_by(ReadWriteLock::default())
        .unwrap();
    let mut beside = Beside::new("read/write lock", run, "grants to readers");
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
            let lock = RwLock::new(&session, PATH).expect("the path is one");
            while !session.state().is_lost() {
                if random.u8(0..3) == 0 {
                    write(&session, &lock, &work, &mut random).await;
                } else {
                    read(&session, &lock, &work, &mut random).await;
                }
            }
        }
    };
    work.until_over(Box::pin(working)).await;
}

async fn read(session: &Session, lock: &RwLock, work: &Work, random: &mut fastrand::Rng) {
    let acquire = work.recorder.invoke(Op::acquire_shared(PATH));
    let guard = match lock.reader().acquire().await {
        Ok(guard) => guard,
        Err(error) => return acquire.unknown(error.to_string()),
    };
    let held = work.granted(session, acquire, token(&guard));
    let holds = hold(session, &guard, random).await;
    if !holds || random.bool() {
        return work.end(guard, held, holds).await;
    }
    let acquire = work.recorder.invoke(Op::acquire(PATH));
    match guard.upgrade_timeout(Duration::from_millis(200)).await {
        Ok(guard) if guard.is_valid() => {
            let writing = work.granted(session, acquire, token(&guard));
            work.released(held).ok(());
            let holds = hold(session, &guard, random).await;
            work.end(guard, writing, holds).await;
        }
        Ok(_) => {
            acquire.unknown("it may be lost by now");
            work.lost(held);
        }
        Err(error) => {
            acquire.failed(error.to_string());
            match error.into_guard() {
                Some(guard) => {
                    let holds = hold(session, &guard, random).await;
                    work.end(guard, held, holds).await;
                }
                None => work.lost(held),
            }
        }
    }
}

async fn write(session: &Session, lock: &RwLock, work: &Work, random: &mut fastrand::Rng) {
    let acquire = work.recorder.invoke(Op::acquire(PATH));
    let guard = match lock.writer().acquire().await {
        Ok(guard) => guard,
        Err(error) => return acquire.unknown(error.to_string()),
    };
    let held = work.granted(session, acquire, token(&guard));
    let holds = hold(session, &guard, random).await;
    if !holds || random.bool() {
        return work.end(guard, held, holds).await;
    }
    // From here on others may read.
    let release = work.released(held);
    let acquire = work.recorder.invoke(Op::acquire_shared(PATH));
    match guard.downgrade().await {
        Ok(guard) if guard.is_valid() => {
            let held = work.granted(session, acquire, token(&guard));
            release.ok(());
            let holds = hold(session, &guard, random).await;
            work.end(guard, held, holds).await;
        }
        Ok(_) => {
            acquire.unknown("it may be lost by now");
            release.unknown("it may have been lost");
        }
        Err(error) => {
            acquire.unknown(error.to_string());
            release.unknown(error.to_string());
        }
    }
}

fn token(guard: &Guard) -> ReturnValue {
    ReturnValue::token(guard.fencing_token().as_u64())
}

/// Holds the lock for a moment, and returns whether it was held until its end: by the word of the ensemble, so that a
/// session that was ended by force is noticed.
async fn hold(session: &Session, guard: &Guard, random: &mut fastrand::Rng) -> bool {
    let time = Duration::from_millis(random.u64(0..8));
    let held = async {
        pass(time).await;
        guard.txn().commit().await.is_ok()
    };
    tokio::select! {
        biased;
        _loss = guard.lost() => false,
        is_held = held => is_held && session.state() == ConnectionState::Connected,
    }
}
