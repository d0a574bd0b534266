//! Computes and checks the digest of the superuser, which a server's configuration contains instead of the password.
//!
//! Pure: no I/O and no clock.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

use super::SpecError;

/// Returns the digest for [`Spec::superuser`](super::Spec::superuser) of a superuser with this password.
///
/// A client becomes the superuser with the credentials `super:password` of the scheme `digest`.
///
/// ```
/// let digest = zk_harness::superuser_digest("secret");
/// assert_eq!(digest, "super:lK75jTNcA+U9vtVEw5vB51mj/w4=");
/// ```
pub fn superuser_digest(password: &str) -> String {
    let hash = Sha1::digest(format!("{USER}:{password}"));
    format!("{USER}:{}", STANDARD.encode(hash))
}

pub(super) fn validate(digest: &str) -> Result<(), SpecError> {
    let hash = digest
        .strip_prefix(USER)
        .and_then(|rest| rest.strip_prefix(':'));
    let hash = hash.and_then(|hash| STANDARD.decode(hash).ok());
    if hash.is_some_and(|hash| hash.len() == Sha1::output_size()) {
        return Ok(());
    }
    // It may be a password by mistake.
    let rule = "must be `super:` and a SHA-1 hash in Base64, as `superuser_digest` returns it";
    Err(SpecError::new("superuser", "(secret)", rule))
}

const USER: &str = "super";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_digest_is_accepted_and_a_password_not_repeated() {
        assert_eq!(validate(&superuser_digest("x")), Ok(()));
        for wrong in [
            "",
            "super",
            "super:",
            "super:c2hvcnQ=",
            "root:lK75jTNcA+U9vtVEw5vB51mj/w4=",
        ] {
            assert!(validate(wrong).is_err(), "{wrong} was accepted");
        }
        let error = validate("super:letmein").unwrap_err().to_string();
        assert!(!error.contains("letmein"), "{error}");
    }
}
