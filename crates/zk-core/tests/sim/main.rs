//! Sessions on a simulated ensemble, under paused time: each failure happens exactly where the test wants it.

#![cfg(test)]

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use zk_core::NodePath;
use zk_core::Session;
use zk_core::Subscription;
use zk_core::Update;
use zk_core::WatchEvent;

mod listeners;
mod subscriptions;
mod trackers;
mod transactions;
mod waits;

/// Waits at most a minute of the paused clock.
async fn soon<T>(what: &str, happening: impl Future<Output = T>) -> T {
    let happened = tokio::time::timeout(Duration::from_secs(60), happening).await;
    happened.unwrap_or_else(|_| panic!("waited a minute for this: {what}"))
}

/// Lets time pass, and everything happen that happens by then.
async fn pass(time: Duration) {
    drop(tokio::time::timeout(time, std::future::pending::<()>()).await);
}

/// A change at a path.
fn at(path: &str, event: WatchEvent) -> Update {
    Update::Changed {
        path: NodePath::parse(path).expect("a good path"),
        event,
    }
}

/// What has been told by now: what a server has to tell comes before the answer to what it is asked later.
async fn told(subscription: &mut Subscription, session: &Session) -> Vec<Update> {
    session.sync("/").await.expect("the server answers");
    pass(Duration::from_millis(1)).await;
    let mut told = Vec::new();
    while let Some(update) = subscription.next().now_or_never() {
        match update {
            Some(update) => told.push(update),
            None => break,
        }
    }
    told
}

/// Polls a future as often as it wants, `times` at most, and drops it.
async fn polled<T>(times: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future: Pin<Box<_>> = Box::pin(future);
    let mut left = times;
    std::future::poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
