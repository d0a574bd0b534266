//! Renders what a server's configuration contains for TLS, SASL and the superuser.
//!
//! Pure: no I/O and no clock.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use super::{Member, Plan};

impl Plan {
    /// Returns the directory with the certificates of the ensemble.
    pub(crate) fn certificate_directory(&self) -> PathBuf {
        self.directory.join("certificates")
    }

    /// Returns the certificate of the authority that clients and servers accept.
    pub(crate) fn authority_file(&self) -> PathBuf {
        self.certificate_directory().join("ca.pem")
    }

    /// Returns the file with the certificate and the key that a server shows to clients.
    pub(crate) fn server_certificate_file(&self, id: u32) -> PathBuf {
        self.server_directory(id).join("certificate.pem")
    }

    /// Returns the file with the certificate and the key that a server shows to other servers.
    pub(crate) fn peer_certificate_file(&self, id: u32) -> PathBuf {
        self.server_directory(id).join("peer-certificate.pem")
    }

    /// Returns the file with the SASL users of a server.
    pub(crate) fn jaas_file(&self, id: u32) -> PathBuf {
        self.server_directory(id).join(JAAS_FILE)
    }

    /// Returns the lines of `zoo-N.cfg` for TLS, SASL and the superuser.
    pub(super) fn secure_lines(&self, member: &Member) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        if let Some(port) = member.secure_port {
            let text = |path: PathBuf| path.to_string_lossy().into_owned();
            let (authority, id) = (text(self.authority_file()), member.id);
            lines.extend([
                ("secureClientPort", port.to_string()),
                ("secureClientPortAddress", Ipv4Addr::LOCALHOST.to_string()),
                ("serverCnxnFactory", NETTY.to_owned()),
                (
                    "ssl.keyStore.location",
                    text(self.server_certificate_file(id)),
                ),
                ("ssl.keyStore.type", PEM.to_owned()),
                ("ssl.trustStore.location", authority.clone()),
                ("ssl.trustStore.type", PEM.to_owned()),
                ("ssl.clientAuth", "need".to_owned()),
                ("sslQuorum", (self.members.len() > 1).to_string()),
                (
                    "ssl.quorum.keyStore.location",
                    text(self.peer_certificate_file(id)),
                ),
                ("ssl.quorum.keyStore.type", PEM.to_owned()),
                ("ssl.quorum.trustStore.location", authority),
                ("ssl.quorum.trustStore.type", PEM.to_owned()),
            ]);
        }
        if let Some(sasl) = &self.spec.sasl_digest {
            lines.push(("authProvider.sasl", SASL_PROVIDER.to_owned()));
            // From 3.9.4 on a server has no DIGEST-MD5 in this mode, which is the default (ZOOKEEPER-4889).
            lines.push(("fips-mode", false.to_string()));
            lines.push(("sessionRequireClientSASLAuth", sasl.required.to_string()));
        }
        if let Some(digest) = &self.spec.superuser {
            lines.push(("DigestAuthenticationProvider.superDigest", digest.clone()));
        }
        lines
    }

    /// Returns the JVM flags for SASL.
    pub(super) fn secure_flags(&self) -> Option<String> {
        // A relative path, because `${` in an absolute one would be replaced.
        let flag = || format!("-Djava.security.auth.login.config={JAAS_FILE}");
        self.spec.sasl_digest.is_some().then(flag)
    }

    /// Renders the file with the SASL users.
    pub(crate) fn render_jaas(&self) -> Option<String> {
        let sasl = self.spec.sasl_digest.as_ref()?;
        let mut text = format!("Server {{\n    {LOGIN_MODULE} required");
        for (name, password) in &sasl.users {
            write!(text, "\n    user_{name}=\"{password}\"")
                .expect("writing to a string does not fail");
        }
        text.push_str(";\n};\n");
        Some(text)
    }
}

const JAAS_FILE: &str = "jaas.conf";
const PEM: &str = "PEM";
/// The default one has no TLS.
const NETTY: &str = "org.apache.zookeeper.server.NettyServerCnxnFactory";
const SASL_PROVIDER: &str = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
const LOGIN_MODULE: &str = "org.apache.zookeeper.server.auth.DigestLoginModule";
