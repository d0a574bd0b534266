//! What the operations of a counter do, and what they cost.

use std::time::Duration;

use zk_core::transport::TransportError;
use zk_core::{ErrorClass, ErrorKind};
use zk_counter::{AtomicCounter, CompareAndSetOutcome, CounterError, CounterOptions, Format};
use zk_sim::Ensemble;
use zk_sim::matching::transactions;

use crate::{counter, number, pass, polled, soon};

#[tokio::test(start_paused = true)]
async fn each_operation_does_what_its_name_says() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let counter = counter(&session);
    assert_eq!(counter.get().await.unwrap(), 0);
    assert!(sim.tree().node("/c").is_none(), "a read creates nothing");
    assert_eq!(counter.increment().await.unwrap(), 1);
    assert_eq!(counter.add(41).await.unwrap(), 42);
    assert_eq!(counter.decrement().await.unwrap(), 41);
    assert_eq!(counter.set(7).await.unwrap(), 41);
    let done = counter.compare_and_set(7, 8).await.unwrap();
    assert_eq!(done, CompareAndSetOutcome::Done);
    let different = counter.compare_and_set(7, 9).await.unwrap();
    assert_eq!(different, CompareAndSetOutcome::Different { found: 8 });
    assert_eq!((counter.get().await.unwrap(), number(&sim)), (8, 8));
    drop(counter);
    pass(Duration::from_secs(1)).await;
    assert_eq!(sim.tree().node("/c").unwrap().stat().num_children, 0);
}

/// Curator's and kazoo's counters wrap around.
#[tokio::test(start_paused = true)]
async fn number_that_does_not_fit_is_refused_with_a_typed_error() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let counter = counter(&session);
    counter.set(i64::MAX).await.unwrap();
    let error = counter.increment().await.unwrap_err();
    assert!(
        matches!(
            error,
            CounterError::Overflow {
                value: i64::MAX,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(
        (error.class(), error.is_outcome_unknown()),
        (ErrorClass::Outcome, false)
    );
    assert_eq!(number(&sim), i64::MAX);
    let options = CounterOptions::default().with_format(Format::Integer);
    let small = AtomicCounter::new(&session, "/small", &options).unwrap();
    small.set(i64::from(i32::MIN)).await.unwrap();
    assert!(matches!(
        small.decrement().await,
        Err(CounterError::Overflow { .. })
    ));
    assert!(matches!(
        small.set(1 << 31).await,
        Err(CounterError::Overflow { .. })
    ));
    // The data of the other format is no number.
    session.set("/small", [0; 8]).await.unwrap();
    let error = small.increment().await.unwrap_err();
    assert!(error.to_string().contains("a number of 4 bytes"), "{error}");
    assert_eq!(small.get().await.unwrap_err().class(), ErrorClass::Outcome);
    assert_eq!(&*session.get("/small").await.unwrap().0, [0; 8]);
}

#[tokio::test(start_paused = true)]
async fn operations_at_the_same_time_share_one_write() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let counter = counter(&session);
    counter.increment().await.unwrap();
    let before = sim.arrived(transactions("/c"));
    let adding = (0..1_000).map(|_| {
        let counter = counter.clone();
        tokio::spawn(async move { counter.increment().await.unwrap() })
    });
    let mut seen = Vec::new();
    for task in adding.collect::<Vec<_>>() {
        seen.push(task.await.unwrap());
    }
    seen.sort_unstable();
    assert!(
        seen.iter().copied().eq(2..=1_001),
        "each has a number of its own"
    );
    let writes = sim.arrived(transactions("/c")) - before;
    assert!(writes <= 3, "{writes} writes");
    // Alone, each costs one request.
    let requests = sim.request_count();
    for _ in 0..10 {
        counter.increment().await.unwrap();
    }
    assert_eq!(sim.request_count() - requests, 10);
}

#[tokio::test(start_paused = true)]
async fn late_operation_is_withdrawn_unless_a_write_has_it() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let options = CounterOptions::default().with_timeout(Duration::from_secs(2));
    let counter = AtomicCounter::new(&session, "/c", &options).unwrap();
    counter.increment().await.unwrap();
    let held = sim.on(transactions("/c")).hold();
    let (first, second) = tokio::join!(biased; counter.increment(), async {
        soon("the first one is sent", held.happened()).await;
        counter.increment().await
    });
    let first = first.unwrap_err();
    assert!(
        matches!(first, CounterError::OutcomeUnknown { .. }),
        "{first}"
    );
    let second = second.unwrap_err();
    assert!(matches!(second, CounterError::TimedOut { .. }), "{second}");
    assert!(!second.is_outcome_unknown() && first.is_outcome_unknown());
    held.release();
    assert_eq!(counter.get().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn dropped_operation_leaves_no_node_and_is_applied_once_at_most() {
    for times in 0..8 {
        let sim = Ensemble::new(3);
        let session = sim.connect().await;
        let counter = counter(&session);
        counter.increment().await.unwrap();
        drop(polled(times, counter.increment()).await);
        pass(Duration::from_secs(1)).await;
        let dropped = number(&sim);
        assert!((1..=2).contains(&dropped), "{times}");
        // The next one does not apply it.
        assert_eq!(counter.increment().await.unwrap(), dropped + 1, "{times}");
        drop(counter);
        soon("the token is removed", session.settled()).await;
        pass(Duration::from_secs(1)).await;
        assert_eq!(number(&sim), dropped + 1, "{times}");
        assert_eq!(sim.tree().node("/c").unwrap().stat().num_children, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn failed_operation_is_reported_to_each_caller() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let counter = counter(&session);
    counter.increment().await.unwrap();
    let refusal = TransportError::Refused(ErrorKind::NoAuth, None);
    let _refused = sim.on(transactions("/c")).refuse(refusal);
    let (one, other) = tokio::join!(counter.increment(), counter.increment());
    for error in [one.unwrap_err(), other.unwrap_err()] {
        assert!(matches!(&error, CounterError::Failed(_)), "{error}");
        assert!(!error.is_outcome_unknown());
    }
    assert_eq!(counter.increment().await.unwrap(), 2);
}

/// An administrator deletes the counter, and with it the token of this process.
#[tokio::test(start_paused = true)]
async fn counter_deleted_by_others_begins_again() {
    let sim = Ensemble::new(3);
    let (session, other) = (sim.connect().await, sim.connect().await);
    let counter = counter(&session);
    for expected in 1..=3 {
        assert_eq!(counter.increment().await.unwrap(), expected);
    }
    other.sync("/c").await.unwrap();
    other.delete("/c").recursive().await.unwrap();
    for expected in 1..=3 {
        assert_eq!(counter.increment().await.unwrap(), expected);
    }
    // A node with the same version, and another number.
    other.sync("/c").await.unwrap();
    other.delete("/c").recursive().await.unwrap();
    other.create("/c", 70_i64.to_be_bytes()).await.unwrap();
    other.set("/c", 71_i64.to_be_bytes()).await.unwrap();
    other.set("/c", 72_i64.to_be_bytes()).await.unwrap();
    other.set("/c", 77_i64.to_be_bytes()).await.unwrap();
    assert_eq!(counter.increment().await.unwrap(), 78);
    // Created again by the counter, it is no container, which the servers would delete.
    drop(counter);
    session.settled().await;
    sim.reap();
    assert_eq!(number(&sim), 78);
}
