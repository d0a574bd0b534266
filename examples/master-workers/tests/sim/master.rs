//! A master that is one no longer, and does not know.

use std::time::Duration;

use master_workers::master::Outcome;
use master_workers::plan::Step;
use master_workers::settings::Settings;
use master_workers::{Member, TaskId, WorkerName};
use zk_core::transport::TransportError;
use zk_core::{ErrorKind, Session};
use zk_leader::{LatchParticipant, LeaderLatch, LeaderLease};
use zk_sim::Ensemble;
use zk_sim::wait::{polled, soon};

use crate::{deaf, places, tree, until};

const TASK: TaskId = TaskId::new(7);
const ANNA: WorkerName = WorkerName::new(1, 1);
const BEN: WorkerName = WorkerName::new(2, 2);
const GONE: WorkerName = WorkerName::new(3, 3);

/// A task that waits, two workers, and one that is gone.
async fn furnish(session: &Session) {
    for path in tree().base_nodes() {
        session.create(path, "").parents().await.unwrap();
    }
    for worker in [ANNA, BEN] {
        let create = session.create(tree().worker(worker), "").ephemeral();
        create.await.unwrap();
    }
    for worker in [ANNA, BEN, GONE] {
        let create = session.create(tree().assigned_to(worker), "");
        create.await.unwrap();
    }
    session.create(tree().task(TASK), "paint").await.unwrap();
}

pub(crate) async fn leader(session: &Session) -> (LatchParticipant, LeaderLease) {
    let participant = LeaderLatch::new(session, tree().election).unwrap().join();
    let lease = soon("there is no other participant", participant.leading());
    let lease = lease.await.unwrap();
    (participant, lease)
}

pub(crate) fn master(session: &Session) -> Member {
    Member {
        session: session.clone(),
        tree: tree(),
        settings: Settings::live(&tree()),
        reporter: deaf("master"),
    }
}

const fn assign(to: WorkerName) -> Step {
    Step::Assign { task: TASK, to }
}

fn place(ensemble: &Ensemble) -> String {
    let places = places(ensemble);
    assert_eq!(places[&TASK].len(), 1, "{places:?}");
    places[&TASK][0].clone()
}

/// The request of the old master is on its way when its session ends, and comes after the new one has assigned the task.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn what_a_deposed_master_has_sent_is_refused_as_a_whole() {
    let ensemble = Ensemble::new(3);
    let workers = ensemble.connect().await;
    furnish(&workers).await;
    let (old, new) = (ensemble.connect().await, ensemble.connect().await);
    let (participant, lease) = leader(&old).await;

    let stalled = ensemble
        .on(zk_sim::matching::transactions("/app/tasks/**"))
        .session(old.id())
        .stall();
    let first = master(&old);
    let mut sending = Box::pin(first.carry_out(&lease, assign(ANNA), b"paint"));
    assert!(polled(1, &mut sending).await.is_none());
    zk_sim::wait::pass(Duration::from_millis(20)).await;
    ensemble.expire(old.id());
    let (_next, next_lease) = leader(&new).await;
    assert!(next_lease.fencing_token() > lease.fencing_token());
    let outcome = master(&new)
        .carry_out(&next_lease, assign(BEN), b"paint")
        .await;
    assert_eq!(outcome.unwrap(), Outcome::Done);
    stalled.release();
    let outcome = soon("its session is over", sending).await;
    assert!(!matches!(outcome, Ok(Outcome::Done)), "{outcome:?}");
    assert_eq!(place(&ensemble), tree().assignment(BEN, TASK).as_str());
    drop(participant);
}

/// An operator has removed its node, its session is alive and its connection is good: only the check stands between.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_master_whose_node_is_gone_can_neither_assign_nor_take_back() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    furnish(&session).await;
    let (_participant, lease) = leader(&session).await;
    let master = master(&session);
    session.delete(lease.path()).await.unwrap();
    for step in [
        assign(ANNA),
        Step::TakeBack {
            task: TASK,
            from: GONE,
        },
        Step::Forget { worker: GONE },
    ] {
        let before = ensemble.tree().paths();
        let outcome = master.carry_out(&lease, step, b"paint").await;
        assert_eq!(outcome.unwrap(), Outcome::Deposed, "{step:?}");
        assert_eq!(ensemble.tree().paths(), before, "{step:?}");
    }
}

/// The caches of the master may be behind: it is the ensemble that knows who is there.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn steps_that_do_not_fit_any_more_change_nothing() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    furnish(&session).await;
    let (_participant, lease) = leader(&session).await;
    let master = master(&session);
    let take_back = |from| Step::TakeBack { task: TASK, from };
    let carry_out = async |step| master.carry_out(&lease, step, b"paint").await.unwrap();
    // To somebody who is gone.
    assert_eq!(carry_out(assign(GONE)).await, Outcome::TooLate);
    assert_eq!(place(&ensemble), tree().task(TASK).as_str());
    assert_eq!(carry_out(assign(ANNA)).await, Outcome::Done);
    // Twice, to one and to another.
    assert_eq!(carry_out(assign(ANNA)).await, Outcome::TooLate);
    assert_eq!(carry_out(assign(BEN)).await, Outcome::TooLate);
    // From somebody who is there.
    assert_eq!(carry_out(take_back(ANNA)).await, Outcome::TooLate);
    assert_eq!(
        carry_out(Step::Forget { worker: BEN }).await,
        Outcome::TooLate
    );
    assert_eq!(place(&ensemble), tree().assignment(ANNA, TASK).as_str());
    session.delete(tree().worker(ANNA)).await.unwrap();
    // With a task left.
    assert_eq!(
        carry_out(Step::Forget { worker: ANNA }).await,
        Outcome::TooLate
    );
    assert_eq!(carry_out(take_back(ANNA)).await, Outcome::Done);
    assert_eq!(place(&ensemble), tree().task(TASK).as_str());
    assert_eq!(
        carry_out(Step::Forget { worker: ANNA }).await,
        Outcome::Done
    );
    assert_eq!(
        ensemble
            .tree()
            .node(tree().assigned_to(ANNA).as_str())
            .map(drop),
        None
    );
}

/// An operator has deleted what tasks or registrations are below: it is no matter of this worker or this task.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_step_that_lacks_a_foundation_is_not_taken_for_one_that_is_too_late() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    furnish(&session).await;
    let (_participant, lease) = leader(&session).await;
    let master = master(&session);
    let had = tree().assignment(GONE, TASK);
    session.create(&had, "paint").await.unwrap();
    session.delete(tree().tasks).recursive().await.unwrap();
    let take_back = Step::TakeBack {
        task: TASK,
        from: GONE,
    };
    let outcome = master.carry_out(&lease, take_back, b"paint").await;
    assert_eq!(outcome.unwrap(), Outcome::BaseNodeMissing);
    session.delete(tree().workers).recursive().await.unwrap();
    for step in [take_back, Step::Forget { worker: GONE }] {
        let outcome = master.carry_out(&lease, step, b"paint").await;
        assert_eq!(outcome.unwrap(), Outcome::BaseNodeMissing, "{step:?}");
    }
    assert_eq!(place(&ensemble), had.as_str());
}

/// Nothing changes that the caches would tell of.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_step_that_was_not_carried_out_is_tried_again_without_news() {
    let too_late = TransportError::RefusedAt {
        index: 1,
        kind: ErrorKind::NoNode,
    };
    for fault in [TransportError::Server("busy".to_owned()), too_late] {
        let ensemble = Ensemble::new(3);
        let workers = ensemble.connect().await;
        furnish(&workers).await;
        let session = ensemble.connect().await;
        let (_participant, lease) = leader(&session).await;
        let refused = ensemble
            .on(zk_sim::matching::transactions("/app/tasks/**"))
            .session(session.id())
            .every()
            .refuse(fault);
        let master = master(&session);
        let leading = tokio::spawn(async move { master.lead(&lease).await });
        // All that the caches have to tell they have told by then.
        zk_sim::wait::pass(Duration::from_secs(10)).await;
        assert!(refused.count() > 5, "{} tries", refused.count());
        refused.withdraw();
        until("it is assigned", || {
            place(&ensemble) != tree().task(TASK).as_str()
        })
        .await;
        assert!(!leading.is_finished());
        leading.abort();
    }
}

/// Dropped at each await, with whatever befalls the session at that moment, a step is carried out as a whole or not.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_step_that_is_dropped_leaves_the_task_in_one_place() {
    for drop_fault in zk_sim::DropFault::ALL {
        for times in 0.. {
            let ensemble = Ensemble::new(3);
            let workers = ensemble.connect().await;
            furnish(&workers).await;
            let session = ensemble.connect().await;
            let (_participant, lease) = leader(&session).await;
            let master = master(&session);
            let carried = polled(times, master.carry_out(&lease, assign(ANNA), b"paint")).await;
            drop_fault.inject(&ensemble, session.id());
            zk_sim::wait::pass(Duration::from_secs(5)).await;
            let there = place(&ensemble);
            if carried.is_some() {
                assert_eq!(there, tree().assignment(ANNA, TASK).as_str());
                break;
            }
            assert!(times < 100, "it never ends");
        }
    }
}
