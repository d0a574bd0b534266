use super::*;
use zk_core::transport::{Phase, SessionEnd};

use crate::matching;
use crate::script::Act;

const MS: Duration = Duration::from_millis(1);

fn world(servers: usize) -> World {
    World::new(Settings {
        servers,
        ..Settings::default()
    })
}

fn open(world: &mut World, server: usize) -> SessionId {
    let options = SessionOptions {
        server: Some(server),
        timeout: MS * 1000,
        identities: Vec::new(),
        is_remote: false,
        takes_read_only: false,
    };
    world.open(&options).unwrap()
}

fn sync() -> Content {
    Content::Request(Request::Sync {
        path: NodePath::root(),
    })
}

fn create(path: &str) -> Content {
    Content::Request(Request::Create2(zk_core::transport::NewNode {
        path: NodePath::parse(path).unwrap(),
        data: zk_core::transport::NodeData::default(),
        mode: zk_core::transport::CreateMode::Ephemeral,
        acl: zk_core::Acl::open(),
    }))
}

/// Lets time pass and returns what was outputs, with when.
fn run(world: &mut World, until: Duration) -> Vec<(Duration, Output)> {
    let mut outputs = Vec::new();
    while let Some(due) = world.next_due().filter(|due| *due <= until) {
        world.advance(due);
        let now = world.now();
        outputs.extend(world.take_outputs().into_iter().map(|output| (now, output)));
    }
    world.advance(until);
    outputs
}

fn phase(world: &World, session: SessionId) -> Phase {
    world.client(session).unwrap().link.phase
}

#[test]
fn an_answer_takes_a_message_each_way() {
    let mut world = world(1);
    let session = open(&mut world, 0);
    world.take_outputs();
    let job = world.submit(session, sync());
    let outputs = run(&mut world, MS * 10);
    assert!(
        matches!(&outputs[..], [(at, Output::Reply(answered, Ok(ServerReply::Synced), Some(_), None))] if *at == MS * 2 && *answered == job),
        "{outputs:?}"
    );
}

#[test]
fn a_broken_link_is_reported_before_its_lost_replies() {
    let mut world = world(2);
    let session = open(&mut world, 0);
    world.take_outputs();
    let jobs = [sync(), sync()].map(|content| world.submit(session, content));
    world.break_link(session, &Break::because("x"));
    let outputs = world.take_outputs();
    assert!(
        matches!(&outputs[..], [Output::Link(..), Output::Reply(first, Err(TransportError::Lost(_)), ..), Output::Reply(second, Err(_), ..)] if [*first, *second] == jobs),
        "{outputs:?}"
    );
    run(&mut world, MS * 100);
    assert_eq!(phase(&world, session), Phase::Up);
    assert_eq!(world.client(session).unwrap().server, 1);
}

#[test]
fn a_session_is_opened_when_its_server_has_applied_that() {
    let mut world = world(2);
    world.set_lag(1, Lag::Until(MS * 50));
    let session = open(&mut world, 1);
    assert!(world.take_outputs().is_empty());
    let outputs = run(&mut world, MS * 60);
    assert!(
        matches!(&outputs[..], [(at, Output::Opened(opened))] if *at == MS * 50 && *opened == session),
        "{outputs:?}"
    );
    // The lag ends: later transactions are applied immediately.
    assert_eq!(world.servers()[1].lag, Lag::None);
}

#[test]
fn a_close_in_flight_is_sent_again_after_a_broken_link() {
    for (breaks_at, expected) in [
        (Duration::ZERO, SessionEnd::Closed),
        (MS, SessionEnd::Expired),
    ] {
        let mut world = world(2);
        let session = open(&mut world, 0);
        world.submit(session, create("/e"));
        run(&mut world, MS * 10);
        let begin = world.now();
        world.submit(session, Content::Close);
        run(&mut world, begin + breaks_at);
        world.break_link(session, &Break::because("x"));
        run(&mut world, begin + MS * 100);
        assert_eq!(phase(&world, session), Phase::Over(expected));
        assert!(world.leader().tree().paths().is_empty());
        let late = world.submit(session, sync());
        assert!(
            matches!(&world.take_outputs()[..], [Output::Reply(answered, Err(TransportError::NotSent(_)), ..)] if *answered == late)
        );
    }
}

#[test]
fn everything_due_happens_at_its_own_time_even_when_time_leaps() {
    let mut world = world(1);
    let session = open(&mut world, 0);
    world.submit(session, create("/e"));
    world.advance(MS * 2);
    world.partition(session);
    world.take_outputs();
    // A leap over the leader's expiry and the client's own.
    world.advance(MS * 10_000);
    assert_eq!(phase(&world, session), Phase::Over(SessionEnd::Expired));
    let closing = world.leader().log().last().unwrap();
    assert_eq!(closing.closes, Some(session));
    // Since the last message arrived.
    assert_eq!(closing.committed, MS * 1001);
}

#[test]
fn a_rule_for_a_request_that_never_arrives_has_no_effect() {
    let mut world = world(1);
    let session = open(&mut world, 0);
    let rule = world.add_rule(Rule {
        act: Act::LoseReply,
        ..Rule::new(Box::new(matching::anything()))
    });
    world.submit(session, sync());
    world.break_link(session, &Break::because("x"));
    run(&mut world, MS * 100);
    assert_eq!((world.rule(rule).matched, world.rule(rule).applied), (1, 0));
    assert_eq!(world.seen()[0].outcome, RequestOutcome::NeverArrived);
}

/// Lets a session send a message that arrives after 260 ms, disturbs the ensemble and cuts the session off after 300 ms,
/// restores all servers after `restored` ms, and returns when the session expires. Servers report every 250 ms.
fn expiry(server: usize, disturb: impl Fn(&mut World), restored: u32) -> Duration {
    let mut world = world(3);
    let session = open(&mut world, server);
    run(&mut world, MS * 259);
    world.submit(session, sync());
    run(&mut world, MS * 300);
    disturb(&mut world);
    world.partition(session);
    run(&mut world, MS * restored);
    for server in 0..3 {
        world.start(server);
    }
    run(&mut world, MS * 5_000);
    let closing = world.leader().log().last().unwrap();
    assert_eq!(closing.closes, Some(session));
    closing.committed
}

#[test]
fn a_timeout_runs_since_the_leader_has_heard_of_the_session() {
    const FOLLOWER: usize = 0;
    const LEADER: usize = 2;
    // The leader hears at once, the follower reports after 500 ms.
    assert_eq!(expiry(LEADER, |_| {}, 300), MS * 1260);
    assert_eq!(expiry(FOLLOWER, |_| {}, 300), MS * 1500);
    // A report is made when neither of the two is paused any more.
    for paused in [FOLLOWER, LEADER] {
        let expiry = expiry(FOLLOWER, |world| world.pause(paused), 700);
        assert_eq!(expiry, MS * 1700, "{paused}");
    }
    // The message dies with its server, even if that is back before the next report.
    assert_eq!(
        expiry(FOLLOWER, |world| world.stop(FOLLOWER), 310),
        MS * 1250
    );
    // The next leader is elected after 300 ms and starts all timeouts.
    assert_eq!(
        expiry(FOLLOWER, |world| world.stop(LEADER), 2_000),
        MS * 1600
    );
}
