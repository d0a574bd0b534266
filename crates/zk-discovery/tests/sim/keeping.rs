//! Keeping an instance registered.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_core::transport::TransportError;
use zk_core::{ErrorKind, Session};
use zk_discovery::{RegisterError, Registration, WhenTaken};
use zk_sim::wait::{pass, soon};
use zk_sim::{Ensemble, matching};

use crate::{instance, path, registered, registry};

fn one(payload: &str) -> Vec<(String, String)> {
    vec![("a".to_owned(), payload.to_owned())]
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_registered_is_put_again_when_somebody_removes_it() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let registry = registry(&session);
    let keeping = tokio::spawn(async move { registry.keep_registered(&instance("a", "1")).await });
    for _ in 0..5 {
        pass(Duration::from_secs(2)).await;
        assert_eq!(registered(&ensemble), one("1"));
        other.delete(path("a")).await.unwrap();
        assert_eq!(registered(&ensemble), []);
    }
    // What passes ends it not.
    ensemble
        .on(matching::creates(&path("a")))
        .refuse(TransportError::Later(ErrorKind::Throttled));
    pass(Duration::from_secs(10)).await;
    assert_eq!(registered(&ensemble), one("1"));
    ensemble.expire(session.id());
    let error = soon("it ends with its session", keeping).await.unwrap();
    assert!(matches!(error, RegisterError::SessionLost), "{error}");
    assert_eq!(registered(&ensemble), []);
}

#[tokio::test(start_paused = true)]
async fn what_is_dropped_while_it_is_kept_goes() {
    for moment in 0..40 {
        let ensemble = Ensemble::new(3);
        let session: Session = ensemble.connect().await;
        let registry = registry(&session);
        let one = instance("a", "1");
        let moment = Duration::from_micros(500 * moment);
        let kept = tokio::time::timeout(moment, registry.keep_registered(&one)).await;
        assert!(kept.is_err());
        // The last of them was registered.
        assert!(moment < Duration::from_millis(15) || registered(&ensemble) == self::one("1"));
        ensemble.assert_nothing_left([session]).await;
    }
}

/// A node of a session that lives for longer than is waited for, and what servers refuse for a time.
#[tokio::test(start_paused = true)]
async fn what_passes_does_not_end_the_keeping() {
    for max_wait in [
        WhenTaken::Refuse,
        WhenTaken::WaitFor(Duration::from_secs(2)),
    ] {
        let ensemble = Ensemble::new(3);
        let (session, other) = (ensemble.connect().await, ensemble.connect().await);
        let theirs = registry(&other).register(instance("a", "theirs")).await;
        let keeper = registry(&session).with_taken(max_wait);
        let keeping =
            tokio::spawn(async move { keeper.keep_registered(&instance("a", "1")).await });
        pass(Duration::from_secs(300)).await;
        assert!(!keeping.is_finished());
        assert_eq!(registered(&ensemble), one("theirs"));
        theirs.unwrap().unregister().await.unwrap();
        pass(Duration::from_secs(5)).await;
        assert_eq!(registered(&ensemble), one("1"));
        keeping.abort();
    }
    for kind in [ErrorKind::QuotaExceeded, ErrorKind::ReadOnlyServer] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let script = ensemble.on(matching::creates(&path("a")));
        let refused = script.refuse(TransportError::Refused(kind, None));
        let keeper = registry(&session);
        let keeping =
            tokio::spawn(async move { keeper.keep_registered(&instance("a", "1")).await });
        pass(Duration::from_secs(5)).await;
        assert_eq!(refused.count(), 1, "{kind:?}");
        assert_eq!(registered(&ensemble), one("1"), "{kind:?}");
        keeping.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn what_does_not_pass_ends_the_keeping() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    other.create(path("a"), "x").parents().await.unwrap();
    let registry = registry(&session);
    let (a, b) = (instance("a", "1"), instance("b", "1"));
    let error = soon("it is refused", registry.keep_registered(&a)).await;
    assert!(
        matches!(error, RegisterError::Taken { owner: None, .. }),
        "{error}"
    );
    ensemble
        .on(matching::creates(&path("b")))
        .refuse(TransportError::Refused(ErrorKind::NoAuth, None));
    let error = soon("it is refused", registry.keep_registered(&b)).await;
    assert!(
        matches!(&error, RegisterError::Failed(error) if error.kind() == ErrorKind::NoAuth),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_update_of_what_is_kept_outlives_a_removal_of_its_node() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let newest: Arc<Mutex<Option<Arc<Registration<String>>>>> = Arc::default();
    let keeper = registry(&session);
    let given = Arc::clone(&newest);
    let keeping = tokio::spawn(async move {
        let work = |registration: Arc<Registration<String>>| {
            *given.lock().unwrap() = Some(Arc::clone(&registration));
            async move {
                let update = registration.update(|one| one.payload_mut().push('x'));
                update.await.unwrap();
            }
        };
        let one = instance("a", "1");
        keeper.keep_registered_with(&one, work).await
    });
    for expected in ["1x", "1xx", "1xxx"] {
        pass(Duration::from_secs(3)).await;
        assert_eq!(registered(&ensemble), one(expected));
        other.delete(path("a")).await.unwrap();
    }
    pass(Duration::from_secs(3)).await;
    // The owner of the registration does not keep it.
    assert!(!keeping.is_finished());
    keeping.abort();
    drop(soon("it is dropped", keeping).await);
    session.settled().await;
    assert_eq!(registered(&ensemble), []);
    let last = newest.lock().unwrap().take().unwrap();
    assert!(!last.is_registered());
}

#[tokio::test(start_paused = true)]
async fn an_instance_of_the_same_registry_is_not_kept_twice() {
    let ensemble = Ensemble::new(3);
    let session: Session = ensemble.connect().await;
    let registry = registry(&session);
    let _first = registry.register(instance("a", "1")).await.unwrap();
    let second = instance("a", "2");
    let keeping = registry.keep_registered(&second);
    let error = soon("it ends", keeping).await;
    assert_eq!(
        error.to_string(),
        "this registry has registered /services/orders/a already; unregister it first, or choose another id"
    );
    assert_eq!(registered(&ensemble), one("1"));
}
