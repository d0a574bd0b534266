//! What proves an identity to the servers, and what the servers have to prove: from the environment.

use std::env::var_os;
use std::fmt;
use std::path::PathBuf;

use zk_core::Tls;

use crate::failure::Failure;

/// A user and a password.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl Credentials {
    /// Returns those of an environment variable, if it is set.
    pub(crate) fn from_env(variable: &str) -> Result<Option<Self>, Failure> {
        // No message contains the value: it is a password, well-formed or not.
        let malformed = || {
            Failure::usage(
                format!("{variable} is not user:password"),
                "write alice:secret, or unset it",
            )
        };
        let Some(value) = var_os(variable) else {
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

/// Returns the files of `ZK_TLS_CA`, `ZK_TLS_CERTIFICATE` and `ZK_TLS_KEY`; `None` if the first is not set.
pub(crate) fn tls() -> Result<Option<Tls>, Failure> {
    let file = |variable| var_os(variable).filter(|file| !file.is_empty());
    let ca = file("ZK_TLS_CA");
    let identity = (file("ZK_TLS_CERTIFICATE"), file("ZK_TLS_KEY"));
    match (ca, identity) {
        (None, (None, None)) => Ok(None),
        (Some(ca), (None, None)) => Ok(Some(Tls::trusting_file(ca))),
        (Some(ca), (Some(certificate), Some(key))) => {
            let identity = (PathBuf::from(certificate), PathBuf::from(key));
            Ok(Some(
                Tls::trusting_file(ca).with_identity_files(identity.0, identity.1),
            ))
        }
        _ => Err(Failure::usage(
            "the variables for TLS are incomplete",
            "set ZK_TLS_CA, and either both of ZK_TLS_CERTIFICATE and ZK_TLS_KEY or none",
        )),
    }
}
