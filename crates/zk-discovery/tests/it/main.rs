//! Registering and following on real servers.

#![cfg(test)]

use zk_core::Session;
use zk_discovery::{Instance, Registry};
use zk_sim::wait::soon;
use zk_testkit::servers::{connect, example};

mod auto_traits;
mod servers;

fn registry(session: &Session) -> Registry {
    Registry::new(session, "/services").expect("a good path")
}

fn instance(id: &str) -> Instance<String> {
    Instance::builder("orders", "payload".to_owned())
        .id(id)
        .address("10.0.0.7")
        .build()
        .expect("a good instance")
}
