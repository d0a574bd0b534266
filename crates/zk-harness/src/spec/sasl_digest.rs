//! Defines the users of the SASL mechanism DIGEST-MD5.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::SpecError;

/// The users that the servers know, with the SASL mechanism DIGEST-MD5. Debug output contains no passwords.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SaslDigest {
    /// The passwords of the users, at least one. A name has letters, digits and `_`; a password has visible ASCII
    /// characters other than `"` and `\`.
    pub users: BTreeMap<String, String>,
    /// `sessionRequireClientSASLAuth`: whether the servers refuse every request of a client without SASL. Default false.
    /// Servers before 3.6 do not know it, and refuse none.
    ///
    /// The harness itself has no SASL. With this setting a start waits until the servers have elected a leader and
    /// grant sessions, and no node is written; and [`Ensemble::expire`](crate::Ensemble::expire) fails.
    pub required: bool,
}

impl SaslDigest {
    /// Returns users with their passwords. Authentication is not required.
    pub fn new<N: Into<String>, P: Into<String>>(users: impl IntoIterator<Item = (N, P)>) -> Self {
        let users = users.into_iter();
        Self {
            users: users
                .map(|(name, password)| (name.into(), password.into()))
                .collect(),
            required: false,
        }
    }

    /// Refuses every request of clients without SASL: [`required`](Self::required).
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    pub(super) fn validate(&self) -> Result<(), SpecError> {
        let field = "sasl_digest.users";
        if self.users.is_empty() {
            return Err(SpecError::new(field, "{}", "must have a user"));
        }
        for (name, password) in &self.users {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(plain) {
                let rule = "must be letters, digits and `_`";
                return Err(SpecError::new(field, format!("{name:?}"), rule));
            }
            let quotable = |c: char| c.is_ascii_graphic() && !"\"\\".contains(c);
            if password.is_empty() || !password.chars().all(quotable) {
                let rule = "the password must be visible ASCII characters other than `\"` and `\\`";
                return Err(SpecError::new(format!("{field}.{name}"), "(secret)", rule));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for SaslDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaslDigest")
            .field("users", &self.users.keys())
            .field("required", &self.required)
            .finish()
    }
}
