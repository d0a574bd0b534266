//! The strategy that picks in proportion to weights.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use arc_swap::ArcSwapOption;

use crate::instance::Instance;
use crate::pick::{Candidate, Candidates, ListId, Strategy};

/// Picks an instance at random, in proportion to its weight.
///
/// The weight is a function of the instance, such as a field of its payload or a parameter of its URL. An instance of
/// weight 0 is picked only if all that can be picked have weight 0; then all are picked alike.
/// Use one value for each service.
///
/// # Cost
///
/// A binary search, without a lock. The first pick from each list, which is a new one after each change and when an
/// instance is ejected or returns, calls the function once for each instance.
///
/// # Examples
///
/// ```
/// use zk_discovery::{Instance, Weighted};
///
/// // The payload of these instances is their weight.
/// let strategy = Weighted::by(|instance: &Instance<u32>| *instance.payload());
/// # drop(strategy);
/// ```
pub struct Weighted<F> {
    weight: F,
    /// The weights of the list that was picked from last.
    sums: ArcSwapOption<Sums>,
}

/// The weights of a list, added up.
struct Sums {
    list: ListId,
    /// The sum of the weights up to and with each candidate.
    up_to: Vec<u64>,
}

impl<F> Weighted<F> {
    /// Picks in proportion to what `weight` returns.
    ///
    /// It runs on the thread of the caller of `pick`, must not block, and should return the same for the same instance.
    pub fn by<P>(weight: F) -> Self
    where
        F: Fn(&Instance<P>) -> u32,
    {
        Self {
            weight,
            sums: ArcSwapOption::empty(),
        }
    }

    fn add_up<P>(&self, among: &Candidates<P>) -> Sums
    where
        F: Fn(&Instance<P>) -> u32,
    {
        // 2^32 weights of 32 bits fit into 64 bits.
        let up_to = among.iter().scan(0, |sum, candidate| {
            *sum += u64::from((self.weight)(candidate.instance()));
            Some(*sum)
        });
        Sums {
            list: among.id(),
            up_to: up_to.collect(),
        }
    }
}

impl<P, F: Fn(&Instance<P>) -> u32> Strategy<P> for Weighted<F> {
    fn choose(&self, among: &Candidates<P>) -> Candidate<P> {
        let known = self.sums.load();
        let chosen = match &*known {
            Some(sums) if sums.list == among.id() => sums.choose(),
            _ => {
                let sums = self.add_up(among);
                let chosen = sums.choose();
                self.sums.store(Some(sums.into()));
                chosen
            }
        };
        among[chosen].clone()
    }
}

impl Sums {
    fn choose(&self) -> usize {
        match self.up_to.last() {
            None | Some(0) => fastrand::usize(..self.up_to.len()),
            Some(total) => {
                let at = fastrand::u64(..total);
                self.up_to.partition_point(|up_to| *up_to <= at)
            }
        }
    }
}

impl<F> fmt::Debug for Weighted<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Weighted").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::pick::Incarnation;

    fn candidates(weights: &[u32]) -> Candidates<u32> {
        let candidate = |weight: &u32| {
            let built = Instance::builder("s", *weight).build().unwrap();
            let incarnation = Incarnation::of(built.id(), 1);
            Candidate::new(incarnation, Arc::new(built), Arc::default())
        };
        Candidates::new(weights.iter().map(candidate).collect())
    }

    /// Returns how often each was chosen, in their order.
    fn counted(strategy: &dyn Strategy<u32>, among: &Candidates<u32>, times: usize) -> Vec<usize> {
        let mut counts = vec![0; among.len()];
        for _ in 0..times {
            let chosen = strategy.choose(among);
            let at = among
                .iter()
                .position(|one| Arc::ptr_eq(one.instance(), chosen.instance()));
            counts[at.unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn each_instance_is_picked_in_proportion_to_its_weight() {
        let strategy = Weighted::by(|one: &Instance<u32>| *one.payload());
        for weights in [
            &[1, 2, 7][..],
            &[0, 1, 0, 3, 0],
            &[5],
            &[0, 0],
            &[u32::MAX, u32::MAX, 0],
        ] {
            let among = candidates(weights);
            let counts = counted(&strategy, &among, 20_000);
            let total: u64 = weights.iter().copied().map(u64::from).sum();
            for (weight, count) in weights.iter().zip(counts) {
                let share = match total {
                    0 => 20_000 / weights.len() as u64,
                    _ => 20_000 * u64::from(*weight) / total,
                };
                let (low, high) = (share * 9 / 10, share * 11 / 10);
                let count = count as u64;
                assert!(
                    (low..=high).contains(&count),
                    "{weights:?}: {weight} {count}"
                );
            }
        }
    }

    #[test]
    fn weights_are_added_up_once_for_each_list() {
        let calls = AtomicUsize::new(0);
        let strategy = Weighted::by(|one: &Instance<u32>| {
            calls.fetch_add(1, Ordering::Relaxed);
            *one.payload()
        });
        let (one, other) = (candidates(&[1, 2, 3]), candidates(&[4, 5]));
        for (list, expected) in [(&one, 3), (&one, 3), (&other, 5), (&one, 8)] {
            counted(&strategy, list, 50);
            assert_eq!(calls.load(Ordering::Relaxed), expected);
        }
    }
}
