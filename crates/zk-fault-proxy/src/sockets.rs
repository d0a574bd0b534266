//! Accepts and closes connections, and queues what is to be written to them.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{Shutdown, shutdown};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout};

use crate::shared::pause_until;

/// How a connection is closed towards the client.
///
/// The server's side always ends with a FIN, so that the server reads everything that was forwarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Close {
    /// Orderly: the client reads what was sent before, then the end of the stream.
    #[default]
    Fin,
    /// By a reset, as after a crash of the server's machine: the client's next call fails, and replies that it has not
    /// read yet may be lost.
    Rst,
}

impl std::fmt::Display for Close {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Fin => "FIN",
            Self::Rst => "RST",
        })
    }
}

/// Listens on a port of the loopback address; 0 means any free port.
pub(crate) fn listen(port: u16) -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves each connection to the listener in a task of its own.
pub(crate) fn serve_all<F: Future<Output = ()> + Send + 'static>(
    listener: std::net::TcpListener,
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) {
    tokio::spawn(async move {
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(%error, "cannot listen");
                return;
            }
        };
        loop {
            match listener.accept().await {
                Ok((client, _)) => drop(tokio::spawn(serve(client))),
                Err(error) => {
                    // Probably too many open files: retrying at once would not help.
                    tracing::warn!(%error, "cannot accept a connection");
                    pause_until(Instant::now() + ACCEPT_AGAIN_AFTER).await;
                }
            }
        }
    });
}

/// Closes a connection, so that its peer notices at once. After an orderly close, returns the stream to be drained.
pub(crate) fn close_stream(stream: TcpStream, close: Close) -> Option<TcpStream> {
    match close {
        Close::Fin => {
            // It fails if the peer has closed first.
            let _ = shutdown(&stream, Shutdown::Write);
            Some(stream)
        }
        Close::Rst => {
            // The kernel discards unsent bytes and sends a reset.
            if let Err(error) = set_socket_linger(&stream, Some(Duration::ZERO)) {
                tracing::debug!(%error, "cannot reset a connection; it is closed instead");
            }
            drop(stream);
            None
        }
    }
}

/// Reads until the peer closes: closing a socket with unread bytes would reset the connection, and the peer could lose
/// what it has not read yet.
pub(crate) async fn drain(stream: Option<TcpStream>) {
    let Some(mut stream) = stream else { return };
    let drained = async {
        let mut sink = vec![0; 4096];
        while let Ok(1..) = stream.read(&mut sink).await {}
    };
    drop(timeout(DRAIN_WITHIN, drained).await);
}

/// The sender of a queue between the reader and the writer of one direction. It waits while the queue is full.
#[derive(Debug)]
pub(crate) struct QueueSender<T> {
    queue: mpsc::Sender<(T, OwnedSemaphorePermit)>,
    free_bytes: Arc<Semaphore>,
    most_bytes: usize,
}

/// The receiver of such a queue. An item takes up space until its permit is dropped.
pub(crate) type QueueReceiver<T> = mpsc::Receiver<(T, OwnedSemaphorePermit)>;

/// Creates a queue of at most this many items and bytes.
pub(crate) fn queue<T>(most_items: usize, most_bytes: usize) -> (QueueSender<T>, QueueReceiver<T>) {
    let (queue, receiver) = mpsc::channel(most_items);
    let sender = QueueSender {
        queue,
        free_bytes: Arc::new(Semaphore::new(most_bytes)),
        most_bytes,
    };
    (sender, receiver)
}

impl<T> QueueSender<T> {
    /// Adds an item of this many bytes. One that is larger than the queue waits until it is empty.
    pub(crate) async fn send(&self, item: T, bytes: usize) {
        let wanted = u32::try_from(bytes.min(self.most_bytes)).expect("the bound is below 4 GiB");
        let free_bytes = Arc::clone(&self.free_bytes);
        // The semaphore is never closed, and without a receiver nothing is relayed any more.
        if let Ok(permit) = free_bytes.acquire_many_owned(wanted).await {
            drop(self.queue.send((item, permit)).await);
        }
    }
}

const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// How long a peer has to close its side after ours is closed.
const DRAIN_WITHIN: Duration = Duration::from_secs(2);
