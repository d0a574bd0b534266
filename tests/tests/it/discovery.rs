//! Curator's service discovery and ours, on one path.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use zk_core::Session;
use zk_discovery::{Curator as Layout, Instance, Providers, Registry, UriSpec};
use zk_tests::peers::{Curator, CuratorProcess};

use crate::lock::{observer, three_servers};

const BASE: &str = "/services";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Meta {
    zone: String,
    weight: u32,
}

fn meta(zone: &str, weight: u32) -> Meta {
    Meta {
        zone: zone.to_owned(),
        weight,
    }
}

fn registry(session: &Session) -> Registry {
    Registry::new(session, BASE)
        .unwrap()
        .with_layout(Layout::new().with_payload_class("DiscoveryPeer$Meta"))
}

/// Waits until exactly these are known: their ids and payloads.
async fn knows(providers: &Providers<Meta>, expected: &[(&str, Meta)]) {
    let mut changes = providers.changes();
    let is_so = || {
        let instances = providers.instances();
        let pairs = instances.instances().map(|one| (one.id(), one.payload()));
        pairs.eq(expected.iter().map(|(id, meta)| (*id, meta)))
    };
    let waiting = async {
        while !is_so() {
            changes.next().await.expect("it goes on");
        }
    };
    let so = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    let known = providers.instances();
    assert!(so.is_ok(), "waited 30 s for {expected:?}: {known:?}");
}

/// Waits until the other client lists exactly these: its server may lag behind ours.
async fn lists(peer: &mut CuratorProcess, expected: &[&str]) {
    let mut list = String::new();
    // Nothing tells when the server of the other client has caught up.
    let mut looks = tokio::time::interval(Duration::from_millis(50));
    let looking = async {
        loop {
            looks.tick().await;
            list = peer.does("list", "found").await.unwrap();
            if list.split_whitespace().eq(expected.iter().copied()) {
                return;
            }
        }
    };
    let so = tokio::time::timeout(Duration::from_secs(30), looking).await;
    assert!(so.is_ok(), "waited 30 s for {expected:?}: {list:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_finds_our_instances_and_we_find_its() {
    let ensemble = three_servers().await;
    let curator = Curator::find().await.unwrap();
    let session = observer(&ensemble).await;
    let connect = ensemble.connect_string();
    let arguments = [connect.as_str(), BASE, "orders"];
    let peer = CuratorProcess::start(&curator, "DiscoveryPeer", &arguments).await;
    let mut peer = peer.unwrap();
    let providers = registry(&session).providers::<Meta>("orders").unwrap();

    // Its to us, with updates.
    peer.does("register java a 1", "registered").await.unwrap();
    knows(&providers, &[("java", meta("a", 1))]).await;
    let found = providers.instances();
    let found = found.get("java").unwrap();
    assert_eq!(
        (found.address(), found.port()),
        (Some("10.0.0.1"), Some(8080))
    );
    assert_eq!(found.uri().as_deref(), Some("http://10.0.0.1:8080"));
    peer.does("update java b 2", "updated").await.unwrap();
    knows(&providers, &[("java", meta("b", 2))]).await;

    // What it writes, byte by byte, is what we write of the same.
    let (bytes, _) = session.get("/services/orders/java").await.unwrap();
    let text = String::from_utf8(bytes.into()).unwrap();
    assert_eq!(
        text,
        r#"{"name":"orders","id":"java","address":"10.0.0.1","port":8080,"sslPort":null,"payload":{"@class":"DiscoveryPeer$Meta","zone":"b","weight":2},"registrationTimeUTC":5,"serviceType":"DYNAMIC","uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false},{"value":"address","variable":true},{"value":":","variable":false},{"value":"port","variable":true}]}}"#
    );

    // Ours to it, with updates.
    let ours = Instance::builder("orders", meta("c", 3))
        .id("rust")
        .address("10.0.0.2")
        .ssl_port(8443)
        .uri_spec(UriSpec::parse("{scheme}://{address}:{ssl-port}").unwrap());
    let registration = registry(&session).register(ours.build().unwrap()).await;
    let registration = registration.unwrap();
    let java = "java=b:2:true:http://10.0.0.1:8080";
    lists(&mut peer, &[java, "rust=c:3:true:https://10.0.0.2:8443"]).await;
    registration.set_payload(meta("d", 4)).await.unwrap();
    registration
        .update(|one| one.set_enabled(false))
        .await
        .unwrap();
    // It also honours what it does not write.
    lists(&mut peer, &[java, "rust=d:4:false:https://10.0.0.2:8443"]).await;
    let mut changes = providers.changes();
    let disabled = async {
        let is_enabled = |providers: &Providers<Meta>| {
            let instances = providers.instances();
            instances
                .instances()
                .any(|one| one.id() == "rust" && one.is_enabled())
        };
        while is_enabled(&providers) {
            changes.next().await.expect("it goes on");
        }
    };
    let disabled = tokio::time::timeout(Duration::from_secs(30), disabled).await;
    disabled.expect("we see it disabled, too");
    assert!(providers.pick(&zk_discovery::Random).unwrap().id() == "java");

    // Both ways out.
    registration.unregister().await.unwrap();
    lists(&mut peer, &[java]).await;
    knows(&providers, &[("java", meta("b", 2))]).await;
    // Before the last one leaves: the servers delete a container that is empty.
    assert_eq!(registry(&session).services().await.unwrap(), ["orders"]);
    peer.does("unregister java", "unregistered").await.unwrap();
    knows(&providers, &[]).await;

    // A process that is killed.
    peer.does("register java e 5", "registered").await.unwrap();
    knows(&providers, &[("java", meta("e", 5))]).await;
    drop(peer);
    knows(&providers, &[]).await;
    ensemble.down().await.unwrap();
}
