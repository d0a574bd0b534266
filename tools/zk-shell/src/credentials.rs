//! What proves an identity to the servers, and what the servers have to prove: from the environment.

use std::env::var_os;
use std::fmt;
use std::path::PathBuf;

use zk_core::wire::Certificates;

use crate::failure::Failure;

/// What a session proves its identity with, and how it is encrypted.
#[derive(Debug, Default)]
pub(crate) struct Access {
    /// Users of the digest scheme.
    pub(crate) digest: Vec<Credentials>,
    pub(crate) sasl: Option<Credentials>,
    pub(crate) tls: Option<Certificates>,
}

/// A user and a password.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl Credentials {
    /// Returns those of an environment variable, if it is set and not empty.
    pub(crate) fn from_env(variable: &str) -> Result<Option<Self>, Failure> {
        // No message contains the value: it is a password, well-formed or not.
        let malformed = || {
            Failure::usage(
                format!("{variable} is not user:password"),
                "write alice:secret, or unset it",
            )
        };
        let Some(value) = var_os(variable).filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        let value = value.into_string().map_err(|_| malformed())?;
        match value.split_once(':') {
            Some((user, password)) if !user.is_empty() => Ok(Some(Self {
                user: user.to_owned(),
                password: password.to_owned(),
            })),
            _ => Err(malformed()),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Access {
    /// Returns what the variables that begin with `prefix` say.
    pub(crate) fn from_env(prefix: &str) -> Result<Self, Failure> {
        let digest = Credentials::from_env(&format!("{prefix}AUTH"))?;
        Ok(Self {
            digest: digest.into_iter().collect(),
            sasl: Credentials::from_env(&format!("{prefix}SASL"))?,
            tls: tls(prefix)?,
        })
    }

    /// Replaces the users, and the settings of TLS, by those of [`TARGET`], if they are set there, even to nothing: the
    /// users by any of their variables, TLS by that of the authorities. Returns what was not replaced.
    pub(crate) fn replace_for_target(&mut self) -> Result<Vec<&'static str>, Failure> {
        let target = Self::from_env(TARGET)?;
        let mut kept = Vec::new();
        if is_set_for_target(&USER) {
            (self.digest, self.sasl) = (target.digest, target.sasl);
        } else if self.has_user() {
            kept.push("credentials");
        }
        if is_set_for_target(&TLS[..1]) {
            self.tls = target.tls;
        } else if is_set_for_target(&TLS) {
            return Err(incomplete_tls(TARGET));
        } else if self.tls.is_some() {
            kept.push("TLS settings");
        }
        Ok(kept)
    }

    /// Returns whether there is a user.
    pub(crate) const fn has_user(&self) -> bool {
        !self.digest.is_empty() || self.sasl.is_some()
    }
}

/// Returns whether a variable for the target of `mirror` is set.
pub(crate) fn has_target_variables() -> bool {
    is_set_for_target(&USER) || is_set_for_target(&TLS)
}

fn is_set_for_target(names: &[&str]) -> bool {
    let mut names = names.iter();
    names.any(|name| var_os(format!("{TARGET}{name}")).is_some())
}

/// Returns the files of the variables `TLS_CA`, `TLS_CERTIFICATE` and `TLS_KEY`; `None` if the first is not set.
fn tls(prefix: &str) -> Result<Option<Certificates>, Failure> {
    let file = |name| var_os(format!("{prefix}{name}")).filter(|file| !file.is_empty());
    let ca = file("TLS_CA");
    let identity = (file("TLS_CERTIFICATE"), file("TLS_KEY"));
    match (ca, identity) {
        (None, (None, None)) => Ok(None),
        (Some(ca), (None, None)) => Ok(Some(Certificates::trusting(PathBuf::from(ca)))),
        (Some(ca), (Some(certificate), Some(key))) => {
            let identity = (PathBuf::from(certificate), PathBuf::from(key));
            let trusting = Certificates::trusting(PathBuf::from(ca));
            Ok(Some(trusting.with_identity(identity.0, identity.1)))
        }
        _ => Err(incomplete_tls(prefix)),
    }
}

fn incomplete_tls(prefix: &str) -> Failure {
    Failure::usage("the variables for TLS are incomplete", "").with_help(format!(
        "set {prefix}TLS_CA, and either both of {prefix}TLS_CERTIFICATE and {prefix}TLS_KEY or none"
    ))
}

/// What the variables of a session begin with.
pub(crate) const SESSION: &str = "ZK_";
/// What the variables for the target of `mirror` begin with.
const TARGET: &str = "ZK_TO_";
const USER: [&str; 2] = ["AUTH", "SASL"];
/// The first one says whether there is TLS.
const TLS: [&str; 3] = ["TLS_CA", "TLS_CERTIFICATE", "TLS_KEY"];
