//! The task that drives a session over TCP, with TLS or without.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::host_provider::HostProvider;
use crate::session::{Host, Loss, Session, TlsFailure};
use crate::shared::Shared;

mod dial;
mod lookups;
mod probe;
mod stream;
mod timer;
#[cfg(feature = "tls")]
mod tls_stream;

use lookups::{Lookups, Wanted};
use stream::Stream;
use timer::Timer;

pub(crate) use probe::ask_address;
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
    let mut timer = Timer::new();
    loop {
        let now = shared.now();
        let (host, wake, wanted) = {
            let mut inner = shared.lock();
            inner.session.handle_timeout(now);
            inner.dispatch();
            let host = inner.session.poll_dial(now);
            let Some(wake) = inner.session.poll_timeout() else {
                return;
            };
            (host, wake, Wanted::by(&mut inner.session, now))
        };
        lookups.start(shared, wanted);
        if let Some(host) = host {
            let lost = connection(shared, &host, connector, &mut lookups, &mut timer).await;
            let why = loss(host, lost);
            shared.lock().session.connection_lost(&why, shared.now());
        } else {
            timer.set(shared.instant(wake));
            tokio::select! {
                () = shared.wake_driver.notified() => {}
                () = timer.elapsed() => {}
            }
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
    timer: &mut Timer,
) -> io::Error {
    let deadline = shared.lock().session.dial_deadline().unwrap_or_default();
    let mut dial = pin!(connector.connect(host, shared.instant(deadline)));
    let mut stream = loop {
        let now = shared.now();
        let (wake, wanted) = {
            let mut inner = shared.lock();
            inner.session.handle_timeout(now);
            inner.dispatch();
            let Some(wake) = connection_timeout(&inner.session) else {
                return not_wanted();
            };
            (wake, Wanted::by(&mut inner.session, now))
        };
        lookups.start(shared, wanted);
        timer.set(shared.instant(wake));
        tokio::select! {
            dialed = &mut dial => match dialed {
                Ok(stream) => break stream,
                Err(error) => return error,
            },
            () = shared.wake_driver.notified() => {}
            () = timer.elapsed() => {}
        }
    };
    let address = stream.address();
    shared.lock().dialed(address, shared.now());
    loop {
        match serve(shared, &mut stream, lookups, timer).await {
            Ok(()) => {}
            Err(error) => return error,
        }
    }
}

/// Writes what is to be written, and reads once something has arrived.
async fn serve(
    shared: &Arc<Shared>,
    stream: &mut Stream,
    lookups: &mut Lookups,
    timer: &mut Timer,
) -> io::Result<()> {
    let now = shared.now();
    let (is_full, wake, wanted) = {
        let mut inner = shared.lock();
        inner.session.handle_timeout(now);
        inner.dispatch();
        let is_full = !write(&mut inner.session, stream, now)?;
        // Requests that the server does not know have an outcome instead of being written.
        inner.dispatch();
        let Some(wake) = connection_timeout(&inner.session) else {
            return Err(not_wanted());
        };
        (is_full, wake, Wanted::by(&mut inner.session, now))
    };
    lookups.start(shared, wanted);
    timer.set(shared.instant(wake));
    let mut woken = pin!(shared.wake_driver.notified());
    poll_fn(|cx| {
        if stream.poll_readable(cx).is_ready() {
            let mut inner = shared.lock();
            match stream.poll_read(cx, inner.session.buffer()) {
                Poll::Ready(Ok(0)) => {
                    return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                }
                Poll::Ready(Ok(_)) => {
                    inner.session.received(shared.now());
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {}
            }
        }
        if is_full && let Poll::Ready(writable) = stream.poll_writable(cx) {
            return Poll::Ready(writable);
        }
        if woken.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        timer.poll(cx).map(Ok)
    })
    .await
}

/// Writes what the session has to write; returns whether the socket took it all. The rest is written once it is writable.
fn write(session: &mut Session, stream: &mut Stream, now: Duration) -> io::Result<bool> {
    loop {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let mut used = 0;
        for (slice, part) in slices.iter_mut().zip(session.transmit()) {
            *slice = IoSlice::new(part);
            used += 1;
        }
        let written = match used {
            0 => stream.try_flush().map(|()| 0),
            _ => stream.try_write(&slices[..used]),
        };
        match written {
            Ok(0) => return Ok(true),
            Ok(written) => session.transmitted(written, now),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// Returns when the session must be advanced next; `None` if it no longer wants the connection.
fn connection_timeout(session: &Session) -> Option<Duration> {
    session
        .poll_timeout()
        .filter(|_| session.wants_connection())
}

/// Converts the I/O error that ended a connection.
fn loss(host: Host, error: io::Error) -> Loss {
    match error.downcast::<TlsFailure>() {
        Ok(why) => Loss::Tls { host, why },
        Err(error) => Loss::Broken(format!("{host}: {error}")),
    }
}

fn not_wanted() -> io::Error {
    io::Error::other("the session does not want the connection any more")
}

/// The most frames that are written with one system call.
const MAX_SLICES: usize = 64;
