//! Configuration on a simulated ensemble, under paused time, with faults at chosen requests.

#![cfg(test)]

use zk_config::{PublishOptions, Publisher};
use zk_core::codec::Text;
use zk_core::{Session, Stat};
use zk_sim::Ensemble;
use zk_sim::wait::{pass, polled, soon};
use zk_testkit::sim::data_of;

mod history;
mod layout;
mod listener;
mod publisher;
#[path = "../shared/scenario.rs"]
mod scenario;
mod typed;
mod value_file;

/// The key of the tests.
const PATH: &str = "/app/motto";

fn publisher(session: &Session) -> Publisher<Text> {
    Publisher::new(session, Text)
}

fn with_history(session: &Session, revisions: usize) -> Publisher<Text> {
    Publisher::with_options(
        session,
        Text,
        PublishOptions::default().with_history(revisions),
    )
}

fn text(value: &str) -> String {
    value.to_owned()
}

fn stat_of(ensemble: &Ensemble, path: &str) -> Stat {
    ensemble.tree().node(path).expect("the node exists").stat()
}
