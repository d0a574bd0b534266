//! A client and servers on sockets, with a name that stands for several of them.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Resolver;
use crate::client::Client;
use crate::config::Config;
use crate::proto::Request;
use crate::session::Host;
use crate::shared::ConnectionState;

/// What a server does with its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    /// Accepts and closes them, as a server without a quorum.
    Close,
    /// Accepts them and sends nothing, as one that hangs.
    Nothing,
    /// Grants a session so much later.
    Grant(Duration),
}

/// A server, and what was asked of it.
struct Server {
    address: SocketAddr,
    does: Arc<Mutex<Does>>,
    handshakes: Arc<AtomicUsize>,
    /// How many sessions were closed.
    closed: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

static NEXT_SESSION: AtomicUsize = AtomicUsize::new(0x100);

impl Server {
    async fn start(does: Does) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let does = Arc::new(Mutex::new(does));
        let (handshakes, closed) = (Arc::default(), Arc::default());
        let mut task = JoinSet::new();
        let script = (
            Arc::clone(&does),
            Arc::clone(&handshakes),
            Arc::clone(&closed),
        );
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (does, handshakes, closed) = script.clone();
                connections.spawn(async move {
                    drop(serve(stream, &does, &handshakes, &closed).await);
                });
            }
        });
        Self {
            address,
            does,
            handshakes,
            closed,
            _task: task,
        }
    }

    fn handshakes(&self) -> usize {
        self.handshakes.load(Ordering::SeqCst)
    }

    fn closed(&self) -> usize {
        self.closed.load(Ordering::SeqCst)
    }
}

async fn serve(
    mut stream: TcpStream,
    does: &Mutex<Does>,
    handshakes: &AtomicUsize,
    closed: &AtomicUsize,
) -> io::Result<()> {
    let connect = frame(&mut stream).await?;
    handshakes.fetch_add(1, Ordering::SeqCst);
    let now = *does.lock().unwrap();
    match now {
        Does::Close => return Ok(()),
        Does::Nothing => std::future::pending().await,
        Does::Grant(late) => pass(late).await,
    }
    let asked = &connect[16..24];
    let id = if asked == [0; 8] {
        let next = NEXT_SESSION.fetch_add(1, Ordering::SeqCst);
        u64::try_from(next).unwrap().to_be_bytes()
    } else {
        asked.try_into().unwrap()
    };
    let grant = [
        &[0; 4],
        &connect[12..16],
        &id,
        &[0, 0, 0, 16],
        &[7; 16],
        &[0],
    ]
    .concat();
    send(&mut stream, &grant).await?;
    loop {
        let request = frame(&mut stream).await?;
        if *does.lock().unwrap() == Does::Nothing {
            std::future::pending::<()>().await;
        }
        let reply = [&request[..4], &[0; 8], &[0; 4]].concat();
        let is_close = request[4..8] == (-11_i32).to_be_bytes();
        closed.fetch_add(usize::from(is_close), Ordering::SeqCst);
        send(&mut stream, &reply).await?;
        if is_close {
            return Ok(());
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the servers are late")]
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

async fn frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let len = stream.read_i32().await?;
    let mut frame = vec![0; usize::try_from(len).unwrap()];
    stream.read_exact(&mut frame).await?;
    Ok(frame)
}

async fn send(stream: &mut TcpStream, payload: &[u8]) -> io::Result<()> {
    stream
        .write_i32(i32::try_from(payload.len()).unwrap())
        .await?;
    stream.write_all(payload).await
}

/// A client of the ensemble `zk`, whose name has the addresses of all servers.
fn client(servers: &[Server], timeout: Duration) -> Client {
    let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
    let resolver = Resolver::new(move |_| {
        let addresses = addresses.clone();
        Box::pin(async move { Ok(addresses) })
    });
    let host = Host {
        name: "zk".to_owned(),
        port: 2181,
    };
    Client::start(Arc::new(vec![host]), false, resolver, Config::new(timeout))
}

async fn soon<T>(what: &str, waiting: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    waited.unwrap_or_else(|_| panic!("not within a minute: {what}"))
}

const AT_ONCE: Does = Does::Grant(Duration::ZERO);
const TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn an_address_that_does_not_serve_leaves_the_others_of_its_name() {
    for bad in [Does::Close, Does::Nothing] {
        let servers = [Server::start(bad).await, Server::start(AT_ONCE).await];
        // In whichever order they are dialled.
        for _ in 0..8 {
            let client = client(&servers, TIMEOUT);
            let began = Instant::now();
            soon("a connection", client.connected()).await.unwrap();
            assert!(began.elapsed() < Duration::from_secs(5), "{bad:?}");
            client.close().await;
        }
        assert!(servers[0].handshakes() > 0, "{bad:?} was never dialled");
    }
}

#[tokio::test]
async fn a_session_leaves_an_address_that_hangs() {
    let servers = [Server::start(AT_ONCE).await, Server::start(AT_ONCE).await];
    let client = client(&servers, Duration::from_secs(3));
    soon("a connection", client.connected()).await.unwrap();
    let first = client.server().unwrap().0.address;
    let hung = servers
        .iter()
        .find(|server| server.address == first)
        .unwrap();
    *hung.does.lock().unwrap() = Does::Nothing;
    let mut states = client.states();
    let is_back = |state: &ConnectionState| match state {
        ConnectionState::Connected { epoch, .. } => *epoch > 1,
        ConnectionState::Over(end) => panic!("{end}"),
        ConnectionState::Disconnected { .. } => false,
    };
    soon("the other one", states.wait_for(is_back))
        .await
        .unwrap();
    assert_ne!(client.server().unwrap().0.address, first);
    client.close().await;
}

#[tokio::test]
async fn clients_of_a_name_spread_over_its_addresses() {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(Server::start(AT_ONCE).await);
    }
    let clients: Vec<_> = (0..60).map(|_| client(&servers, TIMEOUT)).collect();
    for client in &clients {
        soon("a connection", client.connected()).await.unwrap();
    }
    let counts: Vec<_> = servers.iter().map(Server::handshakes).collect();
    // Each has so few by chance in one of 200,000 runs.
    assert!(counts.iter().all(|count| *count >= 5), "{counts:?}");
    for client in &clients {
        client.close().await;
    }
}

#[tokio::test]
async fn a_client_that_rebalances_moves_to_another_address() {
    let servers = [Server::start(AT_ONCE).await, Server::start(AT_ONCE).await];
    let client = client(&servers, TIMEOUT);
    soon("a connection", client.connected()).await.unwrap();
    let first = client.server().unwrap().0.address;
    let sync = Request::Sync {
        path: "/".parse().unwrap(),
    };
    soon("a move", async {
        while client
            .server()
            .is_none_or(|(server, _)| server.address == first)
        {
            client.rebalance();
            // It has its outcome before the session moves, or after.
            let _outcome = client.request(&sync).await;
        }
    })
    .await;
    client.close().await;
}

#[tokio::test]
async fn slow_grants_leave_no_unused_session() {
    let late = Does::Grant(Duration::from_millis(2500));
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(Server::start(late).await);
    }
    let client = client(&servers, Duration::from_secs(3));
    let began = Instant::now();
    soon("a connection", client.connected()).await.unwrap();
    let took = began.elapsed();
    assert!(
        took < Duration::from_secs(4),
        "{took:?}: the first grant is used"
    );
    let sum = |count: fn(&Server) -> usize| servers.iter().map(count).sum::<usize>();
    let handshakes = sum(Server::handshakes);
    assert!(handshakes > 1, "a second one is beside the first");
    soon("the others are closed", async {
        while sum(Server::closed) < handshakes - 1 {
            pass(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(sum(Server::handshakes), handshakes);
    client.close().await;
    assert_eq!(sum(Server::closed), handshakes);
}
