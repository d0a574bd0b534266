//! Strategies that choose one of several instances.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::instance::Instance;
use crate::stable_hash::{mix, stable_hash};

pub(crate) mod prefer_zone;
pub(crate) mod weighted;

/// An instance that may be picked; cheap to clone.
pub struct Candidate<P>(Arc<Inner<P>>);

struct Inner<P> {
    incarnation: Incarnation,
    instance: Arc<Instance<P>>,
    uses: Arc<AtomicUsize>,
}

/// Identifies one node: a later node of the same name is another incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Incarnation {
    /// The hash of its name.
    name: u64,
    /// Not unique alone: one transaction may create several nodes.
    czxid: i64,
}

impl Incarnation {
    pub(crate) fn of(name: &str, czxid: i64) -> Self {
        Self {
            name: stable_hash(name.as_bytes()),
            czxid,
        }
    }
}

impl<P> Candidate<P> {
    pub(crate) fn new(
        incarnation: Incarnation,
        instance: Arc<Instance<P>>,
        uses: Arc<AtomicUsize>,
    ) -> Self {
        Self(Arc::new(Inner {
            incarnation,
            instance,
            uses,
        }))
    }

    pub(crate) fn incarnation(&self) -> Incarnation {
        self.0.incarnation
    }

    /// Returns the instance.
    pub fn instance(&self) -> &Arc<Instance<P>> {
        &self.0.instance
    }

    /// Returns how many [`Picked`](crate::Picked) of this process refer to it now.
    pub fn in_use(&self) -> usize {
        self.0.uses.load(Ordering::Relaxed)
    }

    pub(crate) fn uses(&self) -> &Arc<AtomicUsize> {
        &self.0.uses
    }
}

impl<P> Clone for Candidate<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P> fmt::Debug for Candidate<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate")
            .field("instance", &self.0.instance)
            .field("in_use", &self.in_use())
            .finish()
    }
}

/// The instances that may be picked now: a slice of [`Candidate`]s, in the order of their nodes.
///
/// It does not change. After each change there is another value, with another [`id`](Self::id).
pub struct Candidates<P> {
    id: ListId,
    candidates: Vec<Candidate<P>>,
}

/// Identifies [`Candidates`] within this process, so that a strategy can keep what it has computed from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListId(u64);

impl<P> Candidates<P> {
    pub(crate) fn new(candidates: Vec<Candidate<P>>) -> Self {
        Self {
            id: ListId(LISTS.fetch_add(1, Ordering::Relaxed)),
            candidates,
        }
    }

    /// Returns the id of these candidates. Others never have the same.
    pub const fn id(&self) -> ListId {
        self.id
    }
}

impl<P> Deref for Candidates<P> {
    type Target = [Candidate<P>];

    fn deref(&self) -> &[Candidate<P>] {
        &self.candidates
    }
}

/// The same candidates have the same id.
impl<P> Clone for Candidates<P> {
    fn clone(&self) -> Self {
        Self {
            id: self.id,
            candidates: self.candidates.clone(),
        }
    }
}

impl<P> fmt::Debug for Candidates<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.candidates).finish()
    }
}

/// The number of lists that were made.
static LISTS: AtomicU64 = AtomicU64::new(0);

/// Chooses one of several instances.
///
/// It runs on the thread of the caller of `pick`, and must not block.
pub trait Strategy<P> {
    /// Chooses one of `among`, which is not empty. The order is stable while the instances are the same.
    fn choose(&self, among: &Candidates<P>) -> Candidate<P>;
}

impl<P, S: Strategy<P> + ?Sized> Strategy<P> for &S {
    fn choose(&self, among: &Candidates<P>) -> Candidate<P> {
        (**self).choose(among)
    }
}

impl<P, S: Strategy<P> + ?Sized> Strategy<P> for Arc<S> {
    fn choose(&self, among: &Candidates<P>) -> Candidate<P> {
        (**self).choose(among)
    }
}

/// Picks one instance after the other, in the order of their nodes.
///
/// The position is kept when instances come or go, so an instance may be skipped or picked twice.
#[derive(Debug, Default)]
pub struct RoundRobin {
    next: AtomicUsize,
}

impl RoundRobin {
    /// Starts at the first instance.
    pub const fn new() -> Self {
        Self {
            next: AtomicUsize::new(0),
        }
    }

    /// Starts at a random instance, so that processes that start together do not all pick the same instance first.
    pub fn anywhere() -> Self {
        Self {
            next: AtomicUsize::new(fastrand::usize(..)),
        }
    }
}

impl<P> Strategy<P> for RoundRobin {
    fn choose(&self, among: &Candidates<P>) -> Candidate<P> {
        among[self.next.fetch_add(1, Ordering::Relaxed) % among.len()].clone()
    }
}

/// Picks an instance uniformly at random.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing to set")]
pub struct Random;

impl<P> Strategy<P> for Random {
    fn choose(&self, among: &Candidates<P>) -> Candidate<P> {
        among[fastrand::usize(..among.len())].clone()
    }
}

/// Picks the instance that this process has [in use](Candidate::in_use) least; ties are broken uniformly at random.
///
/// Picks of several threads at the same moment may go to the same instance.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing to set")]
pub struct LeastUsed;

impl<P> Strategy<P> for LeastUsed {
    fn choose(&self, among: &Candidates<P>) -> Candidate<P> {
        let mut best = &among[0];
        let mut least = best.in_use();
        let mut equals = 1;
        for candidate in &among[1..] {
            let uses = candidate.in_use();
            if uses < least {
                (best, least, equals) = (candidate, uses, 1);
            } else if uses == least {
                // Reservoir sampling: the n-th equal replaces the previous ones with probability 1/n.
                equals += 1;
                if fastrand::usize(..equals) == 0 {
                    best = candidate;
                }
            }
        }
        best.clone()
    }
}

/// Picks the same instance for the same key in every process, while that instance exists.
///
/// It uses rendezvous hashing: each instance has a score for the key, and the highest score wins.
/// When an instance goes, only its keys move, evenly to all others. When an instance comes, it receives its even share
/// of the keys, and no other key moves.
/// The score combines the 64-bit FNV-1a hashes of the node name, which usually is the id, and of the key, mixed as in
/// `SplitMix64`. It is the same in every process, on every machine, and in every version of this crate.
///
/// # Cost
///
/// A few nanoseconds per instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsistentHash {
    key: u64,
}

impl ConsistentHash {
    /// Chooses by this key.
    pub fn of(key: impl AsRef<[u8]>) -> Self {
        Self {
            key: stable_hash(key.as_ref()),
        }
    }

    fn score<P>(self, candidate: &Candidate<P>) -> u64 {
        // The key is turned, since otherwise an id that is the same as the key would give nothing.
        mix(candidate.0.incarnation.name ^ self.key.rotate_left(32))
    }
}

impl<P> Strategy<P> for ConsistentHash {
    fn choose(&self, among: &Candidates<P>) -> Candidate<P> {
        let mut best = &among[0];
        let mut most = self.score(best);
        for candidate in &among[1..] {
            let score = self.score(candidate);
            if score > most {
                (best, most) = (candidate, score);
            }
        }
        best.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::Strategy;
    use super::*;

    fn candidates(ids: impl IntoIterator<Item = usize>) -> Candidates<()> {
        let candidate = |id: usize| {
            let built = Instance::builder("s", ())
                .id(format!("10.0.0.{id}:80"))
                .build();
            let built = built.unwrap();
            let incarnation = Incarnation::of(built.id(), 1);
            Candidate::new(incarnation, Arc::new(built), Arc::default())
        };
        Candidates::new(ids.into_iter().map(candidate).collect())
    }

    fn id(candidate: &Candidate<()>) -> String {
        candidate.instance().id().to_owned()
    }

    fn counted(strategy: &dyn Strategy<()>, among: &Candidates<()>, times: usize) -> Vec<usize> {
        let mut counts: BTreeMap<_, _> = among.iter().map(|one| (id(one), 0)).collect();
        for _ in 0..times {
            *counts.get_mut(&id(&strategy.choose(among))).unwrap() += 1;
        }
        counts.into_values().collect()
    }

    #[test]
    fn round_robin_takes_one_after_the_other_also_past_the_end_of_its_numbers() {
        let among = candidates(0..3);
        assert_eq!(counted(&RoundRobin::new(), &among, 9), [3, 3, 3]);
        let last = RoundRobin {
            next: AtomicUsize::new(usize::MAX),
        };
        assert_eq!(counted(&last, &among, 1).iter().sum::<usize>(), 1);
        counted(&RoundRobin::anywhere(), &among, 1);
        assert_eq!(counted(&RoundRobin::new(), &among, 2), [1, 1, 0]);
    }

    #[test]
    fn random_takes_each_as_often() {
        let among = candidates(0..4);
        for count in counted(&Random, &among, 40_000) {
            assert!((9_000..11_000).contains(&count), "{count}");
        }
    }

    #[test]
    fn least_used_takes_those_that_are_used_least() {
        let among = candidates(0..3);
        for (uses, possible) in [
            ([2, 1, 2], vec!["10.0.0.1:80"]),
            ([0, 1, 0], vec!["10.0.0.0:80", "10.0.0.2:80"]),
            ([usize::MAX, usize::MAX, 7], vec!["10.0.0.2:80"]),
        ] {
            for (one, uses) in among.iter().zip(uses) {
                one.uses().store(uses, Ordering::Relaxed);
            }
            let mut seen = std::collections::BTreeSet::new();
            for _ in 0..200 {
                seen.insert(id(&LeastUsed.choose(&among)));
            }
            assert!(seen.iter().eq(&possible), "{uses:?}: {seen:?}");
        }
        // All as much as can be.
        for one in &*among {
            one.uses().store(usize::MAX, Ordering::Relaxed);
        }
        LeastUsed.choose(&among);
    }

    #[test]
    fn least_used_takes_each_of_those_that_are_used_least_as_often() {
        let among = candidates(0..5);
        among[0].uses().store(1, Ordering::Relaxed);
        among[3].uses().store(1, Ordering::Relaxed);
        let counts = counted(&LeastUsed, &among, 30_000);
        assert_eq!((counts[0], counts[3]), (0, 0));
        for at in [1, 2, 4] {
            assert!((9_000..11_000).contains(&counts[at]), "{counts:?}");
        }
    }

    /// These values are for ever: another version of this crate has to choose the same.
    #[test]
    fn consistent_hashes_are_the_same_in_every_version() {
        let among = candidates(0..5);
        let chosen =
            ["a", "b", "user-42", ""].map(|key| id(&ConsistentHash::of(key).choose(&among)));
        assert_eq!(
            chosen,
            ["10.0.0.4:80", "10.0.0.3:80", "10.0.0.1:80", "10.0.0.0:80"]
        );
    }

    #[test]
    fn when_an_instance_goes_its_share_of_the_keys_moves_and_nothing_else() {
        const KEYS: usize = 20_000;
        for count in [2, 5, 20] {
            let all = candidates(0..count);
            let mut moved_to = BTreeMap::<_, usize>::new();
            let mut moved = 0;
            let gone = id(&all[1]);
            let rest = all.iter().filter(|one| id(one) != gone).cloned();
            let rest = Candidates::new(rest.collect());
            for key in 0..KEYS {
                let hash = ConsistentHash::of(format!("user-{key}"));
                let (before, after) = (id(&hash.choose(&all)), id(&hash.choose(&rest)));
                if before == gone {
                    moved += 1;
                    *moved_to.entry(after).or_default() += 1;
                } else {
                    assert_eq!(before, after);
                }
            }
            let share = KEYS / count;
            assert!(
                (share * 9 / 10..share * 11 / 10).contains(&moved),
                "{count}: {moved}"
            );
            // Evenly to all the others.
            let part = moved / (count - 1);
            for (to, keys) in moved_to {
                assert!(
                    (part / 2..=part * 2).contains(&keys),
                    "{count}: {to} {keys}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn consistent_hashes_do_not_depend_on_the_order(
            mut ids in proptest::collection::hash_set(0_usize..1000, 1..20),
            key in any::<Vec<u8>>(),
        ) {
            let one = candidates(ids.iter().copied());
            let mut other = candidates(ids.drain()).to_vec();
            other.sort_by_key(id);
            let other = Candidates::new(other);
            let hash = ConsistentHash::of(key);
            prop_assert_eq!(id(&hash.choose(&one)), id(&hash.choose(&other)));
        }
    }
}
