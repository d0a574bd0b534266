//! The names and data of all nodes, compared with `tests/golden/layout.txt`.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use zk_core::Session;
use zk_discovery::{
    Curator, Dubbo, DubboProvider, Format, Instance, Registry, Serverset, ServersetMember,
    ServiceType, UriSpec,
};
use zk_sim::Ensemble;

use crate::{BASE, SERVICE};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Payload {
    zone: String,
    weight: u32,
}

#[tokio::test(start_paused = true)]
async fn nodes_and_their_data_are_those_of_the_golden_file() {
    let mut actual = String::new();
    curator(&mut actual).await;
    dubbo(&mut actual).await;
    serverset(&mut actual).await;
    let expected = include_str!("../golden/layout.txt");
    assert!(
        actual == expected,
        "the nodes differ from tests/golden/layout.txt\n-- expected\n{expected}-- actual\n{actual}"
    );
}

/// The layout of Curator: each kind of payload, and each field.
async fn curator(text: &mut String) {
    let plain = || Curator::new();
    let with_class = || Curator::new().with_payload_class("com.example.Payload");
    let payload = || Payload {
        zone: "b".to_owned(),
        weight: 7,
    };
    let title = "Curator: no payload";
    let built = Instance::builder(SERVICE, ()).id("a").build();
    section(title, BASE, plain(), built.unwrap(), text).await;
    let title = "Curator: a text";
    let built = Instance::builder(SERVICE, "a \"b\"\nä".to_owned()).id("a");
    section(title, BASE, plain(), built.build().unwrap(), text).await;
    let title = "Curator: an object";
    let built = Instance::builder(SERVICE, payload()).id("a").build();
    section(title, BASE, plain(), built.unwrap(), text).await;
    let title = "Curator: a static instance";
    let built = Instance::builder(SERVICE, ()).id("a");
    let built = built.service_type(ServiceType::Static).build();
    section(title, BASE, plain(), built.unwrap(), text).await;
    let title = "Curator: an object with its class, and all fields";
    let uri = "{scheme}://{address}:{port}/v1";
    let built = Instance::builder(SERVICE, payload())
        .id("a")
        .address("10.0.0.7")
        .port(8080)
        .ssl_port(8443)
        .uri_spec(UriSpec::parse(uri).unwrap())
        .enabled(false);
    section(title, BASE, with_class(), built.build().unwrap(), text).await;
}

/// The layout of Dubbo, whose nodes have no data.
async fn dubbo(text: &mut String) {
    let service = "com.example.Orders";
    let provider = DubboProvider::new("dubbo");
    let built = Instance::builder(service, provider).address("10.0.0.7");
    let built = built.port(20880).build().unwrap();
    section("Dubbo", "/dubbo", Dubbo, built, text).await;
    let provider = DubboProvider::new("tri")
        .with_path("orders/v1")
        .with("interface", service)
        .with("side", "provider")
        .with("methods", "list,get ä");
    let built = Instance::builder(service, provider).address("fd00::7");
    let built = built.port(20880).enabled(false).build().unwrap();
    let title = "Dubbo: parameters, a path and an IPv6 address";
    section(title, "/dubbo", Dubbo, built, text).await;
}

/// The layout of serversets, whose nodes have no registration time.
async fn serverset(text: &mut String) {
    let base = "/twitter/service/shop/prod";
    let builder = |member| {
        let built = Instance::builder(SERVICE, member).id("orders-1");
        built.address("10.0.0.7").port(8080)
    };
    let plain = ServersetMember::new();
    section(
        "Serverset",
        base,
        Serverset,
        builder(plain).build().unwrap(),
        text,
    )
    .await;
    let member = ServersetMember::new()
        .with_endpoint("http", "10.0.0.7", 8081)
        .with_shard(3);
    let built = builder(member).enabled(false).build().unwrap();
    let title = "Serverset: an endpoint, a shard, and disabled";
    section(title, base, Serverset, built, text).await;
}

/// Registers an instance and writes all nodes, one per line. Registration times are replaced.
async fn section<L, P>(title: &str, base: &str, layout: L, instance: Instance<P>, text: &mut String)
where
    L: Format<P>,
    P: Clone + Send + Sync + 'static,
{
    let ensemble = Ensemble::new(1);
    let session: Session = ensemble.connect().await;
    let registry = Registry::new(&session, base).unwrap().with_layout(layout);
    let registration = registry.register(instance).await.unwrap();
    let registered = registration.instance().await.registration_time();
    let since = registered.unwrap().duration_since(std::time::UNIX_EPOCH);
    let time = since.unwrap().as_millis().to_string();
    writeln!(text, "== {title}").unwrap();
    text.push_str(&ensemble.tree().describe().replace(&time, "<time>"));
}
