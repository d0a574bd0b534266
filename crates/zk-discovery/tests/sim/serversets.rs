//! The layout of serversets, beside other clients.

use zk_core::Session;
use zk_discovery::{
    Instance, Random, RegisterError, RegistrationLoss, Registry, Serverset, ServersetMember,
    ServiceType, WhenTaken,
};
use zk_sim::wait::{pass, soon};
use zk_sim::{Ensemble, matching};
use zk_testkit::sim::lose;

const BASE: &str = "/twitter/service/shop/prod";

fn registry(session: &Session) -> Registry<Serverset> {
    Registry::new(session, BASE).unwrap().with_layout(Serverset)
}

fn member(id: &str, port: u16) -> Instance<ServersetMember> {
    let built = Instance::builder("orders", ServersetMember::new()).id(id);
    built.address("10.0.0.7").port(port).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn members_of_other_clients_and_ours_form_one_set() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    // As Finagle's announcer does it, with weights in another child.
    let theirs = r#"{"serviceEndpoint":{"host":"myserver","port":10000},"additionalEndpoints":{},"status":"ALIVE"}"#;
    let create = other.create(format!("{BASE}/orders/member_"), theirs);
    create.ephemeral().sequential().parents().await.unwrap();
    let vector = other.create(
        format!("{BASE}/orders/vector_0000000001"),
        r#"{"vector":[]}"#,
    );
    vector.await.unwrap();
    let registration = registry(&session)
        .register(member("orders-1", 8080))
        .await
        .unwrap();
    let name = registration.path().name().unwrap().to_owned();
    assert_eq!(registration.instance().await.id(), name);

    let providers = registry(&session).providers("orders").unwrap();
    let list = soon("it is read", providers.synchronized()).await.unwrap();
    let known: Vec<_> = list.instances().map(|one| (one.id(), one.port())).collect();
    assert_eq!(
        known,
        [("member_0000000000", Some(10000)), (&*name, Some(8080))]
    );
    assert!(list.quarantined().is_empty(), "vectors are not members");
    let once = registry(&session).query("orders").await.unwrap();
    assert_eq!((once.len(), once.quarantined().len()), (2, 0));
    // Disabled in place: it stays, but is not picked, here and by Finagle.
    registration
        .update(|one| one.set_enabled(false))
        .await
        .unwrap();
    soon("the update is seen", async {
        while providers.instances().get(&name).unwrap().is_enabled() {
            pass(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
    let tree = ensemble.tree();
    let node = tree.node(registration.path().as_str()).unwrap();
    assert!(String::from_utf8_lossy(node.data()).contains(r#""status":"STOPPING""#));
    assert_eq!(node.owner(), Some(session.id()));
    for _ in 0..20 {
        assert_eq!(providers.pick(&Random).unwrap().port(), Some(10000));
    }
    // A static member is another instance, and waits until the dynamic one is gone.
    registration
        .update(|one| one.set_enabled(true))
        .await
        .unwrap();
    let fixed = Instance::builder("orders", ServersetMember::new()).id("orders-1");
    let fixed = fixed.address("10.0.0.7").port(8080);
    let fixed = fixed.service_type(ServiceType::Static).build().unwrap();
    let refusing = registry(&other).with_taken(WhenTaken::Refuse);
    let error = refusing.register(fixed).await.unwrap_err();
    assert!(matches!(error, RegisterError::Taken { owner, .. } if owner == Some(session.id())));
    // The same id has the same node.
    registration.unregister().await.unwrap();
    assert_eq!(registration.lost().await, RegistrationLoss::Unregistered);
    let again = registry(&session)
        .register(member("orders-1", 8080))
        .await
        .unwrap();
    assert_eq!(again.path().name(), Some(&*name));
}

#[tokio::test(start_paused = true)]
async fn each_request_of_a_member_may_be_lost() {
    for service_type in [ServiceType::Dynamic, ServiceType::Static] {
        for is_reply in [false, true] {
            for nth in 1..30 {
                let ensemble = Ensemble::new(3);
                let session = ensemble.connect().await;
                let script = ensemble.on(matching::anything()).session(session.id());
                let script = script.nth(nth);
                drop(lose(script, is_reply));
                let what = format!("request {nth}, {is_reply}");
                let built = Instance::builder("orders", ServersetMember::new()).id("orders-1");
                let built = built
                    .address("h")
                    .port(1)
                    .service_type(service_type)
                    .build();
                let registered = registry(&session).register(built.unwrap()).await;
                let registration = registered.unwrap_or_else(|error| panic!("{what}: {error}"));
                let members = || {
                    let tree = ensemble.tree();
                    let service = tree.node(&format!("{BASE}/orders"));
                    service.map_or(0, |service| service.children().count())
                };
                assert_eq!(members(), 1, "{what}");
                registration
                    .update(|one| one.set_port(Some(2)))
                    .await
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                registration
                    .unregister()
                    .await
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(members(), 0, "{what}");
                drop(registration);
                ensemble.assert_nothing_left([session]).await;
            }
        }
    }
}
