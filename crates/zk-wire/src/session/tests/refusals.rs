//! Replies that carry a code: what they prove of a request, and of the session.

use super::*;

#[test]
fn a_server_that_fails_does_not_say_what_it_did() {
    let mut peer = Peer::new();
    peer.connect();
    for (xid, code) in [(1, -1), (2, -2), (3, -3), (4, -4), (5, -7)] {
        let ticket = peer.submit(&sync("/a"));
        peer.sent();
        peer.reply(xid, code, b"");
        let why = Loss::ServerFailed(ErrorCode::new(code).unwrap());
        let unknown = Outcome::Unknown { epoch: 1, why };
        assert_eq!(peer.events(), [Event::Answered(ticket, unknown)], "{code}");
    }
    let ticket = peer.submit(&sync("/a"));
    peer.sent();
    peer.reply(6, 0, b"");
    let done = |event: &Event| matches!(event, Event::Answered(of, Outcome::Done { epoch: 1, .. }) if *of == ticket);
    assert!(peer.events().iter().all(done), "the connection stays");
}

#[test]
fn a_refused_close_ends_the_session_only_if_it_is_over() {
    for (code, end) in [
        (0, SessionEnd::Closed),
        (-112, SessionEnd::Expired),
        (-115, SessionEnd::AuthFailed),
        (-124, SessionEnd::AuthRequired),
    ] {
        let mut peer = Peer::new();
        peer.connect();
        peer.session.close();
        assert_eq!(peer.sent()[0].opcode, -11);
        peer.reply(1, code, b"");
        assert_eq!(peer.events(), [Event::Over(end)], "{code}");
    }
}

#[test]
fn a_refused_close_is_repeated_after_growing_pauses() {
    let mut peer = Peer::with_hosts(&["a"], config());
    peer.connect();
    peer.session.close();
    let mut pause = Duration::ZERO;
    let mut sent = peer.sent();
    for code in [-118, -127, -7, -4, -13, -999, -127, -127] {
        assert_eq!(sent[0].opcode, -11);
        peer.reply(1, code, b"");
        let why = Loss::CloseRefused(ErrorCode::new(code).unwrap());
        assert_eq!(peer.events(), [Event::Disconnected { why }]);
        let Phase::Waiting { until } = peer.session.phase else {
            panic!("it does not wait: {:?}", peer.session.phase);
        };
        pause = until.saturating_sub(peer.now);
        sent = peer.connect();
    }
    assert!(pause >= Duration::from_millis(250), "{pause:?}");
    assert_eq!(sent[0].opcode, -11);
    peer.reply(1, 0, b"");
    assert_eq!(peer.events(), [Event::Over(SessionEnd::Closed)]);
}
