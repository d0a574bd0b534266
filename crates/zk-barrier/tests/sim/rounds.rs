//! Rounds of a double barrier: entering together, leaving together, and members that die in between.

use std::time::Duration;

use tokio::task::JoinHandle;
use zk_barrier::{EnterError, LeaveError, Member, MemberLoss};
use zk_core::{ErrorClass, ErrorKind, Session};
use zk_sim::Ensemble;
use zk_sim::wait::{pass, soon};

use crate::{PATH, ROUND, double, members};

const SECOND: Duration = Duration::from_secs(1);
const STATE: &str = "/barriers/a/round/state";

fn entering(session: &Session, threshold: u32) -> JoinHandle<Result<Member, EnterError>> {
    let barrier = double(session, threshold);
    tokio::spawn(async move { barrier.enter().await })
}

fn leaving(member: Member) -> JoinHandle<Result<(), LeaveError>> {
    tokio::spawn(member.leave())
}

async fn entered(entering: JoinHandle<Result<Member, EnterError>>) -> Member {
    soon("it passes", entering).await.unwrap().unwrap()
}

async fn left(leaving: JoinHandle<Result<(), LeaveError>>) {
    soon("all have left", leaving).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn members_start_together_and_finish_together() {
    let ensemble = Ensemble::new(3);
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(ensemble.connect().await);
    }
    let mut rounds = Vec::new();
    for _ in 0..3 {
        let first = entering(&sessions[0], 3);
        let second = entering(&sessions[1], 3);
        pass(SECOND).await;
        assert!(!first.is_finished() && !second.is_finished());
        let third = entering(&sessions[2], 3);
        let [a, b, c] = [
            entered(first).await,
            entered(second).await,
            entered(third).await,
        ];
        assert!(a.round() == b.round() && b.round() == c.round());
        rounds.push(a.round());
        let (a, b) = (leaving(a), leaving(b));
        pass(SECOND).await;
        assert!(!a.is_finished() && !b.is_finished());
        left(leaving(c)).await;
        left(a).await;
        left(b).await;
        assert_eq!(members(&ensemble), 0);
    }
    assert!(rounds.is_sorted_by(|one, next| one < next), "{rounds:?}");
    pass(SECOND).await;
    assert_eq!(ensemble.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_ran_out_of_time_is_not_counted() {
    // B1: a second member alone passed a barrier of two.
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let error = double(&one, 2).enter_timeout(SECOND).await.unwrap_err();
    assert!(
        matches!(
            error,
            EnterError::TimedOut {
                members: 1,
                threshold: 2,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.class(), ErrorClass::Recoverable);
    assert_eq!(members(&ensemble), 0);
    let second = entering(&two, 2);
    pass(10 * SECOND).await;
    assert!(!second.is_finished());
    let first = entered(entering(&one, 2)).await;
    let second = entered(second).await;
    assert_eq!(first.round(), second.round());
}

#[tokio::test(start_paused = true)]
async fn no_member_passes_on_another_event() {
    // B2: a member passed on any event of its watch.
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let first = entering(&one, 2);
    pass(SECOND).await;
    for server in [1, 2, 3] {
        ensemble.session(one.id()).move_to(server);
        pass(SECOND).await;
        assert!(!first.is_finished());
    }
    let second = double(&two, 3).enter_timeout(SECOND).await;
    assert!(matches!(second, Err(EnterError::TimedOut { .. })));
    assert!(!first.is_finished());
    drop(entered(entering(&two, 2)).await);
    drop(entered(first).await);
}

#[tokio::test(start_paused = true)]
async fn nothing_that_entering_members_wait_for_ends_a_leave() {
    // B5: both shared a watcher, and an event for members that enter let one that was leaving go early.
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let first = entering(&one, 2);
    pass(SECOND).await;
    let opener = entered(entering(&two, 2)).await;
    let leave = leaving(entered(first).await);
    pass(SECOND).await;
    assert!(!leave.is_finished());
    // A member of the same session enters, with watches on the same nodes.
    let late = entered(entering(&one, 2)).await;
    pass(SECOND).await;
    assert!(!leave.is_finished());
    two.set(STATE, "").await.unwrap();
    pass(SECOND).await;
    assert!(!leave.is_finished());
    let late = leaving(late);
    pass(SECOND).await;
    assert!(!leave.is_finished() && !late.is_finished());
    left(leaving(opener)).await;
    left(leave).await;
    left(late).await;
}

#[tokio::test(start_paused = true)]
async fn a_round_whose_members_all_died_lets_no_member_in() {
    // B3: a crash after the opening let the next round straight in.
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let first = entering(&one, 2);
    let dead = entered(entering(&two, 2)).await;
    let died = [entered(first).await, dead].map(|member| member.round());
    for session in [&one, &two] {
        ensemble.session(session.id()).expire();
    }
    pass(SECOND).await;
    assert_eq!(members(&ensemble), 0);
    let (three, four) = (ensemble.connect().await, ensemble.connect().await);
    let third = entering(&three, 2);
    pass(10 * SECOND).await;
    assert!(!third.is_finished());
    let fourth = entered(entering(&four, 2)).await;
    let third = entered(third).await;
    assert_eq!(third.round(), fourth.round());
    assert!(third.round() > died[0]);
}

#[tokio::test(start_paused = true)]
async fn more_members_than_the_threshold_share_a_round() {
    let ensemble = Ensemble::new(3);
    let mut members = Vec::new();
    for _ in 0..2 {
        let session = ensemble.connect().await;
        members.push(entering(&session, 2));
    }
    let mut inside = Vec::new();
    for member in members {
        inside.push(entered(member).await);
    }
    // Two more come while it goes on.
    for _ in 0..2 {
        let session = ensemble.connect().await;
        inside.push(entered(entering(&session, 2)).await);
    }
    assert!(
        inside
            .iter()
            .all(|member| member.round() == inside[0].round())
    );
    let late = inside.pop().unwrap();
    let leaves: Vec<_> = inside.into_iter().map(leaving).collect();
    pass(SECOND).await;
    assert!(leaves.iter().all(|leave| !leave.is_finished()));
    left(leaving(late)).await;
    for leave in leaves {
        left(leave).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_member_joins_while_the_opener_is_there() {
    for opener_stays in [false, true] {
        let ensemble = Ensemble::new(3);
        let (one, two) = (ensemble.connect().await, ensemble.connect().await);
        let first = entering(&one, 2);
        pass(SECOND).await;
        let opener = entered(entering(&two, 2)).await;
        let first = entered(first).await;
        let round = first.round();
        let (gone, stays, other) = if opener_stays {
            (first, opener, &one)
        } else {
            (opener, first, &two)
        };
        drop(gone);
        other.settled().await;
        let three = ensemble.connect().await;
        let late = entering(&three, 2);
        pass(10 * SECOND).await;
        assert_eq!(late.is_finished(), opener_stays);
        // With it gone, the late member does not let others in.
        drop(stays);
        pass(SECOND).await;
        let threshold = if opener_stays { 1 } else { 2 };
        let next = entering(&ensemble.connect().await, threshold);
        if opener_stays {
            let late = entered(late).await;
            assert_eq!(late.round(), round);
            pass(10 * SECOND).await;
            assert!(!next.is_finished());
            left(leaving(late)).await;
        } else {
            let late = entered(late).await;
            assert!(late.round() > round);
            drop(late);
        }
        assert!(entered(next).await.round() > round);
    }
}

#[tokio::test(start_paused = true)]
async fn an_earlier_round_that_does_not_end_is_named_at_a_timeout() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let first = entering(&one, 2);
    pass(SECOND).await;
    drop(entered(entering(&two, 2)).await);
    two.settled().await;
    let error = double(&two, 2).enter_timeout(SECOND).await.unwrap_err();
    assert!(matches!(error, EnterError::TimedOut { members: 0, .. }));
    assert!(error.to_string().contains("earlier round"), "{error}");
    left(leaving(entered(first).await)).await;
}

#[tokio::test(start_paused = true)]
async fn a_state_written_by_another_client_is_survived() {
    // B4: a refused request was repeated without a pause.
    for data in ["", "state", "a/b"] {
        for writes in 1..4 {
            let ensemble = Ensemble::new(3);
            let (one, operator) = (ensemble.connect().await, ensemble.connect().await);
            let waiting = entering(&one, 2);
            pass(SECOND).await;
            for _ in 0..writes {
                operator.set(STATE, data).await.unwrap();
            }
            // The state opened the round, without an opener.
            let member = entered(waiting).await;
            let late = double(&operator, 1).enter_timeout(SECOND).await;
            assert!(matches!(late, Err(EnterError::TimedOut { .. })), "{data}");
            let before = ensemble.request_count();
            // They write again while it is inside, which does not keep the round from ending.
            operator.set(STATE, data).await.unwrap();
            member.leave_timeout(10 * SECOND).await.unwrap();
            let requests = ensemble.request_count() - before;
            assert!(requests < 20, "{requests} requests");
            assert_eq!(ensemble.tree().node(STATE).unwrap().stat().version, 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn members_that_die_inside_are_not_waited_for() {
    // The opener is the last one to leave: it dies, or another one does, before or after others leave.
    for dies in 0..3 {
        for is_late in [false, true] {
            let ensemble = Ensemble::new(3);
            let mut sessions = Vec::new();
            let mut inside = Vec::new();
            for _ in 0..3 {
                let session = ensemble.connect().await;
                inside.push(entering(&session, 3));
                sessions.push(session);
                pass(SECOND).await;
            }
            let mut all = Vec::new();
            for member in inside {
                all.push(entered(member).await);
            }
            let dead = all.remove(dies);
            let die = async || {
                ensemble.session(sessions[dies].id()).expire();
                let loss = soon("it is notified", dead.lost()).await;
                assert_eq!(loss, MemberLoss::SessionLost);
            };
            if !is_late {
                die().await;
            }
            let leaves: Vec<_> = all.into_iter().map(leaving).collect();
            pass(SECOND).await;
            if is_late {
                assert!(leaves.iter().all(|leave| !leave.is_finished()));
                die().await;
            }
            for leave in leaves {
                left(leave).await;
            }
            let error = dead.leave().await.unwrap_err();
            assert!(matches!(error, LeaveError::SessionLost { .. }), "{error}");
            assert_eq!(members(&ensemble), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_opener_is_replaced_by_one_that_is_left() {
    // The opener and one more die while others wait for the end of the round.
    let ensemble = Ensemble::new(3);
    let mut inside = Vec::new();
    let mut sessions = Vec::new();
    for _ in 0..5 {
        let session = ensemble.connect().await;
        inside.push(entering(&session, 5));
        sessions.push(session);
        pass(SECOND).await;
    }
    let mut all = Vec::new();
    for member in inside {
        all.push(entered(member).await);
    }
    let _opener = all.pop().unwrap();
    let other = all.pop().unwrap();
    let leaves: Vec<_> = all.into_iter().map(leaving).collect();
    pass(SECOND).await;
    ensemble.session(sessions[4].id()).expire();
    pass(SECOND).await;
    assert!(leaves.iter().all(|leave| !leave.is_finished()));
    ensemble.session(sessions[3].id()).expire();
    for leave in leaves {
        left(leave).await;
    }
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_waits_too_long_to_leave_has_left() {
    for leaves_first in [0, 1] {
        let ensemble = Ensemble::new(3);
        let (one, two) = (ensemble.connect().await, ensemble.connect().await);
        let first = entering(&one, 2);
        pass(SECOND).await;
        let second = entered(entering(&two, 2)).await;
        let mut all = vec![entered(first).await, second];
        let early = all.remove(leaves_first);
        let late = all.remove(0);
        let error = early.leave_timeout(SECOND).await.unwrap_err();
        assert!(matches!(error, LeaveError::TimedOut { .. }), "{error}");
        pass(SECOND).await;
        assert_eq!(members(&ensemble), 1);
        left(leaving(late)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_deleted_by_another_client_is_notified() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let operator = ensemble.connect().await;
    let member = entered(entering(&session, 1)).await;
    member.txn().create("/done", "").commit().await.unwrap();
    operator.delete(member.path()).await.unwrap();
    let loss = soon("it is notified", member.lost()).await;
    assert_eq!(loss, MemberLoss::NodeDeleted);
    let error = member
        .txn()
        .set("/done", "again")
        .commit()
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.failed_part()),
        (ErrorKind::NoNode, Some(0))
    );
    left(leaving(member)).await;
    // One that waits to enter is notified when the round is opened.
    let waiting = entering(&session, 2);
    pass(SECOND).await;
    let tree = ensemble.tree();
    let names = tree.node(ROUND).unwrap();
    let name = names.children().find(|name| *name != "state").unwrap();
    operator.delete(format!("{ROUND}/{name}")).await.unwrap();
    let others = [entering(&operator, 2), entering(&operator, 2)];
    let error = soon("it is notified", waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, EnterError::NodeDeleted { .. }), "{error}");
    for other in others {
        drop(entered(other).await);
    }
}

#[tokio::test(start_paused = true)]
async fn the_nodes_are_those_of_the_documentation() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let barrier = double(&session, 1).with_description("10.0.0.7");
    let member = barrier.enter().await.unwrap();
    let tree = ensemble.tree();
    let name = member.path().name().unwrap();
    let below: Vec<_> = tree
        .paths()
        .into_iter()
        .filter(|path| path.starts_with(PATH))
        .collect();
    assert_eq!(
        below,
        [
            PATH.to_owned(),
            ROUND.to_owned(),
            format!("{ROUND}/{name}"),
            format!("{ROUND}/state")
        ]
    );
    assert!(
        name.starts_with("_c_") && name.ends_with("-member"),
        "{name}"
    );
    let state = tree.node(STATE).unwrap();
    assert_eq!(state.data(), name.as_bytes());
    assert_eq!(state.stat().version, 1);
    let own = tree.node(member.path().as_str()).unwrap();
    assert_eq!(
        (own.data(), own.owner()),
        (&b"10.0.0.7"[..], Some(session.id()))
    );
    assert_eq!(Some(tree.node(ROUND).unwrap().stat().czxid), member.round());
    member.leave().await.unwrap();
}
