//! The proof against a model of the leader's session clock.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

use super::*;

const MS: Duration = Duration::from_millis(1);
const TIMEOUT: Duration = Duration::from_secs(12);

fn until(proof: &LeaseProof, start: Instant) -> Duration {
    proof.until() - start
}

#[test]
fn lease_of_a_new_session_starts_at_its_request() {
    let start = Instant::now();
    assert_eq!(
        until(&LeaseProof::opened(TIMEOUT, start), start),
        worth(TIMEOUT)
    );
}

#[test]
fn session_of_an_isolated_server_has_no_valid_lease() {
    let start = Instant::now();
    assert_eq!(
        until(&LeaseProof::unproven(TIMEOUT, start), start),
        Duration::ZERO
    );
}

/// A session that commits every second from its opening up to `to`.
fn committing(start: Instant, to: u32) -> LeaseProof {
    let mut proof = LeaseProof::opened(TIMEOUT, start);
    for second in 1..=to {
        let sent = start + second * 1000 * MS;
        proof.committed(sent, sent + 10 * MS);
    }
    proof
}

#[test]
fn touch_is_proven_by_a_commit_that_comes_late_enough() {
    let start = Instant::now();
    let mut proof = committing(start, 5);
    assert_eq!(
        until(&proof, start),
        worth(TIMEOUT),
        "commits alone prove nothing"
    );
    proof.touched(start + 5000 * MS, start + 5010 * MS);
    for second in 6..=9 {
        let sent = start + second * 1000 * MS;
        proof.committed(sent, sent + 10 * MS);
    }
    // From the reply on 3300 ms, and the 1010 ms between the answers to two commits.
    proof.committed(start + 9319 * MS, start + 9330 * MS);
    assert_eq!(
        until(&proof, start),
        worth(TIMEOUT),
        "the follower may not have reported to the leader yet"
    );
    proof.committed(start + 9320 * MS, start + 9330 * MS);
    assert_eq!(until(&proof, start), worth(TIMEOUT) + 5000 * MS);
}

#[test]
fn proof_restarts_after_a_gap_between_replies_of_the_leader() {
    let start = Instant::now();
    for (gap, proves) in [(2400, true), (2401, false)] {
        let mut proof = committing(start, 5);
        proof.touched(start + 1500 * MS, start + 1500 * MS);
        proof.committed(start + 9000 * MS, start + (5000 + gap) * MS);
        let expected = if proves { 1500 } else { 0 };
        assert_eq!(
            until(&proof, start),
            worth(TIMEOUT) + expected * MS,
            "{gap}"
        );
    }
    // From the end of the gap on it takes the usual time.
    let mut proof = committing(start, 2);
    proof.touched(start + 1500 * MS, start + 1500 * MS);
    for sent in [5000, 6000, 7000, 8000, 9000, 9319] {
        proof.committed(start + sent * MS, start + (sent + 10) * MS);
    }
    assert_eq!(until(&proof, start), worth(TIMEOUT));
    proof.committed(start + 9320 * MS, start + 9330 * MS);
    assert_eq!(until(&proof, start), worth(TIMEOUT) + 1500 * MS);
}

#[test]
fn lapsed_proof_is_not_revived_by_the_first_write_after_it() {
    let start = Instant::now();
    let mut proof = committing(start, 10);
    proof.touched(start + 10_000 * MS, start + 10_010 * MS);
    // In time it would have been proven at 14,320 ms: later by one more gap, and by what the expiry may take.
    for sent in [11_000, 12_000, 13_000, 14_000, 15_000, 15_929] {
        proof.committed(start + sent * MS, start + (sent + 10) * MS);
        assert_eq!(until(&proof, start), worth(TIMEOUT), "{sent}");
    }
    proof.committed(start + 15_930 * MS, start + 15_940 * MS);
    assert_eq!(until(&proof, start), worth(TIMEOUT) + 10_000 * MS);
}

#[test]
fn lapsed_proof_is_not_revived_by_a_move() {
    let start = Instant::now();
    let mut proof = committing(start, 10);
    proof.touched(start + 10_000 * MS, start + 10_010 * MS);
    proof.committed(start + 11_000 * MS, start + 11_010 * MS);
    proof.broke(1, Some(start + 11_500 * MS));
    for sent in (12_000..30_000).step_by(1000) {
        proof.committed(start + sent * MS, start + (sent + 10) * MS);
        assert_eq!(until(&proof, start), worth(TIMEOUT), "{sent}");
    }
}

#[test]
fn move_and_a_later_commit_prove_all_earlier_replies() {
    let start = Instant::now();
    let mut proof = committing(start, 5);
    proof.touched(start + 5500 * MS, start + 5510 * MS);
    proof.touched(start + 6000 * MS, start + 6100 * MS);
    proof.broke(1, Some(start + 6050 * MS));
    assert_eq!(
        until(&proof, start),
        worth(TIMEOUT),
        "the move has not come yet"
    );
    // One that was sent before the break was seen may have been carried out before it.
    proof.committed(start + 6040 * MS, start + 6200 * MS);
    assert_eq!(until(&proof, start), worth(TIMEOUT));
    proof.committed(start + 9000 * MS, start + 9010 * MS);
    assert_eq!(
        until(&proof, start),
        worth(TIMEOUT) + 5500 * MS,
        "the second answer may have come over the new link"
    );
}

#[test]
fn session_that_is_kept_fresh_survives_a_short_failover() {
    let start = Instant::now();
    let mut proof = LeaseProof::opened(TIMEOUT, start);
    let mut now = start;
    for tenth in 0..1200_u32 {
        now += 100 * MS;
        // The leader is gone for a quarter of the timeout each minute.
        let is_down = tenth % 600 > 560 && tenth % 600 < 560 + 30;
        if is_down {
            if tenth % 600 == 561 {
                proof.broke(u64::from(tenth), Some(now));
            }
        } else if now >= proof.commit_due(now) {
            proof.committed(now, now + 20 * MS);
            proof.touched(now, now + 20 * MS);
        } else if now >= proof.reach_due(now) {
            proof.reached(now, now + 20 * MS);
            proof.touched(now, now + 20 * MS);
        }
        assert!(proof.until() > now, "lapsed after {:?}", now - start);
    }
}

/// Goes on as the tasks of a session do while it is relied on, and returns how often the leader and the quorum answer.
fn relied_on(proof: &mut LeaseProof, from: Instant, to: Instant, holds: bool) -> (u32, u32) {
    let (mut reaches, mut commits) = (0, 0);
    let mut now = from;
    while now < to {
        now += 10 * MS;
        let answered = now + 10 * MS;
        let is_sync_due = now >= proof.reach_due(now);
        let follows_sync = proof.is_on_learner() && proof.is_lasting(now);
        if is_sync_due {
            reaches += 1;
            proof.reached(now, answered);
            proof.touched(now, answered);
        }
        if holds && (is_sync_due || !follows_sync) && now >= proof.commit_due(now) {
            commits += 1;
            proof.committed(now, answered);
            proof.touched(now, answered);
        }
    }
    (reaches, commits)
}

#[test]
fn holder_commits_as_often_as_the_role_of_its_server_requires() {
    let start = Instant::now();
    for (role, most) in [
        (None, 400),
        (Some(ServerRole::Leader), 200),
        (Some(ServerRole::Learner), 345),
    ] {
        let mut proof = LeaseProof::opened(TIMEOUT, start);
        proof.role = role;
        let mut now = start;
        let mut commits = 0;
        for _ in 0..1000 {
            let next = now + TIMEOUT / 10;
            commits += relied_on(&mut proof, now, next, true).1;
            now = next;
            assert!(proof.is_lasting(now), "{role:?}, {:?}", now - start);
        }
        assert!((most - 20..=most).contains(&commits), "{role:?}, {commits}");
    }
}

#[test]
fn lasting_proof_lasts_whenever_it_is_first_used() {
    let start = Instant::now();
    for percent in 0..300 {
        let begun = start + TIMEOUT / 100 * percent;
        let mut proof = LeaseProof::opened(TIMEOUT, start);
        // As a lock does: a write, and the proof if it is at hand.
        proof.committed(begun, begun + 10 * MS);
        proof.touched(begun, begun + 10 * MS);
        let mut now = begun + 10 * MS;
        let mut was_lasting = false;
        while now < begun + 3 * TIMEOUT {
            was_lasting |= proof.is_lasting(now);
            let next = now + TIMEOUT / 50;
            relied_on(&mut proof, now, next, true);
            now = next;
            assert!(
                !was_lasting || proof.until() > now,
                "{percent}, {:?}",
                now - begun
            );
        }
        assert!(was_lasting);
    }
}

#[test]
fn idle_session_has_a_proof_after_two_fifths_of_the_timeout() {
    let start = Instant::now();
    for idle in [1, 10, 1000] {
        let mut proof = LeaseProof::opened(TIMEOUT, start);
        let begun = start + idle * TIMEOUT;
        let (mut now, mut commits) = (begun, 0);
        while !proof.is_lasting(now) {
            let next = now + 10 * MS;
            commits += relied_on(&mut proof, now, next, true).1;
            now = next;
            assert!(now < begun + TIMEOUT * 9 / 20, "after {idle}");
        }
        assert!(now >= begun + TIMEOUT * 7 / 20, "{:?}", now - begun);
        assert!(commits <= 2, "{commits}");
    }
}

#[test]
fn first_proof_lasts_unless_it_ends_before_the_next_one() {
    let start = Instant::now();
    let proof = LeaseProof::opened(TIMEOUT, start);
    assert!(proof.is_lasting(start + TIMEOUT * 2 / 5));
    assert!(!proof.is_lasting(start + TIMEOUT * 3 / 5));
    let mut used = proof.clone();
    used.touched(start + TIMEOUT / 4, start + TIMEOUT / 4);
    assert!(used.is_lasting(start + TIMEOUT / 4));
    let mut late = proof;
    late.touched(start + TIMEOUT * 9 / 10, start + TIMEOUT * 9 / 10);
    assert!(!late.is_lasting(start + TIMEOUT * 9 / 10));
    assert!(late.until() > start + TIMEOUT * 9 / 10);
}

#[test]
fn idle_session_that_syncs_has_a_lease_at_its_next_commit() {
    let start = Instant::now();
    let mut proof = LeaseProof::opened(TIMEOUT, start);
    let mut now = start;
    while now < start + 100 * TIMEOUT {
        now = proof.reach_due(now);
        proof.reached(now, now + 20 * MS);
        proof.touched(now, now + 20 * MS);
    }
    assert!(proof.until() < now);
    proof.committed(now + 20 * MS, now + 40 * MS);
    assert!(
        proof.until() > now + TIMEOUT * 7 / 20,
        "{:?}",
        proof.until() - now
    );
}

/// A session on a server of a role that touches at 5 and 5.5 s, and sends a `sync` at 10 s.
fn synced_at(start: Instant, role: Option<ServerRole>) -> LeaseProof {
    let mut proof = committing(start, 5);
    if let Some(role) = role {
        proof.connected_to(role);
    }
    for at in [5000, 5500] {
        proof.touched(start + at * MS, start + at * MS);
    }
    for second in 6..=10 {
        let sent = start + second * 1000 * MS;
        proof.applied(70, sent);
        proof.reached(sent, sent + 10 * MS);
        proof.synced(sent, 70);
    }
    proof
}

#[test]
fn commit_of_another_session_proves_what_was_synced_before() {
    let start = Instant::now();
    let at = |ms: u32| start + ms * MS;
    let proven = worth(TIMEOUT) + 5500 * MS;
    let mut proof = synced_at(start, Some(ServerRole::Learner));
    proof.applied(70, at(11_000));
    assert_eq!(
        until(&proof, start),
        worth(TIMEOUT),
        "nothing was committed"
    );
    proof.applied(71, at(11_000));
    assert_eq!(until(&proof, start), proven);

    for role in [None, Some(ServerRole::Leader)] {
        let mut proof = synced_at(start, role);
        proof.applied(71, at(11_000));
        assert_eq!(until(&proof, start), worth(TIMEOUT), "{role:?}");
    }
    let mut late = synced_at(start, Some(ServerRole::Learner));
    late.applied(71, late.until() + MS);
    assert_eq!(until(&late, start), worth(TIMEOUT), "the proof had lapsed");
    let mut moved = synced_at(start, Some(ServerRole::Learner));
    moved.broke(1, None);
    moved.connected_to(ServerRole::Learner);
    moved.applied(71, at(11_000));
    assert_eq!(until(&moved, start), worth(TIMEOUT), "another link");
    let mut early = synced_at(start, Some(ServerRole::Learner));
    early.synced(at(9000), 70);
    early.applied(71, at(11_000));
    assert_eq!(
        until(&early, start),
        worth(TIMEOUT),
        "the leader may have heard of no touch when it processed the sync"
    );
}

#[test]
fn session_on_the_leader_is_proven_by_its_next_commit() {
    let start = Instant::now();
    let mut proof = committing(start, 5);
    proof.connected_to(ServerRole::Leader);
    proof.touched(start + 6000 * MS, start + 6010 * MS);
    proof.committed(start + 6009 * MS, start + 6020 * MS);
    assert_eq!(
        until(&proof, start),
        worth(TIMEOUT),
        "sent before the reply"
    );
    proof.committed(start + 6010 * MS, start + 6020 * MS);
    assert_eq!(until(&proof, start), worth(TIMEOUT) + 6000 * MS);
}

#[test]
fn smallest_timeout_that_was_granted_counts() {
    let start = Instant::now();
    let mut proof = committing(start, 2);
    for granted in [8000, 9000, 12_000] {
        proof.limit_timeout(granted * MS);
        assert_eq!(until(&proof, start), worth(8000 * MS), "{granted}");
    }
}

#[test]
fn memory_is_bounded() {
    let start = Instant::now();
    let mut proof = LeaseProof::opened(TIMEOUT, start);
    for at in 0..1_000_000_u32 {
        proof.touched(start + MS * at, start + MS * (at + 1));
    }
    assert!(proof.touches.len() <= MOST_TOUCHES);
}

/// A session on a follower, in steps of a hundredth of the timeout.
#[derive(Debug, Clone)]
struct Run {
    /// How many steps there are between two pings of the leader; half a tick.
    ping: u64,
    /// How long after the timeout the leader looks for sessions that are over: it rounds up to a tick.
    late: u64,
    /// How many steps it takes from there until it marks one as closing.
    marking: u64,
    /// Each report omits one touch in this many: it was recorded at the moment of an earlier report.
    omitted: u64,
    /// What happens at each step.
    steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Nothing,
    Read,
    /// The reply takes this many steps, or longer while the leader is paused.
    Write(u64),
    /// The same, but only the leader answers.
    Sync(u64),
    /// The follower dies with what it has not forwarded, and the client moves to another one. It may or may not notice
    /// when its link broke.
    Move {
        is_seen: bool,
    },
    /// The leader of the follower is deposed, and neither notices: its session times are ignored, and it commits
    /// nothing. A move ends this.
    Depose,
    /// The leader stands still: it takes no note and carries out nothing. Its follower goes on answering reads.
    LeaderStands(u64),
    /// The follower stands still: it answers nothing.
    FollowerStands(u64),
}

fn runs() -> impl Strategy<Value = Run> {
    let step = prop_oneof![
        16 => Just(Step::Nothing),
        6 => Just(Step::Read),
        4 => (0..4_u64).prop_map(Step::Write),
        8 => (0..4_u64).prop_map(Step::Sync),
        1 => (0..30_u64).prop_map(Step::Write),
        1 => any::<bool>().prop_map(|is_seen| Step::Move { is_seen }),
        1 => (1..60_u64).prop_map(Step::LeaderStands),
        1 => (1..60_u64).prop_map(Step::FollowerStands),
    ];
    let often = proptest::collection::vec(step, 1..400);
    // Long silences, as of a session that is idle or cut off, with a short life in between.
    let rare = prop_oneof![
        20 => Just(Step::Nothing),
        8 => Just(Step::Sync(1)),
        4 => Just(Step::Write(1)),
        1 => Just(Step::Read),
        1 => any::<bool>().prop_map(|is_seen| Step::Move { is_seen }),
        1 => Just(Step::Depose),
    ];
    let act = (1..40_usize, rare).prop_map(|(times, step)| match step {
        Step::Nothing => vec![step; 4 * times],
        Step::Sync(_) => (0..times)
            .flat_map(|_| [step, Step::Nothing, Step::Nothing])
            .collect(),
        _ => vec![step],
    });
    let seldom = proptest::collection::vec(act, 1..40).prop_map(|acts| acts.concat());
    let steps = prop_oneof![often, seldom, last_gasps()];
    // The longest half tick is the hardest.
    let ping = prop_oneof![1..=25_u64, Just(25)];
    let late = prop_oneof![0..=50_u64, Just(0)];
    let omitted = prop_oneof![Just(u64::MAX), 2..=4_u64];
    (ping, late, 0..=3_u64, omitted, steps).prop_map(|(ping, late, marking, omitted, steps)| Run {
        ping,
        late,
        marking,
        omitted,
        steps,
    })
}

/// A session that the leader stops hearing of, and that moves and writes about when it is expired.
fn last_gasps() -> impl Strategy<Value = Vec<Step>> {
    let chain = |times| vec![[Step::Sync(1), Step::Nothing, Step::Nothing]; times].concat();
    let end = prop_oneof![
        2 => Just(Step::Write(0)),
        2 => Just(Step::Sync(1)),
        2 => Just(Step::Nothing),
        1 => any::<bool>().prop_map(|is_seen| Step::Move { is_seen }),
    ];
    let ends = proptest::collection::vec(end, 1..60);
    (0..20_usize, 25..60_usize, any::<bool>(), ends).prop_map(
        move |(before, after, is_seen, ends)| {
            let parting = [
                vec![Step::Depose],
                chain(after),
                vec![Step::Move { is_seen }],
            ];
            [chain(before), parting.concat(), ends].concat()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// The leader never expires the session before the proof ends, whenever the follower dies and whichever of them is
    /// paused.
    #[test]
    fn proof_ends_before_the_leader_expires_the_session(run in runs()) {
        check(&run, None)?;
    }
}

/// A write that is accepted while the leader expires the session revives nothing.
#[test]
fn revival_by_a_single_write_is_found_out() {
    // Deposed, moved while the session is being expired, and then a write.
    let mut steps = vec![Step::Nothing; 10];
    steps.push(Step::Depose);
    steps.extend(vec![[Step::Sync(1), Step::Nothing]; 47].concat());
    steps.extend([Step::Move { is_seen: true }, Step::Write(0), Step::Nothing]);
    let of = |late| Run {
        ping: 25,
        late,
        marking: 3,
        omitted: u64::MAX,
        steps: steps.clone(),
    };
    assert!((0..20).any(|late| check(&of(late), Some(Flaw::RevivesAtOnce)).is_err()));
    assert!((0..20).all(|late| check(&of(late), None).is_ok()));
    // And by chance.
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut is_found = || {
        let run = runs().new_tree(&mut runner).unwrap().current();
        check(&run, Some(Flaw::RevivesAtOnce)).is_err()
    };
    let found = (0..1500).filter(|_| is_found()).count();
    assert!(found > 3, "{found}");
}

fn check(run: &Run, flaw: Option<Flaw>) -> Result<(), TestCaseError> {
    assert!(25 <= 100 * REPORT_SHARE.0 / REPORT_SHARE.1);
    let start = Instant::now();
    let at = |step: u64| start + TIMEOUT / 100 * u32::try_from(step).unwrap();
    let mut proof = LeaseProof {
        flaw,
        ..LeaseProof::opened(TIMEOUT, start)
    };
    // When the leader last heard of the session, by its own clock.
    let mut heard = 0;
    // How many steps it still takes to close the session that it has taken off its list.
    let mut closing = None;
    // Whether the follower has recorded activity that it has not forwarded yet.
    let mut has_note = false;
    let mut touches = 0;
    let mut is_recorded = || {
        touches += 1;
        touches % run.omitted != 0
    };
    let mut is_deposed = false;
    let mut breaks = 0;
    let mut next_ping = run.ping;
    let (mut leader_stands, mut follower_stands) = (0, 0);
    let mut reads = Vec::new();
    let mut writes = VecDeque::new();
    for (now, step) in (1..).zip(&run.steps) {
        if now >= follower_stands {
            for sent in reads.drain(..) {
                has_note |= is_recorded();
                proof.touched(at(sent), at(now));
            }
            while now >= leader_stands && writes.front().is_some_and(|&(_, due, _)| due <= now) {
                let (sent, _, is_commit) = writes.pop_front().unwrap();
                has_note |= is_recorded();
                match (is_commit, is_deposed) {
                    (true, true) => continue,
                    (true, false) => proof.committed(at(sent), at(now)),
                    (false, _) => proof.reached(at(sent), at(now)),
                }
                proof.touched(at(sent), at(now));
            }
        }
        // What the follower has not forwarded by now may be lost with it; it may forward it after a write.
        prop_assert!(proof.until() <= at(heard) + TIMEOUT, "step {}", now);
        if now >= next_ping && now >= leader_stands && now >= follower_stands {
            let is_forwarded = std::mem::take(&mut has_note) && !is_deposed;
            if is_forwarded && closing.is_none() {
                // The leader enters the time at which the note arrives.
                heard = now;
            }
            next_ping = now + run.ping;
        }
        if now >= leader_stands {
            closing = match closing {
                Some(0) => break,
                Some(left) => Some(left - 1),
                None if now > heard + 100 + run.late => Some(run.marking),
                None => None,
            };
        }
        match *step {
            Step::Nothing => {}
            Step::Read => reads.push(now),
            Step::Write(takes) => writes.push_back((now, now + takes, true)),
            Step::Sync(takes) => writes.push_back((now, now + takes, false)),
            Step::Depose => is_deposed = true,
            Step::Move { is_seen } => {
                breaks += 1;
                proof.broke(breaks, is_seen.then_some(at(now)));
                is_deposed = false;
                has_note = false;
                follower_stands = 0;
                reads.clear();
                writes.clear();
                // The leader must be there to hear of it; the client may see its link broken long before.
                if closing.is_none() {
                    heard = now.max(leader_stands);
                }
                if leader_stands > now {
                    break;
                }
            }
            Step::LeaderStands(steps) => leader_stands = leader_stands.max(now + steps),
            Step::FollowerStands(steps) => follower_stands = follower_stands.max(now + steps),
        }
    }
    Ok(())
}
