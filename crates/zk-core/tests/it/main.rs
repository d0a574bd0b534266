//! Sessions and operations against real servers.

#![cfg(test)]

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use zk_core::{ConnectionState, Session, SessionId, StateChanges};
use zk_harness::{Ensemble, Server};
use zk_sim::wait::until;
use zk_testkit::servers::with_started;
use zk_testkit::within;

mod auto_traits;
mod bad_input;
mod blocking;
mod client_limits;
mod create_fallback;
mod credentials;
mod ensemble_tracker;
mod lost_replies;
mod metrics;
mod namespaces;
mod observing;
mod operations;
mod owned;
mod persistent;
mod persistent_nodes;
mod read_many;
mod read_only;
mod secure;
mod server_info;
mod session_lease;
mod sessions;
mod states;
mod subscriptions;
mod supervisor;
mod trackers;
mod transactions;
mod updates;
mod values;
mod watches;
mod wire;

/// Starts one server, runs the test against it and takes it down.
async fn with_ensemble(test: impl AsyncFnOnce(&Ensemble)) {
    with_started(Ensemble::builder().servers(1), test).await;
}

/// Starts three servers with short ticks, runs the test against them and takes them down.
async fn with_three(test: impl AsyncFnOnce(&Ensemble)) {
    let ensemble = Ensemble::builder().servers(3);
    with_started(ensemble.tick_time(Duration::from_millis(500)), test).await;
}

/// Starts servers of a release, runs the test against them and takes them down.
async fn with_release(servers: usize, release: &str, test: impl AsyncFnOnce(&Ensemble)) {
    let ensemble = Ensemble::builder().servers(servers);
    with_started(ensemble.zookeeper(release), test).await;
}

/// Runs the test for both releases at the same time.
async fn for_each_release(test: impl AsyncFn(&'static str)) {
    // Together they are too large for a stack.
    tokio::join!(Box::pin(test("3.8")), Box::pin(test("3.9")));
}

/// Connects with the defaults of the tests.
async fn connect(ensemble: &Ensemble) -> Session {
    Session::builder(ensemble.connect_string())
        .connect_timeout(MAX_WAIT)
        .connect()
        .await
        .expect("the server grants a session")
}

/// Connects with a session timeout.
async fn connect_for(ensemble: &Ensemble, timeout: Duration) -> Session {
    let session = Session::builder(ensemble.connect_string())
        .session_timeout(timeout)
        .connect_timeout(MAX_WAIT)
        .connect()
        .await
        .expect("a server grants a session");
    assert_eq!(session.session_timeout(), timeout);
    session
}

/// The server that a session is connected to.
async fn server_of<'a>(ensemble: &'a Ensemble, session: &Session) -> &'a Server {
    server_with(ensemble, session.id()).await
}

/// The server that has the connection of a session.
async fn server_with(ensemble: &Ensemble, session: SessionId) -> &Server {
    let id = u64::from_ne_bytes(session.as_i64().to_ne_bytes());
    for server in ensemble.servers() {
        let Ok(cons) = server.cons().await else {
            continue;
        };
        if cons.sessions.contains(&id) {
            return server;
        }
    }
    panic!("no server knows the connection of session {session}");
}

/// How many watches all servers have, on data and on children.
async fn watches_of(ensemble: &Ensemble) -> u64 {
    let mut all = 0;
    for server in ensemble.servers() {
        let mntr = server.mntr().await.expect("the server answers");
        all += mntr.watches().expect("it counts watches");
    }
    all
}

/// For what waits until a server is back: a client pauses for longer and longer between two tries to connect.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Waits until a session has been in these states, one after the other.
async fn passes_through(changes: &mut StateChanges, states: &[ConnectionState]) {
    for expected in states {
        let what = format!("the session is {expected:?}");
        let seen = within(MAX_WAIT, &what, changes.next()).await;
        assert_eq!(seen, Some(*expected));
    }
}

/// Polls a future once; whether it is ready.
async fn is_ready<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context).is_ready()))
        .await
}

/// Polls a future so many times, and waits until it can go on each time but the last; whether it is ready.
async fn polled<F: Future + Unpin>(future: &mut F, times: usize) -> bool {
    for left in (0..times).rev() {
        if is_ready(future).await {
            return true;
        }
        if left == 0 {
            break;
        }
        // The poll above has left the waker of this task with the future.
        let mut is_woken = false;
        let wake = std::future::poll_fn(|_| {
            if std::mem::replace(&mut is_woken, true) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        within(MAX_WAIT, "the future wakes its task", wake).await;
    }
    false
}
