//! Creates certificates for servers and clients: good ones, and ones with a flaw for tests of refusals.
//!
//! Each ensemble with [`Spec::tls`](crate::Spec::tls) has an authority of its own, in PEM files below its directory.
//! [`Ensemble::certificates`] returns where they are:
//!
//! ```no_run
//! # async fn demo() -> Result<(), zk_harness::Error> {
//! use zk_harness::Ensemble;
//! use zk_harness::certificates::Flaw;
//!
//! let ensemble = Ensemble::builder().servers(1).tls(true).start().await?;
//! println!("connect with TLS to {}", ensemble.secure_connect_string()?);
//!
//! let certificates = ensemble.certificates()?;
//! println!("authority: {}", certificates.authority().display());
//! let client = certificates.client();
//! println!("show {} with {}", client.certificate.display(), client.key.display());
//!
//! // The server shows an expired certificate when it has been restarted.
//! certificates.replace_server(1, Some(Flaw::Expired))?;
//! # Ok(())
//! # }
//! ```

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};

use crate::config::Plan;
#[cfg(doc)]
use crate::ensemble::Ensemble;
use crate::error::Error;
use crate::private_files::{create_directory, write};

/// Where the certificates of an ensemble are, and how to replace those of its servers.
#[derive(Debug, Clone)]
pub struct Certificates {
    plan: Arc<Plan>,
}

/// A certificate and its private key, each in a PEM file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// The file with the certificate.
    pub certificate: PathBuf,
    /// The file with the private key, in PKCS #8.
    pub key: PathBuf,
}

/// Why a certificate is to be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "tests try each of them")]
pub enum Flaw {
    /// It was valid for one year, years ago.
    Expired,
    /// It is for `elsewhere.example` instead of `localhost` and 127.0.0.1.
    OtherHost,
    /// It was signed by [another authority](Certificates::other_authority).
    OtherAuthority,
}

impl Certificates {
    pub(crate) const fn new(plan: Arc<Plan>) -> Self {
        Self { plan }
    }

    /// Returns the file with the certificate of the authority, which has signed those of the servers.
    pub fn authority(&self) -> PathBuf {
        self.plan.authority_file()
    }

    /// Returns the file with the certificate of an authority that no server accepts.
    pub fn other_authority(&self) -> PathBuf {
        files(&self.plan, OTHER_AUTHORITY).certificate
    }

    /// Returns a certificate that the servers accept from clients.
    pub fn client(&self) -> Identity {
        client_files(&self.plan, None)
    }

    /// Returns a certificate for clients with a flaw. Servers do not check the host of a client.
    pub fn flawed_client(&self, flaw: Flaw) -> Identity {
        client_files(&self.plan, Some(flaw))
    }

    /// Replaces the certificate that a server shows to clients by a new one, with a flaw or without. A server reads it
    /// when it starts, so restart it. What servers show to each other stays good.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchServer`], and [`Error::Io`] if the file cannot be written.
    pub fn replace_server(&self, id: u32, flaw: Option<Flaw>) -> Result<(), Error> {
        let known: Vec<_> = self.plan.members.iter().map(|member| member.id).collect();
        if !known.contains(&id) {
            return Err(Error::NoSuchServer { id, known });
        }
        let signed = Signed::new(&self.plan, flaw, &format!("server {id}"))?;
        signed.write_together(&self.plan.server_certificate_file(id))
    }
}

/// Creates both authorities, and certificates for all servers and for clients.
pub(crate) fn create(plan: &Plan) -> Result<(), Error> {
    create_directory(&plan.certificate_directory())?;
    for name in [AUTHORITY, OTHER_AUTHORITY] {
        let key = KeyPair::generate().map_err(|error| failed(plan, error))?;
        let params = authority_params(name).self_signed(&key);
        let certificate = params.map_err(|error| failed(plan, error))?.pem();
        let key = key.serialize_pem();
        Signed { certificate, key }.write(&files(plan, name))?;
    }
    let flaws = [Flaw::Expired, Flaw::OtherHost, Flaw::OtherAuthority];
    for flaw in flaws.map(Some).into_iter().chain([None]) {
        Signed::new(plan, flaw, "client")?.write(&client_files(plan, flaw))?;
    }
    for member in &plan.members {
        let name = format!("server {}", member.id);
        for file in [
            plan.server_certificate_file(member.id),
            plan.peer_certificate_file(member.id),
        ] {
            Signed::new(plan, None, &name)?.write_together(&file)?;
        }
    }
    Ok(())
}

/// A certificate and its key, in PEM.
struct Signed {
    certificate: String,
    key: String,
}

impl Signed {
    /// Signs a new certificate for a server or a client.
    fn new(plan: &Plan, flaw: Option<Flaw>, name: &str) -> Result<Self, Error> {
        let authority = match flaw {
            Some(Flaw::OtherAuthority) => OTHER_AUTHORITY,
            _ => AUTHORITY,
        };
        let file = files(plan, authority).key;
        let key = fs::read_to_string(&file).map_err(|source| Error::io("read", &file, source))?;
        let signed = || {
            let issuer = Issuer::new(authority_params(authority), KeyPair::from_pem(&key)?);
            let key = KeyPair::generate()?;
            let certificate = leaf_params(flaw, name)?.signed_by(&key, &issuer)?;
            Ok(Self {
                certificate: certificate.pem(),
                key: key.serialize_pem(),
            })
        };
        signed().map_err(|error| failed(plan, error))
    }

    fn write(&self, to: &Identity) -> Result<(), Error> {
        write(&to.certificate, &self.certificate)?;
        write(&to.key, &self.key)
    }

    /// Writes both into one file, as servers read it.
    fn write_together(&self, file: &Path) -> Result<(), Error> {
        write(file, &format!("{}{}", self.key, self.certificate))
    }
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(&format!("zk-harness {name}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn leaf_params(flaw: Option<Flaw>, name: &str) -> Result<CertificateParams, rcgen::Error> {
    let hosts: &[&str] = match flaw {
        Some(Flaw::OtherHost) => &["elsewhere.example"],
        _ => &["localhost"],
    };
    let mut params =
        CertificateParams::new(hosts.iter().copied().map(str::to_owned).collect::<Vec<_>>())?;
    if flaw != Some(Flaw::OtherHost) {
        let address = SanType::IpAddress(Ipv4Addr::LOCALHOST.into());
        params.subject_alt_names.push(address);
    }
    if flaw == Some(Flaw::Expired) {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    }
    params.distinguished_name = named(name);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    Ok(params)
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn client_files(plan: &Plan, flaw: Option<Flaw>) -> Identity {
    files(
        plan,
        match flaw {
            None => "client",
            Some(Flaw::Expired) => "expired-client",
            Some(Flaw::OtherHost) => "other-host-client",
            Some(Flaw::OtherAuthority) => "other-authority-client",
        },
    )
}

fn files(plan: &Plan, name: &str) -> Identity {
    let directory = plan.certificate_directory();
    Identity {
        certificate: directory.join(format!("{name}.pem")),
        key: directory.join(format!("{name}-key.pem")),
    }
}

fn failed(plan: &Plan, error: rcgen::Error) -> Error {
    let error = std::io::Error::other(error);
    Error::io(
        "create certificates in",
        &plan.certificate_directory(),
        error,
    )
}

/// The authority whose file is [`Plan::authority_file`].
const AUTHORITY: &str = "ca";
const OTHER_AUTHORITY: &str = "other-ca";
