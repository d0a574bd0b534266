//! Sessions on a simulated ensemble, under paused time: each failure happens exactly where the test wants it.

#![cfg(test)]

use std::time::Duration;

use futures_util::FutureExt;
use zk_core::NodePath;
use zk_core::Session;
use zk_core::Subscription;
use zk_core::Update;
use zk_core::WatchEvent;
use zk_sim::wait::pass;
use zk_sim::wait::polled;
use zk_sim::wait::soon;

mod layout;
mod listeners;
mod lost_replies;
mod session_lease;
mod subscriptions;
mod trackers;
mod transactions;
mod waits;

/// A change at a path.
fn at(path: &str, event: WatchEvent) -> Update {
    Update::Changed {
        path: NodePath::parse(path).expect("a good path"),
        event,
    }
}

/// Returns the updates so far: a server sends its notifications before the reply to a later request.
async fn received(subscription: &mut Subscription, session: &Session) -> Vec<Update> {
    session.sync("/").await.expect("the server answers");
    pass(Duration::from_millis(1)).await;
    let mut received = Vec::new();
    while let Some(update) = subscription.next().now_or_never() {
        match update {
            Some(update) => received.push(update),
            None => break,
        }
    }
    received
}
