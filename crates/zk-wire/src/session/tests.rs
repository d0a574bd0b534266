//! The session against a peer that reads its frames and writes replies, without I/O and at moments of the tests' choice.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf as _, BufMut as _};
use proptest::prelude::*;

mod authentication;
mod handshakes;
mod read_only;
mod refusals;
mod releases;
mod timeouts;

use super::hosts::tests::server;
use super::*;
use crate::acl::Acl;
use crate::node_data::NodeData;
use crate::path::NodePath;
use crate::proto::{
    CreateMode, Credentials, DecodeError, ErrorCode, NewNode, Release, Reply, SaslToken, take_frame,
};

/// A session and the other end of its connection.
struct Peer {
    session: Session,
    start: Duration,
    now: Duration,
    /// What the session has written and the peer has not read.
    stream: BytesMut,
    /// The last handshake that it has read.
    handshake: Bytes,
    zxid: i64,
}

/// A frame that the peer has read.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    xid: i32,
    opcode: i32,
    body: Bytes,
}

const TIMEOUT: Duration = Duration::from_secs(9);
const ID: i64 = 0x100;
const ALMOST_A_THIRD: Duration = Duration::from_millis(2999);

impl Peer {
    fn new() -> Self {
        Self::with(config())
    }

    fn with(config: Config) -> Self {
        Self::with_hosts(&["a", "b"], config)
    }

    fn with_hosts(hosts: &[&str], config: Config) -> Self {
        let now = Duration::from_hours(1);
        let servers = hosts.iter().map(|name| server(name)).collect();
        Self {
            session: Session::with_servers(servers, config, now),
            start: now,
            now,
            stream: BytesMut::new(),
            handshake: Bytes::new(),
            zxid: 0,
        }
    }

    /// Connects, accepts the credentials, and returns what the session sent after the handshake.
    fn connect(&mut self) -> Vec<Seen> {
        let sent = self.dial_and_grant();
        for _ in sent.iter().filter(|seen| seen.opcode == 100) {
            self.reply(-4, 0, b"");
        }
        assert!(matches!(
            self.events().last(),
            Some(Event::Connected { .. })
        ));
        sent
    }

    /// Accepts a connection, and reads the handshake, which nothing else may follow yet.
    fn dial(&mut self) {
        if let Phase::Waiting { until } = self.session.phase {
            self.now = self.now.max(until);
        }
        assert!(
            self.session.poll_dial(self.now).is_some(),
            "it wants no connection"
        );
        self.stream.clear();
        self.session.dialed(self.now);
        self.write_all();
        let handshake = take_frame(&mut self.stream, usize::MAX).unwrap();
        self.handshake = handshake.expect("the handshake comes first");
        assert_eq!(self.seen(), [], "before the session is granted");
    }

    /// Grants the session on a new connection, and returns what follows.
    fn dial_and_grant(&mut self) -> Vec<Seen> {
        self.dial();
        self.grant(ID, TIMEOUT);
        self.sent()
    }

    fn grant(&mut self, session_id: i64, timeout: Duration) {
        self.grant_as(session_id, timeout, false);
    }

    fn grant_as(&mut self, session_id: i64, timeout: Duration, read_only: bool) {
        self.frame(&granted(session_id, timeout, read_only));
    }

    /// Lets the session write as much as it wants to.
    fn write_all(&mut self) {
        while self.write(usize::MAX) {}
    }

    /// Lets the session write at most this many bytes; returns whether it wanted to write any.
    fn write(&mut self, limit: usize) -> bool {
        let mut written = 0;
        for slice in self.session.transmit() {
            let part = &slice[..slice.len().min(limit - written)];
            self.stream.extend_from_slice(part);
            written += part.len();
        }
        self.session.transmitted(written, self.now);
        written > 0
    }

    /// Takes the complete frames that were written.
    fn seen(&mut self) -> Vec<Seen> {
        let frames = std::iter::from_fn(|| take_frame(&mut self.stream, usize::MAX).unwrap());
        frames
            .map(|mut body| Seen {
                xid: body.get_i32(),
                opcode: body.get_i32(),
                body,
            })
            .collect()
    }

    fn sent(&mut self) -> Vec<Seen> {
        self.write_all();
        self.seen()
    }

    fn reply(&mut self, xid: i32, code: i32, body: &[u8]) {
        self.zxid += 1;
        let mut payload = BytesMut::new();
        payload.put_i32(xid);
        payload.put_i64(self.zxid);
        payload.put_i32(code);
        payload.put_slice(body);
        self.frame(&payload);
    }

    fn notify(&mut self, kind: i32, path: &str) {
        let mut body = BytesMut::new();
        body.put_i32(kind);
        body.put_i32(3);
        body.put_i32(i32::try_from(path.len()).unwrap());
        body.put_slice(path.as_bytes());
        let mut payload = BytesMut::new();
        payload.put_i32(-1);
        payload.put_i64(-1);
        payload.put_i32(0);
        payload.put_slice(&body);
        self.frame(&payload);
    }

    fn frame(&mut self, payload: &[u8]) {
        let buffer = self.session.buffer();
        buffer.put_i32(i32::try_from(payload.len()).unwrap());
        buffer.put_slice(payload);
        self.session.received(self.now);
    }

    fn cut(&mut self) {
        let why = Loss::Broken("cut".to_owned());
        self.session.connection_lost(&why, self.now);
        self.stream.clear();
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.session.poll_event()).collect()
    }

    fn submit(&mut self, request: &Request) -> Ticket {
        self.session.submit(request).unwrap()
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.session.handle_timeout(self.now);
    }
}

/// Returns the reply to a handshake.
fn granted(session_id: i64, timeout: Duration, read_only: bool) -> BytesMut {
    let mut payload = BytesMut::new();
    payload.put_i32(0);
    payload.put_i32(i32::try_from(timeout.as_millis()).unwrap());
    payload.put_i64(session_id);
    payload.put_i32(16);
    payload.put_slice(&[7; 16]);
    payload.put_u8(read_only.into());
    payload
}

fn config() -> Config {
    let mut config = Config::new(TIMEOUT);
    config.seed = Some(1);
    config.nonce_seed = Some(1);
    config
}

fn path(text: &str) -> NodePath {
    text.parse().unwrap()
}

fn sync(at: &str) -> Request {
    Request::Sync { path: path(at) }
}

fn get(at: &str) -> Request {
    Request::GetData {
        path: path(at),
        watch: true,
    }
}

fn create(at: &str, mode: CreateMode) -> Request {
    Request::Create(NewNode {
        path: path(at),
        data: NodeData::default(),
        acl: Acl::open(),
        mode,
    })
}

fn digest(data: &'static [u8]) -> Credentials {
    Credentials {
        scheme: "digest".to_owned(),
        data: Bytes::from_static(data),
    }
}

/// Data of one byte, and a stat.
fn data() -> Vec<u8> {
    [&[0, 0, 0, 1, b'x'][..], &[0; 68]].concat()
}

fn xids(seen: &[Seen]) -> Vec<i32> {
    seen.iter().map(|seen| seen.xid).collect()
}

#[test]
fn requests_wait_for_the_session_and_go_out_in_order() {
    let mut peer = Peer::new();
    let tickets = [peer.submit(&sync("/a")), peer.submit(&sync("/b"))];
    assert_eq!(xids(&peer.connect()), [1, 2]);
    peer.reply(1, 0, b"");
    peer.reply(2, -101, b"");
    let done = Outcome::Done {
        reply: Reply::Empty,
        zxid: 1,
        epoch: 1,
    };
    let refused = Outcome::Refused {
        code: ErrorCode::NO_NODE,
        zxid: 2,
        epoch: 1,
    };
    let [a, b] = tickets;
    let expected = [Event::Answered(a, done), Event::Answered(b, refused)];
    assert_eq!(peer.events(), expected);
    assert_eq!(peer.session.last_zxid(), 2);
}

#[test]
fn what_was_sent_is_unknown_and_the_rest_is_sent_again() {
    let mut peer = Peer::new();
    peer.connect();
    let [a, b, c] = ["/a", "/b", "/c"].map(|path| peer.submit(&sync(path)));
    // All of the first request, and all but one byte of the second.
    let len = peer.session.queue[0].bytes.len();
    peer.write(2 * len - 1);
    assert_eq!(xids(&peer.seen()), [1]);
    peer.cut();
    let why = Loss::Broken("cut".to_owned());
    let expected = [
        Event::Disconnected { why: why.clone() },
        Event::Answered(a, Outcome::Unknown { epoch: 1, why }),
    ];
    assert_eq!(peer.events(), expected);
    assert_eq!(
        xids(&peer.connect()),
        [2, 3],
        "numbers go on over a reconnect"
    );
    peer.reply(2, 0, b"");
    peer.reply(3, 0, b"");
    let answered = peer.events();
    for (event, ticket) in answered.iter().zip([b, c]) {
        assert!(
            matches!(event, Event::Answered(of, Outcome::Done { epoch: 2, .. }) if *of == ticket),
            "{event:?}"
        );
    }
}

#[test]
fn a_long_reply_leaves_no_long_buffer() {
    let mut peer = Peer::new();
    peer.connect();
    peer.submit(&get("/a"));
    peer.sent();
    let long = 1_000_000;
    let mut body = BytesMut::new();
    body.put_i32(long);
    body.put_bytes(7, usize::try_from(long).unwrap());
    body.put_bytes(0, 68);
    // It arrives in parts, as from a socket.
    let payload = [&[0, 0, 0, 1][..], &[0; 8], &[0; 4], &body].concat();
    let len = i32::try_from(payload.len()).unwrap().to_be_bytes();
    let frame = [&len[..], &payload].concat();
    for part in frame.chunks(100_000) {
        peer.session.buffer().extend_from_slice(part);
        peer.session.received(peer.now);
    }
    assert!(matches!(
        peer.events()[..],
        [Event::Answered(_, Outcome::Done { .. })]
    ));
    let room = peer.session.buffer().capacity();
    assert!((4 << 10..=256 << 10).contains(&room), "{room}");
}

#[test]
fn only_an_unsent_request_is_taken_back() {
    let mut peer = Peer::new();
    let [early, late] = ["/a", "/b"].map(|path| peer.submit(&sync(path)));
    assert!(peer.session.cancel(early));
    assert!(!peer.session.cancel(early));
    assert_eq!(xids(&peer.connect()), [2]);
    assert!(!peer.session.cancel(late));
}

#[test]
fn credentials_and_watches_follow_on_the_handshake() {
    let mut config = config();
    config.auth = vec![digest(b"user:secret")];
    let mut peer = Peer::with(config);
    let opcodes = |seen: Vec<Seen>| -> Vec<_> { seen.iter().map(|seen| seen.opcode).collect() };
    assert_eq!(opcodes(peer.connect()), [100]);
    let watch = peer.submit(&get("/a"));
    peer.sent();
    peer.reply(1, 0, &data());
    peer.events();
    peer.cut();
    let sent = peer.connect();
    assert_eq!(xids(&sent), [-4, -8]);
    let expected = [&2_i64.to_be_bytes()[..], b"\0\0\0\x01\0\0\0\x02/a", &[0; 8]].concat();
    assert_eq!(sent[1].body, expected, "with the newest transaction seen");
    // The server reports what was missed.
    peer.notify(3, "/a");
    assert!(
        matches!(&peer.events()[..], [Event::Fired { ticket, epoch: 2, .. }] if *ticket == watch)
    );
    peer.cut();
    assert_eq!(
        opcodes(peer.dial_and_grant()),
        [100],
        "a watch that fired is set no more"
    );
}

#[test]
fn debug_output_contains_no_credentials() {
    let mut config = config();
    config.auth = vec![digest(b"user:secret")];
    let mut peer = Peer::with(config.clone());
    peer.connect();
    let texts = [
        format!("{config:?}"),
        format!("{:?}", Request::Auth(digest(b"user:secret"))),
        format!(
            "{:?}",
            Request::Sasl(SaslToken(Bytes::from_static(b"secret")))
        ),
        format!("{:?}", peer.session),
    ];
    for text in texts {
        // Neither the credentials nor the session's password, which is seven sixteen times.
        assert!(!text.contains("secret") && !text.contains("x07"), "{text}");
    }
}

#[test]
fn credentials_that_the_server_could_not_check_are_sent_again() {
    let mut config = config();
    config.auth = vec![digest(b"x")];
    let mut peer = Peer::with(config);
    peer.dial_and_grant();
    peer.reply(-4, -4, b"");
    let why = Loss::CredentialsNotChecked(ErrorCode::CONNECTION_LOSS);
    assert_eq!(peer.events(), [Event::Disconnected { why }]);
    assert_eq!(xids(&peer.dial_and_grant()), [-4]);
}

#[test]
fn wrong_credentials_end_the_session_before_it_is_connected() {
    let mut config = config();
    config.auth = vec![digest(b"x"), digest(b"y")];
    let mut peer = Peer::with(config);
    peer.dial_and_grant();
    let ticket = peer.submit(&sync("/a"));
    peer.reply(-4, 0, b"");
    assert_eq!(peer.events(), []);
    peer.reply(-4, -115, b"");
    let end = SessionEnd::AuthFailed;
    let expected = [
        Event::Answered(ticket, Outcome::NotSent { end }),
        Event::Over(SessionEnd::AuthFailed),
    ];
    assert_eq!(peer.events(), expected);
    let refused = peer.session.submit(&sync("/a"));
    assert_eq!(refused, Err(SubmitError::Over(SessionEnd::AuthFailed)));
}

#[test]
fn another_session_id_means_that_the_session_has_expired() {
    for (id, timeout) in [(ID + 1, TIMEOUT), (0, Duration::ZERO), (ID, Duration::ZERO)] {
        let mut peer = Peer::new();
        peer.connect();
        let ticket = peer.submit(&sync("/a"));
        peer.cut();
        peer.events();
        peer.dial();
        peer.grant(id, timeout);
        let end = SessionEnd::Expired;
        let expected = [
            Event::Answered(ticket, Outcome::NotSent { end }),
            Event::Over(SessionEnd::Expired),
        ];
        assert_eq!(peer.events(), expected, "{id:#x} {timeout:?}");
        assert!(!peer.session.wants_connection());
    }
}

#[test]
fn a_reply_that_makes_no_sense_leaves_the_connection() {
    let mut peer = Peer::new();
    peer.connect();
    let ticket = peer.submit(&get("/a"));
    let next = peer.submit(&sync("/a"));
    peer.sent();
    peer.reply(1, 0, b"short");
    peer.reply(2, 0, b"\0\0\0\x02/a");
    let why = DecodeError::Short {
        what: "the data of a node",
        needed: 1_936_224_114,
        left: 1,
    };
    let (zxid, epoch) = (1, 1);
    let unreadable = Outcome::Unreadable { why, zxid, epoch };
    let events = peer.events();
    assert_eq!(events[0], Event::Answered(ticket, unreadable));
    let is_done =
        matches!(&events[1..], [Event::Answered(of, Outcome::Done { .. })] if *of == next);
    assert!(is_done, "{events:?}");
    // Its watch is of use to no one.
    assert!(!peer.session.has_watch(ticket));
    let sent = peer.sent();
    assert_eq!((sent.len(), sent[0].opcode), (1, 18), "it is removed");
}

#[test]
fn a_reply_with_a_path_that_no_request_can_name_leaves_the_connection() {
    let mut peer = Peer::new();
    peer.connect();
    let created = peer.submit(&create("/a", CreateMode::Persistent));
    let prefix = "/".to_owned();
    let listed = peer.submit(&Request::GetEphemerals { prefix });
    let next = peer.submit(&sync("/a"));
    peer.sent();
    peer.reply(1, 0, b"\0\0\0\x02le");
    peer.reply(2, 0, b"\0\0\0\x02\0\0\0\x02/a\0\0\0\x03/a/");
    peer.reply(3, 0, b"\0\0\0\x02/a");
    let unreadable = |what, text: &str, zxid| {
        let error = NodePath::parse(text).unwrap_err();
        let why = DecodeError::InvalidPath { what, error };
        Outcome::Unreadable {
            why,
            zxid,
            epoch: 1,
        }
    };
    let done = Outcome::Done {
        reply: Reply::Empty,
        zxid: 3,
        epoch: 1,
    };
    let expected = [
        Event::Answered(created, unreadable("the path of a new node", "le", 1)),
        Event::Answered(listed, unreadable("a path", "/a/", 2)),
        Event::Answered(next, done),
    ];
    assert_eq!(peer.events(), expected);
}

#[test]
fn a_notification_with_a_path_that_no_request_can_name_leaves_the_connection() {
    for chroot in ["/", "/app"] {
        let mut config = config();
        config.chroot = path(chroot);
        let mut peer = Peer::with(config);
        peer.connect();
        let watch = peer.submit(&Request::AddWatch {
            path: path("/a"),
            recursive: true,
        });
        peer.sent();
        peer.reply(1, 0, b"");
        peer.events();
        let of_server = |text: &str| format!("{}{text}", chroot.trim_end_matches('/'));
        for text in ["", "le", "/a/", "/a//b", "/a/../b", "/a/\u{1}"] {
            peer.notify(1, text);
            peer.notify(1, &of_server(text));
        }
        assert_eq!(peer.events(), [], "below {chroot}");
        peer.notify(1, &of_server("/a/b"));
        assert!(
            matches!(&peer.events()[..], [Event::Fired { ticket, event, .. }] if *ticket == watch && event.path.as_str() == "/a/b")
        );
    }
}

#[test]
fn a_reply_that_is_too_long_is_skipped_and_a_sign_of_life() {
    let mut config = config();
    config.max_reply = 100;
    let mut peer = Peer::with(config);
    peer.connect();
    let long = peer.submit(&get("/a"));
    let next = peer.submit(&sync("/a"));
    peer.sent();
    let len: usize = 10_000;
    let buffer = peer.session.buffer();
    buffer.put_i32(i32::try_from(len).unwrap());
    buffer.put_i32(1);
    buffer.put_i64(7);
    peer.session.received(peer.now);
    assert_eq!(peer.events(), [], "the header is not complete");
    let buffer = peer.session.buffer();
    buffer.put_i32(0);
    buffer.put_slice(&[0; 10]);
    peer.session.received(peer.now);
    let why = DecodeError::TooLong { len, limit: 100 };
    let (zxid, epoch) = (7, 1);
    let unreadable = Outcome::Unreadable { why, zxid, epoch };
    assert_eq!(peer.events(), [Event::Answered(long, unreadable)]);
    let mut rest = len - 16 - 10;
    while rest > 0 {
        let part = rest.min(1000);
        rest -= part;
        peer.pass(TIMEOUT / 2);
        peer.session.buffer().put_slice(&vec![0; part]);
        peer.session.received(peer.now);
        assert!(peer.session.buffer().len() < 100, "nothing of it is kept");
    }
    peer.zxid = 7;
    peer.reply(2, 0, b"\0\0\0\x02/a");
    let events = peer.events();
    let is_done = matches!(&events[..], [Event::Answered(of, Outcome::Done { .. })] if *of == next);
    assert!(is_done, "{events:?}");
}

#[test]
fn skipping_is_bounded_by_bytes_and_time() {
    let too_long = |len: i32, body_at: Duration| {
        let mut config = config();
        config.max_reply = 100;
        let mut peer = Peer::with(config);
        peer.connect();
        peer.submit(&get("/a"));
        peer.sent();
        let buffer = peer.session.buffer();
        buffer.put_i32(len);
        buffer.put_i32(1);
        buffer.put_i64(7);
        buffer.put_i32(0);
        peer.session.received(peer.now);
        let end = peer.now + body_at;
        while peer.now < end {
            peer.pass(TIMEOUT / 2);
            peer.session.buffer().put_slice(&[0; 10]);
            peer.session.received(peer.now);
        }
        let events = peer.events();
        let lost = |event: &Event| match event {
            Event::Disconnected { why } => Some(why.to_string()),
            _ => None,
        };
        events.iter().find_map(lost)
    };
    assert_eq!(too_long(256 << 20, Duration::from_secs(50)), None);
    let expected = |len: i32| {
        let sent = "the server sent no message of the protocol";
        Some(format!(
            "{sent}: a frame of {len} bytes exceeds the limit of 100"
        ))
    };
    let more = (256 << 20) + 1;
    assert_eq!(too_long(more, Duration::ZERO), expected(more));
    let late = 256 << 20;
    assert_eq!(too_long(late, Duration::from_secs(70)), expected(late));
}

#[test]
fn refused_watches_are_set_again_on_the_next_connection() {
    let mut peer = Peer::new();
    peer.connect();
    peer.submit(&get("/a"));
    peer.sent();
    peer.reply(1, 0, &data());
    peer.cut();
    assert_eq!(xids(&peer.connect()), [-8]);
    peer.events();
    peer.reply(-8, -127, b"");
    let why = Loss::WatchesRefused(ErrorCode::THROTTLED_OP);
    assert_eq!(peer.events(), [Event::Disconnected { why }]);
    assert_eq!(xids(&peer.connect()), [-8]);
}

#[test]
fn an_abandoned_session_leaves_no_request_without_an_outcome() {
    let mut peer = Peer::new();
    peer.connect();
    let sent = peer.submit(&sync("/a"));
    peer.sent();
    let queued = peer.submit(&sync("/b"));
    peer.session.abandon(SessionEnd::RuntimeEnded);
    let end = SessionEnd::RuntimeEnded;
    let why = Loss::Over(end);
    let unknown = Outcome::Unknown { epoch: 1, why };
    let not_sent = Outcome::NotSent { end };
    let expected = [
        Event::Answered(sent, unknown),
        Event::Answered(queued, not_sent),
        Event::Over(end),
    ];
    assert_eq!(peer.events(), expected);
}

#[test]
fn a_server_that_never_replies_does_not_keep_a_session_from_expiring() {
    let mut peer = Peer::new();
    peer.connect();
    peer.cut();
    peer.events();
    let expiry = peer.now + TIMEOUT * 7 / 5;
    while peer.events().is_empty() {
        peer.now = peer.session.poll_timeout().expect("it still waits");
        assert!(peer.now <= expiry, "it waits beyond the expiry");
        peer.session.handle_timeout(peer.now);
        if peer.session.poll_dial(peer.now).is_some() {
            peer.session.dialed(peer.now);
        }
    }
    assert_eq!(peer.now, expiry);
}

#[test]
fn a_renegotiated_timeout_is_in_force_at_once() {
    let mut peer = Peer::new();
    peer.connect();
    peer.cut();
    peer.dial();
    peer.grant(ID, TIMEOUT / 3);
    let connected = Event::Connected {
        epoch: 2,
        timeout: TIMEOUT / 3,
        read_only: false,
    };
    assert_eq!(peer.events().last(), Some(&connected));
    assert_eq!(peer.session.poll_timeout(), Some(peer.now + TIMEOUT / 9));
}

#[test]
fn silence_is_pinged_at_a_third_and_given_up_at_two_thirds() {
    let mut peer = Peer::new();
    peer.connect();
    peer.pass(ALMOST_A_THIRD);
    assert!(peer.sent().is_empty());
    peer.pass(Duration::from_millis(1));
    assert_eq!(xids(&peer.sent()), [-2]);
    peer.pass(ALMOST_A_THIRD);
    assert!(peer.events().is_empty());
    peer.pass(Duration::from_millis(1));
    let why = Loss::Silent(TIMEOUT * 2 / 3);
    assert_eq!(peer.events(), [Event::Disconnected { why }]);
    // With replies, the connection stays.
    peer.connect();
    for _ in 0..10 {
        peer.pass(TIMEOUT / 3);
        assert_eq!(xids(&peer.sent()), [-2]);
        peer.reply(-2, 0, b"");
    }
    assert!(peer.events().is_empty());
}

#[test]
fn pings_do_not_pile_up_while_nothing_can_be_written() {
    let mut peer = Peer::new();
    peer.connect();
    for _ in 0..10 {
        peer.pass(TIMEOUT / 3);
        // The server sends, so the connection stays, and it reads nothing.
        peer.notify(3, "/a");
    }
    assert_eq!(xids(&peer.sent()), [-2]);
}

#[test]
fn a_reply_that_is_not_accepted_does_not_count_as_seen() {
    let mut peer = Peer::new();
    peer.connect();
    peer.zxid = i64::MAX - 1;
    peer.reply(9, 0, b"");
    assert_eq!(
        peer.session.last_zxid(),
        0,
        "no server would take the session back"
    );
}

#[test]
fn the_handshake_has_the_newest_transaction_that_was_seen() {
    let mut peer = Peer::new();
    // The version of the protocol is in front.
    let seen = |peer: &Peer| (&peer.handshake[4..]).get_i64();
    peer.connect();
    assert_eq!(seen(&peer), 0);
    peer.zxid = 77;
    peer.submit(&sync("/a"));
    peer.sent();
    peer.reply(1, 0, b"\0\0\0\x02/a");
    let newest = peer.session.last_zxid();
    assert!(newest >= 77, "the reply names {newest}");
    peer.cut();
    peer.connect();
    assert_eq!(seen(&peer), newest);
}

#[test]
fn a_session_without_servers_expires_after_seven_fifths() {
    let mut peer = Peer::new();
    peer.connect();
    let last = peer.now;
    peer.cut();
    peer.events();
    let expiry = last + TIMEOUT * 7 / 5;
    while peer.events().is_empty() {
        let next = peer.session.poll_timeout().expect("it still waits");
        assert!(next <= expiry);
        peer.now = next;
        peer.session.handle_timeout(next);
        peer.session.poll_dial(next);
    }
    assert_eq!(peer.now, expiry);
    assert!(!peer.session.wants_connection());
    // A session that never was cannot expire.
    let mut peer = Peer::new();
    for _ in 0..100 {
        peer.now = peer.session.poll_timeout().expect("it still waits");
        peer.session.handle_timeout(peer.now);
        peer.session.poll_dial(peer.now);
    }
    assert!(peer.now > peer.start + TIMEOUT * 2);
    assert!(peer.events().is_empty());
}

#[test]
fn a_reply_to_another_request_breaks_the_connection() {
    for (xid, wanted) in [(2, Some(1)), (9, Some(1)), (-2, None)] {
        let mut peer = Peer::new();
        peer.connect();
        peer.submit(&sync("/a"));
        peer.submit(&sync("/b"));
        peer.sent();
        peer.reply(xid, 0, b"");
        let why = Loss::OutOfOrder { got: xid, wanted };
        assert_eq!(peer.events().first(), Some(&Event::Disconnected { why }));
    }
}

#[test]
fn close_comes_after_everything_else() {
    let mut peer = Peer::new();
    peer.connect();
    let ticket = peer.submit(&sync("/a"));
    peer.session.close();
    let refused = peer.session.submit(&sync("/b"));
    assert_eq!(refused, Err(SubmitError::Over(SessionEnd::Closed)));
    let sent = peer.sent();
    assert_eq!(
        sent.iter().map(|seen| seen.opcode).collect::<Vec<_>>(),
        [9, -11]
    );
    // Lost with the connection, it is sent again.
    peer.cut();
    assert!(matches!(peer.events()[..], [_, Event::Answered(of, _)] if of == ticket));
    assert_eq!(peer.connect().len(), 1);
    peer.reply(2, 0, b"");
    assert_eq!(peer.events(), [Event::Over(SessionEnd::Closed)]);
}

#[test]
fn a_closing_session_that_is_gone_is_closed() {
    let mut peer = Peer::new();
    peer.connect();
    peer.session.close();
    peer.sent();
    peer.cut();
    peer.events();
    peer.dial();
    peer.grant(0, Duration::ZERO);
    assert_eq!(peer.events(), [Event::Over(SessionEnd::Closed)]);
    let mut early = Peer::new();
    early.session.close();
    assert_eq!(early.events(), [Event::Over(SessionEnd::Closed)]);
}

#[test]
fn a_million_bytes_of_watched_paths_are_set_in_parts() {
    let mut peer = Peer::new();
    peer.connect();
    let path = |number: i32| format!("/{number:0>499}");
    for number in 0..2000 {
        peer.submit(&get(&path(number)));
        let sent = peer.sent();
        peer.reply(sent[0].xid, 0, &data());
    }
    peer.cut();
    let sent = peer.connect();
    assert!(sent.len() >= 10, "{} parts", sent.len());
    let mut paths = 0;
    for seen in sent {
        assert_eq!((seen.xid, seen.opcode), (-8, 101));
        assert!(seen.body.len() < 110 << 10, "{} bytes", seen.body.len());
        paths += i32::from_be_bytes(*seen.body[8..].first_chunk().unwrap());
        peer.reply(-8, 0, b"");
    }
    assert_eq!(paths, 2000);
    // All parts have the same number, and each has its reply.
    peer.submit(&sync("/a"));
    let sent = peer.sent();
    peer.reply(sent[0].xid, 0, b"");
    let done = |event: &Event| matches!(event, Event::Answered(_, Outcome::Done { .. }));
    assert!(peer.events().iter().any(done));
}

#[test]
fn limits_are_errors_that_name_them() {
    let mut config = config();
    (
        config.max_request,
        config.max_queued,
        config.max_queued_bytes,
    ) = (100, 2, 1000);
    config.max_in_flight = 1;
    let mut peer = Peer::with(config);
    let long = format!("/{}", "x".repeat(199));
    let error = peer.session.submit(&sync(&long)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a request of 212 bytes exceeds the limit of 100; raise it together with jute.maxbuffer of the servers"
    );
    peer.submit(&sync("/a"));
    peer.submit(&sync("/b"));
    let error = peer.session.submit(&sync("/c")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "2 requests of 28 bytes wait to be sent, which is the limit; wait for replies"
    );
    assert_eq!(peer.connect().len(), 1, "one may be in flight");
    peer.reply(1, 0, b"");
    assert_eq!(peer.sent().len(), 1);
    peer.submit(&sync("/c"));
}

#[test]
fn a_dropped_watch_is_removed_unless_it_is_set_again() {
    let mut peer = Peer::new();
    peer.connect();
    let watch = peer.submit(&get("/a"));
    peer.sent();
    peer.reply(1, 0, &data());
    // A second read of the same node is in flight.
    let second = peer.submit(&get("/a"));
    assert_eq!(peer.sent().len(), 1);
    peer.session.forget_watch(watch);
    assert!(
        peer.sent().is_empty(),
        "this would remove the watch of the second read"
    );
    peer.reply(2, 0, &data());
    peer.session.forget_watch(second);
    let removal = peer.sent();
    assert_eq!(
        (removal[0].opcode, &removal[0].body[..]),
        (18, &b"\0\0\0\x02/a\0\0\0\x03"[..])
    );
    peer.reply(removal[0].xid, 0, b"");
    peer.notify(3, "/a");
    let fired = |event: &Event| matches!(event, Event::Fired { .. });
    assert!(!peer.events().iter().any(fired));
}

#[test]
fn a_watch_dropped_before_the_reply_is_removed_after_it() {
    let mut peer = Peer::new();
    peer.connect();
    let watch = peer.submit(&get("/a"));
    peer.sent();
    peer.session.forget_watch(watch);
    assert!(peer.sent().is_empty());
    peer.reply(1, 0, &data());
    assert_eq!(peer.sent()[0].opcode, 18);
    assert!(!peer.session.has_watch(watch));
    // Nothing is left to do if the server did not set it.
    let watch = peer.submit(&get("/a"));
    peer.sent();
    peer.session.forget_watch(watch);
    peer.reply(2, 0, b"");
    peer.reply(3, -101, b"");
    assert!(peer.sent().is_empty());
}

#[test]
fn a_session_with_a_chroot_speaks_of_other_paths_than_its_server() {
    let mut config = config();
    config.chroot = "/app".parse().unwrap();
    let mut peer = Peer::with(config);
    peer.connect();
    // The server would add its number to the name of the chroot.
    let number = create("/", CreateMode::PersistentSequential);
    assert_eq!(peer.session.submit(&number), Err(SubmitError::NoName));
    let watch = peer.submit(&get("/a"));
    let sent = peer.sent();
    assert_eq!(sent[0].body[..], b"\0\0\0\x06/app/a\x01"[..]);
    peer.reply(1, 0, &data());
    peer.cut();
    let set = peer.connect();
    assert_eq!(
        set[0].body[8..22],
        b"\0\0\0\x01\0\0\0\x06/app/a"[..],
        "once prefixed"
    );
    peer.notify(3, "/app/a");
    let fired = |event: &Event| matches!(event, Event::Fired { ticket, event, .. } if *ticket == watch && event.path.as_str() == "/a");
    assert!(peer.events().iter().any(fired));
    let create = peer.submit(&create("/b", CreateMode::Persistent));
    peer.sent();
    peer.reply(2, 0, b"\0\0\0\x06/app/b");
    let path = path("/b");
    let reply = Reply::Created { path, stat: None };
    let done = |event: &Event| matches!(event, Event::Answered(of, Outcome::Done { reply: got, .. }) if *of == create && *got == reply);
    assert!(peer.events().iter().any(done));
}

#[test]
fn a_watch_of_the_configuration_is_one_of_the_ensemble() {
    let mut config = config();
    config.chroot = "/app".parse().unwrap();
    let mut peer = Peer::with(config);
    peer.connect();
    let watch = peer.submit(&Request::GetConfig { watch: true });
    let sent = peer.sent();
    let path = b"\0\0\0\x11/zookeeper/config";
    assert_eq!((sent[0].opcode, &sent[0].body[..21]), (4, &path[..]));
    peer.reply(1, 0, &data());
    peer.cut();
    assert_eq!(peer.connect()[0].body[12..33], path[..], "it is set again");
    peer.notify(3, "/zookeeper/config");
    let fired = |event: &Event| matches!(event, Event::Fired { ticket, event, .. } if *ticket == watch && event.path.as_str() == "/zookeeper/config");
    assert!(peer.events().iter().any(fired));
}

/// What happens to a session in a random run.
#[derive(Debug, Clone)]
enum Step {
    Submit(u8),
    Revoke(usize),
    Write(usize),
    Reply(bool),
    Garbage(Vec<u8>),
    Cut,
    Pass(u16),
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => any::<u8>().prop_map(Step::Submit),
        1 => any::<usize>().prop_map(Step::Revoke),
        6 => (1..200_usize).prop_map(Step::Write),
        6 => any::<bool>().prop_map(Step::Reply),
        1 => any::<Vec<u8>>().prop_map(Step::Garbage),
        2 => Just(Step::Cut),
        2 => any::<u16>().prop_map(Step::Pass),
        1 => Just(Step::Close),
    ]
}

proptest! {
    /// Whatever happens, each request has one outcome, *not sent* means that no server got it, and requests keep their
    /// order.
    #[test]
    fn every_request_has_exactly_one_outcome(steps in prop::collection::vec(step(), 1..120)) {
        let mut peer = Peer::new();
        let mut tickets = Vec::new();
        let mut outcomes = BTreeMap::new();
        let mut revoked = BTreeSet::new();
        let mut arrived = Vec::new();
        let mut unanswered = VecDeque::new();
        let end = [Step::Close, Step::Pass(u16::MAX), Step::Pass(u16::MAX)];
        for step in steps.into_iter().chain(end) {
            match step {
                Step::Submit(number) => {
                    let request = if number % 4 == 0 { get("/a") } else { sync("/a") };
                    if let Ok(ticket) = peer.session.submit(&request) {
                        tickets.push((ticket, peer.session.next_xid));
                    }
                }
                Step::Revoke(at) if !tickets.is_empty() => {
                    let (ticket, _) = tickets[at % tickets.len()];
                    if peer.session.cancel(ticket) {
                        prop_assert!(revoked.insert(ticket));
                    }
                }
                Step::Write(bytes) => {
                    if peer.session.poll_dial(peer.now).is_some() {
                        peer.stream.clear();
                        peer.session.dialed(peer.now);
                    }
                    peer.write(bytes);
                    if let Phase::Handshake { .. } = peer.session.phase
                        && let Ok(Some(_)) = take_frame(&mut peer.stream, usize::MAX)
                    {
                        peer.grant(ID, TIMEOUT);
                        unanswered.clear();
                    }
                    if let Phase::Up { .. } = peer.session.phase {
                        for seen in peer.seen() {
                            if seen.xid > 0 {
                                arrived.push(seen.xid);
                            }
                            unanswered.push_back((seen.xid, seen.opcode));
                        }
                    }
                }
                Step::Reply(is_ok) => {
                    if let Some((xid, opcode)) = unanswered.pop_front() {
                        let body = if opcode == 4 { data() } else { Vec::new() };
                        peer.reply(xid, if is_ok || xid < 0 { 0 } else { -101 }, &body);
                    }
                }
                Step::Garbage(bytes) => {
                    if peer.session.wants_connection() {
                        peer.session.buffer().extend_from_slice(&bytes);
                        peer.session.received(peer.now);
                    }
                }
                Step::Cut => peer.cut(),
                Step::Pass(millis) => peer.pass(Duration::from_millis(millis.into())),
                Step::Close => peer.session.close(),
                Step::Revoke(_) => {}
            }
            if !peer.session.wants_connection() {
                unanswered.clear();
            }
            for event in peer.events() {
                if let Event::Answered(ticket, outcome) = event {
                    prop_assert!(outcomes.insert(ticket, outcome).is_none(), "two outcomes");
                }
            }
        }
        peer.cut();
        peer.pass(TIMEOUT * 2);
        for event in peer.events() {
            if let Event::Answered(ticket, outcome) = event {
                prop_assert!(outcomes.insert(ticket, outcome).is_none(), "two outcomes");
            }
        }
        prop_assert!(arrived.is_sorted(), "{arrived:?}");
        if let Phase::Over(_) = peer.session.phase {
            for (ticket, next) in tickets {
                let is_there = arrived.contains(&(next.get() - 1));
                match outcomes.get(&ticket) {
                    None => prop_assert!(revoked.contains(&ticket) && !is_there),
                    Some(Outcome::NotSent { .. }) => prop_assert!(!is_there, "{ticket:?} was sent"),
                    Some(
                        Outcome::Done { .. }
                        | Outcome::Refused { .. }
                        | Outcome::Unreadable { .. },
                    ) => prop_assert!(is_there),
                    Some(Outcome::Unknown { .. }) => {}
                }
            }
        }
    }
}
