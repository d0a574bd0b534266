//! How connections are encrypted: with a configuration of rustls, or with certificates in PEM.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateRevocationListDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use crate::session::{Host, TlsFailure};

/// How connections are encrypted; see [`Config::tls`](crate::Config::tls).
///
/// The hosts must have the `secureClientPort` of the servers.
/// A server has to prove with its certificate that it has the name, or the address, that it was connected to.
///
/// ```no_run
/// use std::path::Path;
/// use std::time::Duration;
/// use zk_wire::{Certificates, Config};
///
/// let certificates = Certificates::trusting(Path::new("ca.pem"))
///     .with_identity(Path::new("client.pem"), Path::new("client-key.pem"));
/// let mut config = Config::new(Duration::from_secs(10));
/// config.tls = Some(certificates.into());
/// ```
#[derive(Debug, Clone)]
pub struct Tls {
    source: Source,
    server_name: Option<ServerName<'static>>,
}

#[derive(Debug, Clone)]
enum Source {
    Config(Arc<ClientConfig>),
    Certificates(Certificates),
}

impl Tls {
    /// Expects this name or address in the certificate of each server, and asks for it (SNI), instead of the one that
    /// was connected to.
    ///
    /// # Errors
    ///
    /// If it is neither a DNS name nor an address.
    pub fn with_server_name(mut self, name: &str) -> Result<Self, InvalidServerName> {
        self.server_name = Some(server_name(name)?);
        Ok(self)
    }

    /// Returns what a connection to a host needs. Reads the files.
    pub(crate) fn for_host(
        &self,
        host: &Host,
    ) -> Result<(Arc<ClientConfig>, ServerName<'static>), TlsFailure> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => server_name(&host.name).map_err(unusable)?,
        };
        let config = match &self.source {
            Source::Config(config) => Arc::clone(config),
            Source::Certificates(certificates) => Arc::new(certificates.config()?),
        };
        Ok((config, name))
    }
}

impl From<Arc<ClientConfig>> for Tls {
    fn from(config: Arc<ClientConfig>) -> Self {
        Self {
            source: Source::Config(config),
            server_name: None,
        }
    }
}

impl From<Certificates> for Tls {
    fn from(certificates: Certificates) -> Self {
        Self {
            source: Source::Certificates(certificates),
            server_name: None,
        }
    }
}

/// Certificates and a key in PEM. Files are read again for each connection, so that replaced ones are used.
///
/// The cryptography is that of [`with_provider`](Self::with_provider), or else the default one of the process
/// ([`CryptoProvider::install_default`]), or else that of the feature `ring`.
#[derive(Clone)]
pub struct Certificates {
    authorities: Pem,
    identity: Option<(Pem, Pem)>,
    provider: Option<Arc<CryptoProvider>>,
}

/// A file in PEM, or its contents. The debug output does not have the contents.
#[derive(Clone)]
#[expect(clippy::exhaustive_enums, reason = "there is nothing else")]
pub enum Pem {
    /// A file.
    File(PathBuf),
    /// The contents.
    Text(String),
}

impl Certificates {
    /// Accepts servers whose certificates were signed by one of these authorities. Revocation lists beside them apply.
    pub fn trusting(authorities: impl Into<Pem>) -> Self {
        Self {
            authorities: authorities.into(),
            identity: None,
            provider: None,
        }
    }

    /// Shows servers this certificate, with the chain up to the authority if there is one, and uses its key.
    #[must_use]
    pub fn with_identity(mut self, certificate: impl Into<Pem>, key: impl Into<Pem>) -> Self {
        self.identity = Some((certificate.into(), key.into()));
        self
    }

    /// Uses this cryptography, such as that of aws-lc-rs, or one that is validated. This crate's `tls` alone contains
    /// none.
    #[must_use]
    pub fn with_provider(mut self, provider: Arc<CryptoProvider>) -> Self {
        self.provider = Some(provider);
        self
    }

    fn config(&self) -> Result<ClientConfig, TlsFailure> {
        let provider = self.provider.clone().or_else(default_provider);
        let provider = provider.ok_or_else(|| TlsFailure::Configuration(NO_PROVIDER.to_owned()))?;
        let authorities = self.authorities.read()?;
        let mut roots = RootCertStore::empty();
        for certificate in self.authorities.all(&authorities)? {
            let added = roots.add(certificate);
            added.map_err(|error| self.authorities.invalid(error))?;
        }
        if roots.is_empty() {
            return Err(self.authorities.invalid("it has no certificate"));
        }
        let revoked = self
            .authorities
            .all::<CertificateRevocationListDer<'_>>(&authorities)?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(&provider))
                .with_crls(revoked)
                .build()
                .map_err(|error| self.authorities.invalid(error))?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_webpki_verifier(verifier);
        let Some((certificate, key)) = &self.identity else {
            return Ok(config.with_no_client_auth());
        };
        let chain = certificate.all(&certificate.read()?)?;
        if chain.is_empty() {
            return Err(certificate.invalid("it has no certificate"));
        }
        let private = PrivateKeyDer::from_pem_slice(&key.read()?);
        let private = private.map_err(|error| key.invalid(in_words(&error)))?;
        let config = config.with_client_auth_cert(chain, private);
        config.map_err(|error| key.invalid(error))
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("authorities", &self.authorities)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl Pem {
    fn read(&self) -> Result<Vec<u8>, TlsFailure> {
        match self {
            Self::File(file) => std::fs::read(file).map_err(|error| {
                TlsFailure::Configuration(format!("cannot read {}: {error}", file.display()))
            }),
            Self::Text(text) => Ok(text.clone().into_bytes()),
        }
    }

    /// Returns all items of a kind in the contents.
    fn all<T: PemObject>(&self, contents: &[u8]) -> Result<Vec<T>, TlsFailure> {
        let items = T::pem_slice_iter(contents).collect::<Result<_, _>>();
        items.map_err(|error| self.invalid(in_words(&error)))
    }

    fn invalid(&self, why: impl fmt::Display) -> TlsFailure {
        TlsFailure::Configuration(match self {
            Self::File(file) => format!("cannot use {}: {why}", file.display()),
            Self::Text(_) => format!("cannot use a text in PEM: {why}"),
        })
    }
}

impl From<PathBuf> for Pem {
    fn from(file: PathBuf) -> Self {
        Self::File(file)
    }
}

impl From<&Path> for Pem {
    fn from(file: &Path) -> Self {
        Self::File(file.to_owned())
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => f.debug_tuple("File").field(file).finish(),
            Self::Text(_) => f.write_str("Text(..)"),
        }
    }
}

/// A name that no certificate can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is neither a DNS name nor an address, so no certificate can be for it")]
pub struct InvalidServerName {
    name: String,
}

fn server_name(name: &str) -> Result<ServerName<'static>, InvalidServerName> {
    // The zone of a link-local address is this machine's, and in no certificate.
    let address = name.split_once('%').map_or(name, |(address, _)| address);
    let valid = ServerName::try_from(address.to_owned());
    valid.map_err(|_| InvalidServerName {
        name: name.to_owned(),
    })
}

fn default_provider() -> Option<Arc<CryptoProvider>> {
    let of_feature = || {
        #[cfg(feature = "ring")]
        let provider = Some(Arc::new(rustls::crypto::ring::default_provider()));
        #[cfg(not(feature = "ring"))]
        let provider = None;
        provider
    };
    CryptoProvider::get_default().cloned().or_else(of_feature)
}

/// Describes an error without what the text contains.
fn in_words(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a section has no end".to_owned(),
        pem::Error::IllegalSectionStart { .. } => "the begin of a section is malformed".to_owned(),
        pem::Error::NoItemsFound => "it has no private key".to_owned(),
        error => error.to_string(),
    }
}

fn unusable(error: impl fmt::Display) -> TlsFailure {
    TlsFailure::Configuration(error.to_string())
}

const NO_PROVIDER: &str =
    "there is no cryptography for TLS: enable the feature `ring` of zk-wire, or choose a provider";

#[cfg(test)]
mod tests;
