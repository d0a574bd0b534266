//! Keeping the proof of a session fresh.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Engine;
use crate::deadline::Deadline;
use crate::lease_proof::LeaseProof;
use crate::path::NodePath;
use crate::transport::Op;
use crate::transport::Request;

/// Who relies on a session, and since when no handle does.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Uses {
    /// How many holders of a proof there are.
    pub(crate) holders: usize,
    /// How many there are who may want one soon.
    pub(crate) standbys: usize,
    /// When the last of them was dropped.
    pub(crate) last: Option<Instant>,
}

impl Uses {
    /// Whether a proof must be at hand: while anyone relies on the session, and for [`REST`] after.
    fn are_on(&self, now: Instant) -> bool {
        self.holders + self.standbys > 0 || self.last.is_some_and(|last| now < last + REST)
    }
}

/// Starts the two tasks: one lets the leader answer while the session is in use, the other the quorum while a handle
/// holds a proof. A session that no handle relies on sends pings only.
pub(super) fn spawn(engine: &Arc<Engine>) {
    tokio::spawn(keep(
        Arc::clone(engine),
        |uses| uses.are_on(Instant::now()),
        LeaseProof::reach_due,
        sync,
    ));
    tokio::spawn(keep(
        Arc::clone(engine),
        |uses| uses.holders > 0,
        LeaseProof::commit_due,
        check,
    ));
}

/// Makes a request whenever it is due, while it is wanted and the session lives.
async fn keep(
    engine: Arc<Engine>,
    is_wanted: fn(&Uses) -> bool,
    due: fn(&LeaseProof, std::time::Instant) -> std::time::Instant,
    request: fn() -> Request,
) {
    let mut uses = engine.uses().subscribe();
    let shortest = engine.transport().session_timeout() / 40;
    loop {
        tokio::select! {
            biased;
            _ = engine.ended() => return,
            wanted = uses.wait_for(is_wanted) => if wanted.is_err() { return },
        }
        let now = Instant::now();
        let due = Instant::from_std(due(&engine.lease_proof(), now.into_std()));
        if due > now {
            tokio::select! {
                biased;
                _ = engine.ended() => return,
                () = until(due) => continue,
            }
        }
        if engine.connected().await.is_err() {
            return;
        }
        ask(&engine, request()).await;
        // Whatever came of it, the next one is some time away.
        tokio::select! {
            biased;
            _ = engine.ended() => return,
            () = until(Instant::now() + shortest) => {}
        }
    }
}

/// A request that only the leader can answer, and that costs it next to nothing.
fn sync() -> Request {
    Request::Sync {
        path: NodePath::root(),
    }
}

/// A request that the quorum must carry out, and that changes nothing.
///
/// Even a transaction that only checks, and one that is refused, is agreed on by the quorum and written to its logs;
/// `sync` is not: a leader that was deposed and does not know it would answer it.
fn check() -> Request {
    Request::Transaction(vec![Op::Check {
        path: NodePath::root(),
        version: None,
    }])
}

/// Makes a request for the sake of the answer alone.
async fn ask(engine: &Engine, request: Request) {
    let max_wait = Deadline::after(engine.transport().session_timeout());
    match max_wait.bound(engine.send(request)).await {
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

/// How long a session that was relied on is kept ready for the next time.
const REST: Duration = Duration::from_secs(60);
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
