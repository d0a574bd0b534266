//! Lists and nodes that cannot be had.

use std::time::Duration;

use zk_core::transport::TransportError;
use zk_core::{Acl, ErrorKind};
use zk_discovery::{PartialRead, PickError, ProviderOptions, QueryError, Random};
use zk_sim::wait::pass;
use zk_sim::{Ensemble, matching};

use crate::{BASE, SERVICE, instance, path, providers, registry, told_until};

/// It is not as if there were no instance.
#[tokio::test(start_paused = true)]
async fn a_list_that_may_not_be_read_is_not_an_empty_one() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let other = ensemble.connect().digest("u", "p").await;
    let service = format!("{BASE}/{SERVICE}");
    let create = other.create(&*service, "").parents();
    create.acl(Acl::creator_only()).await.unwrap();
    let _a = registry(&other).register(instance("a", "1")).await.unwrap();
    let providers = providers(&session);
    let mut changes = providers.changes();
    let told = told_until("sync", &mut changes).await;
    assert!(told[0].starts_with("incomplete: "), "{told:?}");
    let list = providers.instances();
    assert!(list.is_empty() && list.gap().is_some());
    let error = providers.pick(&Random).unwrap_err();
    let PickError::Incomplete { service: of, gap } = &error else {
        panic!("{error}");
    };
    assert_eq!(of, SERVICE);
    assert!(
        matches!(gap, PartialRead::Node(_) | PartialRead::Children(_)),
        "{gap:?}"
    );
    assert!(error.is_transient());

    // It looks again when the node is written.
    let waiting = providers.pick_timeout(&Random, Duration::from_secs(60));
    let opening = async {
        pass(Duration::from_secs(1)).await;
        other.set_acl(&*service, Acl::open()).await.unwrap();
        other.set(&*service, "open").await.unwrap();
    };
    let (picked, ()) = tokio::join!(biased; waiting, opening);
    assert_eq!(picked.unwrap().id(), "a");
    assert_eq!(told_until("+", &mut changes).await, ["+ a 1"]);
    pass(Duration::from_secs(1)).await;
    assert_eq!(providers.instances().gap(), None);
}

/// The cache tells the end of such a gap by no event.
#[tokio::test(start_paused = true)]
async fn a_node_that_could_not_be_read_is_released_when_it_is_gone() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let create = other.create(path("secret"), "x").parents();
    create.await.unwrap();
    let refused = TransportError::Refused(ErrorKind::NoAuth, None);
    let script = ensemble.on(matching::gets(&path("secret"))).every();
    let refusing = script.refuse(refused);
    let providers = providers(&session);
    let mut changes = providers.changes();
    let told = told_until("sync", &mut changes).await;
    assert!(told[0].starts_with("! /services/orders/secret"), "{told:?}");
    refusing.withdraw();
    other.delete(path("secret")).await.unwrap();
    let told = told_until("released", &mut changes).await;
    assert_eq!(told, ["released /services/orders/secret"]);
    assert!(providers.instances().quarantined().is_empty());
}

/// Who may create nodes below a service makes no consumer read them without an end.
#[tokio::test(start_paused = true)]
async fn instances_beyond_the_limits_are_left_out_and_reported() {
    let ensemble = Ensemble::new(1);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let registry = registry(&other);
    let mut held = Vec::new();
    for id in ["a", "b", "c", "d"] {
        held.push(registry.register(instance(id, "1")).await.unwrap());
    }
    let follow = |options| crate::registry(&session).providers_with::<String>(SERVICE, options);
    let few = follow(ProviderOptions::default().with_max_nodes(4)).unwrap();
    let list = few.synchronized().await.unwrap();
    assert_eq!((list.len(), list.is_synchronized()), (3, true));
    assert_eq!(list.gap(), Some(PartialRead::TooManyNodes { limit: 4 }));
    drop(few.pick(&Random).unwrap());
    held.pop().unwrap().unregister().await.unwrap();
    pass(Duration::from_secs(1)).await;
    assert_eq!((few.instances().len(), few.instances().gap()), (3, None));

    // An instance that grows too much stays as it was.
    let limit = 1500;
    let small = follow(ProviderOptions::default().with_max_bytes(limit)).unwrap();
    assert_eq!(small.synchronized().await.unwrap().gap(), None);
    other.set(path("a"), "x".repeat(1000)).await.unwrap();
    pass(Duration::from_secs(1)).await;
    let list = small.instances();
    assert_eq!(
        (list.len(), list.get("a").unwrap().payload().as_str()),
        (3, "1")
    );
    assert_eq!(list.gap(), Some(PartialRead::TooManyBytes { limit }));
}

/// A query reads all at once.
#[tokio::test(start_paused = true)]
async fn a_service_of_very_many_nodes_is_not_queried() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    session.create(path("a"), "").parents().await.unwrap();
    for number in 0..257 {
        session
            .create(path(&number.to_string()), "x".repeat(1_048_000))
            .await
            .unwrap();
    }
    let error = registry(&session)
        .query::<String>(SERVICE)
        .await
        .unwrap_err();
    assert!(matches!(error, QueryError::TooManyBytes { .. }), "{error}");
}
