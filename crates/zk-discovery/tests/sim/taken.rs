//! Where there is a node already, whose owner must not be overwritten.

use std::time::Duration;

use zk_core::transport::TransportError;
use zk_core::{ErrorKind, Session};
use zk_discovery::{RegisterError, WhenTaken};
use zk_sim::wait::{pass, soon};
use zk_sim::{Ensemble, matching};

use crate::{instance, path, registered, registry};

fn taken_by(error: RegisterError) -> Option<zk_core::SessionId> {
    match error {
        RegisterError::Taken { owner, .. } => owner,
        other => panic!("{other}"),
    }
}

async fn two() -> (Ensemble, Session, Session) {
    let ensemble = Ensemble::new(3);
    let (old, new) = (ensemble.connect().await, ensemble.connect().await);
    (ensemble, old, new)
}

#[tokio::test(start_paused = true)]
async fn a_node_of_another_session_is_waited_for_and_never_overwritten() {
    let (ensemble, old, new) = two().await;
    let first = registry(&old).register(instance("a", "old")).await.unwrap();
    let refusing = registry(&new).with_taken(WhenTaken::Refuse);
    let error = refusing.register(instance("a", "new")).await.unwrap_err();
    assert_eq!(taken_by(error), Some(old.id()));
    let patient = registry(&new).with_taken(WhenTaken::WaitFor(Duration::from_secs(5)));
    let began = tokio::time::Instant::now();
    let error = patient.register(instance("a", "new")).await.unwrap_err();
    assert_eq!(taken_by(error), Some(old.id()));
    let waited = began.elapsed();
    assert!(
        (Duration::from_secs(5)..Duration::from_secs(6)).contains(&waited),
        "{waited:?}"
    );
    assert_eq!(registered(&ensemble), [("a".into(), "old".into())]);

    // By default for as long as the old session can take to expire.
    let registry = registry(&new);
    let waiting = tokio::spawn(async move { registry.register(instance("a", "new")).await });
    pass(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished());
    ensemble.session(old.id()).partition();
    let second = soon("it is registered", waiting).await.unwrap().unwrap();
    assert_eq!(registered(&ensemble), [("a".into(), "new".into())]);
    // What the old one does now is about its own node.
    drop(first);
    pass(Duration::from_secs(30)).await;
    assert!(second.is_registered());
}

#[tokio::test(start_paused = true)]
async fn a_node_of_an_earlier_session_of_the_same_process_is_replaced_at_once() {
    for lose in 0..12 {
        let (ensemble, old, new) = two().await;
        let first = registry(&old).register(instance("a", "old")).await.unwrap();
        ensemble.session(old.id()).partition();
        if lose > 0 {
            let script = ensemble.on(matching::anything()).session(new.id());
            script.nth(lose).lose_reply();
        }
        let began = tokio::time::Instant::now();
        let succeeding = registry(&new).succeeding([first.session_id()]);
        let second = succeeding.register(instance("a", "new")).await.unwrap();
        assert!(
            began.elapsed() < Duration::from_secs(2),
            "{:?}",
            began.elapsed()
        );
        assert_eq!(registered(&ensemble), [("a".into(), "new".into())]);
        pass(Duration::from_secs(60)).await;
        assert!(second.is_registered());
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_instance_twice_in_one_session_is_refused() {
    let (ensemble, session, other) = two().await;
    let one = registry(&session);
    let first = one.register(instance("a", "1")).await.unwrap();
    let error = one.clone().register(instance("a", "2")).await.unwrap_err();
    assert!(
        matches!(error, RegisterError::AlreadyRegistered { .. }),
        "{error}"
    );
    // Another registry of the same session finds out from the node.
    let error = registry(&session).register(instance("a", "2")).await;
    assert_eq!(taken_by(error.unwrap_err()), Some(session.id()));
    assert_eq!(registered(&ensemble), [("a".into(), "1".into())]);
    drop(first);
    // It is being removed.
    drop(one.register(instance("a", "2")).await.unwrap());

    // A persistent node is never waited for.
    other.create(path("b"), "x").parents().await.unwrap();
    let error = one.register(instance("b", "1")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "/services/orders/b is taken by a persistent node; delete it, or choose another id"
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_another_session_outlives_broken_connections() {
    for cut in 0..10 {
        let (ensemble, old, new) = two().await;
        let first = registry(&old).register(instance("a", "old")).await.unwrap();
        let registry = registry(&new).with_taken(WhenTaken::WaitFor(Duration::from_secs(60)));
        let waiting = tokio::spawn(async move { registry.register(instance("a", "new")).await });
        pass(Duration::from_millis(cut)).await;
        ensemble.session(new.id()).cut_for(Duration::from_secs(1));
        pass(Duration::from_millis(500)).await;
        // It is deleted while no process watches it.
        first.unregister().await.unwrap();
        let second = soon("it is registered", waiting).await.unwrap().unwrap();
        assert!(second.is_registered());
        assert_eq!(registered(&ensemble), [("a".into(), "new".into())]);
    }
}

/// An election gives every session its whole timeout again.
#[tokio::test(start_paused = true)]
async fn a_wait_for_another_session_begins_anew_when_the_connection_breaks() {
    let (ensemble, old, new) = two().await;
    let _first = registry(&old).register(instance("a", "old")).await.unwrap();
    let registry = registry(&new).with_taken(WhenTaken::WaitFor(Duration::from_secs(5)));
    let began = tokio::time::Instant::now();
    let waiting = tokio::spawn(async move { registry.register(instance("a", "new")).await });
    pass(Duration::from_secs(4)).await;
    ensemble.session(new.id()).cut_for(Duration::from_secs(2));
    let error = soon("it gives up", waiting).await.unwrap().unwrap_err();
    assert_eq!(taken_by(error), Some(old.id()));
    assert!(
        began.elapsed() >= Duration::from_secs(9),
        "{:?}",
        began.elapsed()
    );
}

/// What else the session removes in the background is not waited for.
#[tokio::test(start_paused = true)]
async fn only_the_removal_of_its_own_node_is_waited_for() {
    let (ensemble, session, _) = two().await;
    let one = registry(&session);
    let [a, b] = ["a", "b"].map(|id| one.register(instance(id, "1")));
    let (a, b) = (a.await.unwrap(), b.await.unwrap());
    let stuck = ensemble
        .on(matching::gets(&path("b")))
        .session(session.id())
        .every()
        .refuse(TransportError::Later(ErrorKind::Throttled));
    let stuck_too = ensemble
        .on(matching::deletes(&path("b")))
        .session(session.id())
        .every()
        .refuse(TransportError::Later(ErrorKind::Throttled));
    drop(b);
    pass(Duration::from_secs(1)).await;
    // The removal is made again after a pause.
    let deletes = ensemble.on(matching::deletes(&path("a")));
    deletes.refuse(TransportError::Later(ErrorKind::Throttled));
    drop(a);
    let began = tokio::time::Instant::now();
    let again = one.register(instance("a", "2")).await.unwrap();
    let took = began.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(stuck.count() + stuck_too.count() > 0, "nothing was held up");
    assert!(again.is_registered());
}
