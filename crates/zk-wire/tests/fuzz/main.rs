//! Arbitrary input for everything that handles what a server sends.
//!
//! The checks are also the bodies of the fuzz targets in `fuzz/`, which run for longer and look for input that reaches
//! new code. An input is a list of bytes in both.

#![cfg(test)]

use proptest::prelude::*;

mod decoders;
mod frames;
mod machine;
mod meaning;
mod program;
mod replies;
#[cfg(feature = "digest-md5")]
mod texts;

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn frames_do_not_depend_on_how_a_stream_is_split(
        input in bytes(400).prop_map(|bytes| frames::Input::from_bytes(&bytes)),
    ) {
        frames::check(&input);
    }

    #[test]
    fn a_message_is_what_its_own_bytes_say(
        input in bytes(400).prop_map(|bytes| decoders::Input::from_bytes(&bytes)),
    ) {
        decoders::check(&input);
    }

    #[cfg(feature = "digest-md5")]
    #[test]
    fn a_text_of_a_server_is_read_or_refused(
        input in bytes(200).prop_map(|bytes| texts::Input::from_bytes(&bytes)),
    ) {
        texts::check(&input);
    }

    #[test]
    fn a_session_keeps_its_guarantees_whatever_happens(
        program in bytes(1200).prop_map(|bytes| program::Program::from_bytes(&bytes)),
    ) {
        machine::check(&program);
    }
}

/// They take a few seconds; the fuzz targets run for longer.
const CASES: u32 = 4096;
