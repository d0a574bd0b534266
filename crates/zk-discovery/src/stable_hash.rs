//! A hash that is the same in every process, on every machine, and in every version of this crate.
//!
//! Part of the format of serverset nodes, and of the choices of [`ConsistentHash`](crate::ConsistentHash); never change.
//!
//! Pure: no I/O and no clock.

/// FNV-1a, mixed, because its upper bits depend little on short texts.
pub(crate) fn stable_hash(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mix(hash)
}

/// The last step of `SplitMix64`.
pub(crate) const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_the_same_in_every_version() {
        assert_eq!(stable_hash(b""), 0xf52a_15e9_a9b5_e89b);
        assert_eq!(stable_hash(b"a"), 0x02c0_bdbf_4814_20f8);
    }
}
