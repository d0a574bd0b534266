//! Bugs known from other election clients, each with its issue.

use std::time::Duration;

use zk_leader::{LeadershipLoss, ParticipantEnd, ParticipantState};
use zk_sim::{Ensemble, matching};

use crate::{
    PATH, latch, led_and_waited_for, left, node_of, pass, selector, soon, until, until_waiting,
};

/// Two leaders after an expiry (CURATOR-620, CURATOR-498): the node of the former session is still listed, by a server
/// that lags behind, and taken for the new session's own.
#[tokio::test(start_paused = true)]
async fn e1_the_node_of_a_former_session_elects_no_leader() {
    let ensemble = Ensemble::new(3);
    let former = ensemble.connect().await;
    let ghost = latch(&former).join();
    soon("it leads", ghost.leading()).await.unwrap();
    ensemble.session(former.id()).partition();
    let session = ensemble.connect().await;
    let participant = latch(&session).join();
    until_waiting(participant.handle()).await;
    tokio::select! {
        biased;
        _ = participant.leading() => panic!("the former session lives and leads"),
        end = ghost.handle().ended() => panic!("the expiry is not known yet: {end:?}"),
        () = pass(Duration::from_secs(5)) => {}
    }
    let lease = soon("the former session expires", participant.leading())
        .await
        .unwrap();
    assert!(!ghost.is_leader() && lease.is_valid());
    assert_eq!(left(&ensemble), [lease.path().name().unwrap()]);
}

/// Two latches that reset themselves at the same time and each time wake each other (CURATOR-644, CURATOR-645).
#[tokio::test(start_paused = true)]
async fn e2_two_that_reset_at_the_same_time_come_to_rest() {
    for lost_first in [true, false] {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let admin = ensemble.connect().await;
        let (first, _, second) = led_and_waited_for(&one, &other).await;
        // Both nodes are deleted at once, so that both reset at once, and the connections break meanwhile.
        for path in left(&ensemble) {
            admin.delete(format!("{PATH}/{path}")).await.unwrap();
        }
        if lost_first {
            ensemble.session(one.id()).cut();
        }
        ensemble.session(other.id()).cut();
        let leader = async {
            tokio::select! {
                biased;
                lease = first.leading() => lease,
                lease = second.leading() => lease,
            }
        };
        soon("one of them leads", leader).await.unwrap();
        pass(Duration::from_secs(1)).await;
        let creates = ensemble.arrived(matching::creates(&format!("{PATH}/**")));
        assert!(creates <= 8, "{creates} attempts of two participants");
        pass(Duration::from_secs(60)).await;
        let later = ensemble.arrived(matching::creates(&format!("{PATH}/**")));
        assert_eq!(later, creates, "they go on resetting");
        assert_eq!(left(&ensemble).len(), 2);
        assert!(first.is_leader() != second.is_leader());
    }
}

/// The answer to a create of an earlier attempt comes late and overwrites the node of the present one (PR#298).
#[tokio::test(start_paused = true)]
async fn e3_a_late_answer_to_an_earlier_attempt_changes_nothing() {
    let ensemble = Ensemble::new(3);
    let session = ensemble
        .connect()
        .await
        .with_operation_timeout(Duration::from_secs(1));
    let held = ensemble
        .on(matching::creates(&format!("{PATH}/**")))
        .session(session.id())
        .hold();
    let participant = latch(&session).join();
    held.happened().await;
    let failed = |it: &ParticipantState| matches!(it, ParticipantState::Joining { error: Some(_) });
    until(
        "the first attempt is given up",
        participant.handle(),
        failed,
    )
    .await;
    held.release();
    let lease = soon("it leads", participant.leading()).await.unwrap();
    soon("the earlier node goes", session.settled()).await;
    pass(Duration::from_secs(2)).await;
    assert!(participant.is_leader() && lease.is_valid());
    assert_eq!(left(&ensemble), [lease.path().name().unwrap()]);
}

/// A background create or list that fails is logged, and the latch stays started and leaderless; a waiter whose node is
/// deleted learns it when its turn would come, days later (LeaderLatch.reset; CURATOR-15, CURATOR-518, CURATOR-724).
#[tokio::test(start_paused = true)]
async fn e4_no_participant_silently_drops_out() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let (first, _, second) = led_and_waited_for(&one, &other).await;
    // A waiter without a node joins again at once, although no predecessor wakes it.
    let node = node_of(&ensemble, second.handle());
    one.delete(&node).await.unwrap();
    let failed = |it: &ParticipantState| matches!(it, ParticipantState::Joining { error: Some(_) });
    until("the deletion is reported", second.handle(), failed).await;
    until_waiting(second.handle()).await;
    assert_ne!(node_of(&ensemble, second.handle()), node);
    assert!(first.is_leader());
    // The same for one that fails in each way of its requests.
    for nth in 1..4 {
        for what in ["create", "list", "look", "read"] {
            let third = ensemble.connect().await;
            let below = format!("{PATH}/**");
            let script = match what {
                "create" => ensemble.on(matching::creates(&below)),
                "list" => ensemble.on(matching::lists(PATH)),
                "look" => ensemble.on(matching::exists(&below)),
                _ => ensemble.on(matching::gets(&below)),
            };
            let lost = script.session(third.id()).nth(nth).lose_reply();
            let participant = latch(&third).join();
            until_waiting(participant.handle()).await;
            pass(Duration::from_secs(30)).await;
            let state = participant.handle().state();
            assert!(
                matches!(state, ParticipantState::Waiting { .. }),
                "{what} {nth}: {state}"
            );
            node_of(&ensemble, participant.handle());
            assert_eq!(
                soon("it leaves", participant.leave()).await.to_string(),
                ParticipantEnd::Left.to_string()
            );
            lost.withdraw();
        }
    }
    assert_eq!(left(&ensemble).len(), 2);
}

/// The whole path is deleted under all of them (CURATOR-724).
#[tokio::test(start_paused = true)]
async fn e4_participants_get_over_the_deletion_of_the_path() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let (first, lease, second) = led_and_waited_for(&one, &other).await;
    other.delete(PATH).recursive().await.unwrap();
    assert_eq!(
        soon("the loss is reported", lease.lost()).await,
        LeadershipLoss::NodeDeleted
    );
    let leader = async {
        tokio::select! {
            biased;
            lease = first.leading() => lease,
            lease = second.leading() => lease,
        }
    };
    soon("one of them leads", leader).await.unwrap();
    pass(Duration::from_secs(1)).await;
    assert!(first.is_leader() != second.is_leader());
    assert_eq!(left(&ensemble).len(), 2);
}

/// The connection is lost between the grant and the task, and the task runs as a leader (CURATOR-54).
#[tokio::test(start_paused = true)]
async fn e5_a_task_has_its_lease_from_the_beginning() {
    for late in [false, true] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let id = session.id();
        let mut steps = 0;
        let once = selector(&session);
        let end = once.run_once(async |lease: zk_leader::LeaderLease| {
            steps += 1;
            if !late {
                ensemble.expire(id);
            }
            let loss = lease.lost().await;
            panic!("the task is dropped before it goes on: {loss}");
        });
        let expire = async {
            if late {
                pass(Duration::from_millis(50)).await;
                ensemble.expire(id);
            }
            std::future::pending::<()>().await;
        };
        let end: Result<(), ParticipantEnd> = tokio::select! {
            biased;
            end = soon("it ends", end) => end,
            () = expire => unreachable!("it never ends"),
        };
        assert!(matches!(end, Err(ParticipantEnd::SessionLost)), "{end:?}");
        assert_eq!(steps, 1);
    }
}

/// Closed while the create is on its way, and the node stays (CURATOR-18).
#[tokio::test(start_paused = true)]
async fn e6_leaving_while_the_node_is_made_leaves_none() {
    for loses_reply in [false, true] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let script = ensemble.on(matching::creates(&format!("{PATH}/**")));
        let struck = if loses_reply {
            script.lose_reply()
        } else {
            script.hold()
        };
        let participant = latch(&session).join();
        struck.happened().await;
        let leaving = participant.leave();
        let release = async {
            pass(Duration::from_millis(100)).await;
            struck.release();
        };
        let (end, ()) = soon("it leaves", async { tokio::join!(leaving, release) }).await;
        assert!(matches!(end, ParticipantEnd::Left), "{end:?}");
        assert_eq!(left(&ensemble), [""; 0]);
    }
}

/// Started while there is no connection, and never joins (CURATOR-110).
#[tokio::test(start_paused = true)]
async fn e7_one_that_starts_offline_joins_as_soon_as_it_can() {
    let ensemble = Ensemble::new(3);
    let session = ensemble
        .connect()
        .await
        .with_operation_timeout(Duration::from_secs(1));
    ensemble
        .session(session.id())
        .cut_for(Duration::from_secs(4));
    let participant = latch(&session).join();
    let failed = |it: &ParticipantState| matches!(it, ParticipantState::Joining { error: Some(_) });
    until("the error is reported", participant.handle(), failed).await;
    let started = tokio::time::Instant::now();
    soon("it leads", participant.leading()).await.unwrap();
    assert!(
        started.elapsed() < Duration::from_secs(6),
        "{:?}",
        started.elapsed()
    );
    let led = soon(
        "so does a selector",
        selector(&session).run_once(async |_| true),
    );
    assert!(led.await.unwrap());
}

/// One foreign child, or an offer that vanishes while it is read, and the election fails (`LeaderElectionSupport`).
#[tokio::test(start_paused = true)]
async fn e8_foreign_children_and_vanishing_participants_are_ignored() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    session.create("/leaders", "").await.unwrap();
    session.create(PATH, "").await.unwrap();
    for name in [
        "0",
        "n_0000000000",
        "latch",
        "_c_short-lock-0000000000",
        "latch-",
        "x-1-0000000000",
    ] {
        session.create(format!("{PATH}/{name}"), "").await.unwrap();
    }
    let first = latch(&session).join();
    soon("it leads", first.leading()).await.unwrap();
    let second = latch(&other).join();
    until_waiting(second.handle()).await;
    // The second one vanishes between the list and the reads.
    let list = ensemble
        .on(matching::lists(PATH))
        .session(session.id())
        .hold();
    let all = latch(&session);
    let listing = tokio::spawn(async move { all.participants().await });
    list.happened().await;
    second.leave().await;
    list.release();
    let all = soon("they are listed", listing).await.unwrap().unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(all[0].is_leader() && first.is_leader());
}

/// An operator moves the leadership by deleting the leader's node. The leader is notified, the next participant leads,
/// and the former leader joins again (CURATOR-171).
#[tokio::test(start_paused = true)]
async fn x3_an_operator_who_deletes_the_leaders_node_deposes_it() {
    let ensemble = Ensemble::new(3);
    let (one, other, admin) = (
        ensemble.connect().await,
        ensemble.connect().await,
        ensemble.connect().await,
    );
    let (first, lease, second) = led_and_waited_for(&one, &other).await;
    admin.delete(lease.path()).await.unwrap();
    assert_eq!(
        soon("the loss is reported", lease.lost()).await,
        LeadershipLoss::NodeDeleted
    );
    assert!(!first.is_leader());
    let error = lease.txn().create("/late", "").commit().await.unwrap_err();
    assert_eq!(error.failed_part(), Some(0));
    let next = soon("the next one leads", second.leading()).await.unwrap();
    next.txn().create("/in-time", "").commit().await.unwrap();
    until_waiting(first.handle()).await;
    let all = latch(&admin).participants().await.unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].fencing_token(), next.fencing_token());
}

/// Sequence numbers without an order elect no leader.
#[tokio::test(start_paused = true)]
async fn x9_an_exhausted_counter_elects_no_leader() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    session.create("/leaders", "").await.unwrap();
    session.create(PATH, "").await.unwrap();
    ensemble.set_counter(PATH, i32::MAX);
    let participants = [latch(&session).join(), latch(&session).join()];
    for participant in &participants {
        let end = soon("it ends", participant.handle().ended()).await;
        assert!(matches!(end, ParticipantEnd::Refused(_)), "{end:?}");
    }
    assert!(left(&ensemble).is_empty());
}

/// Servers that reap idle containers at every moment.
#[tokio::test(start_paused = true)]
async fn x10_a_path_that_is_reaped_again_and_again_is_made_again() {
    let ensemble = Ensemble::builder()
        .reap_every(Duration::from_millis(1))
        .build();
    let session = ensemble.connect().await;
    for _ in 0..20 {
        let participant = latch(&session).join();
        soon("it leads", participant.leading()).await.unwrap();
        assert!(matches!(participant.leave().await, ParticipantEnd::Left));
        pass(Duration::from_millis(7)).await;
        let path = session.exists(PATH).await.unwrap();
        assert!(path.is_none(), "the path was not reaped");
    }
}

/// Everything that waits ends when the session is closed.
#[tokio::test(start_paused = true)]
async fn x15_a_closed_session_ends_everything_that_waits() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let (_first, lease, second) = led_and_waited_for(&one, &other).await;
    let token = Some(lease.fencing_token());
    let following = latch(&other);
    let following = tokio::spawn(async move { following.leader_after(token).await });
    let handle = second.handle().clone();
    let waiting = tokio::spawn(async move { handle.leading().await });
    let ahead = selector(&one);
    let led = ahead.handle().clone();
    let ahead = tokio::spawn(ahead.run_once(async |_| std::future::pending::<()>().await));
    soon("it leads", led.leading()).await.unwrap();
    let behind = tokio::spawn(selector(&other).run_once(async |_| ()));
    pass(Duration::from_secs(1)).await;
    other.close().await.unwrap();
    assert!(soon("it ends", following).await.unwrap().is_err());
    let end = soon("it ends", waiting).await.unwrap();
    assert!(matches!(end, Err(ParticipantEnd::SessionLost)), "{end:?}");
    let end = soon("it ends", behind).await.unwrap();
    assert!(matches!(end, Err(ParticipantEnd::SessionLost)), "{end:?}");
    one.close().await.unwrap();
    let end = soon("it ends", ahead).await.unwrap();
    assert!(matches!(end, Err(ParticipantEnd::SessionLost)), "{end:?}");
    assert_eq!(
        soon("it ends", lease.lost()).await,
        LeadershipLoss::SessionLost
    );
    assert_eq!(ensemble.watch_count(), 0);
}
