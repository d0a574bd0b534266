//! Why the TLS handshake with a server failed.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

/// Why the TLS handshake with a server failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFailure {
    /// The server's certificate was signed by an unknown authority.
    #[error("the server's certificate was signed by an unknown authority")]
    UnknownAuthority,
    /// The server's certificate is for another host.
    #[error("the server's certificate is for {}, not for {expected}", presented.join(", "))]
    OtherHost {
        /// The host that was connected to, or the name that was set instead.
        expected: String,
        /// The hosts that the certificate is for.
        presented: Vec<String>,
    },
    /// The server's certificate has expired.
    #[error("the server's certificate expired {} ago", in_words(*.ago))]
    Expired {
        /// For how long it is not valid any more.
        ago: Duration,
    },
    /// The server's certificate is not valid yet.
    #[error("the server's certificate is not valid yet")]
    NotValidYet,
    /// The server's certificate was revoked.
    #[error("the server's certificate was revoked")]
    Revoked,
    /// The server's certificate cannot be used for another reason.
    #[error("the server's certificate is not valid: {0}")]
    InvalidCertificate(String),
    /// The server refused the client's certificate, or the client has none.
    #[error(transparent)]
    ClientRefused(CertificateRefusal),
    /// The certificates or the key of the client cannot be read or used. Nothing was sent.
    #[error("{0}")]
    Configuration(String),
    /// The server closed the connection instead of answering.
    #[error("the server closed the connection during the handshake; is this its port for TLS?")]
    Closed,
    /// The handshake failed for another reason.
    #[error("{0}")]
    Other(String),
}

/// Why a server refused a client, as far as its TLS alert says.
///
/// Servers in Java send the same alert, [`Unexplained`](Self::Unexplained), for a certificate that has expired as for one of
/// an unknown authority; their logs have the reason. Other servers, and proxies before them, are more precise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateRefusal {
    /// It needs a certificate, and the client has shown none.
    #[error("the server needs a client certificate, and none was given")]
    NoCertificate,
    /// The certificate has expired.
    #[error("the server refused the client's certificate: it has expired")]
    Expired,
    /// The certificate was revoked.
    #[error("the server refused the client's certificate: it was revoked")]
    Revoked,
    /// The certificate was signed by an authority that the server does not know.
    #[error("the server refused the client's certificate: it was signed by an unknown authority")]
    UnknownAuthority,
    /// The alert, which is the value, does not say what is wrong with the certificate.
    #[error(
        "the server refused the client's certificate with the alert {0}, which does not say why; is it valid, and its authority known to the server?"
    )]
    Unexplained(String),
}

fn in_words(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds < HOUR => format!("{seconds} s"),
        seconds if seconds < 2 * DAY => format!("{} h", seconds / HOUR),
        seconds => format!("{} days", seconds / DAY),
    }
}

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_an_expired_certificate_is_in_words() {
        for (seconds, words) in [
            (59, "59 s"),
            (2 * HOUR + 1, "2 h"),
            (47 * HOUR, "47 h"),
            (400 * DAY + 5, "400 days"),
        ] {
            let expired = TlsFailure::Expired {
                ago: Duration::from_secs(seconds),
            };
            let text = format!("the server's certificate expired {words} ago");
            assert_eq!(expired.to_string(), text);
        }
    }
}
