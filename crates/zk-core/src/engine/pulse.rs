//! Keeping the proof of a session fresh.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Engine;
use crate::deadline::Deadline;
use crate::path::NodePath;
use crate::transport::Change;
use crate::transport::Request;

/// Starts the two tasks: one lets the leader answer all the time, the other the quorum while somebody holds a proof.
///
/// The first takes the place of the ping that an idle connection would need anyway; no disk is touched for it.
pub(super) fn spawn(engine: &Arc<Engine>) {
    tokio::spawn(reach(Arc::clone(engine)));
    tokio::spawn(commit(Arc::clone(engine)));
}

async fn reach(engine: Arc<Engine>) {
    let interval = engine.trust().reach_interval();
    loop {
        let due = Instant::from_std(engine.trust().last_reach()) + interval;
        if due > Instant::now() {
            tokio::select! {
                biased;
                _ = engine.ended() => return,
                () = until(due) => continue,
            }
        }
        if engine.connected().await.is_err() {
            return;
        }
        ask(&engine, touch()).await;
        // Whatever came of it, the next one is some time away.
        tokio::select! {
            biased;
            _ = engine.ended() => return,
            () = until(Instant::now() + interval / 4) => {}
        }
    }
}

/// A request that only the leader can answer, and that costs it next to nothing.
pub(crate) fn touch() -> Request {
    Request::Sync {
        path: NodePath::root(),
    }
}

async fn commit(engine: Arc<Engine>) {
    let mut holders = engine.holders().subscribe();
    let interval = engine.trust().commit_interval();
    loop {
        tokio::select! {
            biased;
            _ = engine.ended() => return,
            held = holders.wait_for(|count| *count > 0) => if held.is_err() { return },
        }
        let due = {
            let trust = engine.trust();
            Instant::from_std(trust.last_commit()) + interval
        };
        if due > Instant::now() {
            tokio::select! {
                biased;
                _ = engine.ended() => return,
                () = until(due) => continue,
            }
        }
        if engine.connected().await.is_err() {
            return;
        }
        probe(&engine).await;
        tokio::select! {
            biased;
            _ = engine.ended() => return,
            () = until(Instant::now() + interval / 4) => {}
        }
    }
}

/// Lets the quorum carry out a request that changes nothing.
///
/// Even a transaction that only checks, and one that is refused, is agreed on by the quorum and written to its logs;
/// `sync` is not: a leader that was deposed and does not know it would answer it.
pub(crate) async fn probe(engine: &Engine) {
    let check = Change::Check {
        path: NodePath::root(),
        version: None,
    };
    ask(engine, Request::Transaction(vec![check])).await;
}

/// Makes a request for the sake of the answer alone.
pub(crate) async fn ask(engine: &Engine, request: Request) {
    let patience = Deadline::after(engine.transport().session_timeout());
    match patience.bound(engine.send(request)).await {
        Some(Ok(_)) => {}
        answer => tracing::debug!(?answer, "the session could not be probed"),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the interval at which the session is kept fresh; each wait ends with the session"
)]
async fn until(instant: Instant) {
    let pause = instant.saturating_duration_since(Instant::now());
    tokio::time::sleep(pause.max(SHORTEST_PAUSE)).await;
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
