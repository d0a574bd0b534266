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
fn commit_alone_proves_nothing_new() {
    let start = Instant::now();
    let mut trust = Trust::opened(TIMEOUT, start);
    trust.committed(start + 5000 * MS, start + 5010 * MS);
    assert_eq!(until(&trust, start), worth(TIMEOUT));
    trust.touched(start + 5000 * MS, start + 5010 * MS);
    trust.committed(start + 9009 * MS, start + 9020 * MS);
    assert_eq!(
        until(&trust, start),
        worth(TIMEOUT),
        "the follower may not have told the leader yet"
    );
    trust.committed(start + 9010 * MS, start + 9020 * MS);
    assert_eq!(until(&trust, start), worth(TIMEOUT) + 5000 * MS);
}

#[test]
fn slow_commit_makes_what_was_answered_meanwhile_worthless() {
    let start = Instant::now();
    let mut trust = Trust::opened(TIMEOUT, start);
    trust.touched(start + 1000 * MS, start + 1001 * MS);
    trust.touched(start + 3000 * MS, start + 3001 * MS);
    trust.committed(start + 5100 * MS, start + 8000 * MS);
    assert_eq!(until(&trust, start), worth(TIMEOUT) + 1000 * MS);
    trust.committed(start + 8100 * MS, start + 8110 * MS);
    assert_eq!(until(&trust, start), worth(TIMEOUT) + 1000 * MS);
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
    /// How many steps the leader's ping takes at most; half a tick.
    ping: u64,
    /// What happens at each step.
    steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Nothing,
    Read,
    Write,
    /// The follower dies with what it has not told; the client moves to another one.
    Move,
}

fn runs() -> impl Strategy<Value = Run> {
    let step = prop_oneof![
        8 => Just(Step::Nothing),
        4 => Just(Step::Read),
        3 => Just(Step::Write),
        1 => Just(Step::Move),
    ];
    (1..=25_u64, proptest::collection::vec(step, 1..400))
        .prop_map(|(ping, steps)| Run { ping, steps })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The leader never expires the session before the proof ends, whenever the follower dies.
    // covers: L12
    #[test]
    fn proof_ends_before_the_leader_expires_the_session(run in runs()) {
        let start = Instant::now();
        let step_length = TIMEOUT / 100;
        let at = |step: u64| start + step_length * u32::try_from(step).unwrap();
        let mut trust = Trust::opened(TIMEOUT, start);
        // What the leader knows: when it last heard of the session, by its own clock.
        let mut heard = 0;
        // What the follower has noted and not told yet.
        let mut noted = None;
        for (now, step) in (1..).zip(&run.steps) {
            if now % run.ping == 0 && noted.take().is_some() {
                // The leader enters the time at which the note arrives.
                heard = now;
            }
            if at(now) > at(heard) + TIMEOUT {
                break;
            }
            match step {
                Step::Nothing => {}
                Step::Read => {
                    noted = Some(now);
                    trust.touched(at(now), at(now));
                }
                Step::Write => {
                    noted = Some(now);
                    trust.touched(at(now), at(now));
                    trust.committed(at(now), at(now));
                }
                Step::Move => {
                    noted = None;
                    heard = now;
                                    }
            }
            // Whatever the follower has not told by now may be lost with it.
            prop_assert!(trust.until() <= at(heard) + TIMEOUT, "step {}", now);
        }
    }
}
