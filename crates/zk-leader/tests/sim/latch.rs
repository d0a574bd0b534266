//! The latch in each state, with and without failures.

use std::time::Duration;

use zk_core::transport::TransportError;
use zk_core::{ErrorClass, ErrorKind, RetryPolicy, Session};
use zk_leader::{
    LatchParticipant, LeaderLatch, LeadershipLoss, ParticipantEnd, ParticipantState, Rejoin,
    ResignError,
};
use zk_sim::{Ensemble, matching};

use crate::{
    PATH, latch, led_and_waited_for, left, node_of, options, pass, polled, soon, until,
    until_waiting,
};

#[tokio::test(start_paused = true)]
async fn a_leader_that_resigns_is_succeeded_and_joins_again() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let (first, lease, second) = led_and_waited_for(&one, &other).await;
    assert!(first.is_leader() && lease.is_valid() && lease.valid_until().is_some());
    soon("it resigns", first.resign()).await.unwrap();
    assert_eq!(
        soon("the loss is reported", lease.lost()).await,
        LeadershipLoss::Resigned
    );
    assert!(!lease.is_valid() && lease.valid_until().is_none());
    let next = soon("the next one leads", second.leading()).await.unwrap();
    assert!(next.fencing_token() > lease.fencing_token());
    until_waiting(first.handle()).await;
    assert!(matches!(first.resign().await, Err(ResignError::NotLeading)));

    soon("it resigns", second.resign()).await.unwrap();
    let again = soon("the first one leads again", first.leading())
        .await
        .unwrap();
    assert!(again.fencing_token() > next.fencing_token());
    assert!(!lease.is_valid(), "an old lease stays old");
}

#[tokio::test(start_paused = true)]
async fn a_participant_that_leaves_has_no_node_in_any_state() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let (first, lease, second) = led_and_waited_for(&one, &other).await;
    let handle = second.handle().clone();
    assert!(matches!(
        soon("a waiter leaves", second.leave()).await,
        ParticipantEnd::Left
    ));
    assert_eq!(left(&ensemble).len(), 1);
    assert!(matches!(
        handle.state(),
        ParticipantState::Ended(ParticipantEnd::Left)
    ));

    let joining = latch(&other).join();
    assert!(matches!(
        soon("it leaves at once", joining.leave()).await,
        ParticipantEnd::Left
    ));
    assert_eq!(left(&ensemble).len(), 1);

    let handle = first.handle().clone();
    assert!(matches!(
        soon("a leader leaves", first.leave()).await,
        ParticipantEnd::Left
    ));
    assert!(!lease.is_valid() && !handle.is_leader());
    assert!(left(&ensemble).is_empty());
    assert!(matches!(handle.leading().await, Err(ParticipantEnd::Left)));
    assert!(matches!(handle.leave().await, ParticipantEnd::Left));
    assert_eq!(ensemble.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_latch_participant_ends_at_once_in_every_state() {
    for state in ["joining", "waiting", "leading"] {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let ahead = (state == "waiting").then(|| latch(&other).join());
        if let Some(ahead) = &ahead {
            soon("it leads", ahead.leading()).await.unwrap();
        }
        let participant = latch(&one).join();
        let handle = participant.handle().clone();
        match state {
            "waiting" => until_waiting(&handle).await,
            "leading" => drop(soon("it leads", participant.leading()).await.unwrap()),
            _ => {}
        }
        let lease = handle.lease();
        drop(participant);
        assert!(
            matches!(
                handle.state(),
                ParticipantState::Ended(ParticipantEnd::Left)
            ),
            "{state}"
        );
        assert!(!handle.is_leader(), "{state}");
        if let Some(lease) = lease {
            assert!(!lease.is_valid(), "{state}");
            assert_eq!(
                soon("the loss is reported", lease.lost()).await,
                LeadershipLoss::Resigned
            );
        }
        soon("it is removed", one.settled()).await;
        pass(Duration::from_secs(1)).await;
        assert_eq!(
            left(&ensemble).len(),
            usize::from(ahead.is_some()),
            "{state}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_the_session_ends_a_participant_in_every_state() {
    for state in ["joining", "waiting", "leading"] {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let ahead = (state == "waiting").then(|| latch(&other).join());
        if let Some(ahead) = &ahead {
            soon("it leads", ahead.leading()).await.unwrap();
        }
        if state == "joining" {
            ensemble.session(one.id()).partition();
        }
        let participant = latch(&one).join();
        match state {
            "waiting" => until_waiting(participant.handle()).await,
            "leading" => drop(soon("it leads", participant.leading()).await.unwrap()),
            _ => {}
        }
        let lease = participant.handle().lease();
        ensemble.expire(one.id());
        if state == "joining" {
            ensemble.session(one.id()).heal();
        }
        let end = soon("it ends", participant.handle().ended()).await;
        assert!(
            matches!(end, ParticipantEnd::SessionLost),
            "{state}: {end:?}"
        );
        assert_eq!(end.class(), ErrorClass::Fatal);
        assert!(!participant.is_leader());
        if let Some(lease) = lease {
            assert_eq!(
                soon("the loss is reported", lease.lost()).await,
                LeadershipLoss::SessionLost
            );
        }
        assert!(matches!(
            soon("there is nothing to leave", participant.leave()).await,
            ParticipantEnd::SessionLost
        ));
        pass(Duration::from_secs(1)).await;
        assert_eq!(
            left(&ensemble).len(),
            usize::from(ahead.is_some()),
            "{state}"
        );
    }
}

/// A partitioned leader steps down before the ensemble lets the next participant lead.
#[tokio::test(start_paused = true)]
async fn a_partitioned_latch_reports_it_before_the_next_one_leads() {
    for led_for in [0, 1, 3, 7, 20] {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let (first, lease, second) = led_and_waited_for(&one, &other).await;
        pass(Duration::from_secs(led_for)).await;
        assert!(first.is_leader());
        ensemble.session(one.id()).partition();
        tokio::select! {
            biased;
            _ = second.leading() => panic!("two lead after {led_for} s"),
            loss = lease.lost() => assert_eq!(loss, LeadershipLoss::SessionLeaseExpired),
        }
        assert!(!first.is_leader() && !lease.is_valid());
        let next = soon("the next one leads", second.leading()).await.unwrap();
        assert!(next.fencing_token() > lease.fencing_token());
        let end = soon("the first one learns the rest", first.handle().ended()).await;
        assert!(matches!(end, ParticipantEnd::SessionLost), "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_expired_leads_again_with_a_higher_token() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let participant = latch(&session).join();
    let lease = soon("it leads", participant.leading()).await.unwrap();
    pass(Duration::from_secs(5)).await;
    ensemble.session(session.id()).partition();
    assert_eq!(
        soon("the proof runs out", lease.lost()).await,
        LeadershipLoss::SessionLeaseExpired
    );
    assert!(ensemble.session(session.id()).is_alive());
    ensemble.session(session.id()).heal();
    let again = soon("it leads again", participant.leading()).await.unwrap();
    assert!(again.fencing_token() > lease.fencing_token());
    assert!(again.is_valid() && !lease.is_valid());
    soon("the old node is gone", session.settled()).await;
    assert_eq!(left(&ensemble), [again.path().name().unwrap()]);
}

#[tokio::test(start_paused = true)]
async fn a_participant_that_is_not_to_rejoin_ends_with_the_reason() {
    let ensemble = Ensemble::new(3);
    let (session, admin) = (ensemble.connect().await, ensemble.connect().await);
    let options = options().with_rejoin(Rejoin::Never);
    let latch = LeaderLatch::with_options(&session, PATH, &options).unwrap();

    let participant = latch.join();
    let lease = soon("it leads", participant.leading()).await.unwrap();
    let waiting = latch.join();
    until_waiting(waiting.handle()).await;
    admin
        .delete(node_of(&ensemble, waiting.handle()))
        .await
        .unwrap();
    let end = soon("the waiter ends", waiting.handle().ended()).await;
    assert!(matches!(end, ParticipantEnd::NodeDeleted { .. }), "{end:?}");

    admin.delete(lease.path()).await.unwrap();
    let end = soon("the leader ends", participant.handle().ended()).await;
    assert!(
        matches!(
            end,
            ParticipantEnd::LeadershipLost(LeadershipLoss::NodeDeleted)
        ),
        "{end:?}"
    );
    assert_eq!(end.class(), ErrorClass::Recoverable);

    let participant = latch.join();
    soon("it leads", participant.leading()).await.unwrap();
    participant.resign().await.unwrap();
    let end = soon("it ends", participant.handle().ended()).await;
    assert!(
        matches!(
            end,
            ParticipantEnd::LeadershipLost(LeadershipLoss::Resigned)
        ),
        "{end:?}"
    );
    assert!(left(&ensemble).is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_changes_begin_with_now_and_finish_with_the_end() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let participant = latch(&session).join();
    let mut changes = participant.handle().changes();
    let mut seen = Vec::new();
    let ended = async {
        while let Some(state) = changes.next().await {
            if matches!(state, ParticipantState::Leading(_)) {
                participant.handle().leave().await;
            }
            let text = state.to_string();
            seen.push(text.split(' ').next().unwrap_or_default().to_owned());
        }
    };
    soon("all states pass", ended).await;
    assert_eq!(seen.first().map(String::as_str), Some("joining"));
    assert_eq!(seen.last().map(String::as_str), Some("ended:"));
    assert!(seen.contains(&"leading".to_owned()), "{seen:?}");
    assert!(changes.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn resigning_over_a_broken_connection_says_what_is_not_known() {
    let ensemble = Ensemble::new(3);
    let session = ensemble
        .connect()
        .await
        .with_operation_timeout(Duration::from_secs(1))
        .with_retry(RetryPolicy::never());
    let participant = latch(&session).join();
    let lease = soon("it leads", participant.leading()).await.unwrap();
    pass(Duration::from_secs(1)).await;
    ensemble
        .session(session.id())
        .cut_for(Duration::from_secs(3));
    let error = soon("it resigns", participant.resign()).await.unwrap_err();
    assert!(
        matches!(&error, ResignError::Pending { path, .. } if path == lease.path()),
        "{error:?}"
    );
    assert_eq!(error.class(), ErrorClass::Recoverable);
    assert!(!participant.is_leader());
    let again = soon("it leads again", participant.leading()).await.unwrap();
    soon("the old node goes", session.settled()).await;
    assert_eq!(left(&ensemble), [again.path().name().unwrap()]);
}

#[tokio::test(start_paused = true)]
async fn only_a_permanent_error_ends_a_participant() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    session.create("/leaders", "").await.unwrap();
    session.create(PATH, "").await.unwrap();
    ensemble.set_counter(PATH, i32::MAX - 1);
    let participant = latch(&session).join();
    let end = soon("it ends", participant.handle().ended()).await;
    assert!(matches!(end, ParticipantEnd::Refused(_)), "{end:?}");
    assert_eq!(end.class(), ErrorClass::Outcome);
    assert!(left(&ensemble).is_empty());

    let answered = |kind| {
        let creates = ensemble.on(matching::creates("/b/**"));
        creates.refuse(TransportError::Refused(kind, None))
    };
    let other = LeaderLatch::new(&session, "/b").unwrap();
    answered(ErrorKind::NoAuth);
    let participant = other.join();
    let end = soon("it ends", participant.handle().ended()).await;
    assert!(matches!(end, ParticipantEnd::Refused(_)), "{end:?}");

    let once = answered(ErrorKind::ReadOnlyServer);
    let participant = other.join();
    let failed = |it: &ParticipantState| matches!(it, ParticipantState::Joining { error: Some(_) });
    until("the error is reported", participant.handle(), failed).await;
    soon("it leads after all", participant.leading())
        .await
        .unwrap();
    assert_eq!(once.count(), 1);
}

/// Joins on a runtime of its own, which ends, with a session that `session` gives there.
async fn joined_elsewhere(
    session: impl Future<Output = Session> + Send + 'static,
) -> (Session, LatchParticipant) {
    let joining = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let session = session.await;
            let participant = latch(&session).join();
            (session, participant)
        })
    });
    soon("it has joined", joining).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_participant_goes_on_when_the_runtime_it_joined_on_ends() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let (_, participant) = joined_elsewhere(std::future::ready(session)).await;
    let lease = soon("it leads", participant.leading()).await.unwrap();
    assert!(lease.is_valid());
    assert!(matches!(participant.leave().await, ParticipantEnd::Left));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_participant_ends_with_the_runtime_of_its_session() {
    let ensemble = Ensemble::new(1);
    // Time passes on the runtime of the first session.
    let _first = ensemble.connect().await;
    let (_session, participant) = joined_elsewhere(ensemble.connect().into_future()).await;
    let handle = participant.handle().clone();
    let end = soon("it ends", handle.ended()).await;
    assert!(matches!(end, ParticipantEnd::Stopped), "{end:?}");
    until("the loss is reported", &handle, |it| {
        matches!(it, ParticipantState::Ended(ParticipantEnd::Stopped))
    })
    .await;
    drop(participant);
    assert!(matches!(
        handle.state(),
        ParticipantState::Ended(ParticipantEnd::Stopped)
    ));
}

/// After a pause of the process, the clock reveals the lapse before any task has run.
#[tokio::test(start_paused = true)]
async fn a_paused_leader_is_not_valid_at_its_first_check() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let participant = latch(&session).join();
    let lease = soon("it leads", participant.leading()).await.unwrap();
    assert!(lease.is_valid());
    // The first poll moves the clock, and nothing else is run.
    let stands_still = tokio::time::advance(Duration::from_secs(20));
    assert!(polled(1, stands_still).await.is_none());
    assert!(!lease.is_valid() && !participant.is_leader());
    let lost = polled(1, lease.lost()).await;
    assert_eq!(lost, Some(LeadershipLoss::SessionLeaseExpired));
}

#[tokio::test(start_paused = true)]
async fn a_kept_participant_joins_again_with_each_session() {
    let ensemble = Ensemble::new(3);
    let sessions = ensemble.open_sessions();
    let participants =
        sessions.keep(async |session| LeaderLatch::new(&session, PATH).map(|latch| latch.join()));
    let mut last = None;
    for _ in 0..3 {
        let participant = soon("it joins", participants.ready()).await.unwrap();
        let lease = soon("it leads", participant.leading()).await.unwrap();
        assert!(Some(lease.fencing_token()) > last);
        last = Some(lease.fencing_token());
        let session = soon("there is a session", sessions.session())
            .await
            .unwrap();
        ensemble.session(session.id()).partition();
        ensemble.expire(session.id());
        soon("it leads no longer", lease.lost()).await;
        assert!(!lease.is_valid() && !participant.is_leader());
        soon("it has ended", participant.ended()).await;
        assert!(left(&ensemble).len() < 2);
    }
    let next = soon("it joins again", participants.ready()).await.unwrap();
    soon("it leads", next.leading()).await.unwrap();
    drop((next, participants));
    zk_sim::wait::until("nothing is left", async || left(&ensemble).is_empty()).await;
}
