//! Caches on a simulated ensemble, under paused time.

#![cfg(test)]

use std::time::Duration;

use zk_cache::Event;
use zk_cache::Events;
use zk_core::NodePath;
use zk_sim::Ensemble;
use zk_sim::wait::pass;

mod basic;
mod cancellation;
mod chaos;
mod loss;
#[path = "../support/replay.rs"]
mod replay;

use replay::Nodes;
use replay::Seen;
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

/// The next event that is such a one, which is soon; those before it are left aside.
async fn until(what: &str, events: &mut Events, is_it: impl Fn(&Event) -> bool) -> Event {
    soon(what, async {
        loop {
            let event = events.next().await;
            let event = event.unwrap_or_else(|| panic!("it ended before this: {what}"));
            if is_it(&event) {
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

/// Events in few words, until nothing comes for a while.
async fn told(events: &mut Events) -> Vec<String> {
    let mut told = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_secs(5), events.next()).await {
        told.push(in_words(&event));
    }
    told
}

fn in_words(event: &Event) -> String {
    let data = |node: &zk_cache::Node| {
        let text = node.data().map(String::from_utf8_lossy);
        text.map_or_else(|| "nothing".to_owned(), std::borrow::Cow::into_owned)
    };
    let text = |node: &zk_cache::Node| format!("{} {}", node.path(), data(node));
    match event {
        Event::Created(node) => format!("+ {}", text(node)),
        Event::Changed { old, new } => format!("~ {} -> {}", text(old), data(new)),
        Event::Deleted(node) => format!("- {}", text(node)),
        Event::Synchronized { .. } => "synchronized".to_owned(),
        Event::Stale => "stale".to_owned(),
        Event::Incomplete { path, gap } => format!("! {path}: {gap}"),
        Event::Ended(end) => format!("ended: {end}"),
        other => format!("{other:?}"),
    }
}
