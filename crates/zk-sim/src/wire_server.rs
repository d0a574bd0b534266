//! Serves clients of ZooKeeper's protocol over byte streams.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;
use zk_core::SessionId;
use zk_fault_proxy::Op;
use zk_fault_proxy::codec::{Connect, FrameDecoder, Piece, ReplyBody, RequestBody};

use crate::access::Identity;
use crate::driver::{Driver, RemoteConnection, ServerMessage};
use crate::ensemble::Ensemble;
use crate::server::ProcessState;
use crate::world::{Attachment, JobNumber, SessionOptions};
use encode::Expected;

mod decode;
mod encode;
mod listener;

pub use listener::SimListener;

impl Ensemble {
    /// Serves one connection of a client as `server`, from 1, until either side closes it.
    ///
    /// The client on the other side of `stream` speaks ZooKeeper's protocol, in any language. An in-memory stream such
    /// as one of [`tokio::io::duplex`] works under paused time; [`listen`](Self::listen) serves TCP.
    /// Its sessions survive the connection: the client resumes them by id and password, at any server.
    /// The [crate documentation](crate#clients-on-byte-streams) says what differs from sessions of this crate.
    ///
    /// # Errors
    ///
    /// If reading or writing fails. The connection is lost then, as after its end.
    ///
    /// # Panics
    ///
    /// If there is no such server.
    ///
    /// # Cancel safety
    ///
    /// Safe: the connection is lost, and its requests that have arrived proceed.
    pub async fn serve(
        &self,
        server: usize,
        stream: impl AsyncRead + AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let server = crate::control::index(self.driver(), server);
        serve(Connection::new(Arc::clone(self.driver()), server), stream).await
    }
}

/// One connection of a client.
struct Connection {
    driver: Arc<Driver>,
    server: usize,
    decoder: FrameDecoder,
    /// What is to be written.
    out: Vec<u8>,
    phase: Phase,
    /// What the replies to requests need.
    expected: HashMap<JobNumber, Expected>,
    /// Whether it ends when everything is written.
    is_ending: bool,
}

enum Phase {
    Start,
    /// The server is paused, and replies to the handshake when it continues.
    Paused {
        connect: Connect,
        until: Instant,
    },
    /// The server has not yet applied the opening of the session.
    Opening(RemoteConnection, Connect),
    Up(RemoteConnection),
    Over,
}

/// What a connection waits for.
enum Event {
    Written(io::Result<usize>),
    Read(io::Result<usize>),
    Message(Option<ServerMessage>),
    Opened,
    Continue,
}

async fn serve(
    mut connection: Connection,
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
) -> io::Result<()> {
    let (mut reader, mut writer) = tokio::io::split(&mut stream);
    loop {
        if connection.is_ending && connection.out.is_empty() {
            return writer.shutdown().await;
        }
        let Connection {
            decoder,
            out,
            phase,
            is_ending,
            ..
        } = &mut connection;
        let may_read = !*is_ending && out.len() < MOST_UNSENT;
        let event = tokio::select! {
            biased;
            written = writer.write(out), if !out.is_empty() => Event::Written(written),
            event = phase.next(), if !*is_ending => event,
            read = reader.read_buf(decoder.buffer()), if may_read => Event::Read(read),
        };
        match event {
            Event::Written(written) => {
                let written = written?;
                if written == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                connection.out.drain(..written);
            }
            Event::Read(read) => {
                if read? == 0 {
                    return Ok(());
                }
                connection.received();
            }
            Event::Opened => connection.opened(),
            Event::Continue => connection.try_again(),
            Event::Message(Some(message)) => connection.send(message),
            Event::Message(None) => connection.is_ending = true,
        }
    }
}

impl Phase {
    /// Waits for the next event that is no I/O.
    async fn next(&mut self) -> Event {
        match self {
            Self::Start | Self::Over => std::future::pending().await,
            Self::Paused { until, .. } => {
                let never = std::future::pending::<()>();
                let _late = tokio::time::timeout_at(*until, never).await;
                Event::Continue
            }
            Self::Opening(
                RemoteConnection {
                    opened, messages, ..
                },
                _,
            ) => {
                let opened = async {
                    if let Some(opened) = opened {
                        let _gone = opened.await;
                    }
                };
                tokio::select! {
                    biased;
                    () = opened => Event::Opened,
                    message = messages.recv() => Event::Message(message),
                }
            }
            Self::Up(remote) => Event::Message(remote.messages.recv().await),
        }
    }
}

impl Connection {
    fn new(driver: Arc<Driver>, server: usize) -> Self {
        Self {
            driver,
            server,
            decoder: FrameDecoder::for_client(),
            out: Vec::new(),
            phase: Phase::Start,
            expected: HashMap::new(),
            is_ending: false,
        }
    }

    /// Handles everything that has been read, as far as the phase allows.
    fn received(&mut self) {
        if let Phase::Up(remote) = &self.phase {
            let (session, number) = (remote.session, remote.number);
            self.driver.with(|world| world.hear(session, number));
        }
        while !self.is_ending && matches!(self.phase, Phase::Start | Phase::Up(_)) {
            let Some(piece) = self.decoder.next_piece() else {
                return;
            };
            match (piece, &self.phase) {
                (Piece::Frame(frame), Phase::Start) => self.handshake(&frame[PREFIX..]),
                (Piece::Frame(frame), Phase::Up(remote)) => {
                    let (session, number) = (remote.session, remote.number);
                    self.request(session, number, &frame[PREFIX..]);
                }
                (Piece::Word(word), _) => {
                    self.out.extend(self.four_letter_word(&word));
                    self.is_ending = true;
                }
                // Servers close a connection on which there is something else, such as a request beyond their limit.
                _ => self.hang_up(),
            }
        }
    }

    fn handshake(&mut self, payload: &[u8]) {
        match Connect::decode(payload) {
            Ok(connect) => self.connect(connect),
            Err(_) => self.hang_up(),
        }
    }

    /// Handles the request for a session.
    fn connect(&mut self, connect: Connect) {
        let state = self.driver.with(|world| world.servers()[self.server].state);
        match state {
            ProcessState::Running if connect.session == 0 => self.open(connect),
            ProcessState::Running => self.resume(connect),
            ProcessState::Paused => self.wait_for_server(connect),
            ProcessState::Stopped => self.hang_up(),
        }
    }

    fn wait_for_server(&mut self, connect: Connect) {
        let pause = self.driver.with(|world| world.settings().reconnect);
        let until = Instant::now() + pause;
        self.phase = Phase::Paused { connect, until };
    }

    fn try_again(&mut self) {
        if let Phase::Paused { connect, .. } = std::mem::replace(&mut self.phase, Phase::Start) {
            self.connect(connect);
            self.received();
        }
    }

    fn open(&mut self, connect: Connect) {
        let millis = u64::try_from(connect.timeout).unwrap_or(0).max(1);
        let options = SessionOptions {
            server: Some(self.server),
            timeout: Duration::from_millis(millis),
            identities: Vec::new(),
            takes_read_only: connect.read_only == Some(true),
            is_remote: true,
        };
        let is_behind = self.driver.with(|world| {
            // Servers refuse a client that has seen more than they have.
            world.servers()[self.server].zxid() < connect.last_zxid
        });
        if is_behind {
            return self.hang_up();
        }
        match self.driver.open_remote(&options) {
            Some(remote) => self.phase = Phase::Opening(remote, connect),
            None => self.hang_up(),
        }
    }

    fn resume(&mut self, connect: Connect) {
        let session = SessionId::from_i64(connect.session);
        let attached = if connect.password.0 == self.password(session) {
            self.driver.attach(session, self.server, connect.last_zxid)
        } else {
            Err(Attachment::Expired)
        };
        match attached {
            Ok(remote) => {
                self.granted(&remote, &connect);
                self.phase = Phase::Up(remote);
            }
            Err(Attachment::NotYet) => self.wait_for_server(connect),
            Err(Attachment::Expired) => {
                self.out.extend(encode::expired(&connect));
                self.is_ending = true;
            }
            Err(Attachment::Refused | Attachment::Resumed { .. }) => self.hang_up(),
        }
    }

    /// Grants a new session.
    fn opened(&mut self) {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Opening(remote, connect) => {
                self.granted(&remote, &connect);
                self.phase = Phase::Up(remote);
                // What was sent with the handshake.
                self.received();
            }
            other => self.phase = other,
        }
    }

    fn granted(&mut self, remote: &RemoteConnection, connect: &Connect) {
        let password = self.password(remote.session);
        let granted = encode::granted(
            remote.session,
            remote.timeout,
            password,
            connect,
            remote.is_read_only,
        );
        self.out.extend(granted);
    }

    /// Returns the password of a session, which is derived from the seed.
    fn password(&self, session: SessionId) -> Vec<u8> {
        let seed = self.driver.with(|world| world.settings().seed);
        let mut random = fastrand::Rng::with_seed(seed ^ session.as_i64().cast_unsigned());
        std::iter::repeat_with(|| random.u8(..)).take(16).collect()
    }

    fn request(&mut self, session: SessionId, number: u64, payload: &[u8]) {
        let most = self.driver.with(|world| world.settings().max_request);
        if payload.len() > most {
            return self.hang_up();
        }
        let (content, expected) = match RequestBody::decode(payload) {
            Ok((
                xid,
                _,
                RequestBody::Auth {
                    scheme,
                    credentials,
                    ..
                },
            )) => return self.authenticate(session, number, xid, &scheme, &credentials.0),
            Ok((xid, op, body)) => {
                let expected = Expected::of(xid, op, &body);
                (decode::content(op, body), expected)
            }
            // Servers refuse a request that they cannot decode.
            Err(_) => match payload.first_chunk() {
                Some(xid) => {
                    let xid = i32::from_be_bytes(*xid);
                    let expected = Expected::of(xid, Op::Ping, &RequestBody::Ping);
                    (decode::refused(decode::MARSHALLING_ERROR), expected)
                }
                None => return self.hang_up(),
            },
        };
        let job = self
            .driver
            .with(|world| world.submit_remote(session, number, content));
        if let Some(job) = job {
            self.expected.insert(job, expected);
        }
    }

    /// Adds an identity to the connection. As on servers, the reply does not wait for those to earlier requests.
    fn authenticate(
        &mut self,
        session: SessionId,
        number: u64,
        xid: i32,
        scheme: &str,
        credentials: &[u8],
    ) {
        let text = String::from_utf8_lossy(credentials);
        let user = text.split_once(':').filter(|_| scheme == "digest");
        let code = match user {
            Some((user, password)) => {
                let who = Identity::digest(user, password);
                self.driver
                    .with(|world| world.authenticate(session, number, who));
                0
            }
            None => encode::AUTH_FAILED,
        };
        self.out.extend(ReplyBody::Empty.encode(xid, 0, code));
        if code != 0 {
            self.detach();
            self.is_ending = true;
        }
    }

    fn send(&mut self, message: ServerMessage) {
        match message {
            ServerMessage::Reply { job, zxid, outcome } => {
                if let Some(expected) = self.expected.remove(&job) {
                    self.out.extend(expected.reply(zxid, outcome));
                }
            }
            ServerMessage::Event { trigger, zxid } => {
                self.out.extend(encode::event(&trigger, zxid));
            }
            ServerMessage::HangUp => self.is_ending = true,
        }
    }

    fn four_letter_word(&self, word: &[u8]) -> Vec<u8> {
        let answer = self.driver.with(|world| {
            let it = &world.servers()[self.server];
            let serves = it.is_serving() && world.can_commit();
            match word {
                _ if !it.is_running() => "",
                b"ruok" => "imok",
                b"isro" if serves => "rw",
                b"isro" if world.settings().read_only => "ro",
                b"isro" => "null",
                b"srvr" if !serves => "This ZooKeeper instance is not currently serving requests\n",
                b"srvr" if world.leading() == Some(self.server) => {
                    "Zookeeper version: simulated by zk-sim\nMode: leader\n"
                }
                b"srvr" => "Zookeeper version: simulated by zk-sim\nMode: follower\n",
                _ => "zk-sim answers ruok, isro and srvr only\n",
            }
        });
        answer.as_bytes().to_vec()
    }

    /// Closes the connection without a further message.
    fn hang_up(&mut self) {
        self.detach();
        self.is_ending = true;
    }

    fn detach(&self) {
        if let Phase::Up(remote) | Phase::Opening(remote, _) = &self.phase {
            let (session, number) = (remote.session, remote.number);
            self.driver.with(|world| world.detach(session, number));
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.detach();
    }
}

/// When the client reads too slowly, no more requests are read.
const MOST_UNSENT: usize = 4 << 20;
/// The length of the length prefix.
const PREFIX: usize = 4;
