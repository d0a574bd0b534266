//! Tests the decision and the log entry for every action on every kind of frame.

use proptest::prelude::*;

use super::super::matching::Match;
use super::super::routing::Route;
use super::super::rule_table::Occurrence;
use super::*;
use crate::wire::Op;
use crate::wire::fixtures::*;
use crate::wire::frame::wrap;
use crate::wire::jute::Encoder;

const UP: Direction = Direction::Request;
const DOWN: Direction = Direction::Reply;
const SESSION: i64 = 5;
const DELAY: Duration = Duration::from_millis(100);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn core() -> Core {
    let address = |id: u32| {
        let port = 1000 + u16::try_from(id).unwrap();
        (id, SocketAddr::from(([127, 0, 0, 1], port)))
    };
    Core::new([address(1), address(2)].into(), 1000)
}

/// Returns a core with a session at server 1, and request 1 in flight.
fn connected() -> (Core, ConnectionId) {
    let mut core = core();
    let connection = core.accepted(ms(0), 1);
    core.dialed(connection, 1);
    core.arrived(ms(0), connection, UP, connect(0));
    core.arrived(ms(0), connection, DOWN, granted(SESSION, 4000));
    core.arrived(ms(0), connection, UP, request(1, Op::Create));
    core.events.clear();
    (core, connection)
}

/// Returns each kind of frame in a session with its direction and a matcher.
fn frames() -> Vec<(Direction, Piece, Match)> {
    vec![
        (UP, request(2, Op::Delete), Match::delete("/a")),
        (UP, request(-2, Op::Ping), Match::ping()),
        (UP, request(2, Op::CloseSession), Match::close_session()),
        (UP, request(2, Op::Other(999)), Match::requests()),
        (DOWN, reply(1, 0), Match::create("/a").reply()),
        (DOWN, reply(1, -110), Match::create("/a").reply_code(-110)),
        (DOWN, notification(), Match::notification("/a")),
        (UP, frame(b"?"), Match::any_frame()),
        (DOWN, frame(b"?"), Match::any_frame()),
    ]
}

fn actions() -> Vec<Action> {
    vec![
        Action::Pass,
        Action::Delay(DELAY),
        Action::Rate(1000),
        Action::Hold,
        Action::DropThenCut(Close::Rst),
        Action::ForwardThenCut(Close::Fin),
        Action::BlackHole,
    ]
}

fn texts(core: &Core) -> Vec<String> {
    core.events
        .iter()
        .map(|event| event.kind.to_string())
        .collect()
}

#[test]
fn every_action_applies_to_every_kind_of_frame() {
    for (direction, piece, matching) in frames() {
        for action in actions() {
            let (mut core, connection) = connected();
            let about = format!("{action:?} on {matching}");
            let rule = core.rules.add(matching.clone(), Occurrence::Every, action);
            let decision = core.arrived(ms(10), connection, direction, piece.clone());
            assert_eq!(decision.bytes, piece.clone().into_bytes(), "{about}");
            let len = u64::try_from(decision.bytes.len()).unwrap();
            let due = match action {
                Action::Delay(delay) => ms(10) + delay,
                Action::Rate(_) => ms(10 + len),
                _ => ms(0),
            };
            assert_eq!(decision.due, due, "{about}");
            assert_eq!(decision.hold.is_some(), action == Action::Hold, "{about}");
            let is_request = direction == UP && piece != frame(b"?");
            let xid = i32::from_be_bytes(
                decision.bytes[4..]
                    .get(..4)
                    .map_or([0; 4], |x| x.try_into().unwrap()),
            );
            let cut = |close| Cut {
                rule: Some(rule),
                close,
                answer_to: is_request.then_some(xid),
            };
            let disposition = match action {
                Action::DropThenCut(close) => Disposition::Cut(cut(close)),
                Action::ForwardThenCut(close) => Disposition::PassThenCut(cut(close)),
                Action::BlackHole => Disposition::Discard,
                _ => Disposition::Pass,
            };
            assert_eq!(decision.disposition, disposition, "{about}");
            // A cut counts when it has been carried out.
            let at_once = !matches!(
                decision.disposition,
                Disposition::Cut(_) | Disposition::PassThenCut(_)
            );
            assert_eq!(core.rules.counts(rule), (1, u64::from(at_once)), "{about}");
            if let Disposition::Cut(cut) | Disposition::PassThenCut(cut) = decision.disposition {
                core.cut(ms(11), connection, cut);
                assert_eq!(core.rules.counts(rule), (1, 1), "{about}");
                let last = texts(&core).pop().unwrap();
                assert!(last.starts_with("cut by"), "{about}: {last}");
            }
        }
    }
}

#[test]
fn rules_apply_to_both_frames_of_the_handshake() {
    for action in actions() {
        for direction in [UP, DOWN] {
            let mut core = core();
            let connection = core.accepted(ms(0), 2);
            core.dialed(connection, 2);
            let matching = match direction {
                UP => Match::handshake().session(SESSION),
                DOWN => Match::handshake().reply().server(2),
            };
            let rule = core.rules.add(matching, Occurrence::Nth(1), action);
            let up = core.arrived(ms(0), connection, UP, connect(SESSION));
            let down = core.arrived(ms(0), connection, DOWN, granted(SESSION, 4000));
            assert_eq!(core.rules.counts(rule).0, 1, "{action:?} {direction:?}");
            let (matched, other) = match direction {
                UP => (up, Some(down)),
                DOWN => (down, None),
            };
            assert_eq!(matched.hold.is_some(), action == Action::Hold);
            // A black hole affects the other direction, too; the other actions do not.
            if let Some(other) = other {
                assert_eq!(
                    other.disposition == Disposition::Discard,
                    action == Action::BlackHole
                );
            }
        }
    }
}

#[test]
fn frames_behind_a_delayed_frame_are_not_reordered() {
    let (mut core, connection) = connected();
    core.rules.add(
        Match::delete("/a"),
        Occurrence::Nth(1),
        Action::Delay(DELAY),
    );
    let late = core.arrived(ms(10), connection, UP, request(2, Op::Delete));
    let next = core.arrived(ms(20), connection, UP, request(3, Op::Delete));
    assert_eq!((late.due, next.due), (ms(110), ms(110)));
    let back = core.arrived(ms(20), connection, DOWN, reply(1, 0));
    assert_eq!(back.due, ms(0), "the other direction is free");
    core.rules
        .add(Match::delete("/a"), Occurrence::Every, Action::Delay(ms(1)));
    let short = core.arrived(ms(30), connection, UP, request(4, Op::Delete));
    assert_eq!(short.due, ms(110));
}

#[test]
fn a_rate_adds_up() {
    let (mut core, connection) = connected();
    core.rules
        .add(Match::any_frame(), Occurrence::Every, Action::Rate(1000));
    let len = u64::try_from(request(2, Op::Delete).into_bytes().len()).unwrap();
    let first = core.arrived(ms(10), connection, UP, request(2, Op::Delete));
    let second = core.arrived(ms(10), connection, UP, request(3, Op::Delete));
    let after_a_rest = core.arrived(ms(5000), connection, UP, request(4, Op::Delete));
    assert_eq!(first.due, ms(10 + len));
    assert_eq!(second.due, ms(10 + 2 * len));
    assert_eq!(after_a_rest.due, ms(5000 + len));
}

#[test]
fn a_held_frame_is_released_only_by_its_own_rule() {
    let (mut core, connection) = connected();
    let creates = core
        .rules
        .add(Match::create("/a"), Occurrence::Every, Action::Hold);
    let deletes = core
        .rules
        .add(Match::delete("/a"), Occurrence::Every, Action::Hold);
    let hold = |core: &mut Core, op| {
        let decision = core.arrived(ms(0), connection, UP, request(2, op));
        decision.hold.unwrap()
    };
    let create = hold(&mut core, Op::Create);
    let delete = hold(&mut core, Op::Delete);
    core.release(creates);
    assert!(!core.is_held(create) && core.is_held(delete));
    let create = hold(&mut core, Op::Create);
    core.remove_rule(creates);
    assert!(!core.is_held(create), "removing releases");
    assert_eq!(
        core.arrived(ms(0), connection, UP, request(2, Op::Create))
            .hold,
        None
    );
    let another = hold(&mut core, Op::Delete);
    core.release(deletes);
    assert!(!core.is_held(delete) && !core.is_held(another));
    let last = hold(&mut core, Op::Delete);
    core.heal();
    assert!(!core.is_held(last));
    assert_eq!(
        core.arrived(ms(0), connection, UP, request(2, Op::Delete))
            .hold,
        None
    );
    let rule = core
        .rules
        .add(Match::delete("/a"), Occurrence::Every, Action::Hold);
    let gone = hold(&mut core, Op::Delete);
    core.ended(ms(1), connection);
    assert!(!core.is_held(gone), "with its connection");
    assert_eq!(core.rules.counts(rule), (1, 1));
}

#[test]
fn a_black_hole_discards_both_directions_until_it_is_cut() {
    for heal in [Core::remove_rule, Core::release, |core: &mut Core, _| {
        core.heal();
    }] {
        let (mut core, connection) = connected();
        let rule = core
            .rules
            .add(Match::delete("/a"), Occurrence::Nth(1), Action::BlackHole);
        let before = core.arrived(ms(0), connection, UP, request(2, Op::Create));
        assert_eq!(before.disposition, Disposition::Pass);
        core.arrived(ms(0), connection, UP, request(3, Op::Delete));
        assert!(core.is_black_holed(connection));
        for (direction, piece, _) in frames() {
            let decision = core.arrived(ms(1), connection, direction, piece);
            assert_eq!(decision.disposition, Disposition::Discard);
        }
        assert_eq!(core.rules.counts(rule), (1, 1), "once for each connection");
        assert_eq!(core.requested_cut(connection), None);
        heal(&mut core, rule);
        assert!(!core.is_black_holed(connection));
        assert_eq!(core.requested_cut(connection), Some(Close::Fin));
    }
}

#[test]
fn a_request_and_its_reply_are_four_events() {
    let (mut core, connection) = connected();
    let forth = core.arrived(ms(1), connection, UP, request(2, Op::Delete));
    core.record(ms(2), connection, forth.on_written.unwrap());
    let back = core.arrived(ms(3), connection, DOWN, reply(2, -101));
    core.record(ms(4), connection, back.on_written.unwrap());
    assert_eq!(
        texts(&core),
        [
            "delete /a (xid 2) requested",
            "delete /a (xid 2) forwarded",
            "delete /a (xid 2) answered with -101",
            "delete /a (xid 2): answer delivered",
        ]
    );
    let times: Vec<_> = core.events.iter().map(|event| event.at).collect();
    assert_eq!(times, [ms(1), ms(2), ms(3), ms(4)]);
    assert!(core.events.iter().all(|event| event.server == Some(1)
        && event.session == Some(SESSION)
        && event.connection == connection));
}

#[test]
fn a_session_has_its_current_connection_and_server() {
    let (mut core, connection) = connected();
    assert_eq!(core.sessions[&SESSION], Some((connection, 1)));
    // It moves to another connection before the first one has ended.
    let next = core.accepted(ms(1), 2);
    core.dialed(next, 2);
    core.arrived(ms(1), next, UP, connect(SESSION));
    core.arrived(ms(1), next, DOWN, granted(SESSION, 4000));
    core.ended(ms(2), connection);
    assert_eq!(core.sessions[&SESSION], Some((next, 2)));
    core.ended(ms(3), next);
    assert_eq!(core.sessions[&SESSION], None);
}

#[test]
fn routes_apply_to_addresses_and_sessions() {
    let mut core = core();
    let port = |target: Option<(u32, SocketAddr)>| target.map(|(id, address)| (id, address.port()));
    assert_eq!(port(core.server_for(1, &connect(0))), Some((1, 1001)));
    core.routing.set(Clients::Session(SESSION), Route::To(2));
    assert_eq!(port(core.server_for(1, &connect(SESSION))), Some((2, 1002)));
    assert_eq!(port(core.server_for(1, &connect(0))), Some((1, 1001)));
    assert_eq!(
        port(core.server_for(1, &Piece::Word(b"srvr".to_vec()))),
        Some((1, 1001))
    );
    core.routing.set(Clients::At(1), Route::Refuse);
    assert_eq!(core.server_for(1, &connect(0)), None);
    core.servers
        .insert(2, SocketAddr::from(([127, 0, 0, 1], 9)));
    assert_eq!(port(core.server_for(2, &connect(0))), Some((2, 9)));
    assert_eq!(
        core.server_for(3, &connect(0)),
        None,
        "there is no server 3"
    );
    core.heal();
    assert_eq!(port(core.server_for(1, &connect(SESSION))), Some((1, 1001)));
}

#[test]
fn only_the_selected_connections_are_cut() {
    for (clients, expected) in [
        (Clients::All, vec![1, 2, 3]),
        (Clients::At(2), vec![2]),
        (Clients::Session(SESSION), vec![1]),
        (Clients::Session(99), vec![]),
    ] {
        let (mut core, first) = connected();
        let second = core.accepted(ms(0), 1);
        core.dialed(second, 2);
        let unrouted = core.accepted(ms(0), 2);
        let wanted = core.request_cut(clients, Close::Rst);
        assert_eq!(wanted, expected.into_iter().collect(), "{clients:?}");
        assert_eq!((first, second, unrouted), (1, 2, 3));
        assert_eq!(core.is_any_alive(&wanted), !wanted.is_empty());
        let cut = Cut {
            rule: None,
            close: Close::Rst,
            answer_to: None,
        };
        for connection in &wanted {
            assert_eq!(core.requested_cut(*connection), Some(Close::Rst));
            core.cut(ms(1), *connection, cut);
        }
        assert!(!core.is_any_alive(&wanted));
        assert!(
            core.request_cut(clients, Close::Fin).is_empty(),
            "they are cut already"
        );
    }
}

#[test]
fn the_rest_of_a_long_frame_follows_its_beginning() {
    let (mut core, connection) = connected();
    let rule = core
        .rules
        .add(Match::any_frame(), Occurrence::Every, Action::Delay(DELAY));
    let mut to = Encoder::default();
    let head = to.int(2).int(5).buffer(&[0; 20]).finish();
    let begin = core.arrived(ms(10), connection, UP, Piece::LongFrame(wrap(&head)));
    let rest = core.arrived(ms(50), connection, UP, Piece::Raw(vec![0; 100]));
    assert_eq!((begin.due, rest.due), (ms(110), ms(110)));
    assert_eq!(core.rules.counts(rule), (1, 1));
    assert_eq!(texts(&core)[0], "setData (xid 2) requested");
}

#[test]
fn rules_for_any_frame_apply_to_undecodable_streams() {
    let mut core = core();
    let connection = core.accepted(ms(0), 1);
    core.dialed(connection, 1);
    let rule = core.rules.add(
        Match::any_frame().server(1),
        Occurrence::Nth(2),
        Action::Hold,
    );
    let word = core.arrived(ms(0), connection, UP, Piece::Word(b"srvr".to_vec()));
    assert_eq!(word.hold, None);
    assert!(core.is_raw(connection, UP) && core.is_raw(connection, DOWN));
    let answer = core.arrived(ms(0), connection, DOWN, Piece::Raw(b"Zookeeper".to_vec()));
    assert!(answer.hold.is_some());
    assert_eq!(core.rules.counts(rule), (2, 1));
}

#[test]
fn replies_after_a_cut_are_logged_and_match_no_rule() {
    let (mut core, connection) = connected();
    let rule = core
        .rules
        .add(Match::any_frame(), Occurrence::Every, Action::Hold);
    assert_eq!(
        core.arrived_after_cut(ms(1), connection, &notification()),
        None
    );
    assert_eq!(
        core.arrived_after_cut(ms(1), connection, &reply(1, 0)),
        Some(1)
    );
    assert_eq!(core.rules.counts(rule), (0, 0));
    assert_eq!(texts(&core).len(), 2);
}

proptest! {
    /// Without rules everything passes at once and unchanged.
    #[test]
    fn without_rules_everything_passes(pieces in prop::collection::vec((any::<bool>(), any::<Vec<u8>>(), 0..3_u8), 0..12), has_handshake: bool) {
        let (mut core, mut connection) = connected();
        if !has_handshake {
            connection = core.accepted(ms(0), 1);
        }
        for (up, bytes, kind) in pieces {
            let piece = match kind {
                0 => Piece::Frame(wrap(&bytes)),
                1 => Piece::Raw(bytes),
                _ => Piece::NoFrame(bytes),
            };
            let decision = core.arrived(ms(1), connection, if up { UP } else { DOWN }, piece.clone());
            prop_assert_eq!(decision.bytes, piece.into_bytes());
            prop_assert_eq!((decision.disposition, decision.due, decision.hold), (Disposition::Pass, ms(0), None));
        }
    }
}
