//! A server that grants sessions, and answers requests and four-letter words, as its script says.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use zk_wire::Host;

/// What a server does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Script {
    /// The session that it grants to those that have none.
    pub(crate) session_id: i64,
    pub(crate) read_only: bool,
    /// The opcode at which it closes the connection.
    pub(crate) unknown: i32,
    /// The opcode of the requests that it does not answer.
    pub(crate) unanswered: i32,
    /// How many connections it accepts at first and never answers.
    pub(crate) silent: usize,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            session_id: 0x100,
            read_only: false,
            unknown: 0,
            unanswered: 0,
            silent: 0,
        }
    }
}

/// A running server. It stops when this is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    sessions: Arc<AtomicUsize>,
    /// How many connections it has accepted.
    pub(crate) accepted: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(script: Script) -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into(), script).await
    }

    pub(crate) async fn start_at(address: SocketAddr, script: Script) -> Self {
        let listener = TcpListener::bind(address).await.expect("the port is free");
        let address = listener.local_addr().expect("it is bound");
        let sessions = Arc::new(AtomicUsize::new(0));
        let granted = Arc::clone(&sessions);
        let (count, accepted) = watch::channel(0);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            let mut silent = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.send_modify(|count| *count += 1);
                if silent.len() < script.silent {
                    silent.push(stream);
                    continue;
                }
                connections.spawn(serve(stream, script, Arc::clone(&granted)));
            }
        });
        Self {
            address,
            sessions,
            accepted,
            task,
        }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn host(&self) -> Host {
        host(self.address)
    }

    /// How often it has granted a session.
    pub(crate) fn granted(&self) -> usize {
        self.sessions.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn host(address: SocketAddr) -> Host {
    Host {
        name: address.ip().to_string(),
        port: address.port(),
    }
}

/// Returns an address at which nothing listens.
pub(crate) async fn nowhere() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await;
    let listener = listener.expect("a port is free");
    listener.local_addr().expect("it is bound")
}

/// Serves one connection until it ends; `None` at its end.
async fn serve(mut stream: TcpStream, script: Script, sessions: Arc<AtomicUsize>) -> Option<()> {
    let mut first = [0; 4];
    stream.read_exact(&mut first).await.ok()?;
    let word = match &first {
        b"isro" if script.read_only => Some("ro"),
        b"isro" => Some("rw"),
        _ => None,
    };
    if let Some(answer) = word {
        return stream.write_all(answer.as_bytes()).await.ok();
    }
    let mut connect = vec![0; length(first)];
    stream.read_exact(&mut connect).await.ok()?;
    let wants_read_only = connect.last() == Some(&1);
    if script.read_only && !wants_read_only {
        return None;
    }
    sessions.fetch_add(1, Ordering::SeqCst);
    let asked = i64::from_be_bytes(*connect[16..].first_chunk()?);
    let id = if asked == 0 { script.session_id } else { asked };
    let mut granted = Vec::new();
    granted.extend(0_i32.to_be_bytes());
    granted.extend(connect[12..16].iter());
    granted.extend(id.to_be_bytes());
    granted.extend(16_i32.to_be_bytes());
    granted.extend([7; 16]);
    granted.push(script.read_only.into());
    send(&mut stream, &granted).await?;
    loop {
        let mut prefix = [0; 4];
        stream.read_exact(&mut prefix).await.ok()?;
        let mut request = vec![0; length(prefix)];
        stream.read_exact(&mut request).await.ok()?;
        let opcode = i32::from_be_bytes(*request[4..].first_chunk()?);
        if opcode == script.unknown {
            return None;
        }
        if opcode == script.unanswered {
            continue;
        }
        // The number of the request, a transaction and success.
        let mut reply = request[..4].to_vec();
        reply.extend(1_i64.to_be_bytes());
        reply.extend(0_i32.to_be_bytes());
        send(&mut stream, &reply).await?;
    }
}

async fn send(stream: &mut TcpStream, payload: &[u8]) -> Option<()> {
    let len = i32::try_from(payload.len()).ok()?;
    let frame = [&len.to_be_bytes(), payload].concat();
    stream.write_all(&frame).await.ok()
}

fn length(prefix: [u8; 4]) -> usize {
    usize::try_from(i32::from_be_bytes(prefix)).expect("a length is not negative")
}
