//! What happens at which moment.

use super::*;

#[test]
fn only_what_arrives_for_a_granted_session_puts_off_its_expiry() {
    let mut peer = Peer::new();
    peer.connect();
    peer.pass(Duration::from_secs(1));
    peer.notify(3, "/a");
    // The length of a message that never comes.
    let begin_message = |peer: &mut Peer| {
        peer.session.buffer().put_i32(100);
        peer.session.received(peer.now);
    };
    peer.pass(Duration::from_secs(1));
    begin_message(&mut peer);
    let expiry = peer.now + TIMEOUT * 7 / 5;
    peer.cut();
    peer.events();
    while peer.events().is_empty() {
        peer.now = peer.session.poll_timeout().expect("it still waits");
        assert!(peer.now <= expiry, "it waits beyond the expiry");
        peer.session.handle_timeout(peer.now);
        if peer.session.poll_dial(peer.now).is_some() {
            peer.session.dialed(peer.now);
            begin_message(&mut peer);
        }
    }
    assert_eq!(peer.now, expiry);
}

#[test]
fn a_connection_that_breaks_within_a_long_reply_is_dialled_again() {
    let mut peer = Peer::new();
    peer.connect();
    peer.submit(&get("/a"));
    peer.sent();
    peer.session.buffer().put_i32(1 << 20);
    for _ in 0..12 {
        peer.pass(TIMEOUT / 6);
        peer.session.buffer().put_u8(0);
        peer.session.received(peer.now);
    }
    peer.cut();
    peer.session.handle_timeout(peer.now);
    assert!(peer.session.poll_dial(peer.now).is_some());
}

#[test]
fn a_server_that_cannot_be_connected_to_has_ever_more_time() {
    for (hosts, longest) in [
        (&["a"][..], 4500),
        (&["a", "b"], 2250),
        (&["a", "b", "c", "d", "e"], 1000),
    ] {
        let mut peer = Peer::with_hosts(hosts, config());
        let mut last = Duration::ZERO;
        for _ in 0..5 * hosts.len() {
            let Phase::Waiting { until } = peer.session.phase else {
                panic!("it does not wait: {:?}", peer.session.phase);
            };
            peer.now = until;
            assert!(peer.session.poll_dial(peer.now).is_some());
            let began = peer.now;
            while peer.session.wants_connection() {
                peer.now = peer.session.poll_timeout().expect("it still waits");
                peer.session.handle_timeout(peer.now);
            }
            last = peer.now.saturating_sub(began);
        }
        assert_eq!(last, Duration::from_millis(longest), "{hosts:?}");
    }
}
