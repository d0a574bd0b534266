//! Servers that are cut off from the quorum and answer reads.

use super::*;

/// The id that a read-only server makes up.
const MADE_UP: i64 = 0x999;

fn peer() -> Peer {
    let mut config = config();
    config.read_only = true;
    Peer::with(config)
}

/// What the last handshake asked for: a session, and whether a read-only one will do.
fn asked(peer: &Peer) -> (i64, bool) {
    let id = &peer.handshake[16..];
    (
        i64::from_be_bytes(*id.first_chunk().unwrap()),
        peer.handshake.last() == Some(&1),
    )
}

/// Dials hosts that refuse until the session asks for a read-only one, and grants that.
fn connect_read_only(peer: &mut Peer, id: i64) -> Vec<Event> {
    peer.dial();
    while !asked(peer).1 {
        peer.cut();
        peer.dial();
    }
    peer.events();
    peer.grant_as(id, TIMEOUT, true);
    peer.events()
}

#[test]
fn a_read_only_session_is_asked_for_after_a_round() {
    let mut peer = peer();
    for expected in [false, false, true, true] {
        peer.dial();
        assert_eq!(asked(&peer), (0, expected));
        peer.cut();
    }
    let connected = Event::Connected {
        epoch: 1,
        timeout: TIMEOUT,
        read_only: true,
    };
    assert_eq!(connect_read_only(&mut peer, MADE_UP), [connected]);
    let mut other = Peer::new();
    for _ in 0..5 {
        other.dial();
        assert_eq!(asked(&other), (0, false), "it does not want one");
        other.cut();
    }
}

#[test]
fn a_read_only_session_that_was_not_asked_for_is_not_taken() {
    let mut peer = Peer::new();
    peer.dial();
    peer.grant_as(MADE_UP, TIMEOUT, true);
    assert!(!peer.session.wants_connection());
    assert_eq!((peer.session.id(), peer.events()), (0, vec![]));
}

#[test]
fn a_read_only_server_does_not_end_a_session_of_the_quorum() {
    let mut peer = peer();
    peer.dial();
    peer.grant(ID, TIMEOUT);
    peer.cut();
    peer.dial();
    while !asked(&peer).1 {
        peer.cut();
        peer.dial();
    }
    peer.events();
    // What a server replies that does not know the session.
    peer.grant_as(0, Duration::ZERO, true);
    assert_eq!(peer.events(), []);
    peer.dial();
    assert_eq!(asked(&peer).0, ID, "it is still asked for");
}

#[test]
fn a_session_that_no_quorum_knows_becomes_another_one() {
    let mut peer = peer();
    connect_read_only(&mut peer, MADE_UP);
    peer.submit(&get("/a"));
    peer.sent();
    peer.reply(1, 0, &data());
    peer.cut();
    let sent = peer.dial_and_grant();
    assert_eq!(asked(&peer), (0, false), "the ensemble does not know it");
    assert_eq!(peer.handshake[28..44], [0; 16], "nor its password");
    assert_eq!(xids(&sent), [-8], "its watches stay");
    assert!(matches!(
        peer.events().last(),
        Some(Event::Connected {
            read_only: false,
            ..
        })
    ));
    assert_eq!(peer.session.id(), ID);
    peer.cut();
    peer.dial();
    assert_eq!(asked(&peer).0, ID, "from now on it is the session");
}

#[test]
fn a_session_of_the_quorum_keeps_its_id_on_a_read_only_server() {
    for (id, is_kept) in [(ID, true), (MADE_UP, false)] {
        let mut peer = peer();
        peer.connect();
        peer.cut();
        let events = connect_read_only(&mut peer, id);
        assert_eq!(asked(&peer), (ID, true));
        let is_connected = matches!(
            events[..],
            [Event::Connected {
                read_only: true,
                ..
            }]
        );
        let is_expired = events == [Event::Over(SessionEnd::Expired)];
        assert_eq!(
            (is_connected, is_expired),
            (is_kept, !is_kept),
            "{events:?}"
        );
    }
}

#[test]
fn a_session_that_no_quorum_knows_does_not_expire() {
    let mut peer = peer();
    connect_read_only(&mut peer, MADE_UP);
    peer.cut();
    peer.events();
    for _ in 0..100 {
        peer.now = peer.session.poll_timeout().expect("it still waits");
        peer.session.handle_timeout(peer.now);
        peer.session.poll_dial(peer.now);
    }
    assert!(peer.now > peer.start + TIMEOUT * 2);
    assert!(peer.events().is_empty());
    peer.session.close();
    assert_eq!(peer.events(), [Event::Over(SessionEnd::Closed)]);
}

#[test]
fn a_cut_ends_the_closing_of_a_session_that_no_quorum_knows() {
    let mut peer = peer();
    connect_read_only(&mut peer, MADE_UP);
    peer.session.close();
    assert_eq!(peer.sent()[0].opcode, -11);
    peer.cut();
    assert_eq!(peer.events().last(), Some(&Event::Over(SessionEnd::Closed)));
}

#[test]
fn a_read_only_server_is_left_for_a_writable_one() {
    let mut peer = peer();
    connect_read_only(&mut peer, MADE_UP);
    assert_eq!(peer.session.poll_probe(), None);
    let asked_at = |peer: &mut Peer, millis: u64| {
        peer.pass(Duration::from_millis(millis - 1));
        assert_eq!(peer.session.poll_probe(), None);
        peer.pass(Duration::from_millis(1));
        let probes: Vec<_> = std::iter::from_fn(|| peer.session.poll_probe()).collect();
        probes
    };
    assert_eq!(
        peer.session.poll_timeout(),
        Some(peer.now + Duration::from_millis(100))
    );
    for (millis, answer) in [(100, Some("ro")), (200, None), (400, Some("null"))] {
        for probe in asked_at(&mut peer, millis) {
            peer.session.probed(&probe, answer, peer.now);
        }
        assert!(peer.events().is_empty());
    }
    let probes = asked_at(&mut peer, 800);
    let hosts: BTreeSet<_> = probes
        .iter()
        .map(|probe| probe.server().host.name.as_str())
        .collect();
    assert_eq!(hosts, BTreeSet::from(["a", "b"]));
    for probe in &probes {
        peer.session.probed(probe, Some("rw"), peer.now);
    }
    let why = Loss::WritableFound;
    assert_eq!(peer.events(), [Event::Disconnected { why }]);
    assert_eq!(
        peer.session.poll_dial(peer.now).as_ref(),
        Some(probes[0].server())
    );
    peer.session.dialed(peer.now);
    peer.stream.clear();
    peer.write_all();
    peer.handshake = take_frame(&mut peer.stream, usize::MAX).unwrap().unwrap();
    assert_eq!(asked(&peer), (0, false));
    peer.grant(ID, TIMEOUT);
    peer.pass(Duration::from_millis(100));
    assert_eq!(peer.session.poll_probe(), None, "the search is over");
}

#[test]
fn futile_moves_behind_one_name_become_rarer() {
    let mut config = config();
    config.read_only = true;
    let mut peer = Peer::with_hosts(&["a"], config);
    connect_read_only(&mut peer, MADE_UP);
    for pause in [100, 200, 400, 800, 1600] {
        let next = peer.now + Duration::from_millis(pause);
        assert_eq!(peer.session.poll_timeout(), Some(next));
        peer.pass(Duration::from_millis(pause));
        let probe = peer.session.poll_probe().expect("it is time to ask");
        // One server replies, and the next connection leads to another one.
        peer.session.probed(&probe, Some("rw"), peer.now);
        connect_read_only(&mut peer, MADE_UP);
    }
    peer.cut();
    peer.dial();
    peer.grant(ID, TIMEOUT);
    peer.cut();
    connect_read_only(&mut peer, ID);
    let next = peer.now + Duration::from_millis(100);
    assert_eq!(peer.session.poll_timeout(), Some(next));
}

#[test]
fn the_refusal_of_a_write_may_overtake_a_read() {
    let mut peer = peer();
    connect_read_only(&mut peer, MADE_UP);
    let read = peer.submit(&get("/a"));
    let write = peer.submit(&sync("/a"));
    peer.sent();
    peer.reply(2, ErrorCode::NOT_READ_ONLY.code(), b"");
    peer.reply(1, 0, &data());
    let events = peer.events();
    assert!(
        matches!(&events[..], [
        Event::Answered(first, Outcome::Refused { code: ErrorCode::NOT_READ_ONLY, .. }),
        Event::Answered(second, Outcome::Done { .. }),
    ] if (*first, *second) == (write, read)),
        "{events:?}"
    );
}
