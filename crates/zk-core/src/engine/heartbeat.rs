//! Sends the requests that keep the lease proof of a session valid.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::Engine;
use crate::deadline::Deadline;
use crate::lease_proof::LeaseProof;
use crate::path::NodePath;
use crate::transport::Op;
use crate::transport::Request;

/// How many handles rely on a session, and since when none does.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Uses {
    /// The number of [`SessionLease`](crate::SessionLease)s.
    pub(crate) holders: usize,
    /// The number of [`Standby`](crate::Standby)s.
    pub(crate) standbys: usize,
    /// When the last handle of either kind was dropped.
    pub(crate) last: Option<Instant>,
}

impl Uses {
    /// Returns whether the session has to be ready for a proof: while a handle relies on it, and for [`REST`] after.
    fn are_on(&self, now: Instant) -> bool {
        self.holders + self.standbys > 0 || self.last.is_some_and(|last| now < last + REST)
    }
}

/// Starts two tasks: one sends `sync`s to the leader while the session is in use, the other lets the quorum commit
/// while there is a [`SessionLease`](crate::SessionLease). A session that no handle relies on sends only pings.
///
/// The tasks follow the changes of the returned value.
pub(crate) fn start(engine: &Arc<Engine>) -> watch::Sender<Uses> {
    let uses = watch::Sender::default();
    tokio::spawn(keep(
        Arc::clone(engine),
        uses.subscribe(),
        |uses| uses.are_on(Instant::now()),
        LeaseProof::reach_due,
        sync,
    ));
    tokio::spawn(keep(
        Arc::clone(engine),
        uses.subscribe(),
        |uses| uses.holders > 0,
        LeaseProof::commit_due,
        check,
    ));
    uses
}

/// Sends a request whenever it is due, while it is wanted and the session is alive.
async fn keep(
    engine: Arc<Engine>,
    mut uses: watch::Receiver<Uses>,
    is_wanted: fn(&Uses) -> bool,
    due: fn(&LeaseProof, std::time::Instant) -> std::time::Instant,
    request: fn() -> Request,
) {
    let shortest = engine.transport().session_timeout() / 40;
    loop {
        if uses.has_changed().is_err() {
            // The last handle was dropped. Pending removals may keep the session open, but need no proof.
            return;
        }
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
        // Pauses before the next request, whatever the result.
        tokio::select! {
            biased;
            _ = engine.ended() => return,
            () = until(Instant::now() + shortest) => {}
        }
    }
}

/// Returns a request that only the leader can answer, at almost no cost.
fn sync() -> Request {
    Request::Sync {
        path: NodePath::root(),
    }
}

/// Returns a request that the quorum has to commit and that changes nothing.
///
/// The quorum agrees on and logs even a transaction that only checks, and one that is refused. It does not agree on a
/// `sync`, which a deposed leader that does not know it yet would answer.
fn check() -> Request {
    Request::Transaction(vec![Op::Check {
        path: NodePath::root(),
        version: None,
    }])
}

/// Sends a request whose only purpose is the reply.
async fn ask(engine: &Engine, request: Request) {
    let max_wait = Deadline::after(engine.transport().session_timeout());
    match max_wait.bound(engine.send(request)).await {
        Some(Ok(_)) => {}
        answer => tracing::debug!(?answer, "the session could not be proven alive"),
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

/// How long a session stays ready for a proof after its last handle was dropped.
const REST: Duration = Duration::from_secs(60);
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
