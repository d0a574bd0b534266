//! A connection with TLS: rustls between the session and the socket.
//!
//! Both are driven without blocking, as the session is, so no adapter with polls and wakers is needed between them.

use std::io::{self, BufRead as _, IoSlice, Read, Write};

use bytes::BytesMut;
use rustls::{AlertDescription, CertificateError, ClientConnection};
use tokio::net::TcpStream;

use crate::session::{CertificateRefusal, Host, TlsFailure};
use crate::tls::Tls;

/// A connection with TLS. Its errors are [`TlsFailure`]s, unless they are those of the socket.
#[derive(Debug)]
pub(crate) struct TlsStream {
    tcp: TcpStream,
    tls: ClientConnection,
    has_certificate: bool,
}

impl TlsStream {
    /// Makes the handshake.
    pub(super) async fn handshake(tcp: TcpStream, tls: &Tls, host: &Host) -> io::Result<Self> {
        let (tls, at) = (tls.clone(), host.clone());
        // It reads files.
        let prepared = tokio::task::spawn_blocking(move || tls.for_host(&at));
        let (config, name) = prepared.await?.map_err(io::Error::other)?;
        let has_certificate = config.client_auth_cert_resolver.has_certs();
        let tls = ClientConnection::new(config, name)
            .map_err(|error| io::Error::other(failure(error)))?;
        let mut stream = Self {
            tcp,
            tls,
            has_certificate,
        };
        loop {
            let is_flushed = is_done(stream.try_flush())?;
            if !stream.tls.is_handshaking() && is_flushed {
                return Ok(stream);
            }
            tokio::select! {
                readable = stream.tcp.readable() => {
                    readable?;
                    if is_done(stream.receive())? && stream.tls.is_handshaking() && stream.is_at_end() {
                        return Err(io::Error::other(TlsFailure::Closed));
                    }
                }
                writable = stream.tcp.writable(), if !is_flushed => writable?,
            }
        }
    }

    pub(super) const fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Appends what has arrived; 0 bytes at the end.
    pub(super) fn try_read(&mut self, to: &mut BytesMut) -> io::Result<usize> {
        let received = self.receive();
        let mut reader = self.tls.reader();
        let before = to.len();
        loop {
            match reader.fill_buf() {
                Ok([]) => break,
                Ok(chunk) => {
                    to.extend_from_slice(chunk);
                    let len = chunk.len();
                    reader.consume(len);
                }
                // Servers close connections without a `close_notify` of TLS.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if to.len() == before {
                        received?;
                        return Err(error);
                    }
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(to.len() - before)
    }

    /// Takes as much as there is room for, and writes as much as the socket takes.
    pub(super) fn try_write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let taken = self.tls.writer().write_vectored(slices)?;
        is_done(self.try_flush())?;
        if taken == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(taken)
    }

    /// Writes what was taken and is not written.
    pub(super) fn try_flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Socket(&self.tcp)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                // The server may have said why before it closed the connection.
                Err(error) => return Err(self.receive().err().filter(is_failure).unwrap_or(error)),
            }
        }
        Ok(())
    }

    /// Reads and decrypts what has arrived.
    fn receive(&mut self) -> io::Result<()> {
        self.tls.read_tls(&mut Socket(&self.tcp))?;
        let processed = self.tls.process_new_packets();
        processed.map(drop).map_err(|error| {
            // The server receives the reason, if the socket takes it.
            drop(self.tls.write_tls(&mut Socket(&self.tcp)));
            io::Error::other(self.refusal(&error).unwrap_or_else(|| failure(error)))
        })
    }

    /// Returns the failure if the error is that the server refuses the client.
    fn refusal(&self, error: &rustls::Error) -> Option<TlsFailure> {
        let rustls::Error::AlertReceived(alert) = *error else {
            return None;
        };
        let is_agreed = self.tls.negotiated_cipher_suite().is_some();
        refusal(alert, self.has_certificate, is_agreed).map(TlsFailure::ClientRefused)
    }

    fn is_at_end(&mut self) -> bool {
        let end = self.tls.reader().fill_buf().map(<[u8]>::len);
        end.map_or_else(
            |error| error.kind() == io::ErrorKind::UnexpectedEof,
            |len| len == 0,
        )
    }
}

/// A socket as a reader and a writer that do not block.
struct Socket<'a>(&'a TcpStream);

impl Read for Socket<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(to)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns whether something is done that may be continued later.
fn is_done(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_failure(error: &io::Error) -> bool {
    let inner = error.get_ref();
    inner.is_some_and(<dyn std::error::Error + Send + Sync>::is::<TlsFailure>)
}

/// Returns why the server refuses the client; `None` if the alert is not about a certificate.
fn refusal(
    alert: AlertDescription,
    has_certificate: bool,
    is_agreed: bool,
) -> Option<CertificateRefusal> {
    use AlertDescription as Alert;
    use CertificateRefusal as Refusal;
    match alert {
        Alert::CertificateRequired => Some(Refusal::NoCertificate),
        Alert::CertificateExpired
        | Alert::CertificateRevoked
        | Alert::UnknownCA
        | Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateUnknown
        | Alert::AccessDenied
            if !has_certificate =>
        {
            Some(Refusal::NoCertificate)
        }
        // Java sends it with TLS 1.2. Once both sides have agreed on the cryptography, nothing else is missing.
        Alert::HandshakeFailure if !has_certificate && is_agreed => Some(Refusal::NoCertificate),
        Alert::CertificateExpired => Some(Refusal::Expired),
        Alert::CertificateRevoked => Some(Refusal::Revoked),
        Alert::UnknownCA => Some(Refusal::UnknownAuthority),
        Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateUnknown
        | Alert::AccessDenied => Some(Refusal::Unexplained(format!("{alert:?}"))),
        _ => None,
    }
}

fn failure(error: rustls::Error) -> TlsFailure {
    use CertificateError as Invalid;
    use rustls::Error;
    match error {
        Error::InvalidCertificate(error) => match error {
            Invalid::UnknownIssuer => TlsFailure::UnknownAuthority,
            Invalid::NotValidForNameContext {
                expected,
                presented,
            } => TlsFailure::OtherHost {
                expected: expected.to_str().into_owned(),
                presented: presented.iter().map(|name| bare_name(name)).collect(),
            },
            Invalid::ExpiredContext { time, not_after } => TlsFailure::Expired {
                ago: std::time::Duration::from_secs(
                    time.as_secs().saturating_sub(not_after.as_secs()),
                ),
            },
            Invalid::NotValidYet | Invalid::NotValidYetContext { .. } => TlsFailure::NotValidYet,
            Invalid::Revoked => TlsFailure::Revoked,
            error => TlsFailure::InvalidCertificate(error.to_string()),
        },
        error => TlsFailure::Other(error.to_string()),
    }
}

/// Returns the name in a text such as `DnsName("zk1")` or `IpAddress(127.0.0.1)`.
fn bare_name(name: &str) -> String {
    let inner = name
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests;
