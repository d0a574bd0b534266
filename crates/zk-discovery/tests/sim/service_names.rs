//! Following the names of the services.

use std::time::Duration;

use zk_core::Acl;
use zk_discovery::{Dubbo, Instance, Registry, ServiceNameChange, ServiceNameChanges};
use zk_sim::Ensemble;
use zk_sim::wait::{pass, soon};

use crate::{BASE, registry};

async fn until(what: &str, changes: &mut ServiceNameChanges) -> Vec<String> {
    let mut seen = Vec::new();
    soon(what, async {
        loop {
            let change = changes.next().await;
            seen.push(match change.unwrap_or_else(|| panic!("ended: {seen:?}")) {
                ServiceNameChange::Added(name) => format!("+ {name}"),
                ServiceNameChange::Removed(name) => format!("- {name}"),
                ServiceNameChange::Stale => "stale".to_owned(),
                ServiceNameChange::Synchronized => "synchronized".to_owned(),
                ServiceNameChange::Incomplete(gap) => format!("incomplete: {gap}"),
                ServiceNameChange::Ended(end) => format!("ended: {end}"),
                other => format!("{other:?}"),
            });
            if seen.last().is_some_and(|last| last.starts_with(what)) {
                break;
            }
        }
    })
    .await;
    seen
}

fn service(name: &str) -> Instance<()> {
    Instance::builder(name, ()).id("one").build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn names_are_followed_from_before_the_base_exists() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let services = registry(&session).follow_services(&session);
    let mut changes = services.changes();
    assert!(services.synchronized().await.unwrap().is_empty());
    assert_eq!(until("sync", &mut changes).await, ["synchronized"]);
    let theirs = registry(&other);
    let orders = theirs.register(service("orders")).await.unwrap();
    assert_eq!(until("+", &mut changes).await, ["+ orders"]);
    let stock = theirs.register(service("stock")).await.unwrap();
    assert_eq!(until("+", &mut changes).await, ["+ stock"]);
    assert_eq!(
        services.names().into_iter().collect::<Vec<_>>(),
        ["orders", "stock"]
    );
    // An instance that goes changes no name. Its service is a container, which the ensemble deletes later.
    stock.unregister().await.unwrap();
    other.delete(format!("{BASE}/stock")).await.unwrap();
    assert_eq!(until("-", &mut changes).await, ["- stock"]);
    // A second consumer starts with all of them.
    let mut second = services.changes();
    assert_eq!(
        until("sync", &mut second).await,
        ["+ orders", "synchronized"]
    );
    drop(services);
    let last = until("ended", &mut changes).await;
    assert!(
        !last.iter().any(|change| change.starts_with(['+', '-'])),
        "{last:?}"
    );
    assert!(changes.next().await.is_none());
    drop((changes, second, orders));
    ensemble.assert_nothing_left([session, other]).await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_may_not_be_read_has_a_name() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let owner = ensemble.connect().digest("u", "p").await;
    let secret = owner.create(format!("{BASE}/secret"), "").parents();
    secret.acl(Acl::creator_only()).await.unwrap();
    owner.set_acl(BASE, Acl::open()).await.unwrap();
    let services = registry(&session).follow_services(&session);
    let mut changes = services.changes();
    assert_eq!(
        until("sync", &mut changes).await,
        ["+ secret", "synchronized"]
    );
    assert!(services.partial_read().is_none());
    let late = owner.create(format!("{BASE}/late"), "");
    late.acl(Acl::creator_only()).await.unwrap();
    assert_eq!(until("+", &mut changes).await, ["+ late"]);
    // What happens to instances costs nothing.
    let requests = || ensemble.requests().into_iter();
    let ours = || requests().filter(|it| it.session == session.id()).count();
    let before = ours();
    let held = registry(&owner).register(service("late")).await.unwrap();
    held.update(|one| one.set_enabled(false)).await.unwrap();
    pass(Duration::from_secs(1)).await;
    assert_eq!(ours(), before);
    // A base that may not be read has no known names.
    owner.set_acl(BASE, Acl::creator_only()).await.unwrap();
    let closed = registry(&session).follow_services(&session);
    let mut changes = closed.changes();
    let seen = until("sync", &mut changes).await;
    assert!(seen[0].starts_with("incomplete: "), "{seen:?}");
    assert!(closed.partial_read().is_some() && closed.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_difference_is_reported_after_a_break_and_with_the_next_session() {
    let ensemble = Ensemble::new(3);
    let other = ensemble.connect().await;
    let theirs = registry(&other);
    let mut held = vec![theirs.register(service("orders")).await.unwrap()];
    let sessions = ensemble.open_sessions();
    let first = soon("there is a session", sessions.session())
        .await
        .unwrap();
    let services = registry(&first).follow_services(&sessions);
    drop(first);
    let mut changes = services.changes();
    let seen = until("sync", &mut changes).await;
    assert_eq!(seen, ["+ orders", "synchronized"]);
    for (round, is_expired) in [(0, false), (1, true), (2, true)] {
        let session = soon("there is a session", sessions.session())
            .await
            .unwrap();
        ensemble.session(session.id()).partition();
        let name = format!("s{round}");
        held.push(theirs.register(service(&name)).await.unwrap());
        if is_expired {
            ensemble.expire(session.id());
        } else {
            ensemble.heal();
        }
        let seen = until("sync", &mut changes).await;
        assert_eq!(seen, ["stale", &format!("+ {name}"), "synchronized"]);
    }
    sessions.close().await.unwrap();
    let end = until("ended", &mut changes).await;
    assert_eq!(services.names().len(), 4, "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn names_are_those_of_the_layout() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    for child in ["com.example.Orders", "a%3A1", "config", "metadata"] {
        let create = session.create(format!("/dubbo/{child}"), "");
        create.parents().await.unwrap();
    }
    let registry = Registry::new(&session, "/dubbo").unwrap();
    let services = registry.with_layout(Dubbo).follow_services(&session);
    let names = services.synchronized().await.unwrap();
    assert_eq!(
        names.into_iter().collect::<Vec<_>>(),
        ["a:1", "com.example.Orders"]
    );
}
