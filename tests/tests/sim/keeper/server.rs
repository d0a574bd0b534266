//! Plays the differences between `ClickHouse` Keeper and ZooKeeper, in front of a simulated ensemble.
//!
//! Each connection is relayed to a simulated server, and changed as Keeper would: a session is never resumed, its timeout
//! is raised, operations that Keeper does not know end the connection, and so on. `docs/compatibility.md` lists the
//! differences, with their sources, and what this cannot play.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use zk_fault_proxy::Op;
use zk_fault_proxy::codec::{
    Connect, Connected, FrameDecoder, Piece, ReplyBody, RequestBody, Secret, WatchEventKind,
    notification,
};
use zk_sim::{Ensemble, SimListener};

/// What differs between releases of Keeper.
#[derive(Debug, Clone, Copy)]
pub(super) struct Features {
    /// `CREATE_WITH_STATS`: whether it knows `create2`.
    pub(super) create_with_stats: bool,
    /// `PERSISTENT_WATCHES`: whether it knows `addWatch`, and how to set and remove watches.
    pub(super) persistent_watches: bool,
}

impl Features {
    /// A release with all features that matter to clients of ZooKeeper.
    pub(super) const NEW: Self = Self {
        create_with_stats: true,
        persistent_watches: true,
    };
    /// A release before them.
    pub(super) const OLD: Self = Self {
        create_with_stats: false,
        persistent_watches: false,
    };

    /// The content of `/keeper/feature_flags`: a bit for each feature, the first one the highest.
    fn flags(self) -> [u8; 2] {
        const FILTERED_LIST_AND_MULTI_READ: u8 = 0b1100_0000;
        let persistent_watches = u8::from(self.persistent_watches);
        let create_with_stats = u8::from(self.create_with_stats) << 7;
        [
            FILTERED_LIST_AND_MULTI_READ | persistent_watches,
            create_with_stats,
        ]
    }

    fn knows(self, op: Op) -> bool {
        match op {
            Op::Create
            | Op::Delete
            | Op::Exists
            | Op::GetData
            | Op::SetData
            | Op::GetAcl
            | Op::SetAcl
            | Op::GetChildren
            | Op::Sync
            | Op::Ping
            | Op::GetChildren2
            | Op::Check
            | Op::Multi
            | Op::MultiRead
            | Op::Auth
            | Op::CloseSession => true,
            Op::Create2 => self.create_with_stats,
            Op::AddWatch
            | Op::CheckWatches
            | Op::RemoveWatches
            | Op::SetWatches
            | Op::SetWatches2 => self.persistent_watches,
            _ => false,
        }
    }
}

/// Keeper, on one port.
pub(super) struct Keeper {
    pub(super) ensemble: Ensemble,
    address: SocketAddr,
    shared: Arc<Shared>,
    _simulated: SimListener,
    _tasks: JoinSet<()>,
}

/// What the connections share.
struct Shared {
    features: Features,
    server: SocketAddr,
    /// Whether the server has a leader.
    is_active: AtomicBool,
    /// How many sessions it has refused for lack of a leader.
    refused: watch::Sender<usize>,
    /// Whether the replies to creates are withheld.
    withholds_creates: AtomicBool,
    /// How many have been.
    withheld: watch::Sender<usize>,
    /// Changes when all connections are cut.
    cuts: watch::Sender<u64>,
    /// The operations that have ended their connections.
    unknown: Mutex<Vec<Op>>,
    /// What is refused instead of answered.
    refusal: Mutex<Option<Refusal>>,
}

/// Requests that Keeper answers with an error code.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refusal {
    /// The operation of the requests.
    pub(super) op: Op,
    pub(super) code: i32,
    /// Whether each is carried out all the same, because it is in the log already.
    pub(super) is_carried_out: bool,
    /// How many requests.
    pub(super) times: usize,
}

impl Keeper {
    pub(super) async fn start(features: Features) -> Self {
        let ensemble = Ensemble::new(1);
        let session = ensemble.connect().await;
        session
            .create("/keeper", "")
            .await
            .expect("the tree is empty");
        for (path, data) in [
            ("/keeper/api_version", b"2".to_vec()),
            ("/keeper/feature_flags", features.flags().to_vec()),
        ] {
            session.create(path, data).await.expect("it is new");
        }
        session.close().await.expect("the session is closed");
        let simulated = ensemble.listen().await.expect("a port is free");
        let shared = Arc::new(Shared {
            features,
            server: simulated.addresses()[0],
            is_active: AtomicBool::new(true),
            refused: watch::Sender::new(0),
            withholds_creates: AtomicBool::new(false),
            withheld: watch::Sender::new(0),
            cuts: watch::Sender::new(0),
            unknown: Mutex::default(),
            refusal: Mutex::default(),
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        Self {
            ensemble,
            address,
            shared,
            _simulated: simulated,
            _tasks: tasks,
        }
    }

    pub(super) fn connect_string(&self) -> String {
        self.address.to_string()
    }

    /// Ends all connections.
    pub(super) fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Sets whether the server has a leader, and so grants sessions.
    pub(super) fn set_active(&self, is_active: bool) {
        self.shared.is_active.store(is_active, Ordering::SeqCst);
    }

    /// Waits until a session was refused for lack of a leader after this call.
    pub(super) async fn refuses_session(&self) {
        let mut refused = self.shared.refused.subscribe();
        refused.changed().await.expect("the sender is there");
    }

    /// Withholds the replies to creates until an unknown operation ends the connection, and waits for the first.
    pub(super) async fn withholds_reply_to_create(&self) {
        let mut withheld = self.shared.withheld.subscribe();
        self.shared.withholds_creates.store(true, Ordering::SeqCst);
        withheld.changed().await.expect("the sender is there");
    }

    /// Answers the next requests of an operation with an error code.
    pub(super) fn refuse(&self, refusal: Refusal) {
        *self.shared.refusal.lock().unwrap() = Some(refusal);
    }

    /// Returns the operations that have ended their connections.
    pub(super) fn unknown(&self) -> Vec<Op> {
        self.shared.unknown.lock().unwrap().clone()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    let shared = Arc::clone(&shared);
                    connections.spawn(async move {
                        let mut cuts = shared.cuts.subscribe();
                        cuts.mark_unchanged();
                        tokio::select! {
                            // Its client sees how it ends.
                            _ended = Connection::new(stream, &shared).serve() => {}
                            _cut = cuts.changed() => {}
                        }
                    });
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// One connection of a client.
struct Connection<'a> {
    client: TcpStream,
    requests: FrameDecoder,
    shared: &'a Shared,
    /// The nodes below which all changes are reported.
    recursive: Vec<String>,
    /// The number of the request to close the session.
    closing: Option<i32>,
    /// The numbers of the creates.
    creates: Vec<i32>,
    /// The numbers of the requests that are carried out, and the error codes that are replied.
    failing: Vec<(i32, i32)>,
}

impl<'a> Connection<'a> {
    fn new(client: TcpStream, shared: &'a Shared) -> Self {
        Self {
            client,
            requests: FrameDecoder::for_client(),
            shared,
            recursive: Vec::new(),
            closing: None,
            creates: Vec::new(),
            failing: Vec::new(),
        }
    }

    async fn serve(mut self) -> io::Result<()> {
        match next_piece(&mut self.client, &mut self.requests).await? {
            Some(Piece::Word(word)) => self.client.write_all(four_letter_word(&word)).await,
            Some(Piece::Frame(frame)) => self.open(frame).await,
            _ => Ok(()),
        }
    }

    /// Opens a session, whether or not the client has one.
    async fn open(mut self, frame: Vec<u8>) -> io::Result<()> {
        let connect = Connect::decode(&frame[PREFIX..]).map_err(io::Error::other)?;
        let least = i32::try_from(MIN_SESSION_TIMEOUT.as_millis());
        let timeout = connect.timeout.max(least.map_err(io::Error::other)?);
        if !self.shared.is_active.load(Ordering::SeqCst) {
            let rejected = Connected {
                protocol_version: CONNECTION_REJECT,
                timeout,
                session: -1,
                password: Secret(vec![0; 16]),
                read_only: None,
            };
            self.client.write_all(&rejected.encode()).await?;
            self.shared.refused.send_modify(|refused| *refused += 1);
            return Ok(());
        }
        let mut server = TcpStream::connect(self.shared.server).await?;
        server.write_all(&without_session(frame, timeout)).await?;
        let mut replies = FrameDecoder::for_server();
        let Some(granted) = next_piece(&mut server, &mut replies).await? else {
            return Ok(());
        };
        let granted = Connected::decode(granted.payload()).map_err(io::Error::other)?;
        let granted = Connected {
            password: Secret(vec![0; 16]),
            read_only: None,
            ..granted
        };
        self.client.write_all(&granted.encode()).await?;
        self.relay(server, replies).await
    }

    async fn relay(mut self, mut server: TcpStream, mut replies: FrameDecoder) -> io::Result<()> {
        loop {
            tokio::select! {
                request = next_piece(&mut self.client, &mut self.requests) => match request? {
                    Some(Piece::Frame(frame)) if self.admits(&frame[PREFIX..]) => {
                        match self.refused(&frame[PREFIX..]) {
                            Some(reply) => self.client.write_all(&reply).await?,
                            None => server.write_all(&frame).await?,
                        }
                    }
                    _ => return Ok(()),
                },
                reply = next_piece(&mut server, &mut replies) => {
                    let Some(Piece::Frame(frame)) = reply? else {
                        return Ok(());
                    };
                    let number = number(&frame[PREFIX..], 0);
                    if number == self.closing {
                        // It closes the connection instead.
                        return Ok(());
                    }
                    let is_of_create = number.is_some_and(|number| self.creates.contains(&number));
                    if is_of_create && self.shared.withholds_creates.load(Ordering::SeqCst) {
                        self.shared.withheld.send_modify(|withheld| *withheld += 1);
                        continue;
                    }
                    let frame = self.with_code(frame);
                    let frame = self.as_keeper_reports(frame);
                    self.client.write_all(&frame).await?;
                }
            }
        }
    }

    /// Returns whether Keeper knows a request.
    fn admits(&mut self, payload: &[u8]) -> bool {
        let Ok((xid, op, body)) = RequestBody::decode(payload) else {
            return false;
        };
        let parts = match &body {
            RequestBody::Multi(parts) => parts.iter().map(|part| part.op).collect(),
            _ => Vec::new(),
        };
        let features = self.shared.features;
        let unknown = std::iter::once(op)
            .chain(parts)
            .find(|op| !features.knows(*op));
        if let Some(unknown) = unknown {
            self.shared.unknown.lock().unwrap().push(unknown);
            self.shared.withholds_creates.store(false, Ordering::SeqCst);
            return false;
        }
        if let Op::Create | Op::Create2 = op {
            self.creates.push(xid);
        }
        match body {
            RequestBody::AddWatch { path, mode: 1 } => self.recursive.push(path),
            RequestBody::CloseSession => self.closing = Some(xid),
            _ => {}
        }
        true
    }

    /// Returns the reply to a request that is refused and not carried out.
    fn refused(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let (xid, op, _) = RequestBody::decode(payload).ok()?;
        let mut refusal = self.shared.refusal.lock().unwrap();
        let refusal = refusal
            .as_mut()
            .filter(|next| next.op == op && next.times > 0)?;
        refusal.times -= 1;
        if refusal.is_carried_out {
            self.failing.push((xid, refusal.code));
            return None;
        }
        Some(ReplyBody::Empty.encode(xid, 0, refusal.code))
    }

    /// Replaces the reply to a request that was carried out by a refusal.
    fn with_code(&mut self, frame: Vec<u8>) -> Vec<u8> {
        let number = number(&frame[PREFIX..], 0);
        let of_reply = |(xid, _): &(i32, i32)| Some(*xid) == number;
        match self.failing.iter().position(of_reply) {
            Some(at) => {
                let (xid, code) = self.failing.swap_remove(at);
                ReplyBody::Empty.encode(xid, 0, code)
            }
            None => frame,
        }
    }

    /// Replaces the path in an event of a recursive watch by that of the watch.
    fn as_keeper_reports(&self, frame: Vec<u8>) -> Vec<u8> {
        let payload = &frame[PREFIX..];
        if number(payload, 0) != Some(NOTIFICATION) {
            return frame;
        }
        let kind = match number(payload, 16) {
            Some(1) => WatchEventKind::Created,
            Some(2) => WatchEventKind::Deleted,
            Some(3) => WatchEventKind::DataChanged,
            _ => return frame,
        };
        let path = payload
            .get(28..)
            .map(String::from_utf8_lossy)
            .unwrap_or_default();
        let is_above = |above: &&String| {
            let below = path.strip_prefix(above.as_str());
            below.is_some_and(|below| below.starts_with('/'))
        };
        match self.recursive.iter().find(is_above) {
            Some(watched) => notification(kind, watched, -1),
            None => frame,
        }
    }
}

/// Reads until a piece is complete; `None` at the end of the stream.
///
/// Cancel safe: what was read is in the decoder.
async fn next_piece(
    stream: &mut TcpStream,
    decoder: &mut FrameDecoder,
) -> io::Result<Option<Piece>> {
    loop {
        if let Some(piece) = decoder.next_piece() {
            return Ok(Some(piece));
        }
        if stream.read_buf(decoder.buffer()).await? == 0 {
            return Ok(None);
        }
    }
}

/// Returns the handshake of a client that has no session and has seen nothing, with this timeout.
fn without_session(mut frame: Vec<u8>, timeout: i32) -> Vec<u8> {
    frame[8..16].fill(0);
    frame[16..20].copy_from_slice(&timeout.to_be_bytes());
    frame[20..28].fill(0);
    frame[32..48].fill(0);
    frame
}

fn number(payload: &[u8], at: usize) -> Option<i32> {
    let bytes = payload.get(at..)?.first_chunk()?;
    Some(i32::from_be_bytes(*bytes))
}

fn four_letter_word(word: &[u8]) -> &'static [u8] {
    match word {
        b"ruok" => b"imok",
        b"isro" => b"rw",
        b"srvr" => b"ClickHouse Keeper version: v26.1.1.784-stable\nMode: leader\n",
        _ => b"",
    }
}

/// `min_session_timeout_ms`, as it is by default.
pub(super) const MIN_SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// The length of the length prefix.
const PREFIX: usize = 4;
/// The number of a notification.
const NOTIFICATION: i32 = -1;
/// The protocol version in the reply of a server that has no leader.
const CONNECTION_REJECT: i32 = 42;
