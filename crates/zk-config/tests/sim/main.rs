//! Configuration on a simulated ensemble, under paused time: each failure happens exactly where the test wants it.

#![cfg(test)]

use zk_config::PublishOptions;
use zk_config::Publisher;
use zk_core::Session;
use zk_core::Stat;
use zk_core::codec::Text;
use zk_sim::Ensemble;
use zk_sim::wait::pass;
use zk_sim::wait::polled;
use zk_sim::wait::soon;

mod listener;
mod publisher;
#[path = "../shared/scenario.rs"]
mod scenario;
mod typed;

/// The key of the tests.
const PATH: &str = "/app/motto";

fn publisher(session: &Session) -> Publisher<Text> {
    Publisher::new(session, Text)
}

fn keeping(session: &Session, revisions: usize) -> Publisher<Text> {
    Publisher::with_options(
        session,
        Text,
        PublishOptions::default().with_history(revisions),
    )
}

fn text(value: &str) -> String {
    value.to_owned()
}

/// The data of a node, as the leader has it.
fn data_of(ensemble: &Ensemble, path: &str) -> Option<String> {
    let tree = ensemble.tree();
    let node = tree.node(path)?;
    Some(String::from_utf8(node.data().to_vec()).unwrap())
}

fn stat_of(ensemble: &Ensemble, path: &str) -> Stat {
    ensemble
        .tree()
        .node(path)
        .expect("the node is there")
        .stat()
}
