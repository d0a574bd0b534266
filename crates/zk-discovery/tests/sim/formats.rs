//! Formats of one's own.

use std::time::Duration;

use serde::de::IgnoredAny;
use zk_core::codec::EncodeError;
use zk_core::{NodePath, ParsePathError};
use zk_discovery::{BadEntry, Entry, Format, Instance, Layout, ReadFormat, RegisterError};
use zk_sim::wait::{pass, polled, soon};
use zk_sim::{DropFault, Ensemble};

use crate::{BASE, Registry, SERVICE, instance, registered, registry};

/// The payload and nothing else: all registrations are written alike.
#[derive(Debug)]
struct Bare;

impl Layout for Bare {
    fn parent(&self, base: &NodePath, service: &str) -> Result<NodePath, ParsePathError> {
        base.join(service)
    }

    fn service(&self, child: &str) -> Option<String> {
        Some(child.to_owned())
    }
}

impl Format<String> for Bare {
    fn encode(&self, instance: &Instance<String>) -> Result<Entry, EncodeError> {
        Ok(Entry {
            name: instance.id().to_owned(),
            data: instance.payload().clone().into_bytes(),
        })
    }
}

impl ReadFormat<String> for Bare {
    fn decode(&self, service: &str, node: &str, data: &[u8]) -> Result<Instance<String>, BadEntry> {
        let payload = String::from_utf8_lossy(data).into_owned();
        Ok(Instance::builder(service, payload)
            .id(node)
            .build()
            .expect("a node has a good name"))
    }
}

/// The same data as the dropped call's node is not removed with that.
#[tokio::test(start_paused = true)]
async fn a_format_that_writes_all_registrations_alike_is_safe_from_its_own_cleanup() {
    for drop_fault in DropFault::ALL {
        for times in 0.. {
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().server(1).await;
            let registry = Registry::new(&session, BASE).unwrap().with_layout(Bare);
            let done = polled(times, registry.register(instance("a", "1"))).await;
            drop_fault.inject(&ensemble, session.id());
            let is_done = done.is_some();
            drop(done);
            let again = soon("it is registered", registry.register(instance("a", "1")));
            let again = again.await.unwrap();
            pass(Duration::from_secs(10)).await;
            assert!(again.is_registered(), "{drop_fault:?} {times}");
            assert_eq!(registered(&ensemble).len(), 1, "{drop_fault:?} {times}");
            drop(again);
            ensemble.assert_nothing_left([session]).await;
            if is_done {
                break;
            }
        }
    }
}

/// A consumer that wants no payload follows the services of Java as well, whose instances have some.
#[tokio::test(start_paused = true)]
async fn payloads_that_are_not_wanted_exclude_no_instance() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    for (id, payload) in [
        ("a", r#"{"@class":"com.example.Meta","zone":"b"}"#),
        ("b", r#""text""#),
        ("c", r#"["java.lang.Integer",7]"#),
        ("d", "null"),
    ] {
        let data = format!(r#"{{"name":"orders","id":"{id}","payload":{payload}}}"#);
        let node = session.create(crate::path(id), data).parents();
        node.await.unwrap();
    }
    let registry = registry(&session);
    let nothing = registry.providers::<()>(SERVICE).unwrap();
    let ignored = registry.providers::<IgnoredAny>(SERVICE).unwrap();
    let nothing = soon("it is read", nothing.synchronized()).await.unwrap();
    assert_eq!((nothing.len(), nothing.quarantined().len()), (4, 0));
    let ignored = soon("it is read", ignored.synchronized()).await.unwrap();
    assert_eq!((ignored.len(), ignored.quarantined().len()), (4, 0));
    // Who wants one has the right one or none.
    let texts = registry.providers::<String>(SERVICE).unwrap();
    let texts = soon("it is read", texts.synchronized()).await.unwrap();
    assert_eq!((texts.len(), texts.quarantined().len()), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_too_long_for_a_node_is_refused_and_says_why() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let registry = Registry::new(&session, "/dubbo")
        .unwrap()
        .with_layout(zk_discovery::Dubbo);
    let provider = zk_discovery::DubboProvider::new("dubbo").with("methods", "x".repeat(33_000));
    let built = Instance::builder(SERVICE, provider).address("h").port(1);
    let error = registry.register(built.build().unwrap()).await.unwrap_err();
    let RegisterError::Encode(error) = &error else {
        panic!("{error}");
    };
    assert_eq!(
        error.to_string(),
        "the value cannot be written as the name of a node: it is longer than 32,768 bytes, \
         and a session has no room for watches of longer paths"
    );
}

#[tokio::test(start_paused = true)]
async fn long_urls_of_dubbo_are_registered_watched_and_read() {
    let ensemble = Ensemble::new(1);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let dubbo = |session| {
        let registry = Registry::new(session, "/dubbo").unwrap();
        registry.with_layout(zk_discovery::Dubbo)
    };
    let registry = dubbo(&session);
    let mut held = Vec::new();
    // More than the watches of a session have room for by themselves.
    for length in [5_000, 30_000, 30_001, 30_002, 30_003, 30_004] {
        let methods = "x".repeat(length);
        let provider = zk_discovery::DubboProvider::new("dubbo").with("methods", methods);
        let built = Instance::builder(SERVICE, provider).address("h").port(1);
        let registered = registry.register(built.build().unwrap()).await;
        held.push(registered.unwrap_or_else(|error| panic!("{length}: {error}")));
    }
    let providers = dubbo(&other).providers(SERVICE).unwrap();
    let read = soon("they are read", providers.synchronized()).await;
    assert_eq!(read.unwrap().len(), held.len());
    let path = held[1].path().clone();
    other.delete(&path).await.unwrap();
    soon("its end is seen", held[1].lost()).await;
    assert!(held[2].is_registered());
}
