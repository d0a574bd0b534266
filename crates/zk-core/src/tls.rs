//! The TLS configuration of a session.

use std::fmt;
use std::path::PathBuf;

pub use zk_wire::{CertificateRefusal, TlsFailure};

/// Certificates and keys in PEM, for [`SessionBuilder::tls`](crate::SessionBuilder::tls).
///
/// The connect string must contain the `secureClientPort` of the servers.
/// Host names are checked against the servers' certificates.
/// No debug output, error or log of this crate contains keys.
///
/// Files are read again for each connection.
/// A certificate that is replaced before it expires is therefore used without a restart, from the next connection on.
///
/// The cryptography is the default one of the process, if it has one (`CryptoProvider::install_default` of rustls), or
/// else that of the crate ring.
#[derive(Clone)]
pub struct Tls {
    pub(crate) ca: Pem,
    pub(crate) identity: Option<(Pem, Pem)>,
}

/// Text in PEM, or the file that contains it.
#[derive(Clone)]
pub(crate) enum Pem {
    Text(String),
    File(PathBuf),
}

impl Tls {
    /// Accepts servers whose certificates were signed by one of these authorities.
    ///
    /// `ca` contains one or more certificates and optional revocation lists.
    pub fn trusting(ca: impl Into<String>) -> Self {
        Self::new(Pem::Text(ca.into()))
    }

    /// Accepts servers whose certificates were signed by one of the authorities in a file.
    ///
    /// The file contains one or more certificates and optional revocation lists.
    pub fn trusting_file(ca: impl Into<PathBuf>) -> Self {
        Self::new(Pem::File(ca.into()))
    }

    fn new(ca: Pem) -> Self {
        Self { ca, identity: None }
    }

    /// Sets the client certificate, with the chain up to the authority, and its private key.
    #[must_use]
    pub fn with_identity(mut self, certificate: impl Into<String>, key: impl Into<String>) -> Self {
        self.identity = Some((Pem::Text(certificate.into()), Pem::Text(key.into())));
        self
    }

    /// Sets the files of the client certificate, with the chain up to the authority, and of its private key.
    ///
    /// Replace both before the certificate expires, the key first: a connection that finds a certificate and a key that
    /// do not belong together fails and is tried again.
    #[must_use]
    pub fn with_identity_files(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.identity = Some((Pem::File(certificate.into()), Pem::File(key.into())));
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
