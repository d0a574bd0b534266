//! Random faults, by seed: the leases never exceed the limit.

use std::sync::Arc;

use fastrand::Rng;
use zk_lock::{AcquireError, Semaphore, SemaphoreLease};

use super::semaphore;
use crate::chaos::{Attempt, Contender, Held, Judged, Record, Trial};

const LIMIT: u32 = 3;

/// A semaphore whose holders take some of the leases, and sometimes release one before the others.
struct Leases(Semaphore);

impl Judged for Leases {
    type Guard = SemaphoreLease;
    type Seen = ();

    async fn attempt(&self, random: &mut Rng) -> Result<Option<SemaphoreLease>, AcquireError> {
        let semaphore = self.0.with_count(random.u32(1..=LIMIT));
        Attempt::draw(random).at(&semaphore).await
    }

    fn check(
        record: &mut Record<()>,
        granted: &Held<SemaphoreLease>,
        valid: &[Arc<Held<SemaphoreLease>>],
    ) {
        let others: usize = valid.iter().map(|held| held.guard.count()).sum();
        let sum = others + granted.guard.count();
        assert!(sum <= LIMIT as usize, "{valid:#?} and {granted:#?}");
        let is_full = others > 0 && sum == LIMIT as usize;
        record.count("shared up to the limit", usize::from(is_full));
    }

    async fn while_held(
        &self,
        mut lease: SemaphoreLease,
        me: &mut Contender<Self>,
    ) -> Option<SemaphoreLease> {
        if me.random.bool() {
            drop(lease.split(1));
        }
        Some(lease)
    }
}

#[test]
fn under_random_faults_leases_never_exceed_the_limit() {
    let trial = Trial {
        seeds: 400,
        ..Trial::default()
    };
    trial.run(
        |session| [Leases(semaphore(session, LIMIT))],
        &[("grants", 15), ("shared up to the limit", 1)],
    );
}
