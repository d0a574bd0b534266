//! The election of a leader, beside the workers of the fair lock.

use std::time::Duration;

use tokio::sync::watch;
use zk_core::Session;
use zk_history::check::FencedMutex;
use zk_history::{Op, ReturnValue, Run, now};
use zk_leader::{LatchParticipant, LeaderLatch, ParticipantEnd};

use super::work::{Beside, Work, open, pass};

pub(super) const PATH: &str = "/nemesis/leader";
const PARTICIPANTS: usize = 3;

/// Lets participants lead in turn until `ends` says so.
///
/// A term is checked like the holding of a lock: while `is_valid` returns true no other participant leads, and a later
/// leader has a higher token.
pub(super) fn start(
    connect: &str,
    ends: &watch::Receiver<bool>,
    random: &mut fastrand::Rng,
) -> Beside {
    let run = Run::seeded("nemesis-leader")
        .unwrap()
        .judged_by(FencedMutex::default())
        .unwrap();
    let mut beside = Beside::new("leader", run, "grants");
    for _ in 0..PARTICIPANTS {
        let task = beside.task(ends);
        beside.spawn(work(connect.to_owned(), task, random.fork()));
    }
    beside
}

async fn work(connect: String, work: Work, mut random: fastrand::Rng) {
    let working = async {
        loop {
            let session = open(&connect).await;
            let latch = LeaderLatch::new(&session, PATH).expect("the path is one");
            while !session.state().is_lost() {
                participate(&session, latch.join(), &work, &mut random).await;
            }
        }
    };
    work.until_over(working).await;
}

/// Leads now and then, until it leaves or the session is over.
async fn participate(
    session: &Session,
    participant: LatchParticipant,
    work: &Work,
    random: &mut fastrand::Rng,
) {
    loop {
        let acquire = work.recorder.invoke(Op::acquire(PATH));
        let lease = match participant.leading().await {
            Ok(lease) => lease,
            Err(end) => {
                acquire.failed(end.to_string());
                assert!(
                    matches!(end, ParticipantEnd::SessionLost),
                    "out of the race: {end:?}"
                );
                return;
            }
        };
        let token = ReturnValue::token(lease.fencing_token().as_u64());
        let mut relied = now();
        let held = work.granted(session, acquire, token);
        let mut looks = random.u8(1..8);
        let is_valid = loop {
            // The clock is read first: what is valid now was valid then.
            let at = now();
            if !lease.is_valid() {
                break false;
            }
            relied = at;
            looks -= 1;
            if looks == 0 {
                break true;
            }
            pass(Duration::from_millis(2)).await;
        };
        work.relied_until(&held, relied);
        if !is_valid {
            held.forget();
            continue;
        }
        let release = work.released(held);
        match random.u8(0..6) {
            0 => {
                let end = participant.leave().await;
                return if matches!(end, ParticipantEnd::Left) {
                    release.ok(());
                } else {
                    release.unknown(end.to_string());
                };
            }
            1 => {
                drop(participant);
                return release.unknown("dropped while it led");
            }
            _ => match participant.resign().await {
                Ok(()) => release.ok(()),
                Err(error) => release.unknown(error.to_string()),
            },
        }
    }
}
