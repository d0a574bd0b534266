//! Sessions on a simulated ensemble, under paused time: each failure happens exactly where the test wants it.

#![cfg(test)]

use std::time::Duration;

use futures_util::FutureExt;
use zk_core::transport::{Request, TransportError};
use zk_core::{ErrorClass, NodePath, Session, Subscription, Update, WatchEvent};
use zk_sim::wait::{pass, polled, soon};
use zk_sim::{Chaos, Ensemble, Scripted, matching};

mod calls;
mod cleanup;
mod creates;
mod credentials;
mod deletes;
mod idempotency_tokens;
mod layout;
mod listeners;
mod lost_replies;
#[cfg(feature = "metrics")]
mod metrics;
mod persistent_nodes;
mod read_many;
mod refusals;
mod replacements;
mod server_info;
mod session_lease;
mod sessions;
mod subscriptions;
mod trackers;
mod transactions;
mod updates;
mod waits;

/// A change at a path.
fn at(path: &str, event: WatchEvent) -> Update {
    Update::Changed {
        path: NodePath::parse(path).expect("a good path"),
        event,
        zxid: None,
    }
}

/// The update without its transaction.
fn without_zxid(update: Update) -> Update {
    match update {
        Update::Changed { path, event, .. } => Update::Changed {
            path,
            event,
            zxid: None,
        },
        other => other,
    }
}

/// Returns the updates so far: a server sends its notifications before the reply to a later request.
async fn received(subscription: &mut Subscription, session: &Session) -> Vec<Update> {
    session.sync("/").await.expect("the server answers");
    pass(Duration::from_millis(1)).await;
    let mut received = Vec::new();
    while let Some(update) = subscription.next().now_or_never() {
        match update {
            Some(update) => received.push(without_zxid(update)),
            None => break,
        }
    }
    received
}

/// Returns the requests of a session so far, in the order of sending, as `create /a`.
fn requests(sim: &Ensemble, session: &Session) -> Vec<String> {
    let requests = sim.requests();
    let requests = requests
        .iter()
        .filter(|logged| logged.session == session.id());
    let describe = |request: &Request| {
        let kind = match request {
            Request::Create(_) | Request::Create2(_) => "create",
            Request::Delete { .. } => "delete",
            Request::GetData { .. } => "get",
            Request::SetData { .. } => "set",
            Request::Exists { .. } => "exists",
            Request::GetChildren2 { .. } => "list",
            Request::Sync { .. } => "sync",
            Request::GetAcl { .. } => "acl",
            Request::SetAcl { .. } => "set_acl",
            Request::Multi(_) => "transaction",
            Request::AddWatch { .. } => "watch",
            Request::MultiRead(_) => "multi_read",
            Request::WhoAmI => "whoami",
            Request::GetEphemerals { .. } => "ephemerals",
            Request::GetAllChildrenNumber { .. } => "count",
            Request::GetConfig { .. } => "config",
            other => panic!("{other:?} is none of this crate"),
        };
        let paths = matching::paths(request).into_iter().map(NodePath::as_str);
        std::iter::once(kind)
            .chain(paths)
            .collect::<Vec<_>>()
            .join(" ")
    };
    requests.map(|logged| describe(&logged.request)).collect()
}

/// Makes a call, and lets others act as soon as the failure has occurred to it.
async fn meanwhile<T>(
    failure: Scripted,
    call: impl IntoFuture<Output = T>,
    others: impl AsyncFnOnce(),
) -> T {
    let acting = async {
        failure.happened().await;
        others().await;
    };
    tokio::join!(call.into_future(), acting).0
}

/// Commits a transaction a hundred times under random failures. Each of them creates a child of `/a`.
///
/// # Panics
///
/// If there are more or fewer children than the commits have reported, or if one failed without saying what became of
/// it. Nothing is compared if the session is lost.
async fn assert_committed_as_reported<T>(
    sim: &Ensemble,
    session: &Session,
    mut commit: impl AsyncFnMut(u32) -> Result<T, zk_core::Error>,
) -> Result<(), zk_core::Error> {
    let chaos = tokio::spawn(Chaos::default().run(sim));
    let (mut committed, mut unknown) = (0, 0);
    for round in 0..100 {
        match commit(round).await {
            Ok(_) => committed += 1,
            Err(error) if error.is_fatal() => return Ok(()),
            Err(error) if error.is_outcome_unknown() => unknown += 1,
            // It says that it was not committed.
            Err(error) if error.class() == ErrorClass::Recoverable => {}
            Err(error) => return Err(error),
        }
        pass(Duration::from_millis(50)).await;
    }
    chaos.await.expect("nothing panics there");
    session.sync("/").await?;
    let children = session.list("/a").await?.0.len();
    assert!(
        (committed..=committed + unknown).contains(&children),
        "{children} children after {committed} commits, and {unknown} of unknown outcome"
    );
    Ok(())
}

/// A fault of a server that does not say what became of the request.
fn server_error() -> TransportError {
    TransportError::Server("unexpected error code: -1".to_owned())
}
