//! Derives the id of a user of the `digest` scheme from a name and a password.
//!
//! Pure: no I/O and no clock.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha1::{Digest as _, Sha1};

/// Returns the id of a user: the name, a colon, and the base64 of the SHA-1 of `user:password`.
pub(crate) fn id_of(user: &str, password: &str) -> String {
    let hash = Sha1::digest(format!("{user}:{password}"));
    format!("{user}:{}", BASE64_STANDARD.encode(hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_one_that_servers_know() {
        // The example of ZooKeeper's manual.
        assert_eq!(id_of("super", "test"), "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
    }
}
