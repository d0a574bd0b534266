//! Lists and nodes that cannot be had.

use std::time::Duration;

use zk_core::transport::TransportError;
use zk_core::{Acl, ErrorKind};
use zk_discovery::{PartialRead, PickError, Random};
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
