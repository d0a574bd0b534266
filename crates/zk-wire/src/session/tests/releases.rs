//! Requests that the server's release does not know.

use super::*;

const OLD: &str = "Zookeeper version: 3.4.13-2d71af4, built on 06/29/2018";
const NEW: &str = "Zookeeper version: 3.9.2-e454e8c, built on 2024-02-12";

fn one_host() -> Peer {
    Peer::with_hosts(&["a"], config())
}

fn unsupported(needs: Release) -> Outcome {
    let release = Release::new(3, 4, 13);
    let why = NotSent::Unsupported { needs, release };
    Outcome::NotSent { why }
}

fn add_watch(path: &str) -> Request {
    Request::AddWatch {
        path: path.to_owned(),
        recursive: true,
    }
}

/// Returns a peer on its second connection, the first of which was cut after a `whoAmI`, and the question that follows.
fn cut_after_who_am_i() -> (Peer, Probe) {
    let mut peer = one_host();
    peer.connect();
    peer.submit(&Request::WhoAmI);
    peer.sent();
    peer.cut();
    peer.connect();
    let probe = peer.session.poll_probe().expect("there is reason to ask");
    assert_eq!(
        (probe.server().host.name.as_str(), probe.word()),
        ("a", "srvr")
    );
    (peer, probe)
}

#[test]
fn an_unknown_request_costs_one_connection() {
    let (mut peer, probe) = cut_after_who_am_i();
    let who = peer.submit(&Request::WhoAmI);
    let sync = peer.submit(&sync("/a"));
    assert!(peer.sent().is_empty(), "it waits for the answer");
    peer.session.probed(&probe, Some(OLD), peer.now);
    assert_eq!(xids(&peer.sent()), [3]);
    peer.reply(3, 0, b"");
    let [first, second] = &peer.events()[..] else {
        panic!("both have outcomes");
    };
    assert_eq!(
        *first,
        Event::Answered(who, unsupported(Release::new(3, 7, 0)))
    );
    assert!(matches!(second, Event::Answered(of, Outcome::Done { .. }) if *of == sync));
    assert_eq!(peer.session.poll_probe(), None);
}

#[test]
fn without_an_answer_the_request_is_sent() {
    let (mut peer, probe) = cut_after_who_am_i();
    peer.submit(&Request::WhoAmI);
    assert!(peer.sent().is_empty());
    peer.session.probed(&probe, None, peer.now);
    assert_eq!(xids(&peer.sent()), [2]);
}

#[test]
fn requests_that_every_release_knows_never_wait() {
    let (mut peer, _probe) = cut_after_who_am_i();
    peer.submit(&sync("/a"));
    assert_eq!(xids(&peer.sent()), [2]);
}

#[test]
fn only_the_loss_of_a_newer_request_is_a_reason_to_ask() {
    let mut peer = one_host();
    peer.connect();
    peer.submit(&sync("/a"));
    peer.sent();
    peer.submit(&Request::WhoAmI);
    peer.cut();
    peer.connect();
    assert_eq!(peer.session.poll_probe(), None, "it was never sent");
    // A silent server has not closed the connection.
    peer.sent();
    peer.pass(TIMEOUT);
    peer.connect();
    assert_eq!(peer.session.poll_probe(), None);
}

#[test]
fn a_new_server_is_asked_again_only_after_another_loss() {
    let (mut peer, probe) = cut_after_who_am_i();
    peer.session.probed(&probe, Some(NEW), peer.now);
    for _ in 0..3 {
        peer.submit(&sync("/a"));
        assert_eq!(peer.sent().len(), 1);
        peer.cut();
        peer.connect();
        assert_eq!(peer.session.poll_probe(), None);
    }
    peer.submit(&Request::WhoAmI);
    assert_eq!(peer.sent().len(), 1);
    peer.cut();
    peer.connect();
    assert!(peer.session.poll_probe().is_some());
}

#[test]
fn a_missed_answer_is_asked_for_on_the_next_connection() {
    let (mut peer, probe) = cut_after_who_am_i();
    peer.session.probed(&probe, None, peer.now);
    peer.submit(&Request::WhoAmI);
    assert_eq!(peer.sent().len(), 1, "it may know it");
    peer.cut();
    peer.connect();
    let probe = peer.session.poll_probe().expect("it is asked again");
    peer.events();
    let who = peer.submit(&Request::WhoAmI);
    peer.session.probed(&probe, Some(OLD), peer.now);
    assert!(peer.sent().is_empty());
    let outcome = unsupported(Release::new(3, 7, 0));
    assert_eq!(peer.events(), [Event::Answered(who, outcome)]);
    // Behind the same name, another server has this connection, and no answer comes.
    peer.cut();
    peer.connect();
    let probe = peer.session.poll_probe().expect("it is asked again");
    peer.submit(&Request::WhoAmI);
    assert!(peer.sent().is_empty(), "it waits for the answer");
    peer.session.probed(&probe, None, peer.now);
    assert_eq!(peer.sent().len(), 1);
}

#[test]
fn a_question_of_an_earlier_connection_is_not_this_ones() {
    let (mut peer, early) = cut_after_who_am_i();
    peer.cut();
    peer.connect();
    let late = peer.session.poll_probe().expect("there still is");
    peer.submit(&Request::WhoAmI);
    peer.session.probed(&early, None, peer.now);
    assert!(peer.sent().is_empty(), "it waits for the answer");
    peer.session.probed(&late, Some(NEW), peer.now);
    assert_eq!(peer.sent().len(), 1);
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
    let lost = |event: &Event| matches!(event, Event::Answered(of, Outcome::Unknown { .. }) if *of == sync);
    assert!(peer.events().iter().any(lost));
    peer.connect();
    assert!(peer.session.poll_probe().is_some());
}

#[test]
fn persistent_watches_end_on_a_server_that_has_none() {
    let mut peer = one_host();
    peer.connect();
    let recursive = peer.submit(&add_watch("/a"));
    peer.submit(&get("/a"));
    peer.sent();
    peer.reply(1, 0, &[0; 4]);
    peer.reply(2, 0, &data());
    peer.cut();
    assert_eq!(peer.connect()[0].opcode, 105);
    peer.reply(-8, ErrorCode::UNIMPLEMENTED.code(), b"");
    let why = Loss::WatchesRefused(ErrorCode::UNIMPLEMENTED);
    assert_eq!(peer.events(), [Event::Disconnected { why }]);
    peer.connect();
    let probe = peer.session.poll_probe().expect("there is reason to ask");
    peer.cut();
    // The answer comes too late for this connection.
    peer.session.probed(&probe, Some(OLD), peer.now);
    peer.events();
    let sent = peer.dial_and_grant();
    assert_eq!(sent[0].opcode, 101, "only the other watch is set");
    let events = peer.events();
    assert_eq!(events[0], Event::WatchEnded(recursive));
    assert!(matches!(events[1..], [Event::Connected { .. }]));
    assert!(!peer.session.has_watch(recursive));
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

#[test]
fn dropping_watches_costs_one_connection_without_a_release() {
    let mut peer = one_host();
    peer.connect();
    let set_and_forget = |peer: &mut Peer, path: &str| {
        let watch = peer.submit(&get(path));
        let xid = peer.sent()[0].xid;
        peer.reply(xid, 0, &data());
        peer.session.forget_watch(watch);
        peer.sent()
    };
    assert_eq!(set_and_forget(&mut peer, "/a")[0].opcode, 18);
    peer.cut();
    for answer in [None, Some("ClickHouse Keeper version: v23.8.15.35-lts")] {
        peer.connect();
        let probe = peer.session.poll_probe().expect("there is reason to ask");
        peer.session.probed(&probe, answer, peer.now);
        assert_eq!(set_and_forget(&mut peer, "/a"), []);
        // A caller's own is sent.
        let kind = None;
        let path = "/b".to_owned();
        peer.submit(&Request::RemoveWatches { path, kind });
        assert_eq!(peer.sent()[0].opcode, 18);
        peer.cut();
    }
    peer.connect();
    let probe = peer.session.poll_probe().expect("it is asked again");
    peer.session.probed(&probe, Some(NEW), peer.now);
    assert_eq!(set_and_forget(&mut peer, "/a")[0].opcode, 18);
}
