//! Computes session passwords like the servers, with `java.util.Random`.

/// Returns the password of the session with this id.
///
/// It is `new Random(id ^ 0xB3415C00L).nextBytes(16)`, as in `ZooKeeperServer.generatePasswd` of all versions from 3.4
/// to 3.9, so the password follows from the id.
pub(super) fn session_password(session: i64) -> [u8; 16] {
    let mut random = Random::new(session ^ SUPER_SECRET);
    let mut password = [0; 16];
    for word in password.chunks_exact_mut(4) {
        word.copy_from_slice(&random.next_int().to_le_bytes());
    }
    password
}

/// The linear congruential generator of the documentation of `java.util.Random`.
struct Random {
    seed: i64,
}

impl Random {
    fn new(seed: i64) -> Self {
        Self {
            seed: (seed ^ MULTIPLIER) & MASK,
        }
    }

    fn next_int(&mut self) -> i32 {
        self.seed = self.seed.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        i32::try_from((self.seed >> 16) << 32 >> 32).expect("32 bits are left")
    }
}

const SUPER_SECRET: i64 = 0xB341_5C00;
const MULTIPLIER: i64 = 0x5_DEEC_E66D;
const MASK: i64 = (1 << 48) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_the_same_as_in_java() {
        // `new java.util.Random(42).nextInt()`, three times.
        let mut random = Random::new(42);
        assert_eq!(
            [random.next_int(), random.next_int(), random.next_int()],
            [-1_170_105_035, 234_785_527, -1_360_544_799]
        );
    }
}
