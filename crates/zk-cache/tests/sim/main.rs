//! Caches on a simulated ensemble, under paused time.

#![cfg(test)]

use std::time::Duration;

use zk_cache::{Event, Events};
use zk_core::NodePath;
use zk_sim::Ensemble;
use zk_sim::wait::pass;

mod basic;
mod batches;
mod cancellation;
mod chaos;
mod decoded;
mod limits;
mod loss;
mod metrics;
mod names;
#[path = "../support/replay.rs"]
mod replay;
mod sessions;
mod slow_link;
#[path = "../support/words.rs"]
mod words;

use replay::{Nodes, Seen};
use words::in_words;
use zk_sim::wait::soon;

/// The root of the caches of the tests.
const ROOT: &str = "/t";

fn path(text: &str) -> NodePath {
    text.parse().expect("a good path")
}

/// The nodes at and below the root, as the leader has them.
fn nodes_on(ensemble: &Ensemble, root: &str) -> Nodes {
    let below = format!("{root}/");
    let tree = ensemble.tree();
    let nodes = tree.nodes();
    nodes
        .filter(|(path, _)| path.as_str() == root || path.as_str().starts_with(&below))
        .map(|(path, node)| {
            let stat = node.stat();
            let seen = Seen {
                czxid: stat.czxid,
                mzxid: stat.mzxid,
                version: stat.version,
                data: Some(node.data().to_vec()),
            };
            (path.to_string(), seen)
        })
        .collect()
}

/// Waits for the next matching event, and skips the events before it.
async fn until(what: &str, events: &mut Events, matches: impl Fn(&Event) -> bool) -> Event {
    soon(what, async {
        loop {
            let event = events.next().await;
            let event = event.unwrap_or_else(|| panic!("the events ended before: {what}"));
            if matches(&event) {
                return event;
            }
        }
    })
    .await
}

async fn until_synchronized(events: &mut Events) {
    until("it is synchronized", events, |event| {
        matches!(event, Event::Synchronized { .. })
    })
    .await;
}

/// Reads all events until none arrives for five seconds, as short texts.
async fn drain(events: &mut Events) -> Vec<String> {
    let mut drained = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_secs(5), events.next()).await {
        drained.push(in_words(&event));
    }
    drained
}
