//! A client for single requests, without retries and automatic pings.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A connection with a session.
#[derive(Debug)]
pub(crate) struct RawClient {
    stream: TcpStream,
    pub(crate) session: i64,
    password: Vec<u8>,
    xid: i32,
}

/// A reply: its header and body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) xid: i32,
    pub(crate) code: i32,
    pub(crate) body: Vec<u8>,
}

/// How the client saw a connection end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    Fin,
    Rst,
}

/// A request without its header: the opcode and the body.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) op: i32,
    pub(crate) body: Vec<u8>,
}

pub(crate) const OK: i32 = 0;
pub(crate) const NO_NODE: i32 = -101;
pub(crate) const PING: i32 = 11;
pub(crate) const CLOSE: i32 = -11;

impl RawClient {
    /// Opens a session with a timeout of ten seconds.
    pub(crate) async fn open(address: SocketAddr) -> Result<Self, Broken> {
        Self::open_for(address, Duration::from_secs(10)).await
    }

    pub(crate) async fn open_for(address: SocketAddr, timeout: Duration) -> Result<Self, Broken> {
        Self::handshake(address, 0, &[0; 16], timeout).await
    }

    /// Resumes the session on a new connection.
    pub(crate) async fn resume(&self, address: SocketAddr) -> Result<Self, Broken> {
        Self::handshake(
            address,
            self.session,
            &self.password,
            Duration::from_secs(10),
        )
        .await
    }

    async fn handshake(
        address: SocketAddr,
        session: i64,
        password: &[u8],
        timeout: Duration,
    ) -> Result<Self, Broken> {
        let stream = TcpStream::connect(address)
            .await
            .map_err(|error| broken(&error))?;
        stream.set_nodelay(true).unwrap();
        let mut raw = Self {
            stream,
            session,
            password: password.to_vec(),
            xid: 0,
        };
        let mut hello = [0; 12].to_vec();
        hello.extend(i32::try_from(timeout.as_millis()).unwrap().to_be_bytes());
        hello.extend(session.to_be_bytes());
        put(&mut hello, password);
        hello.push(0);
        raw.send_payload(&hello).await?;
        let granted = raw.receive_payload().await?;
        raw.session = i64::from_be_bytes(granted[8..16].try_into().unwrap());
        raw.password = granted[20..36].to_vec();
        Ok(raw)
    }

    /// Sends a request and waits for its reply; skips notifications and replies to pings.
    pub(crate) async fn call(&mut self, request: &Request) -> Result<Reply, Broken> {
        let xid = self.send(request).await?;
        loop {
            let answer = self.receive().await?;
            if answer.xid == xid {
                return Ok(answer);
            }
            assert!(answer.xid < 0, "{answer:?} instead of the reply to {xid}");
        }
    }

    /// Sends a request and returns its number.
    pub(crate) async fn send(&mut self, request: &Request) -> Result<i32, Broken> {
        let xid = if request.op == PING {
            -2
        } else {
            self.xid += 1;
            self.xid
        };
        let mut payload = xid.to_be_bytes().to_vec();
        payload.extend(request.op.to_be_bytes());
        payload.extend(&request.body);
        self.send_payload(&payload).await?;
        Ok(xid)
    }

    /// Receives the next reply or notification.
    pub(crate) async fn receive(&mut self) -> Result<Reply, Broken> {
        let mut payload = self.receive_payload().await?;
        let int = |at: usize| i32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        let (xid, code) = (int(0), int(12));
        let body = payload.split_off(16);
        Ok(Reply { xid, code, body })
    }

    /// Returns whether nothing arrives for this long, not even the end of the stream.
    pub(crate) async fn is_silent_for(&mut self, while_: Duration) -> bool {
        let mut byte = [0];
        timeout(while_, self.stream.peek(&mut byte)).await.is_err()
    }

    /// Waits until the connection has ended, and returns how.
    pub(crate) async fn broken(mut self) -> Broken {
        loop {
            if let Err(broken) = self.receive_payload().await {
                return broken;
            }
        }
    }

    /// Sends bytes without a frame.
    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        self.stream
            .write_all(bytes)
            .await
            .map_err(|error| broken(&error))
    }

    async fn send_payload(&mut self, payload: &[u8]) -> Result<(), Broken> {
        let mut frame = Vec::new();
        put(&mut frame, payload);
        self.send_bytes(&frame).await
    }

    async fn receive_payload(&mut self) -> Result<Vec<u8>, Broken> {
        let reading = async {
            let len = self.stream.read_i32().await?;
            let mut payload = vec![0; usize::try_from(len).unwrap()];
            self.stream.read_exact(&mut payload).await?;
            Ok(payload)
        };
        timeout(WITHIN, reading)
            .await
            .unwrap_or_else(|_| panic!("nothing received within {WITHIN:?}"))
            .map_err(|error| broken(&error))
    }
}

/// Constructors of requests.
pub(crate) mod request {
    use super::{Request, put};

    pub(crate) fn create(path: &str) -> Request {
        let mut body = create_part(path);
        body.extend(0_i32.to_be_bytes());
        Request { op: 1, body }
    }

    pub(crate) fn create_ephemeral(path: &str) -> Request {
        let mut body = create_part(path);
        body.extend(1_i32.to_be_bytes());
        Request { op: 1, body }
    }

    pub(crate) fn delete(path: &str) -> Request {
        with_version(2, path)
    }

    /// Deletes a node with version 1, that is, after one write.
    pub(crate) fn delete_version_1(path: &str) -> Request {
        let mut request = delete(path);
        let at = request.body.len() - 4;
        request.body[at..].copy_from_slice(&1_i32.to_be_bytes());
        request
    }

    pub(crate) fn exists(path: &str) -> Request {
        with_watch(3, path, false)
    }

    pub(crate) fn get(path: &str) -> Request {
        with_watch(4, path, false)
    }

    pub(crate) fn set(path: &str, data: &[u8]) -> Request {
        let mut body = Vec::new();
        put(&mut body, path.as_bytes());
        put(&mut body, data);
        body.extend((-1_i32).to_be_bytes());
        Request { op: 5, body }
    }

    pub(crate) fn children(path: &str, watch: bool) -> Request {
        with_watch(8, path, watch)
    }

    pub(crate) fn sync(path: &str) -> Request {
        let mut body = Vec::new();
        put(&mut body, path.as_bytes());
        Request { op: 9, body }
    }

    pub(crate) fn ping() -> Request {
        let body = Vec::new();
        Request {
            op: super::PING,
            body,
        }
    }

    pub(crate) fn close() -> Request {
        let body = Vec::new();
        Request {
            op: super::CLOSE,
            body,
        }
    }

    /// Creates the first node and deletes the second, in one transaction.
    pub(crate) fn create_and_delete(created: &str, deleted: &str) -> Request {
        let mut body = Vec::new();
        let header = |body: &mut Vec<u8>, op: i32, done: bool| {
            body.extend(op.to_be_bytes());
            body.push(u8::from(done));
            body.extend((-1_i32).to_be_bytes());
        };
        header(&mut body, 1, false);
        body.extend(create_part(created));
        body.extend(0_i32.to_be_bytes());
        header(&mut body, 2, false);
        body.extend(with_version(2, deleted).body);
        header(&mut body, -1, true);
        Request { op: 14, body }
    }

    fn create_part(path: &str) -> Vec<u8> {
        let mut body = Vec::new();
        put(&mut body, path.as_bytes());
        put(&mut body, b"");
        body.extend(1_i32.to_be_bytes());
        body.extend(31_i32.to_be_bytes());
        put(&mut body, b"world");
        put(&mut body, b"anyone");
        body
    }

    fn with_version(op: i32, path: &str) -> Request {
        let mut body = Vec::new();
        put(&mut body, path.as_bytes());
        body.extend((-1_i32).to_be_bytes());
        Request { op, body }
    }

    fn with_watch(op: i32, path: &str, watch: bool) -> Request {
        let mut body = Vec::new();
        put(&mut body, path.as_bytes());
        body.push(u8::from(watch));
        Request { op, body }
    }
}

fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend(i32::try_from(bytes.len()).unwrap().to_be_bytes());
    to.extend(bytes);
}

fn broken(error: &io::Error) -> Broken {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Broken::Fin,
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionRefused => Broken::Rst,
        _ => panic!("neither closed nor reset: {error}"),
    }
}

const WITHIN: Duration = Duration::from_secs(60);
