//! Certificates and keys for encrypted connections.

use std::fmt;

/// What an encrypted connection needs, in PEM; used by [`SessionBuilder::tls`](crate::SessionBuilder::tls).
///
/// The servers must have a `secureClientPort`, which is the port to name in the connect string.
/// Host names are checked against the servers' certificates.
/// Keys are in no debug output, error or log of this crate.
#[derive(Clone, Default)]
pub struct Tls {
    pub(crate) ca: String,
    pub(crate) identity: Option<(String, String)>,
}

impl Tls {
    /// Trusts servers whose certificates were signed by one of these authorities.
    ///
    /// `ca` is one or more certificates, and revocation lists if there are any.
    pub fn trusting(ca: impl Into<String>) -> Self {
        Self {
            ca: ca.into(),
            identity: None,
        }
    }

    /// Shows this certificate to the server, with the chain up to the authority, and proves it with its private key.
    #[must_use]
    pub fn with_identity(mut self, certificate: impl Into<String>, key: impl Into<String>) -> Self {
        self.identity = Some((certificate.into(), key.into()));
        self
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("has_identity", &self.identity.is_some())
            .finish_non_exhaustive()
    }
}
