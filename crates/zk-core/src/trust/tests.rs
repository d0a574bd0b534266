//! The proof against a model of the leader's session clock.

use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);
const TIMEOUT: Duration = Duration::from_secs(12);

fn until(trust: &Trust, start: Instant) -> Duration {
    trust.until() - start
}

// covers: L12
#[test]
fn new_session_is_trusted_from_the_moment_it_was_asked_for() {
    let start = Instant::now();
    assert_eq!(until(&Trust::opened(TIMEOUT, start), start), worth(TIMEOUT));
}

// covers: L12
#[test]
fn session_of_a_server_that_is_cut_off_is_not_trusted() {
    let start = Instant::now();
    assert_eq!(
        until(&Trust::of_nobody(TIMEOUT, start), start),
        Duration::ZERO
    );
}

/// A session that commits every second from its opening up to `to`.
fn committing(start: Instant, to: u32) -> Trust {
    let mut trust = Trust::opened(TIMEOUT, start);
    for second in 1..=to {
        let sent = start + second * 1000 * MS;
        trust.committed(sent, sent + 10 * MS);
    }
    trust
}

// covers: L12
#[test]
fn touch_is_proven_by_a_commit_that_comes_late_enough() {
    let start = Instant::now();
    let mut trust = committing(start, 5);
    assert_eq!(
        until(&trust, start),
        worth(TIMEOUT),
        "commits alone prove nothing"
    );
    trust.touched(start + 5000 * MS, start + 5010 * MS);
    for second in 6..=10 {
        let sent = start + second * 1000 * MS;
        trust.committed(sent, sent + 10 * MS);
    }
    trust.committed(start + 10_409 * MS, start + 10_420 * MS);
    assert_eq!(
        until(&trust, start),
        worth(TIMEOUT),
        "the follower may not have told the leader yet"
    );
    trust.committed(start + 10_410 * MS, start + 10_420 * MS);
    assert_eq!(until(&trust, start), worth(TIMEOUT) + 5000 * MS);
}

// covers: L12
#[test]
fn gap_between_commits_may_be_a_standstill_and_the_proof_begins_anew() {
    let start = Instant::now();
    for (gap, proves) in [(2400, true), (2401, false)] {
        let mut trust = committing(start, 5);
        trust.touched(start + 2000 * MS, start + 2000 * MS);
        trust.committed(start + 7400 * MS, start + (5000 + gap) * MS);
        let expected = if proves { 2000 } else { 0 };
        assert_eq!(
            until(&trust, start),
            worth(TIMEOUT) + expected * MS,
            "{gap}"
        );
    }
    // From the end of the gap on it takes the usual time.
    let mut trust = committing(start, 5);
    trust.touched(start + 2000 * MS, start + 2000 * MS);
    trust.committed(start + 8000 * MS, start + 8010 * MS);
    for sent in [9000, 10_000, 11_000, 12_000, 13_000, 13_409] {
        trust.committed(start + sent * MS, start + (sent + 10) * MS);
    }
    assert_eq!(until(&trust, start), worth(TIMEOUT));
    trust.committed(start + 13_410 * MS, start + 13_420 * MS);
    assert_eq!(until(&trust, start), worth(TIMEOUT) + 2000 * MS);
}

// covers: L12
#[test]
fn move_and_a_commit_after_it_prove_all_that_was_answered_before() {
    let start = Instant::now();
    let mut trust = committing(start, 5);
    trust.touched(start + 5500 * MS, start + 5510 * MS);
    trust.touched(start + 6000 * MS, start + 6100 * MS);
    trust.broke(start + 6050 * MS);
    assert_eq!(
        until(&trust, start),
        worth(TIMEOUT),
        "the move has not come yet"
    );
    // One that was sent before the break was seen may have been carried out before it.
    trust.committed(start + 6040 * MS, start + 6200 * MS);
    assert_eq!(until(&trust, start), worth(TIMEOUT));
    trust.committed(start + 9000 * MS, start + 9010 * MS);
    assert_eq!(
        until(&trust, start),
        worth(TIMEOUT) + 5500 * MS,
        "the second answer may have come over the new link"
    );
}

// covers: L12
#[test]
fn session_that_is_kept_fresh_survives_a_short_failover() {
    let start = Instant::now();
    let mut trust = Trust::opened(TIMEOUT, start);
    let mut now = start;
    let (mut next_commit, mut next_touch) = (start, start);
    for tenth in 0..1200_u32 {
        now += 100 * MS;
        // The leader is gone for a quarter of the timeout each minute.
        let is_down = tenth % 600 > 560 && tenth % 600 < 560 + 30;
        if is_down {
            if tenth % 600 == 561 {
                trust.broke(now);
            }
        } else if now >= next_commit {
            trust.touched(now, now + 20 * MS);
            trust.committed(now, now + 20 * MS);
            next_commit = now + trust.commit_interval();
            next_touch = now + trust.touch_interval();
        } else if now >= next_touch {
            trust.touched(now, now + 20 * MS);
            next_touch = now + trust.touch_interval();
        }
        assert!(trust.until() > now, "lapsed after {:?}", now - start);
    }
}

#[test]
fn memory_is_bounded() {
    let start = Instant::now();
    let mut trust = Trust::opened(TIMEOUT, start);
    for at in 0..1_000_000_u32 {
        trust.touched(start + MS * at, start + MS * (at + 1));
    }
    assert!(trust.touches.len() <= MOST_TOUCHES);
}

/// A session on a follower, in steps of a hundredth of the timeout.
#[derive(Debug, Clone)]
struct Run {
    /// How many steps there are between two pings of the leader; half a tick.
    ping: u64,
    /// What happens at each step.
    steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Nothing,
    Read,
    /// The answer takes this many steps, or longer while the leader stands still.
    Write(u64),
    /// The follower dies with what it has not told, and the client, which may or may not notice that its link was
    /// broken, moves to another one.
    Move {
        is_seen: bool,
    },
    /// The leader stands still: it takes no note and carries out nothing. Its follower goes on answering reads.
    LeaderStands(u64),
    /// The follower stands still: it answers nothing.
    FollowerStands(u64),
}

fn runs() -> impl Strategy<Value = Run> {
    let step = prop_oneof![
        16 => Just(Step::Nothing),
        6 => Just(Step::Read),
        8 => (0..4_u64).prop_map(Step::Write),
        1 => (0..30_u64).prop_map(Step::Write),
        1 => any::<bool>().prop_map(|is_seen| Step::Move { is_seen }),
        1 => (1..60_u64).prop_map(Step::LeaderStands),
        1 => (1..60_u64).prop_map(Step::FollowerStands),
    ];
    // The longest half tick is the hardest.
    let ping = prop_oneof![1..=25_u64, Just(25)];
    (ping, proptest::collection::vec(step, 1..400)).prop_map(|(ping, steps)| Run { ping, steps })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// The leader never expires the session before the proof ends, whenever the follower dies and whoever stands
    /// still.
    // covers: L12
    #[test]
    fn proof_ends_before_the_leader_expires_the_session(run in runs()) {
        check(&run)?;
    }
}

fn check(run: &Run) -> Result<(), TestCaseError> {
    assert_eq!(25, 100 * HALF_TICK_SHARE.0 / HALF_TICK_SHARE.1);
    let start = Instant::now();
    let at = |step: u64| start + TIMEOUT / 100 * u32::try_from(step).unwrap();
    let mut trust = Trust::opened(TIMEOUT, start);
    // When the leader last heard of the session, by its own clock.
    let mut heard = 0;
    // Whether the follower has noted something that it has not told yet.
    let mut has_note = false;
    let mut next_ping = run.ping;
    let (mut leader_stands, mut follower_stands) = (0, 0);
    let mut reads = Vec::new();
    let mut writes = VecDeque::new();
    for (now, step) in (1..).zip(&run.steps) {
        if now >= follower_stands {
            for sent in reads.drain(..) {
                has_note = true;
                trust.touched(at(sent), at(now));
            }
            while now >= leader_stands && writes.front().is_some_and(|&(_, due)| due <= now) {
                let (sent, _) = writes.pop_front().unwrap();
                has_note = true;
                trust.touched(at(sent), at(now));
                trust.committed(at(sent), at(now));
            }
        }
        // Whatever the follower has not told by now may be lost with it; it may tell after it forwards a write.
        prop_assert!(trust.until() <= at(heard) + TIMEOUT, "step {}", now);
        if now >= next_ping && now >= leader_stands && now >= follower_stands {
            if std::mem::take(&mut has_note) {
                // The leader enters the time at which the note arrives.
                heard = now;
            }
            next_ping = now + run.ping;
        }
        if at(now) > at(heard) + TIMEOUT {
            break;
        }
        match *step {
            Step::Nothing => {}
            Step::Read => reads.push(now),
            Step::Write(takes) => writes.push_back((now, now + takes)),
            Step::Move { is_seen } => {
                if is_seen {
                    trust.broke(at(now));
                }
                has_note = false;
                follower_stands = 0;
                reads.clear();
                writes.clear();
                // The leader must be there to hear of it; the client may see its link broken long before.
                heard = now.max(leader_stands);
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
