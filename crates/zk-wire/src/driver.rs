//! The task that drives a session over TCP, with TLS or without.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::session::{Loss, Server, Session, TlsFailure};
use crate::shared::Shared;

mod lookups;
mod probe;
mod resolver;
mod set_aside;
mod stream;
mod timer;
#[cfg(feature = "tls")]
mod tls_stream;

use lookups::{Lookups, Wanted};
use timer::Timer;

pub(crate) use probe::ask_server;
pub(crate) use resolver::Resolver;
pub(crate) use stream::{Connector, Stream};

/// Drives a session until it is over.
///
/// # Dropping
///
/// Ends the session: nothing would drive it any more.
pub(crate) fn run(
    shared: Arc<Shared>,
    resolver: Resolver,
    connector: Connector,
) -> impl Future<Output = ()> + Send {
    // A task may be dropped before it is polled.
    let driven = Driven(shared);
    async move {
        let mut driver = Driver {
            shared: &driven.0,
            lookups: Lookups::new(resolver, connector.clone()),
            connector: &connector,
            timer: Timer::new(),
            slow: JoinSet::new(),
        };
        driver.drive().await;
        // Sessions that are still to be granted are closed.
        while driver.slow.join_next().await.is_some() {}
    }
}

/// The session of a task. It is dropped with the task, and the task with its runtime.
struct Driven(Arc<Shared>);

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// What drives a session.
struct Driver<'a> {
    shared: &'a Arc<Shared>,
    connector: &'a Connector,
    lookups: Lookups,
    timer: Timer,
    /// The connections that were set aside.
    slow: JoinSet<()>,
}

impl Driver<'_> {
    async fn drive(&mut self) {
        loop {
            let now = self.shared.now();
            let (granted, server, wake, wanted) = {
                let mut inner = self.shared.lock();
                inner.session.handle_timeout(now);
                inner.dispatch();
                let granted = inner.granted.take();
                let server = inner.session.poll_dial(now);
                let Some(wake) = inner.session.poll_timeout() else {
                    return;
                };
                (granted, server, wake, Wanted::by(&mut inner, now))
            };
            self.lookups.start(self.shared, wanted);
            while self.slow.try_join_next().is_some() {}
            match (granted, server) {
                (Some((connection, stream)), _) => self.serve(connection, stream).await,
                (None, Some(server)) => self.dial(&server).await,
                (None, None) => {
                    self.timer.set(self.shared.instant(wake));
                    tokio::select! {
                        () = self.shared.wake_driver.notified() => {}
                        () = self.timer.elapsed() => {}
                    }
                }
            }
        }
    }

    /// Makes a connection and serves it until it is lost or not wanted any more.
    async fn dial(&mut self, server: &Server) {
        let connected = self.connect(server).await;
        let now = self.shared.now();
        let connection = {
            let mut inner = self.shared.lock();
            match connected {
                // Otherwise another connection has become the session's.
                Ok(stream) if inner.session.is_dialing() => {
                    Some((inner.session.dialed(now), stream))
                }
                Err(error) if inner.session.is_dialing() => {
                    inner.session.connection_lost(&loss(server, error), now);
                    None
                }
                _ => None,
            }
        };
        if let Some((connection, stream)) = connection {
            self.serve(connection, stream).await;
        }
    }

    /// Connects to a server, as long as the session wants that.
    async fn connect(&mut self, server: &Server) -> io::Result<Stream> {
        let mut connecting = pin!(self.connector.connect(server));
        loop {
            let now = self.shared.now();
            let (wake, wanted) = {
                let mut inner = self.shared.lock();
                inner.session.handle_timeout(now);
                inner.dispatch();
                let Some(wake) = inner.session.poll_timeout() else {
                    return Err(not_wanted());
                };
                if !inner.session.is_dialing() {
                    return Err(not_wanted());
                }
                (wake, Wanted::by(&mut inner, now))
            };
            self.lookups.start(self.shared, wanted);
            self.timer.set(self.shared.instant(wake));
            tokio::select! {
                connected = &mut connecting => return connected,
                () = self.shared.wake_driver.notified() => {}
                () = self.timer.elapsed() => {}
            }
        }
    }

    /// Serves a connection until it is lost or not wanted any more, or is set aside.
    async fn serve(&mut self, connection: u64, mut stream: Stream) {
        let server = self.shared.lock().session.server_of(connection).cloned();
        let lost = loop {
            match self.exchange(connection, &mut stream).await {
                Ok(true) => {}
                Ok(false) => break None,
                Err(error) => break Some(error),
            }
        };
        let mut inner = self.shared.lock();
        while let Some(set_aside) = inner.session.poll_set_aside() {
            if set_aside.connection == connection && lost.is_none() {
                let shared = Arc::clone(self.shared);
                self.slow.spawn(set_aside::wait(shared, stream, set_aside));
                return;
            }
            inner.session.set_aside_lost(set_aside.connection);
        }
        if let (Some(error), Some(server)) = (lost, server)
            && inner.session.connection() == connection
        {
            let now = self.shared.now();
            inner.session.connection_lost(&loss(&server, error), now);
        }
    }

    /// Writes what is to be written, and reads once something has arrived. Returns whether the connection is still the
    /// session's.
    async fn exchange(&mut self, connection: u64, stream: &mut Stream) -> io::Result<bool> {
        let now = self.shared.now();
        let (is_full, wake, wanted) = {
            let mut inner = self.shared.lock();
            inner.session.handle_timeout(now);
            inner.dispatch();
            if !inner.is_served_by(connection) {
                return Ok(false);
            }
            let is_full = !write(&mut inner.session, stream, now)?;
            let Some(wake) = inner.session.poll_timeout() else {
                return Ok(false);
            };
            (is_full, wake, Wanted::by(&mut inner, now))
        };
        self.lookups.start(self.shared, wanted);
        self.timer.set(self.shared.instant(wake));
        let mut woken = pin!(self.shared.wake_driver.notified());
        let (shared, timer) = (self.shared, &mut self.timer);
        poll_fn(|cx| {
            if stream.poll_readable(cx).is_ready() {
                let mut inner = shared.lock();
                if !inner.is_served_by(connection) {
                    return Poll::Ready(Ok(false));
                }
                match stream.poll_read(cx, inner.session.buffer()) {
                    Poll::Ready(Ok(0)) => {
                        return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                    }
                    Poll::Ready(Ok(_)) => {
                        inner.session.received(shared.now());
                        return Poll::Ready(Ok(true));
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {}
                }
            }
            if is_full && let Poll::Ready(writable) = stream.poll_writable(cx) {
                return Poll::Ready(writable.map(|()| true));
            }
            if woken.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(true));
            }
            timer.poll(cx).map(|()| Ok(true))
        })
        .await
    }
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

/// Converts the I/O error that ended a connection.
fn loss(server: &Server, error: io::Error) -> Loss {
    match error.downcast::<TlsFailure>() {
        Ok(why) => Loss::Tls {
            server: Box::new(server.clone()),
            why,
        },
        Err(error) => Loss::Broken(format!("{server}: {error}")),
    }
}

fn not_wanted() -> io::Error {
    io::Error::other("the session does not want the connection any more")
}

/// The most frames that are written with one system call.
const MAX_SLICES: usize = 64;

#[cfg(test)]
mod tests;
