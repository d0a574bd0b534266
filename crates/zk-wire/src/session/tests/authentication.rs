//! SASL exchanges and credentials.

use std::sync::{Arc, Mutex};

use super::*;
use crate::sasl::{Exchange, Mechanism, SaslError, Step};

/// A mechanism that answers `challenge` with `response`, and accepts `proof`.
#[derive(Debug, Default)]
struct Passwords {
    /// The nonces of all exchanges.
    nonces: Mutex<Vec<[u8; 16]>>,
    has_none: bool,
}

struct PasswordExchange;

impl Mechanism for Passwords {
    fn start(
        &self,
        _host: &Host,
        nonce: [u8; 16],
    ) -> Result<(Box<dyn Exchange>, Vec<u8>), SaslError> {
        if self.has_none {
            return Err(SaslError::new("there is no password"));
        }
        self.nonces.lock().unwrap().push(nonce);
        Ok((Box::new(PasswordExchange), b"hello".to_vec()))
    }
}

impl Exchange for PasswordExchange {
    fn step(&mut self, token: &[u8]) -> Result<Step, SaslError> {
        match token {
            b"challenge" => Ok(Step::Send(b"response".to_vec())),
            b"proof" => Ok(Step::Done),
            _ => Err(SaslError::new("no proof")),
        }
    }
}

const SASL: i32 = 102;
const AUTH: i32 = 100;
const SET_WATCHES: i32 = 101;
const SYNC: i32 = 9;

fn with_sasl(mechanism: Passwords) -> (Peer, Arc<Passwords>) {
    let mut config = config();
    let mechanism = Arc::new(mechanism);
    let shared: Arc<dyn Mechanism> = Arc::clone(&mechanism) as _;
    config.sasl = Some(shared);
    config.auth = vec![digest(b"x")];
    (Peer::with(config), mechanism)
}

fn token(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

impl Peer {
    /// Answers the only request that the session has sent.
    fn answer(&mut self, sent: &[Seen], code: i32, body: &[u8]) {
        let [only] = sent else {
            panic!("one request: {sent:?}");
        };
        self.reply(only.xid, code, body);
    }

    /// Connects with SASL, and returns what is sent after the exchange.
    fn connect_with_sasl(&mut self) -> Vec<Seen> {
        let hello = self.dial_and_grant();
        assert_eq!(opcodes(&hello), [SASL]);
        assert_eq!(hello[0].body, token(b"hello"));
        self.answer(&hello, 0, &token(b"challenge"));
        let response = self.sent();
        assert_eq!(response[0].body, token(b"response"));
        self.answer(&response, 0, &token(b"proof"));
        self.sent()
    }
}

fn opcodes(seen: &[Seen]) -> Vec<i32> {
    seen.iter().map(|seen| seen.opcode).collect()
}

/// The data of credentials that were sent.
fn data_of(seen: &[Seen]) -> Vec<String> {
    let credentials = seen.iter().filter(|seen| seen.opcode == AUTH);
    let data = credentials.map(|seen| {
        let scheme_len = usize::from(seen.body[7]);
        String::from_utf8_lossy(&seen.body[8 + scheme_len + 4..]).into_owned()
    });
    data.collect()
}

fn ip() -> Credentials {
    Credentials {
        scheme: "ip".to_owned(),
        data: Bytes::from_static(b"here"),
    }
}

fn is_connected(events: &[Event]) -> bool {
    matches!(events, [.., Event::Connected { .. }])
}

#[test]
fn everything_waits_until_the_sasl_exchange_has_ended() {
    let (mut peer, _) = with_sasl(Passwords::default());
    peer.submit(&get("/a"));
    let sent = peer.connect_with_sasl();
    assert_eq!(opcodes(&sent), [AUTH, 4]);
    assert_eq!(peer.events(), [], "the credentials are not accepted yet");
    peer.reply(-4, 0, b"");
    assert!(is_connected(&peer.events()));
    peer.reply(sent[1].xid, 0, &data());
    peer.submit(&sync("/b"));
    peer.cut();
    peer.events();

    let sent = peer.connect_with_sasl();
    assert_eq!(opcodes(&sent), [AUTH, SET_WATCHES, SYNC]);
    peer.reply(-4, 0, b"");
    assert!(is_connected(&peer.events()));
}

#[test]
fn no_ping_interrupts_a_sasl_exchange_and_a_silent_server_is_left() {
    let (mut peer, _) = with_sasl(Passwords::default());
    peer.dial_and_grant();
    peer.pass(TIMEOUT / 2);
    assert!(peer.sent().is_empty());
    peer.pass(TIMEOUT / 6);
    let why = Loss::Silent(TIMEOUT * 2 / 3);
    assert_eq!(peer.events(), [Event::Disconnected { why }]);
    peer.connect_with_sasl();
}

#[test]
fn a_refused_sasl_exchange_ends_the_session() {
    for code in [-115, -124] {
        let (mut peer, _) = with_sasl(Passwords::default());
        let ticket = peer.submit(&sync("/a"));
        let hello = peer.dial_and_grant();
        peer.answer(&hello, 0, &token(b"challenge"));
        let response = peer.sent();
        // The server sends the length -1 for no token.
        peer.answer(&response, code, &[0xff; 4]);
        let end = SessionEnd::AuthFailed;
        let expected = [
            Event::Answered(ticket, Outcome::NotSent { end }),
            Event::Over(SessionEnd::AuthFailed),
        ];
        assert_eq!(peer.events(), expected, "{code}");
    }
}

#[test]
fn another_error_of_a_sasl_exchange_leaves_the_server() {
    let (mut peer, _) = with_sasl(Passwords::default());
    let hello = peer.dial_and_grant();
    peer.answer(&hello, -4, b"");
    let why = Loss::CredentialsNotChecked(ErrorCode::CONNECTION_LOSS);
    assert_eq!(peer.events(), [Event::Disconnected { why }]);
    peer.connect_with_sasl();
}

#[test]
fn a_server_that_proves_nothing_is_left_for_another_one() {
    let (mut peer, _) = with_sasl(Passwords::default());
    let hello = peer.dial_and_grant();
    peer.answer(&hello, 0, &[0xff; 4]);
    let events = peer.events();
    let [
        Event::Disconnected {
            why: why @ Loss::Sasl { .. },
        },
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    let text = why.to_string();
    assert!(text.starts_with("the SASL exchange with "), "{text}");
    assert!(text.ends_with(" failed: no proof"), "{text}");
    let hosts = |peer: &Peer| peer.session.hosts.iter().next().cloned();
    let left = hosts(&peer);
    peer.connect_with_sasl();
    assert_ne!(hosts(&peer), left);
}

#[test]
fn a_round_of_servers_without_a_proof_is_followed_by_a_pause() {
    let (mut peer, _) = with_sasl(Passwords::default());
    for is_last in [false, true] {
        let hello = peer.dial_and_grant();
        peer.answer(&hello, 0, b"\0\0\0\0");
        assert_eq!(peer.session.poll_timeout() > Some(peer.now), is_last);
    }
}

#[test]
fn a_mechanism_that_cannot_begin_says_why() {
    let (mut peer, _) = with_sasl(Passwords {
        has_none: true,
        ..Passwords::default()
    });
    assert!(peer.session.poll_dial(peer.now).is_some());
    peer.session.dialed(peer.now);
    peer.write_all();
    assert!(peer.stream.is_empty(), "not even a handshake is sent");
    let events = peer.events();
    assert!(
        matches!(&events[..], [Event::Disconnected { why: Loss::Sasl { why, .. } }]
            if *why == SaslError::new("there is no password")),
        "{events:?}"
    );
    assert!(!peer.session.wants_connection());
}

#[test]
fn each_exchange_has_a_nonce_of_its_own_from_the_seed() {
    let nonces = || {
        let (mut peer, mechanism) = with_sasl(Passwords::default());
        for _ in 0..3 {
            peer.connect_with_sasl();
            peer.cut();
        }
        mechanism.nonces.lock().unwrap().clone()
    };
    let first = nonces();
    assert_eq!(BTreeSet::from_iter(first.clone()).len(), 3);
    assert_eq!(first, nonces());
}

#[test]
fn a_server_that_requires_sasl_ends_a_session_without() {
    let mut peer = Peer::new();
    peer.connect();
    let ticket = peer.submit(&sync("/a"));
    let sent = peer.sent();
    peer.answer(&sent, -124, b"");
    let outcome = Outcome::Refused {
        code: ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH,
        zxid: 1,
        epoch: 1,
    };
    let expected = [
        Event::Answered(ticket, outcome),
        Event::Over(SessionEnd::AuthRequired),
    ];
    assert_eq!(peer.events(), expected);
    // The first request may be the session's own.
    let mut peer = Peer::new();
    peer.connect();
    peer.pass(TIMEOUT / 3);
    peer.sent();
    peer.reply(-2, -124, b"");
    assert_eq!(peer.events(), [Event::Over(SessionEnd::AuthRequired)]);
}

#[test]
fn added_credentials_are_sent_now_and_on_every_connection() {
    let mut peer = Peer::new();
    peer.connect();
    let ticket = peer.session.add_auth(digest(b"x")).unwrap();
    peer.submit(&sync("/a"));
    assert_eq!(opcodes(&peer.sent()), [AUTH, SYNC]);
    assert_eq!(peer.events(), []);
    peer.reply(-4, 0, b"");
    let done = Outcome::Done {
        reply: Reply::Empty,
        zxid: 1,
        epoch: 1,
    };
    assert_eq!(peer.events(), [Event::Answered(ticket, done)]);
    peer.cut();
    peer.events();
    assert_eq!(opcodes(&peer.dial_and_grant()), [AUTH]);
    peer.reply(-4, 0, b"");
    assert!(is_connected(&peer.events()), "and not a second outcome");
}

#[test]
fn replaced_credentials_are_not_sent_again() {
    let mut config = config();
    config.auth = vec![digest(b"oldest"), ip()];
    let mut peer = Peer::with(config);
    assert_eq!(data_of(&peer.dial_and_grant()), ["oldest", "here"]);
    let waiting = peer.session.add_auth(digest(b"old")).unwrap();
    let ticket = peer.session.replace_auth(digest(b"new")).unwrap();
    assert_eq!(data_of(&peer.sent()), ["old", "new"]);
    // Replies come in the order of the credentials; no caller waits for those to replaced ones.
    for _ in 0..3 {
        peer.reply(-4, 0, b"");
        let is_answer = |event: &Event| matches!(event, Event::Answered(..));
        assert!(!peer.events().iter().any(is_answer));
    }
    peer.reply(-4, 0, b"");
    let answered = peer.events();
    for (event, of) in answered.iter().zip([waiting, ticket]) {
        let is_done = matches!(event, Event::Answered(it, Outcome::Done { .. }) if *it == of);
        assert!(is_done, "{answered:?}");
    }
    assert!(
        answered.len() == 3 && is_connected(&answered),
        "{answered:?}"
    );
    peer.cut();
    peer.events();
    assert_eq!(data_of(&peer.dial_and_grant()), ["here", "new"]);
}

#[test]
fn credentials_that_are_too_long_replace_none() {
    let mut config = config();
    config.max_request = 100;
    config.auth = vec![digest(b"old")];
    let mut peer = Peer::with(config);
    let too_long = peer.session.replace_auth(digest(&[b'x'; 100]));
    assert!(matches!(too_long, Err(SubmitError::TooLong { .. })));
    assert_eq!(data_of(&peer.dial_and_grant()), ["old"]);
}

#[test]
fn credentials_without_an_answer_wait_for_the_next_connection() {
    let mut peer = Peer::new();
    let early = peer.session.add_auth(digest(b"early")).unwrap();
    peer.dial();
    // The handshake is on its way.
    let also_early = peer.session.add_auth(digest(b"also early")).unwrap();
    assert_eq!(peer.sent(), []);
    peer.grant(ID, TIMEOUT);
    let late = peer.session.add_auth(digest(b"late")).unwrap();
    assert_eq!(opcodes(&peer.sent()), [AUTH, AUTH, AUTH]);
    peer.reply(-4, 0, b"");
    assert!(matches!(peer.events()[..], [Event::Answered(of, _)] if of == early));
    peer.reply(-4, 0, b"");
    assert!(matches!(peer.events()[..], [Event::Answered(of, _)] if of == also_early));
    peer.cut();
    assert!(matches!(peer.events()[..], [Event::Disconnected { .. }]));
    assert_eq!(peer.dial_and_grant().len(), 3);
    peer.reply(-4, 0, b"");
    peer.reply(-4, 0, b"");
    assert_eq!(peer.events(), []);
    peer.reply(-4, 0, b"");
    let events = peer.events();
    assert!(matches!(&events[0], Event::Answered(of, Outcome::Done { .. }) if *of == late));
    assert!(is_connected(&events));
}

#[test]
fn refused_credentials_end_the_session_and_say_so_first() {
    let mut peer = Peer::new();
    peer.connect();
    let good = peer.session.add_auth(digest(b"good")).unwrap();
    let bad = peer.session.add_auth(digest(b"bad")).unwrap();
    let request = peer.submit(&sync("/a"));
    peer.sent();
    peer.reply(-4, 0, b"");
    assert!(matches!(peer.events()[..], [Event::Answered(of, _)] if of == good));
    peer.reply(-4, -115, b"");
    let refused = Outcome::Refused {
        code: ErrorCode::AUTH_FAILED,
        zxid: 2,
        epoch: 1,
    };
    let why = Loss::Over(SessionEnd::AuthFailed);
    let expected = [
        Event::Answered(bad, refused),
        Event::Answered(request, Outcome::Unknown { epoch: 1, why }),
        Event::Over(SessionEnd::AuthFailed),
    ];
    assert_eq!(peer.events(), expected);
    let over = SubmitError::Over(SessionEnd::AuthFailed);
    assert_eq!(peer.session.add_auth(digest(b"x")), Err(over));
}

#[test]
fn the_end_of_a_session_answers_those_that_wait_for_credentials() {
    let mut peer = Peer::new();
    let ticket = peer.session.add_auth(digest(b"x")).unwrap();
    peer.session.close();
    let why = Loss::Over(SessionEnd::Closed);
    let expected = [
        Event::Answered(ticket, Outcome::Unknown { epoch: 0, why }),
        Event::Over(SessionEnd::Closed),
    ];
    assert_eq!(peer.events(), expected);
}

#[test]
fn credentials_longer_than_a_request_are_not_accepted() {
    let mut config = config();
    config.max_request = 100;
    let mut peer = Peer::with(config);
    let too_long = peer.session.add_auth(digest(&[b'x'; 100]));
    assert!(matches!(
        too_long,
        Err(SubmitError::TooLong { limit: 100, .. })
    ));
    assert!(peer.connect().is_empty(), "they are not sent later either");
}

#[test]
fn a_failed_tls_handshake_is_reported_before_there_was_a_connection() {
    let mut peer = Peer::new();
    let server = peer.session.poll_dial(peer.now).unwrap();
    let why = Loss::Tls {
        server: Box::new(server),
        why: TlsFailure::UnknownAuthority,
    };
    peer.session.connection_lost(&why, peer.now);
    assert_eq!(peer.events(), [Event::Disconnected { why }]);
    peer.connect();
}
