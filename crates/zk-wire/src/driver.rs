//! The task that drives a session over TCP, with TLS or without.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use crate::host_provider::HostProvider;
use crate::session::Host;
use crate::session::Loss;
use crate::session::TlsFailure;
use crate::shared::Shared;

mod dial;
mod lookups;
mod probe;
mod stream;
#[cfg(feature = "tls")]
mod tls_stream;

use lookups::Lookups;
use lookups::Wanted;
use stream::Stream;

pub(crate) use stream::Connector;

/// Drives a session until it is over.
///
/// # Dropping
///
/// Ends the session: nothing would drive it any more.
pub(crate) fn run(
    shared: Arc<Shared>,
    provider: Option<Arc<dyn HostProvider>>,
    connector: Connector,
) -> impl Future<Output = ()> + Send {
    // A task may be dropped before it is polled.
    let driven = Driven(shared);
    async move { drive(&driven.0, provider, &connector).await }
}

async fn drive(
    shared: &Arc<Shared>,
    provider: Option<Arc<dyn HostProvider>>,
    connector: &Connector,
) {
    let mut lookups = Lookups::new(provider, connector.clone());
    loop {
        let (next, wanted) = {
            let mut inner = shared.lock();
            inner.session.handle_timeout(shared.now());
            inner.dispatch();
            let next = match (
                inner.session.poll_dial(shared.now()),
                inner.session.poll_timeout(),
            ) {
                (Some(host), _) => Ok(host),
                (None, Some(wake)) => Err(wake),
                // The session is over.
                (None, None) => return,
            };
            (next, Wanted::by(&mut inner.session, shared.now()))
        };
        lookups.start(shared, wanted);
        match next {
            Ok(host) => {
                let lost = connection(shared, &host, connector, &mut lookups).await;
                let why = loss(host, lost);
                shared.lock().session.connection_lost(&why, shared.now());
            }
            Err(wake) => shared.wait_until(Some(wake)).await,
        }
    }
}

/// The session of a task. It is dropped with the task, and the task with its runtime.
struct Driven(Arc<Shared>);

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// Makes a connection and serves it until it is lost or not wanted any more; returns why it was lost.
async fn connection(
    shared: &Arc<Shared>,
    host: &Host,
    connector: &Connector,
    lookups: &mut Lookups,
) -> io::Error {
    let deadline = shared.lock().session.dial_deadline().unwrap_or_default();
    let mut dial = pin!(connector.connect(host, shared.instant(deadline)));
    let mut stream = loop {
        let (wake, wanted) = {
            let mut inner = shared.lock();
            inner.session.handle_timeout(shared.now());
            inner.dispatch();
            if !inner.session.wants_connection() {
                return not_wanted();
            }
            let wanted = Wanted::by(&mut inner.session, shared.now());
            (inner.session.poll_timeout(), wanted)
        };
        lookups.start(shared, wanted);
        tokio::select! {
            dialed = &mut dial => match dialed {
                Ok(stream) => break stream,
                Err(error) => return error,
            },
            () = shared.wait_until(wake) => {}
        }
    };
    shared.lock().session.dialed(shared.now());
    loop {
        match serve(shared, &mut stream, lookups).await {
            Ok(()) => {}
            Err(error) => return error,
        }
    }
}

/// Writes what is to be written, and reads once something has arrived.
async fn serve(shared: &Arc<Shared>, stream: &mut Stream, lookups: &mut Lookups) -> io::Result<()> {
    let mut is_full = false;
    let (wake, wanted) = {
        let mut inner = shared.lock();
        inner.session.handle_timeout(shared.now());
        inner.dispatch();
        // Nothing blocks here: what the socket does not take now is written when it is writable.
        loop {
            let slices = inner.session.transmit();
            let written = if slices.is_empty() {
                stream.try_flush().map(|()| 0)
            } else {
                stream.try_write(&slices)
            };
            match written {
                Ok(0) => break,
                Ok(written) => inner.session.transmitted(written, shared.now()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    is_full = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        // Requests that the server does not know have an outcome instead of being written.
        inner.dispatch();
        if !inner.session.wants_connection() {
            return Err(not_wanted());
        }
        let wanted = Wanted::by(&mut inner.session, shared.now());
        (inner.session.poll_timeout(), wanted)
    };
    lookups.start(shared, wanted);
    tokio::select! {
        biased;
        readable = stream.readable() => {
            readable?;
            let mut inner = shared.lock();
            match stream.try_read(inner.session.buffer()) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => inner.session.received(shared.now()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        writable = stream.writable(), if is_full => writable?,
        () = shared.wait_until(wake) => {}
    }
    Ok(())
}

/// Returns why a connection is lost that has this error.
fn loss(host: Host, error: io::Error) -> Loss {
    match error.downcast::<TlsFailure>() {
        Ok(why) => Loss::Tls { host, why },
        Err(error) => Loss::Broken(format!("{host}: {error}")),
    }
}

fn not_wanted() -> io::Error {
    io::Error::other("the session does not want the connection any more")
}
