//! Random faults, by seed, while sessions take several of three locks at once.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use zk_core::Session;
use zk_lock::{AcquireError, FencingToken, MultiGuard};
use zk_sim::{Chaos, Check};

use super::multi;
use crate::pass;

const PATHS: [&str; 3] = ["/multi/a", "/multi/b", "/multi/c"];

/// The state that all contenders of a run share.
#[derive(Debug, Default)]
struct Judge {
    held: Vec<(Vec<&'static str>, Arc<MultiGuard>)>,
    /// The highest token that a fenced resource has seen for each lock.
    highest: BTreeMap<&'static str, FencingToken>,
    grants: usize,
    /// How many locks were granted that had been granted before.
    handovers: usize,
}

impl Judge {
    /// Locks were granted: no other guard of one of them may be valid.
    fn granted(&mut self, paths: Vec<&'static str>, guard: MultiGuard) -> Arc<MultiGuard> {
        assert!(guard.is_valid());
        for (others, other) in &self.held {
            let shares = others.iter().any(|path| paths.contains(path));
            assert!(!shares || !other.is_valid(), "{other:?} and {guard:?}");
        }
        for (path, token) in paths.iter().zip(guard.fencing_tokens()) {
            let token = token.expect("a fair lock has one");
            let before = self.highest.insert(path, token);
            assert!(before < Some(token), "{path}: {before:?}, then {token}");
            self.handovers += usize::from(before.is_some());
        }
        self.grants += 1;
        let guard = Arc::new(guard);
        self.held.push((paths, Arc::clone(&guard)));
        guard
    }

    fn given_up(&mut self, guard: Arc<MultiGuard>) -> MultiGuard {
        self.held.retain(|(_, other)| !Arc::ptr_eq(other, &guard));
        Arc::into_inner(guard).expect("only the judge had another one")
    }
}

/// Takes two or three of the locks, and releases them, until the rounds are over or the session is.
async fn contend(session: Session, judge: Arc<Mutex<Judge>>, mut random: Rng) {
    for _ in 0..6 {
        let without = random.usize(0..=PATHS.len());
        let paths = PATHS.into_iter().enumerate();
        let paths = paths.filter_map(|(at, path)| (at != without).then_some(path));
        let paths: Vec<_> = paths.collect();
        let lock = multi(&session, &paths);
        let limit = Duration::from_micros(random.u64(0..20_000));
        let acquired = match random.u8(0..8) {
            0..4 => lock.acquire().await.map(Some),
            4 => lock.try_acquire().await,
            5 => lock.acquire_timeout(100 * limit).await.map(Some),
            _ => tokio::time::timeout(limit, lock.acquire())
                .await
                .map_or(Ok(None), |got| got.map(Some)),
        };
        let guard = match acquired {
            Ok(Some(guard)) => judge.lock().unwrap().granted(paths, guard),
            Ok(None)
            | Err(
                AcquireError::TimedOut(_) | AcquireError::Failed(_) | AcquireError::Lost { .. },
            ) => continue,
            Err(AcquireError::SessionLost { .. }) => return,
            Err(error) => panic!("{error:?}"),
        };
        pass(Duration::from_micros(random.u64(0..40_000))).await;
        if random.u8(0..30) == 0 {
            pass(Duration::from_secs(random.u64(0..20))).await;
        }
        let guard = judge.lock().unwrap().given_up(guard);
        if random.bool() {
            drop(guard.release().await);
        }
    }
}

#[test]
fn under_random_faults_no_lock_has_two_valid_guards() {
    let (grants, handovers) = (Cell::new(0), Cell::new(0));
    let checked = Check::new(0..250)
        .seeds_from_env()
        .run(async |ensemble, seed| {
            let judge: Arc<Mutex<Judge>> = Arc::default();
            let (mut tasks, mut sessions) = (Vec::new(), Vec::new());
            for me in 0..5 {
                let session = ensemble.connect().await;
                sessions.push(session.clone());
                let random = Rng::with_seed(seed * 10 + me);
                tasks.push(tokio::spawn(contend(session, Arc::clone(&judge), random)));
            }
            let chaos = Chaos::default()
                .lasting(Duration::from_secs(4))
                .every(Duration::from_millis(150))
                .longest(Duration::from_secs(16));
            chaos.run_during(&ensemble, tasks).await;
            ensemble.assert_nothing_left(sessions).await;
            let judge = judge.lock().unwrap();
            grants.set(grants.get() + judge.grants);
            handovers.set(handovers.get() + judge.handovers);
        });
    println!(
        "{} grants, {} handovers in {checked}",
        grants.get(),
        handovers.get()
    );
    let enough = grants.get() > 10 * checked.seeds && handovers.get() > 10 * checked.seeds;
    assert!(checked.seeds == 1 || enough, "too few to prove anything");
}
