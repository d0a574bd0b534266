//! The TLS configuration of a session.

use std::fmt;

/// Certificates and keys in PEM, for [`SessionBuilder::tls`](crate::SessionBuilder::tls).
///
/// The connect string must contain the `secureClientPort` of the servers.
/// Host names are checked against the servers' certificates.
/// No debug output, error or log of this crate contains keys.
#[derive(Clone, Default)]
pub struct Tls {
    pub(crate) ca: String,
    pub(crate) identity: Option<(String, String)>,
}

impl Tls {
    /// Accepts servers whose certificates were signed by one of these authorities.
    ///
    /// `ca` contains one or more certificates and optional revocation lists.
    pub fn trusting(ca: impl Into<String>) -> Self {
        Self {
            ca: ca.into(),
            identity: None,
        }
    }

    /// Sets the client certificate, with the chain up to the authority, and its private key.
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
