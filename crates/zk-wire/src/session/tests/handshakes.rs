//! Servers that take long to grant a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::sasl::{Exchange, Mechanism, SaslError, Step};

/// A server that accepts every connection at once and replies to a handshake late.
struct SlowServers {
    peer: Peer,
    late: Duration,
    /// When the handshake of the session's connection was sent, and whether it is for a new session.
    connection: Option<(Duration, bool)>,
    /// The handshakes that were set aside: when they were sent.
    aside: BTreeMap<u64, Duration>,
    handshakes: usize,
    closed: usize,
    /// The sessions that servers have granted, that were dropped before, and that no client uses or closes.
    orphans: usize,
}

impl SlowServers {
    fn new(peer: Peer, late: Duration) -> Self {
        Self {
            peer,
            late,
            connection: None,
            aside: BTreeMap::new(),
            handshakes: 0,
            closed: 0,
            orphans: 0,
        }
    }

    /// Lets time pass until the session is connected or over; returns how long that took.
    fn run(&mut self) -> Result<Duration, SessionEnd> {
        let began = self.peer.now;
        let is_decided = |event: &Event| matches!(event, Event::Connected { .. } | Event::Over(_));
        loop {
            self.peer.session.handle_timeout(self.peer.now);
            self.settle();
            match self.peer.events().into_iter().find(is_decided) {
                Some(Event::Over(end)) => return Err(end),
                Some(_) => return Ok(self.peer.now.saturating_sub(began)),
                None => {}
            }
            assert!(self.handshakes < 1000, "without end");
            let grants = self.connection.iter().map(|(sent, _)| sent);
            let grants = grants.chain(self.aside.values());
            let next = grants.map(|sent| *sent + self.late).min();
            let wake = self.peer.session.poll_timeout();
            self.peer.now = next.into_iter().chain(wake).min().expect("it waits");
            self.grant();
        }
    }

    /// Does what a driver does.
    fn settle(&mut self) {
        while let Some(aside) = self.peer.session.poll_set_aside() {
            let (sent, _) = self.connection.take().expect("it was the connection");
            self.aside.insert(aside.connection, sent);
        }
        if !self.peer.session.wants_connection()
            && let Some((_, is_new)) = self.connection.take()
        {
            self.orphans += usize::from(is_new);
        }
        if self.peer.session.poll_dial(self.peer.now).is_some() {
            self.peer.session.dialed(self.peer.now);
            self.peer.write_all();
            self.peer.stream.clear();
            let is_new = self.peer.session.id() == 0;
            self.connection = Some((self.peer.now, is_new));
            self.handshakes += 1;
        }
    }

    /// Grants what is due.
    fn grant(&mut self) {
        let is_due = |sent: &Duration| *sent + self.late <= self.peer.now;
        let due = self.aside.extract_if(.., |_, sent| is_due(sent));
        for (connection, _) in due.collect::<Vec<_>>() {
            let mut answer = BytesMut::new();
            let grant = granted(ID + i64::try_from(connection).unwrap(), TIMEOUT, false);
            answer.put_i32(i32::try_from(grant.len()).unwrap());
            answer.put_slice(&grant);
            let session = &mut self.peer.session;
            match session.set_aside_answered(connection, answer, self.peer.now) {
                SetAsideUse::Serve => {
                    // The handshake of the present one is set aside in its place.
                    while let Some(aside) = session.poll_set_aside() {
                        let (sent, _) = self.connection.take().expect("it was the connection");
                        self.aside.insert(aside.connection, sent);
                    }
                    self.connection = None;
                }
                SetAsideUse::Close(close) => {
                    assert_eq!(close[8..], (-11_i32).to_be_bytes());
                    self.closed += 1;
                }
                SetAsideUse::Drop => self.orphans += 1,
            }
        }
        if self.connection.is_some_and(|(sent, _)| is_due(&sent)) {
            self.connection = None;
            let id = match self.peer.session.id() {
                0 => ID,
                id => id,
            };
            self.peer.grant(id, TIMEOUT);
        }
    }

    /// Grants what is still to be granted; returns how many sessions were closed, and how many are left.
    fn finish(&mut self) -> (usize, usize) {
        for _ in 0..100 {
            self.peer.now += Duration::from_secs(1);
            self.grant();
        }
        assert!(self.aside.is_empty(), "{:?}", self.aside);
        (self.closed, self.orphans)
    }
}

fn peers(hosts: usize) -> Peer {
    let names = ["a", "b", "c", "d", "e"];
    let mut peer = Peer::with_hosts(&names[..hosts], config());
    peer.now = peer.start;
    peer
}

#[test]
fn a_new_client_connects_with_the_first_grant_and_closes_the_others() {
    for hosts in [1, 3, 5] {
        for late in [0, 500, 1000, 1500, 2000, 3000, 4000, 6000] {
            let late = Duration::from_millis(late);
            let mut servers = SlowServers::new(peers(hosts), late);
            let took = servers.run().unwrap();
            assert_eq!(took, late, "{hosts} hosts: the first grant is used");
            let (closed, orphans) = servers.finish();
            let handshakes = servers.handshakes;
            assert_eq!(
                (closed, orphans),
                (handshakes - 1, 0),
                "{hosts} hosts, {late:?}"
            );
            // Two wait at the same time, each for a second at least.
            let most = 3 + 2 * late.as_secs();
            assert!(u64::try_from(handshakes).unwrap() <= most, "{handshakes}");
        }
    }
}

#[test]
fn an_open_session_is_kept_while_handshakes_take_two_thirds_of_its_timeout() {
    for hosts in [1, 3, 5] {
        for late in [0, 500, 1000, 2000, 3000, 4000, 5000, 5900] {
            let late = Duration::from_millis(late);
            let mut peer = peers(hosts);
            peer.connect();
            // The last sign of life is a ping's.
            peer.now += ALMOST_A_THIRD;
            peer.cut();
            peer.events();
            let mut servers = SlowServers::new(peer, late);
            let kept = servers.run();
            assert!(kept.is_ok(), "{hosts} hosts, {late:?}: {kept:?}");
            assert_eq!((servers.aside.len(), servers.finish().0), (0, 0));
            assert!(servers.handshakes <= 3, "{} handshakes", servers.handshakes);
        }
    }
}

#[test]
fn a_server_that_never_replies_delays_a_new_client_by_less_than_a_second() {
    let mut peer = peers(2);
    peer.dial();
    let began = peer.now;
    while peer.session.wants_connection() {
        peer.now = peer.session.poll_timeout().expect("it still waits");
        peer.session.handle_timeout(peer.now);
    }
    assert_eq!(peer.now.saturating_sub(began), Duration::from_millis(750));
    let aside = peer.session.poll_set_aside().expect("it may still reply");
    peer.connect();
    // A session that exists is not given up for it.
    peer.cut();
    peer.dial();
    let mut late = BytesMut::new();
    let grant = granted(ID + 1, TIMEOUT, false);
    late.put_i32(i32::try_from(grant.len()).unwrap());
    late.put_slice(&grant);
    let used = peer
        .session
        .set_aside_answered(aside.connection, late, peer.now);
    assert!(matches!(used, SetAsideUse::Close(_)), "{used:?}");
    assert_eq!(peer.session.id(), ID);
}

#[test]
fn a_session_that_is_granted_late_is_closed_if_it_cannot_be_authenticated() {
    let mut config = config();
    let mechanism = FirstStartOnly::default();
    config.sasl = Some(Arc::new(mechanism));
    let mut peer = Peer::with(config);
    peer.dial();
    while peer.session.wants_connection() {
        peer.now = peer.session.poll_timeout().expect("it still waits");
        peer.session.handle_timeout(peer.now);
    }
    let aside = peer.session.poll_set_aside().expect("it may still reply");
    let mut answer = aside.received;
    let grant = granted(ID, TIMEOUT, false);
    answer.put_i32(i32::try_from(grant.len()).unwrap());
    answer.put_slice(&grant);
    let used = peer
        .session
        .set_aside_answered(aside.connection, answer, peer.now);
    assert!(matches!(used, SetAsideUse::Close(_)), "{used:?}");
    assert_eq!(peer.session.id(), 0);
}

/// A mechanism whose password is gone after the first exchange.
#[derive(Debug, Default)]
struct FirstStartOnly(AtomicBool);

impl Mechanism for FirstStartOnly {
    fn start(
        &self,
        _host: &Host,
        _nonce: [u8; 16],
    ) -> Result<(Box<dyn Exchange>, Vec<u8>), SaslError> {
        struct Silent;
        impl Exchange for Silent {
            fn step(&mut self, _token: &[u8]) -> Result<Step, SaslError> {
                Ok(Step::Done)
            }
        }
        if self.0.swap(true, Ordering::Relaxed) {
            return Err(SaslError::new("there is no password"));
        }
        Ok((Box::new(Silent), b"hello".to_vec()))
    }
}

#[test]
fn a_client_that_is_closed_closes_what_is_still_granted() {
    let mut peer = peers(1);
    peer.dial();
    let connection = peer.session.connection();
    peer.session.close();
    assert_eq!(peer.events().last(), Some(&Event::Over(SessionEnd::Closed)));
    let aside = peer
        .session
        .poll_set_aside()
        .expect("it was sent a handshake");
    assert_eq!(aside.connection, connection);
    let mut answer = aside.received;
    let grant = granted(ID, TIMEOUT, false);
    answer.put_i32(i32::try_from(grant.len()).unwrap());
    answer.put_slice(&grant);
    let used = peer
        .session
        .set_aside_answered(connection, answer, peer.now);
    assert!(matches!(used, SetAsideUse::Close(_)), "{used:?}");
    // It is known no more.
    let again = peer
        .session
        .set_aside_answered(connection, BytesMut::new(), peer.now);
    assert_eq!(again, SetAsideUse::Drop);
}

#[test]
fn a_session_moves_once_its_requests_have_replies() {
    let mut peer = Peer::new();
    peer.connect();
    let first = peer.session.connected_to().cloned();
    let ticket = peer.submit(&sync("/a"));
    peer.sent();
    while peer.session.moves_to.is_none() {
        peer.session.rebalance();
    }
    let waits = peer.submit(&sync("/b"));
    assert_eq!(peer.sent(), [], "it waits for the next connection");
    assert!(peer.session.wants_connection());
    peer.reply(1, 0, b"\0\0\0\x02/a");
    let why = Loss::Rebalanced;
    let events = peer.events();
    assert!(matches!(&events[0], Event::Answered(of, Outcome::Done { .. }) if *of == ticket));
    assert_eq!(events[1..], [Event::Disconnected { why }]);
    let sent = peer.connect();
    assert_eq!(xids(&sent), [2]);
    assert_ne!(peer.session.connected_to().cloned(), first);
    peer.reply(2, 0, b"\0\0\0\x02/b");
    assert!(matches!(&peer.events()[..], [Event::Answered(of, _)] if *of == waits));
}

#[test]
fn servers_that_left_their_name_are_not_dialled_again() {
    let mut peer = Peer::new();
    peer.session.refresh = Some(HostRefresh::new(None, peer.now));
    let question = peer.session.poll_lookup(peer.now).unwrap();
    let at = |last| Server {
        address: ([10, 0, 0, last], 2181).into(),
        ..server("a")
    };
    let found = vec![at(1), at(2)];
    peer.session.servers_found(question, found, peer.now);
    peer.connect();
    assert_eq!(peer.session.poll_lookup(peer.now), None);
    peer.cut();
    // Names are looked up when a connection ends.
    let question = peer.session.poll_lookup(peer.now).unwrap();
    peer.session.servers_found(question, vec![at(3)], peer.now);
    for _ in 0..3 {
        peer.dial();
        let Phase::Handshake { server, .. } = &peer.session.phase else {
            panic!("no handshake");
        };
        assert_eq!(*server, at(3));
        peer.cut();
    }
    // And after a round without success.
    assert!(peer.session.poll_lookup(peer.now).is_some());
}
