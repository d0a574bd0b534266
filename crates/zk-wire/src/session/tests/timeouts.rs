//! What happens at which moment.

use super::*;

// covers: W7
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
