//! Decides which requests of a story are struck, by which strike and at which server.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use fastrand::Rng;

use crate::strike::STRIKES;

/// How many of its requests are struck in a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Each request by each strike, at the leader and at a follower.
    Full,
    /// Some requests, drawn from a seed.
    Sample(u64),
}

/// A strike of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Draw {
    /// The number of the strike in [`STRIKES`].
    pub(crate) strike: usize,
    /// 0 for the leader, 1 for a follower.
    pub(crate) home: usize,
    number: u64,
}

impl Extent {
    /// Parses the variables `SWEEP` and `SEED`; the error says what is wrong with one that has no meaning.
    pub(crate) fn parse(sweep: Option<&str>, seed: Option<&str>) -> Result<Self, String> {
        match (sweep, seed) {
            (Some("full"), _) => Ok(Self::Full),
            (Some(extent), _) => Err(format!(
                "SWEEP={extent:?} is not known: use full, or leave it out"
            )),
            (None, None) => Ok(Self::Sample(DEFAULT_SEED)),
            (None, Some(seed)) => seed.parse().map(Self::Sample).map_err(|error| {
                format!("SEED={seed:?} is not a whole number ({error}): use one such as 7")
            }),
        }
    }
}

impl Draw {
    /// Returns which of the story's requests is struck, counted from 1.
    pub(crate) const fn request(&self, requests: u64) -> u64 {
        self.number % requests + 1
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => formatter.write_str("SWEEP=full"),
            Self::Sample(seed) => write!(formatter, "SEED={seed}"),
        }
    }
}

/// Draws the strikes of a story: each kind at both servers, and one that takes long at one of them.
pub(crate) fn sample(seed: u64, story: &str) -> Vec<Draw> {
    // Otherwise all stories would be struck at the same places.
    let seed = story.bytes().fold(seed, |seed, byte| {
        seed.rotate_left(8).wrapping_mul(31) ^ u64::from(byte)
    });
    let mut rng = Rng::with_seed(seed);
    let mut draws = Vec::new();
    for (strike, kind) in STRIKES.iter().enumerate() {
        let homes = if kind.is_slow() {
            let home = rng.usize(0..2);
            home..=home
        } else {
            0..=1
        };
        for home in homes {
            let number = rng.u64(..);
            draws.push(Draw {
                strike,
                home,
                number,
            });
        }
    }
    draws
}

const DEFAULT_SEED: u64 = 1;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_sample_has_each_strike_at_both_servers_and_a_slow_one_at_one() {
        for seed in 0..100 {
            let draws = sample(seed, "lock");
            let distinct: BTreeSet<_> = draws.iter().map(|draw| (draw.strike, draw.home)).collect();
            assert_eq!(distinct.len(), draws.len());
            for (strike, kind) in STRIKES.iter().enumerate() {
                let of_it = draws.iter().filter(|draw| draw.strike == strike);
                assert_eq!(of_it.count(), if kind.is_slow() { 1 } else { 2 });
            }
        }
    }

    #[test]
    fn each_request_is_struck_by_each_strike_at_both_servers_for_some_seed() {
        const REQUESTS: u64 = 20;
        let mut struck = BTreeSet::new();
        for seed in 0..1000 {
            let draws = sample(seed, "lock");
            struck.extend(draws.iter().map(|draw| {
                let request = draw.request(REQUESTS);
                assert!((1..=REQUESTS).contains(&request));
                (draw.strike, draw.home, request)
            }));
        }
        assert_eq!(struck.len(), STRIKES.len() * 2 * 20);
    }

    #[test]
    fn a_sample_depends_on_the_seed_and_the_story_alone() {
        assert_eq!(sample(7, "lock"), sample(7, "lock"));
        assert_ne!(sample(7, "lock"), sample(8, "lock"));
        assert_ne!(sample(7, "lock"), sample(7, "rw"));
    }

    #[test]
    fn variables_choose_the_extent() {
        for (sweep, seed, extent) in [
            (None, None, Extent::Sample(DEFAULT_SEED)),
            (None, Some("7"), Extent::Sample(7)),
            (Some("full"), None, Extent::Full),
            (Some("full"), Some("7"), Extent::Full),
        ] {
            assert_eq!(Extent::parse(sweep, seed), Ok(extent));
        }
    }

    #[test]
    fn a_variable_without_a_meaning_is_refused() {
        for (sweep, seed, expected) in [
            (Some("long"), None, "use full"),
            (None, Some("x"), "not a whole number"),
        ] {
            let error = Extent::parse(sweep, seed).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
