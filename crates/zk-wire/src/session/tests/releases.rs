//! Requests that the server's release does not know.

use super::*;

fn one_host() -> Peer {
    Peer::with_hosts(&["a"], config())
}

fn add_watch(at: &str) -> Request {
    Request::AddWatch {
        path: path(at),
        recursive: true,
    }
}

/// Returns why a request in flight got no reply.
fn loss_of(peer: &mut Peer, ticket: Ticket) -> Loss {
    let events = peer.events().into_iter();
    let mut losses = events.filter_map(|event| match event {
        Event::Answered(of, Outcome::Unknown { why, .. }) if of == ticket => Some(why),
        _ => None,
    });
    losses.next().expect("its outcome is unknown")
}

#[test]
fn what_an_assumed_release_lacks_is_refused_at_once() {
    let mut config = config();
    let assumed = Release::new(3, 5, 0);
    config.assumed_release = Some(assumed);
    let mut peer = Peer::with_hosts(&["a"], config);
    peer.connect();
    let needs = Release::new(3, 6, 0);
    let refused = peer.session.submit(&add_watch("/a"));
    assert_eq!(refused, Err(SubmitError::Unsupported { needs, assumed }));
    peer.submit(&Request::CheckWatches {
        path: path("/a"),
        kind: None,
    });
    assert_eq!(peer.sent().len(), 1, "3.5 knows it");
}

#[test]
fn no_watch_is_removed_where_servers_cannot() {
    for (assumed, removals) in [(Release::new(3, 4, 0), 0), (Release::new(3, 5, 0), 1)] {
        let mut config = config();
        config.assumed_release = Some(assumed);
        let mut peer = Peer::with_hosts(&["a"], config);
        peer.connect();
        let watch = peer.submit(&get("/a"));
        peer.sent();
        peer.reply(1, 0, &data());
        peer.session.forget_watch(watch);
        assert_eq!(peer.sent().len(), removals, "{assumed}");
    }
}

#[test]
fn a_request_that_no_server_has_answered_may_be_too_new() {
    let mut peer = one_host();
    peer.connect();
    let (old, new) = (sync("/a"), Request::WhoAmI);
    let (old, new) = (peer.submit(&old), peer.submit(&new));
    peer.sent();
    peer.cut();
    let events = peer.events();
    let loss_of = |ticket| {
        let found = events.iter().find_map(|event| match event {
            Event::Answered(of, Outcome::Unknown { why, .. }) if *of == ticket => Some(why),
            _ => None,
        });
        found.expect("its outcome is unknown").clone()
    };
    let broken = loss_of(old);
    assert!(matches!(broken, Loss::Broken(_)), "{broken:?}");
    let too_old = Loss::MaybeTooOld {
        needs: Release::new(3, 7, 0),
        why: Box::new(broken),
    };
    assert_eq!(loss_of(new), too_old);
    assert!(too_old.to_string().contains("before ZooKeeper 3.7.0"));
}

#[test]
fn a_server_that_has_shown_its_release_is_not_too_old() {
    // A refusal shows that the server knows the request, unless it says that it does not.
    for (code, is_shown) in [
        (0, true),
        (ErrorCode::NO_AUTH.code(), true),
        (ErrorCode::UNIMPLEMENTED.code(), false),
        (ErrorCode::MARSHALLING_ERROR.code(), false),
    ] {
        let mut peer = one_host();
        peer.connect();
        peer.submit(&add_watch("/a"));
        peer.sent();
        peer.reply(1, code, if code == 0 { &[0; 4] } else { b"" });
        let second = peer.submit(&add_watch("/b"));
        let newer = peer.submit(&Request::WhoAmI);
        peer.sent();
        peer.cut();
        let events = peer.events();
        for (ticket, may_be_too_old) in [(second, !is_shown), (newer, true)] {
            let is_so = events.iter().any(|event| {
                matches!(event, Event::Answered(of, Outcome::Unknown { why: Loss::MaybeTooOld { .. }, .. }) if *of == ticket)
            });
            assert_eq!(is_so, may_be_too_old, "{code} {ticket:?}");
        }
    }
}

#[test]
fn a_silent_server_is_not_too_old() {
    let mut peer = one_host();
    peer.connect();
    let ticket = peer.submit(&Request::WhoAmI);
    peer.sent();
    peer.pass(TIMEOUT);
    let why = loss_of(&mut peer, ticket);
    assert!(matches!(why, Loss::Silent(_)), "{why:?}");
}

#[test]
fn the_refusal_of_an_unknown_request_may_overtake() {
    let mut peer = one_host();
    peer.connect();
    let sync = peer.submit(&sync("/a"));
    let who = peer.submit(&Request::WhoAmI);
    peer.sent();
    peer.reply(2, ErrorCode::UNIMPLEMENTED.code(), b"");
    let refused = Outcome::Refused {
        code: ErrorCode::UNIMPLEMENTED,
        zxid: 1,
        epoch: 1,
    };
    assert_eq!(peer.events(), [Event::Answered(who, refused)]);
    // The server closes the connection behind it.
    peer.cut();
    assert!(matches!(loss_of(&mut peer, sync), Loss::Broken(_)));
}

#[test]
fn refused_watches_are_followed_by_growing_pauses() {
    let mut peer = one_host();
    peer.connect();
    peer.submit(&get("/a"));
    peer.sent();
    peer.reply(1, 0, &data());
    peer.cut();
    let mut last = Duration::ZERO;
    for _ in 0..8 {
        peer.connect();
        peer.reply(-8, ErrorCode::THROTTLED_OP.code(), b"");
        let Phase::Waiting { until } = peer.session.phase else {
            panic!("it does not wait: {:?}", peer.session.phase);
        };
        last = until.saturating_sub(peer.now);
    }
    assert!(last >= Duration::from_millis(250), "{last:?}");
}
