//! Reading the instances of a service once.

use zk_core::{Acl, ErrorKind};
use zk_discovery::{BadEntry, InstanceChange, QueryError};
use zk_sim::wait::soon;
use zk_sim::{Ensemble, matching};
use zk_testkit::sim::lose;

use crate::{BASE, SERVICE, instance, path, providers, registry};

#[tokio::test(start_paused = true)]
async fn a_query_returns_instances_and_quarantined_nodes_and_leaves_nothing() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let query = async || registry(&session).query::<String>(SERVICE).await;
    assert!(query().await.unwrap().is_empty(), "there is no service");
    let mut held = Vec::new();
    for id in ["b", "a", "c"] {
        let registration = registry(&other).register(instance(id, "1")).await;
        held.push(registration.unwrap());
    }
    held[2].update(|one| one.set_enabled(false)).await.unwrap();
    other.create(path("x"), "no JSON").await.unwrap();
    let digest = ensemble.connect().digest("u", "p").await;
    let secret = digest.create(path("secret"), "");
    secret.acl(Acl::creator_only()).await.unwrap();
    session.sync(BASE).await.unwrap();

    let before = ensemble.request_count();
    let list = query().await.unwrap();
    assert_eq!(
        ensemble.request_count() - before,
        2,
        "a list and a multi-read"
    );
    let ids: Vec<_> = list.instances().map(|one| one.id()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    assert!(!list.get("c").unwrap().is_enabled());
    assert!(list.is_synchronized() && list.gap().is_none());
    let [unreadable, undecodable] = list.quarantined() else {
        panic!("{:?}", list.quarantined());
    };
    assert_eq!(unreadable.path().as_str(), path("secret"));
    assert!(matches!(unreadable.reason(), BadEntry::Unreadable));
    assert!(matches!(undecodable.reason(), BadEntry::Undecodable(_)));
    assert_eq!(
        ensemble.watch_count(),
        held.len(),
        "a query leaves no watch"
    );

    // Following from there reports what is new.
    let providers = providers(&session);
    soon("it is read", providers.synchronized()).await.unwrap();
    held.push(registry(&other).register(instance("d", "1")).await.unwrap());
    let mut changes = providers.changes_since(&list);
    soon("the changes are read", async {
        loop {
            match changes.next().await.unwrap() {
                InstanceChange::Added(one) => break assert_eq!(one.id(), "d"),
                InstanceChange::Removed(one) => panic!("{one:?} did not go"),
                _ => {}
            }
        }
    })
    .await;
    drop((providers, held));
    ensemble.assert_nothing_left([session, other]).await;
}

#[tokio::test(start_paused = true)]
async fn a_query_is_repeated_after_lost_requests_and_replies() {
    for nth in 1..4 {
        for is_reply in [false, true] {
            let ensemble = Ensemble::new(3);
            let (session, other) = (ensemble.connect().await, ensemble.connect().await);
            let held = registry(&other).register(instance("a", "1")).await;
            session.sync(BASE).await.unwrap();
            let script = ensemble.on(matching::anything()).session(session.id());
            let script = script.nth(nth);
            let lost = lose(script, is_reply);
            let list = registry(&session).query::<String>(SERVICE).await.unwrap();
            assert_eq!(list.len(), 1, "{nth} {is_reply}");
            assert!(nth > 2 || lost.count() == 1, "{nth} {is_reply}");
            drop(held);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_that_is_refused_fails() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let other = ensemble.connect().digest("u", "p").await;
    let service = other.create(format!("{BASE}/{SERVICE}"), "").parents();
    service.acl(Acl::creator_only()).await.unwrap();
    let registry = registry(&session);
    let error = registry.query::<String>(SERVICE).await.unwrap_err();
    let QueryError::Failed(error) = error else {
        panic!("{error}");
    };
    assert_eq!(error.kind(), ErrorKind::NoAuth);
    let error = registry.query::<String>("a/../b").await.unwrap_err();
    assert!(matches!(error, QueryError::InvalidPath(_)), "{error}");
    session.close().await.unwrap();
    let error = registry.query::<String>(SERVICE).await.unwrap_err();
    assert_eq!(error.class(), zk_core::ErrorClass::Fatal);
}
