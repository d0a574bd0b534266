//! Which options go together.

use super::*;

#[test]
fn every_combination_of_options_is_a_mode_or_an_error() {
    let ttls = [
        None,
        Some(Duration::from_millis(1)),
        Some(Duration::ZERO),
        Some(Duration::from_millis(1 << 40)),
    ];
    for bits in 0..8_u8 {
        for ttl in ttls {
            let (ephemeral, sequential, container) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
            let ttl_fits = ttl.is_none_or(|ttl| ttl == Duration::from_millis(1));
            let expected = match (ephemeral, sequential, container, ttl.is_some()) {
                (false, sequential, false, _) if ttl_fits => Some(match (sequential, ttl) {
                    (false, None) => CreateMode::Persistent,
                    (true, None) => CreateMode::PersistentSequential,
                    (false, Some(ttl)) => CreateMode::PersistentWithTtl(ttl),
                    (true, Some(ttl)) => CreateMode::PersistentSequentialWithTtl(ttl),
                }),
                (true, false, false, false) => Some(CreateMode::Ephemeral),
                (true, true, false, false) => Some(CreateMode::EphemeralSequential),
                (false, false, true, false) => Some(CreateMode::Container),
                _ => None,
            };
            let options = Options {
                ephemeral,
                sequential,
                container,
                ttl,
                ..Options::default()
            };
            assert_eq!(mode_of(options).ok(), expected, "{options:?}");
        }
    }
}
