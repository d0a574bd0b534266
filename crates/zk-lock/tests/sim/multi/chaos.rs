//! Random faults, by seed, while sessions take several of three locks at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use zk_core::Session;
use zk_lock::{AcquireError, FencingToken, MultiGuard};

use super::multi;
use crate::chaos::{Attempt, Held, Judged, Record, Trial};
use crate::polled;

const PATHS: [&str; 3] = ["/multi/a", "/multi/b", "/multi/c"];

/// Two or three of the locks, others each time.
struct Several(Session);

impl Judged for Several {
    type Guard = MultiGuard;
    /// The highest token that a fenced resource has seen for each lock.
    type Seen = BTreeMap<String, FencingToken>;

    async fn attempt(&self, random: &mut Rng) -> Result<Option<MultiGuard>, AcquireError> {
        let mut paths = PATHS;
        random.shuffle(&mut paths);
        let lock = multi(&self.0, &paths[random.usize(0..=1)..]);
        let acquired = match Attempt::draw(random) {
            Attempt::Acquire => lock.acquire().await.map(Some),
            Attempt::TryAcquire => lock.try_acquire().await,
            Attempt::AcquireTimeout(limit) => lock.acquire_timeout(limit).await.map(Some),
            Attempt::DropAfter(limit) => {
                let acquired = tokio::time::timeout(limit, lock.acquire()).await;
                acquired.ok().transpose()
            }
            Attempt::DropAfterPolls(polls) => polled(polls, lock.acquire()).await.transpose(),
        };
        match acquired {
            // One of them, while it waited for the next.
            Err(AcquireError::Lost { .. }) => Ok(None),
            other => other,
        }
    }

    /// No other guard of one of the locks may be valid.
    fn check(
        record: &mut Record<Self::Seen>,
        granted: &Held<MultiGuard>,
        valid: &[Arc<Held<MultiGuard>>],
    ) {
        let paths = paths_of(&granted.guard);
        for held in valid {
            let others = paths_of(&held.guard);
            let shares = others.iter().any(|path| paths.contains(path));
            assert!(!shares, "{held:?} and {granted:?}");
        }
        for (path, token) in paths.into_iter().zip(granted.guard.fencing_tokens()) {
            let token = token.expect("a fair lock has one");
            let before = record.seen.insert(path.clone(), token);
            assert!(before < Some(token), "{path}: {before:?}, then {token}");
            record.count("handovers", usize::from(before.is_some()));
        }
    }
}

/// The paths of the locks that it holds.
fn paths_of(guard: &MultiGuard) -> Vec<String> {
    let locks = guard.paths().map(|node| node.parent().expect("a lock"));
    locks.map(|path| path.to_string()).collect()
}

#[test]
fn under_random_faults_no_lock_has_two_valid_guards() {
    let trial = Trial {
        seeds: 250,
        lasting: Duration::from_secs(4),
        ..Trial::default()
    };
    trial.run(
        |session| [Several(session.clone())],
        &[("grants", 10), ("handovers", 10)],
    );
}
