//! Random faults, by seed: readers share the lock, writers are alone, and each may become the other.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use zk_lock::{
    AcquireError, FencingToken, Guard, HeldLock, LockGuard, ReadGuard, ReleaseError, RwLock,
    WriteGuard,
};

use super::rw;
use crate::chaos::{Attempt, Contender, Held, Judged, Record, Trial};

/// A guard of the lock.
#[derive(Debug)]
enum Holding {
    Reading(ReadGuard),
    Writing(WriteGuard),
}

impl Holding {
    fn writes(&self) -> bool {
        matches!(self, Self::Writing(_))
    }
}

impl Deref for Holding {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        match self {
            Self::Reading(guard) => guard,
            Self::Writing(guard) => guard,
        }
    }
}

impl LockGuard for Holding {
    type Token = FencingToken;

    fn token(&self) -> FencingToken {
        self.fencing_token()
    }

    fn held(&self) -> &HeldLock {
        self
    }

    async fn release(self) -> Result<(), ReleaseError> {
        match self {
            Self::Reading(guard) => guard.release().await,
            Self::Writing(guard) => guard.release().await,
        }
    }
}

#[derive(Default)]
struct Seen {
    /// The highest token that a fenced resource has seen.
    highest: Option<FencingToken>,
    highest_writer: Option<FencingToken>,
    /// The number of writers that were granted the lock.
    writers: usize,
}

/// A lock whose holders read or write, and change from one to the other.
struct ReadsAndWrites(RwLock);

impl Judged for ReadsAndWrites {
    type Guard = Holding;
    type Seen = Seen;

    async fn attempt(&self, random: &mut Rng) -> Result<Option<Holding>, AcquireError> {
        let attempt = Attempt::draw(random);
        Ok(if random.u8(0..5) < 3 {
            attempt.at(self.0.reader()).await?.map(Holding::Reading)
        } else {
            attempt.at(self.0.writer()).await?.map(Holding::Writing)
        })
    }

    /// No guard that this one excludes may be valid, and tokens increase.
    fn check(record: &mut Record<Seen>, granted: &Held<Holding>, valid: &[Arc<Held<Holding>>]) {
        let is_alone = |held: &Held<Holding>| held.guard.writes();
        let excluded = is_alone(granted) || valid.iter().any(|held| is_alone(held));
        assert!(!excluded || valid.is_empty(), "{valid:?} and {granted:?}");
        record.count("shared", valid.len());
        let (seen, token) = (&mut record.seen, Some(granted.guard.fencing_token()));
        if granted.guard.writes() {
            assert!(token > seen.highest, "{granted:?}");
            seen.highest_writer = token;
            seen.writers += 1;
        } else {
            // Equal for the downgraded writer itself.
            assert!(token >= seen.highest_writer, "{granted:?}");
        }
        seen.highest = seen.highest.max(token);
    }

    async fn while_held(&self, mut holding: Holding, me: &mut Contender<Self>) -> Option<Holding> {
        for _ in 0..me.random.u8(0..3) {
            let (token, wrote) = (holding.fencing_token(), holding.writes());
            let writers = me.judge().record.seen.writers;
            let changed = change(holding, &mut me.random).await?;
            // By now it may be lost; otherwise it was held all the time.
            if !changed.is_valid() {
                return None;
            }
            {
                let record = &mut me.judge().record;
                let another_wrote = record.seen.writers != writers;
                assert!(!another_wrote, "before {changed:?}");
                if changed.writes() {
                    assert!(changed.fencing_token() > token, "{changed:?}");
                    record.count("upgrades", 1);
                } else {
                    assert_eq!(changed.fencing_token(), token, "{changed:?}");
                    record.count("downgrades", usize::from(wrote));
                }
            }
            holding = me.hold(changed).await;
        }
        Some(holding)
    }
}

/// Downgrades a writer or upgrades a reader; `None` if nothing is held any more.
async fn change(holding: Holding, random: &mut Rng) -> Option<Holding> {
    let is_cancelled = random.u8(0..6) == 0;
    let limit = Duration::from_micros(random.u64(0..8_000));
    match holding {
        Holding::Writing(guard) if is_cancelled => {
            let done = tokio::time::timeout(limit, guard.downgrade()).await;
            Some(Holding::Reading(done.ok()?.ok()?))
        }
        Holding::Writing(guard) => Some(Holding::Reading(guard.downgrade().await.ok()?)),
        Holding::Reading(guard) if is_cancelled => {
            let done = tokio::time::timeout(limit, guard.upgrade()).await;
            Some(Holding::Writing(done.ok()?.ok()?))
        }
        Holding::Reading(guard) => {
            let upgraded = if random.bool() {
                guard.upgrade().await
            } else {
                let limit = Duration::from_millis(random.u64(0..2000));
                guard.upgrade_timeout(limit).await
            };
            match upgraded {
                Ok(writing) => Some(Holding::Writing(writing)),
                // Still a reader; if it waited, it may have been lost meanwhile.
                Err(error) => error.into_guard().map(Holding::Reading),
            }
        }
    }
}

#[test]
fn under_random_faults_readers_share_and_writers_are_alone() {
    let enough = [
        ("grants", 15),
        ("shared", 1),
        ("downgrades", 1),
        ("upgrades", 1),
    ];
    Trial::default().run(|session| [ReadsAndWrites(rw(session))], &enough);
}
