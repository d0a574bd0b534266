//! The events of a lock, and the progress of a wait.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_lock::{LockEvent, LockEvents, LockLoss, LockOptions, OwnerInfo};
use zk_sim::Ensemble;

use crate::{PATH, left, lock, pass, soon};

async fn next(events: &mut LockEvents) -> LockEvent {
    soon("an event is received", events.next()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn all_listeners_see_grant_and_release_in_order() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let lock = lock(&session);
    let (mut one, mut other) = (lock.events(), lock.clone().events());
    for is_dropped in [false, true] {
        let guard = lock.clone().acquire().await.unwrap();
        let (path, fencing_token) = (guard.path().clone(), guard.fencing_token());
        if is_dropped {
            drop(guard);
        } else {
            guard.release().await.unwrap();
        }
        for events in [&mut one, &mut other] {
            let path = path.clone();
            assert_eq!(
                next(events).await,
                LockEvent::Acquired {
                    path: path.clone(),
                    fencing_token
                }
            );
            assert_eq!(
                next(events).await,
                LockEvent::Released {
                    path,
                    fencing_token
                }
            );
        }
    }
    drop(lock);
    assert_eq!(soon("the end is reported", one.next()).await, None);
}

#[tokio::test(start_paused = true)]
async fn each_loss_and_each_regained_proof_is_an_event() {
    let ensemble = Ensemble::new(3);
    let (session, admin) = (ensemble.connect().await, ensemble.connect().await);
    let lock = lock(&session);
    let mut events = lock.events();

    let guard = lock.acquire().await.unwrap();
    let (path, fencing_token) = (guard.path().clone(), guard.fencing_token());
    next(&mut events).await;
    pass(Duration::from_secs(5)).await;
    ensemble.session(session.id()).partition();
    let lapsed = LockEvent::Lost {
        path: path.clone(),
        fencing_token,
        loss: LockLoss::SessionLeaseExpired,
    };
    assert_eq!(next(&mut events).await, lapsed);
    assert!(!guard.is_valid());
    ensemble.session(session.id()).heal();
    assert!(ensemble.session(session.id()).is_alive());
    let regained = LockEvent::Regained {
        path: path.clone(),
        fencing_token,
    };
    assert_eq!(next(&mut events).await, regained);
    assert!(guard.is_valid());
    admin.delete(&path).await.unwrap();
    let lost = |loss| LockEvent::Lost {
        path: path.clone(),
        fencing_token,
        loss,
    };
    assert_eq!(next(&mut events).await, lost(LockLoss::NodeDeleted));
    drop(guard);

    let guard = lock.acquire().await.unwrap();
    let (path, fencing_token) = (guard.path().clone(), guard.fencing_token());
    assert_eq!(
        next(&mut events).await,
        LockEvent::Acquired {
            path: path.clone(),
            fencing_token
        }
    );
    ensemble.expire(session.id());
    let loss = LockLoss::SessionLost;
    assert_eq!(
        next(&mut events).await,
        LockEvent::Lost {
            path,
            fencing_token,
            loss
        }
    );
}

#[tokio::test(start_paused = true)]
async fn a_slow_consumer_delays_nothing_and_learns_what_it_missed() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let lock = lock(&session);
    let mut events = lock.events();
    for _ in 0..50 {
        let guard = soon("the lock is free", lock.acquire()).await.unwrap();
        guard.release().await.unwrap();
    }
    pass(Duration::from_secs(1)).await;
    assert_eq!(next(&mut events).await, LockEvent::Missed { count: 36 });
    assert!(matches!(
        next(&mut events).await,
        LockEvent::Acquired { .. }
    ));
}

#[tokio::test(start_paused = true)]
async fn progress_reports_the_contenders_ahead() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let owner = |label: &str| OwnerInfo::new("build7", 42).with_label(label);
    let labelled = |label| {
        let options = LockOptions::default().with_owner(owner(label));
        zk_lock::FairLock::with_options(&one, PATH, options).unwrap()
    };
    let first = labelled("first").acquire().await.unwrap();
    let second = labelled("second");
    let second = tokio::spawn(async move { second.acquire().await });
    pass(Duration::from_millis(100)).await;

    let told = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&told);
    let third = lock(&other);
    let third = tokio::spawn(async move {
        let note = |ahead: &zk_lock::Ahead| {
            let label = ahead.predecessor().and_then(zk_lock::Contender::owner_info);
            let label = label.and_then(|owner| owner.label().map(str::to_owned));
            noted.lock().unwrap().push((ahead.count(), label));
        };
        third.acquire_with_progress(note).await
    });
    pass(Duration::from_millis(100)).await;
    let now = || told.lock().unwrap().last().cloned();
    assert_eq!(now(), Some((2, Some("second".to_owned()))));
    let listed = lock(&other).inspector().contenders().await.unwrap();
    let labels: Vec<_> = listed.iter().map(zk_lock::Contender::owner_info).collect();
    assert_eq!(labels[..2], [Some(owner("first")), Some(owner("second"))]);
    assert_eq!(labels[2], Some(OwnerInfo::this_process()));
    assert!(
        listed[0]
            .to_string()
            .ends_with(&format!(" of build7/42 (first) (session {})", one.id()))
    );

    // The second one gives up: only the first one is ahead of the third.
    second.abort();
    pass(Duration::from_secs(1)).await;
    assert_eq!(now(), Some((1, Some("first".to_owned()))));
    first.release().await.unwrap();
    let guard = soon("it is granted", third).await.unwrap().unwrap();
    assert!(told.lock().unwrap().iter().all(|(count, _)| *count > 0));
    guard.release().await.unwrap();
    assert!(left(&ensemble).is_empty());
}

/// Another client has created a contender as a persistent node: nothing but its deletion ends the wait.
#[tokio::test(start_paused = true)]
async fn a_contender_of_no_session_is_reported_to_its_waiter() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let planted = format!("{PATH}/_c_e-lock-0000000000");
    let create = other.create(&planted, "eve").parents().await;
    create.unwrap();
    // It takes the first number.
    let waiter = lock(&session);
    let warnings = Warnings::default();
    let subscriber = tracing::subscriber::set_default(warnings.clone());
    let mut seen = Vec::new();
    let limit = Duration::from_secs(5);
    let acquiring = waiter.acquire_with_progress(|ahead| seen.push(ahead.to_string()));
    assert!(tokio::time::timeout(limit, acquiring).await.is_err());
    drop(subscriber);
    let stays = "of no session: it stays until it is deleted";
    assert!(seen.last().unwrap().contains(stays), "{seen:?}");
    let warnings = warnings.0.lock().unwrap().clone();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("_c_e-lock-0000000000"), "{warnings:?}");
    let error = waiter.acquire_timeout(limit).await.map(drop).unwrap_err();
    assert!(error.to_string().contains(stays), "{error}");

    let inspector = waiter.inspector();
    let first = inspector.first_contender().await.unwrap().unwrap();
    assert_eq!(first.session(), None);
    inspector.remove(&first).await.unwrap();
    let guard = soon("it is granted", waiter.acquire()).await;
    guard.unwrap().release().await.unwrap();
}

/// Records warnings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Warnings(pub(crate) Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = String::new();
        event.record(
            &mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
                text.extend([field.name(), "=", &format!("{value:?}"), " "]);
            },
        );
        self.0.lock().unwrap().push(text);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
