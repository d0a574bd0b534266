//! Replies that carry a code: what they prove of a request, and of the session.

use super::*;

// covers: W4
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
