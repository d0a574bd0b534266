//! The identity behind a user and a password in the `digest` scheme.
//!
//! Pure: no I/O and no clock.

/// The id of a user: its name, and the base64 of the SHA-1 of name and password.
pub(crate) fn id_of(user: &str, password: &str) -> String {
    let hash = sha1(format!("{user}:{password}").as_bytes());
    format!("{user}:{}", base64(&hash))
}

fn sha1(message: &[u8]) -> [u8; 20] {
    let mut state: [u32; 5] = [
        0x6745_2301,
        0xefcd_ab89,
        0x98ba_dcfe,
        0x1032_5476,
        0xc3d2_e1f0,
    ];
    let mut padded = message.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend_from_slice(&(message.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks_exact(64) {
        mix(&mut state, block);
    }
    let mut hash = [0; 20];
    for (to, word) in hash.chunks_exact_mut(4).zip(state) {
        to.copy_from_slice(&word.to_be_bytes());
    }
    hash
}

fn mix(state: &mut [u32; 5], block: &[u8]) {
    let mut words = [0_u32; 80];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes
            .iter()
            .fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    for at in 16..80 {
        words[at] =
            (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
    }
    let [mut first, mut second, mut third, mut fourth, mut fifth] = *state;
    for (at, word) in words.iter().enumerate() {
        let (function, constant) = match at / 20 {
            0 => ((second & third) | (!second & fourth), 0x5a82_7999),
            1 => (second ^ third ^ fourth, 0x6ed9_eba1),
            2 => (
                (second & third) | (second & fourth) | (third & fourth),
                0x8f1b_bcdc,
            ),
            _ => (second ^ third ^ fourth, 0xca62_c1d6_u32),
        };
        let next = first
            .rotate_left(5)
            .wrapping_add(function)
            .wrapping_add(fifth)
            .wrapping_add(constant)
            .wrapping_add(*word);
        fifth = fourth;
        fourth = third;
        third = second.rotate_left(30);
        second = first;
        first = next;
    }
    for (sum, word) in state.iter_mut().zip([first, second, third, fourth, fifth]) {
        *sum = sum.wrapping_add(word);
    }
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0_usize, |bits, at| {
            bits << 8 | three.get(at).map_or(0, |byte| usize::from(*byte))
        });
        for at in 0..4 {
            text.push(if at <= three.len() {
                char::from(ALPHABET[bits >> (18 - 6 * at) & 63])
            } else {
                '='
            });
        }
    }
    text
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_standard() {
        let hex = |message: &[u8]| {
            sha1(message)
                .iter()
                .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
        };
        assert_eq!(hex(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(hex(b""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(
            hex(&vec![b'a'; 1_000_000]),
            "34aa973cd4c4daa4f61eeb2bdbad27316534016f"
        );
    }

    #[test]
    fn an_id_is_the_one_that_servers_know() {
        // The example of ZooKeeper's manual.
        assert_eq!(id_of("super", "test"), "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
        assert_eq!(base64(b"a"), "YQ==");
        assert_eq!(base64(b"ab"), "YWI=");
    }
}
