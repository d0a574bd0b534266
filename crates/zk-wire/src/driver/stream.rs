//! A connection to a server, with or without TLS.

use std::io::{self, IoSlice};
use std::pin::pin;
#[cfg(feature = "tls")]
use std::task::ready;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

#[cfg(feature = "tls")]
use super::tls_stream::TlsStream;
use crate::config::Config;
use crate::session::{Host, Server};
#[cfg(feature = "tls")]
use crate::tls::Tls;

/// Opens connections.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
}

impl Connector {
    /// One that connects as the settings say.
    #[cfg_attr(
        not(feature = "tls"),
        expect(unused_variables, reason = "it is for TLS")
    )]
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            #[cfg(feature = "tls")]
            tls: config.tls.clone(),
        }
    }

    /// Connects to a server, with the TLS handshake if there is one. The caller bounds the time of that.
    pub(super) async fn connect(&self, server: &Server) -> io::Result<Stream> {
        let stream = TcpStream::connect(server.address).await?;
        self.secure(stream, &server.host).await
    }

    #[cfg_attr(
        not(feature = "tls"),
        expect(unused_variables, clippy::unused_async, reason = "it is for TLS")
    )]
    async fn secure(&self, stream: TcpStream, host: &Host) -> io::Result<Stream> {
        // Otherwise a request would wait until the reply to an earlier one has arrived.
        stream.set_nodelay(true)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let stream = TlsStream::handshake(stream, tls, host).await?;
            return Ok(Stream::Tls(Box::new(stream)));
        }
        Ok(Stream::Plain(stream))
    }
}

/// A connection. Nothing blocks: what cannot be done now is an error of the kind
/// [`WouldBlock`](io::ErrorKind::WouldBlock).
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Waits until something can be read.
    pub(super) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tcp().poll_read_ready(cx)
    }

    /// Waits until something can be written.
    pub(super) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tcp().poll_write_ready(cx)
    }

    /// Waits until something can be written.
    pub(super) async fn writable(&self) -> io::Result<()> {
        self.tcp().writable().await
    }

    /// Appends what has arrived; 0 bytes at the end.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        match self {
            // Unlike `try_read_buf`, this clears the readiness after a read that does not fill the buffer.
            Self::Plain(stream) => pin!(stream.read_buf(to)).poll(cx),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => loop {
                ready!(stream.tcp().poll_read_ready(cx))?;
                match stream.try_read(to) {
                    // A record without data may be one that has to be answered.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        stream.try_flush().or_else(|error| match error.kind() {
                            io::ErrorKind::WouldBlock => Ok(()),
                            _ => Err(error),
                        })?;
                    }
                    read => return Poll::Ready(read),
                }
            },
        }
    }

    /// Writes as much as it takes.
    pub(super) fn try_write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.try_write_vectored(slices),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.try_write(slices),
        }
    }

    /// Writes what it has taken and not written.
    #[cfg_attr(
        not(feature = "tls"),
        expect(clippy::unnecessary_wraps, reason = "as with TLS")
    )]
    pub(super) fn try_flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.try_flush(),
        }
    }

    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.tcp(),
        }
    }
}
