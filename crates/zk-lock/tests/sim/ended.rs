//! Waiters whose node is deleted, or whose session is ended, at the moment of their turn: they are not granted the
//! lock.

use std::time::Duration;

use tokio::task::JoinHandle;
use zk_core::Session;
use zk_lock::{AcquireError, FairLock, Guard, MultiLock};
use zk_sim::Ensemble;

use crate::{PATH, left, lock, pass, soon};

type Waiting = JoinHandle<Result<Guard, AcquireError>>;

fn waiter(session: &Session) -> Waiting {
    let lock = lock(session);
    tokio::spawn(async move { lock.acquire().await })
}

/// Ensembles that deliver two events together, and one after the other.
fn ensembles(seed: u64) -> [(String, Ensemble); 2] {
    let builder = || Ensemble::builder().servers(3).seed(seed);
    let slow = builder().bandwidth(BYTES_PER_SECOND).build();
    [
        (format!("seed {seed}"), builder().build()),
        (format!("seed {seed}, slow links"), slow),
    ]
}

async fn is_lost(waiting: Waiting, what: &str) -> AcquireError {
    let error = soon(what, waiting).await.unwrap();
    error
        .map(|guard| (guard.is_valid(), guard))
        .expect_err(what)
}

/// Waits until the removed contender is notified, and the last one is granted the lock.
async fn removed_and_granted(removed: Waiting, last: Waiting, what: &str) {
    let error = is_lost(removed, what).await;
    assert!(
        matches!(error, AcquireError::NodeDeleted { .. }),
        "{what}: {error}"
    );
    let guard = soon(what, last).await.unwrap().unwrap();
    assert!(guard.is_valid(), "{what}");
}

/// The holder removes the next one, at every moment of its first 15 ms in the queue, and releases the lock.
#[tokio::test(start_paused = true)]
async fn a_waiter_removed_as_it_becomes_the_next_is_granted_nothing() {
    for server in [1, 2] {
        for step in 0..60 {
            let what = format!("server {server}, step {step}");
            let ensemble = Ensemble::builder()
                .servers(3)
                .latency(Duration::from_micros(100))
                .build();
            let one: Session = ensemble.connect().server(1).await;
            let other: Session = ensemble.connect().server(server).await;
            let third: Session = ensemble.connect().server(3).await;
            let held = lock(&one).acquire().await.unwrap();
            let removed = waiter(&other);
            while left(&ensemble).len() < 2 {
                pass(Duration::from_micros(50)).await;
            }
            let last = waiter(&third);
            pass(step * Duration::from_micros(250)).await;
            let inspector = lock(&one).inspector();
            let contenders = lock(&one).inspector().contenders().await.unwrap();
            inspector.remove(&contenders[1]).await.unwrap();
            held.release().await.unwrap();
            removed_and_granted(removed, last, &what).await;
        }
    }
}

/// Two contenders leave at once, so that a third one is the next behind a holder that it does not watch yet. Right then its
/// node is deleted, and that of the holder.
#[tokio::test(start_paused = true)]
async fn a_waiter_removed_before_it_watches_its_new_predecessor_is_granted_nothing() {
    for step in 0..40 {
        let what = format!("step {step}");
        let ensemble = Ensemble::builder()
            .servers(3)
            .latency(Duration::from_micros(100))
            .build();
        let admin: Session = ensemble.connect().await;
        let (mut sessions, mut waiting, mut paths) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..5 {
            let session: Session = ensemble.connect().await;
            waiting.push(waiter(&session));
            sessions.push(session);
            pass(Duration::from_millis(50)).await;
            let queue = left(&ensemble);
            assert_eq!(queue.len(), at + 1);
            let new = queue.iter().map(|name| format!("{PATH}/{name}"));
            paths.extend(new.filter(|path| !paths.contains(path)).collect::<Vec<_>>());
        }
        let remove = async |paths: [&String; 2]| {
            let transaction = admin.transaction();
            let transaction = transaction.delete(paths[0]).delete(paths[1]);
            transaction.commit().await.unwrap();
        };
        remove([&paths[1], &paths[2]]).await;
        pass(step * Duration::from_micros(25)).await;
        remove([&paths[3], &paths[0]]).await;
        let last = waiting.pop().expect("there are five");
        let removed = waiting.pop().expect("there are five");
        removed_and_granted(removed, last, &what).await;
    }
}

/// While its connection is down, the next in line is removed and the lock is released: it is notified of both then, in
/// any order.
#[tokio::test(start_paused = true)]
async fn a_waiter_removed_while_it_is_cut_off_is_granted_nothing() {
    for (what, ensemble) in (0..8).flat_map(ensembles) {
        let one: Session = ensemble.connect().server(1).await;
        let other: Session = ensemble.connect().server(2).await;
        let third: Session = ensemble.connect().server(3).await;
        let held = lock(&one).acquire().await.unwrap();
        let removed = waiter(&other);
        pass(Duration::from_millis(100)).await;
        let last = waiter(&third);
        pass(Duration::from_millis(100)).await;
        let link = ensemble.session(other.id());
        link.cut_for(Duration::from_millis(500));
        let inspector = lock(&one).inspector();
        let contenders = inspector.contenders().await.unwrap();
        inspector.remove(&contenders[1]).await.unwrap();
        held.release().await.unwrap();
        removed_and_granted(removed, last, &what).await;
    }
}

/// The end of a session deletes all its nodes at once, that of its holder before that of its waiter.
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_session_is_ended_is_granted_nothing() {
    for server in 1..=3 {
        for (wait, (at, ensemble)) in [1, 5, 50, 500]
            .into_iter()
            .flat_map(|wait| ensembles(wait).map(|ensemble| (wait, ensemble)))
        {
            let what = format!("server {server}, {wait} ms, {at}");
            let session: Session = ensemble.connect().server(server).await;
            let held = lock(&session).acquire().await.unwrap();
            let waiting = waiter(&session);
            let path = FairLock::new(&session, PATH).unwrap();
            let other = FairLock::new(&session, "/locks/0").unwrap();
            let several = MultiLock::new([other, path]).unwrap();
            let several = tokio::spawn(async move { several.acquire().await });
            pass(Duration::from_millis(wait)).await;
            ensemble.expire(session.id());
            let error = is_lost(waiting, &what).await;
            assert!(
                matches!(error, AcquireError::SessionLost { .. }),
                "{what}: {error}"
            );
            let error = soon(&what, several).await.unwrap().expect_err(&what);
            let is_told = match &error {
                AcquireError::SessionLost { .. } => true,
                AcquireError::Lost { loss, .. } => *loss == zk_lock::LockLoss::SessionLost,
                _ => false,
            };
            assert!(is_told, "{what}: {error}");
            drop(held);
        }
    }
}

/// An event takes about a millisecond.
const BYTES_PER_SECOND: u32 = 50_000;
