//! What happens at which moment.

use super::*;

#[test]
fn only_whole_messages_of_a_granted_session_put_off_its_expiry() {
    let mut peer = Peer::new();
    peer.connect();
    peer.pass(Duration::from_secs(1));
    peer.notify(3, "/a");
    let expiry = peer.now + TIMEOUT * 7 / 5;
    // The length of a message that never comes.
    let begin_message = |peer: &mut Peer| {
        peer.session.buffer().put_i32(100);
        peer.session.received(peer.now);
    };
    peer.pass(Duration::from_secs(1));
    begin_message(&mut peer);
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

/// Dials and lets the time of the handshake pass; returns how long that is.
fn wait_for_a_grant(peer: &mut Peer) -> Duration {
    let began = peer.now;
    assert!(peer.session.poll_dial(peer.now).is_some(), "no dial");
    peer.session.dialed(peer.now);
    while peer.session.wants_connection() {
        peer.now = peer.session.poll_timeout().expect("it still waits");
        peer.session.handle_timeout(peer.now);
    }
    peer.now.saturating_sub(began)
}

#[test]
fn a_silent_host_has_ever_more_time_and_no_pause_after_it() {
    let millis = Duration::from_millis;
    let mut peer = Peer::with_hosts(&["a"], config());
    for expected in [750, 1500, 3000, 4500, 4500] {
        assert_eq!(wait_for_a_grant(&mut peer), millis(expected));
    }
    // Its machine is there and its server is not: it will be a new one.
    peer.session.poll_dial(peer.now);
    peer.cut();
    let Phase::Waiting { until } = peer.session.phase else {
        panic!("it does not wait: {:?}", peer.session.phase);
    };
    assert!(until > peer.now, "a dial that fails soon is paused after");
    peer.now = until;
    assert_eq!(wait_for_a_grant(&mut peer), millis(750));
    assert_eq!(wait_for_a_grant(&mut peer), millis(1500));
    peer.connect();
    peer.cut();
    if let Phase::Waiting { until } = peer.session.phase {
        peer.now = until;
    }
    assert_eq!(wait_for_a_grant(&mut peer), millis(750));
}

#[test]
fn the_time_of_a_dial_is_bounded_by_the_number_of_hosts() {
    for (hosts, longest) in [(&["a", "b"][..], 2250), (&["a", "b", "c", "d", "e"], 1000)] {
        let mut peer = Peer::with_hosts(hosts, config());
        let mut last = Duration::ZERO;
        for _ in 0..5 * hosts.len() {
            last = wait_for_a_grant(&mut peer);
        }
        assert_eq!(last, Duration::from_millis(longest), "{hosts:?}");
    }
}
