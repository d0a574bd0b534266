//! Sends the requests that keep the lease proof of a session valid.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use zk_wire::NodePath;

use super::Engine;
use super::catch_up::no_op_transaction;
use crate::deadline::Deadline;
use crate::lease_clock;
use crate::transport::Request;

/// How many handles rely on a session, and since when none does.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Uses {
    /// The number of [`SessionLease`](crate::SessionLease)s.
    holders: usize,
    /// The number of [`Standby`](crate::Standby)s.
    standbys: usize,
    /// When the last handle of either kind was dropped.
    last: Option<Instant>,
}

/// What a handle relies on a session for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// A [`SessionLease`](crate::SessionLease): to be proved alive.
    Holder,
    /// A [`Standby`](crate::Standby): to be ready for such a proof.
    Standby,
}

impl Uses {
    /// Adds a handle. The tasks are woken only if that makes something due sooner than they know: handles come and go with
    /// each acquire of a lock.
    pub(crate) fn begin(uses: &watch::Sender<Self>, of: Use, engine: &Engine) {
        let now = Instant::now();
        uses.send_if_modified(|uses| {
            let were_on = uses.are_on(now);
            *uses.count_of(of) += 1;
            let is_first_holder = of == Use::Holder && uses.holders == 1;
            !were_on || (is_first_holder && is_proof_due_sooner(engine))
        });
    }

    /// Removes a handle. The tasks notice it when they wake the next time.
    pub(crate) fn end(uses: &watch::Sender<Self>, of: Use) {
        uses.send_if_modified(|uses| {
            *uses.count_of(of) -= 1;
            uses.last = Some(Instant::now());
            false
        });
    }

    fn count_of(&mut self, of: Use) -> &mut usize {
        match of {
            Use::Holder => &mut self.holders,
            Use::Standby => &mut self.standbys,
        }
    }

    /// Returns whether the session has to be ready for a proof: while a handle relies on it, and for [`REST`] after.
    fn are_on(&self, now: Instant) -> bool {
        self.holders + self.standbys > 0 || self.last.is_some_and(|last| now < last + REST)
    }
}

/// Starts two tasks. One finds out the role of each server that the session is connected to, and one sends what proves the
/// session alive: `sync`s to the leader while the session is in use, and commits of the quorum while there is a
/// [`SessionLease`](crate::SessionLease). A session that no handle relies on sends only pings.
///
/// The tasks follow the changes of the returned value.
pub(crate) fn start(engine: &Arc<Engine>) -> watch::Sender<Uses> {
    let uses = watch::Sender::default();
    tokio::spawn(send_proofs(Arc::clone(engine), uses.subscribe()));
    tokio::spawn(find_roles(Arc::clone(engine), uses.subscribe()));
    uses
}

/// Lets the leader reply, and the quorum commit, whenever it is due.
async fn send_proofs(engine: Arc<Engine>, mut uses: watch::Receiver<Uses>) {
    while wanted(&engine, &mut uses).await {
        let holds = uses.borrow().holders > 0;
        let (now, sync_due, due) = {
            let proof = engine.lease_proof();
            let now = lease_clock::now();
            let sync_due = proof.reach_due(now);
            let commit_due = proof.commit_due(now);
            // The reply to a `sync` shows whether another session has written. If so, no commit is due after it.
            let follows_sync = proof.is_on_learner() && proof.is_lasting(now);
            let due = if holds && !follows_sync {
                sync_due.min(commit_due)
            } else {
                sync_due
            };
            (now, sync_due, due)
        };
        if due > now {
            tokio::select! {
                biased;
                _ = engine.ended() => return,
                changed = uses.changed() => if changed.is_err() { return },
                () = until(Instant::now() + (due - now)) => {}
            }
            continue;
        }
        let mut is_answered = true;
        if sync_due <= now {
            is_answered = ask(&engine, sync()).await;
        }
        let now = lease_clock::now();
        if holds && engine.lease_proof().commit_due(now) <= now {
            is_answered &= ask(&engine, no_op_transaction()).await;
        }
        if !is_answered {
            pause(&engine).await;
        }
    }
}

/// Returns whether the first holder needs a request before the one that is due without holders.
fn is_proof_due_sooner(engine: &Engine) -> bool {
    let proof = engine.lease_proof();
    let now = lease_clock::now();
    !proof.is_lasting(now) || proof.commit_due(now) < proof.reach_due(now)
}

/// Finds out the role of the server at the other end of each link.
async fn find_roles(engine: Arc<Engine>, mut uses: watch::Receiver<Uses>) {
    let mut link = engine.link();
    while wanted(&engine, &mut uses).await {
        let breaks = link.seen().breaks;
        let mut wait = engine.transport().session_timeout();
        // Sessions that have moved together do not ask together.
        let spread = wait.mul_f64(engine.chance() / 10.0);
        tokio::select! {
            biased;
            () = is_over(&engine, &mut uses) => return,
            () = until(Instant::now() + spread) => {}
        }
        while uses.borrow().are_on(Instant::now()) {
            let role = tokio::select! {
                biased;
                () = is_over(&engine, &mut uses) => return,
                role = engine.transport().server_role() => role,
            };
            if let Some((role, of)) = role {
                engine.connected_to(role, of);
                break;
            }
            let changed = link.wait_for(|link| link.breaks != breaks);
            tokio::select! {
                biased;
                () = is_over(&engine, &mut uses) => return,
                _ = changed => break,
                () = until(Instant::now() + wait) => wait *= 2,
            }
        }
        // A server keeps its role as long as the link.
        tokio::select! {
            biased;
            () = is_over(&engine, &mut uses) => return,
            changed = link.wait_for(|link| link.breaks != breaks) => if changed.is_err() { return },
        }
        if engine.connected().await.is_err() {
            return;
        }
    }
}

/// Waits until the session is in use and connected; returns false if it is over, or its last handle was dropped: pending
/// removals may keep it open, but need no proof.
async fn wanted(engine: &Engine, uses: &mut watch::Receiver<Uses>) -> bool {
    if uses.has_changed().is_err() {
        return false;
    }
    let is_wanted = tokio::select! {
        biased;
        _ = engine.ended() => false,
        wanted = uses.wait_for(|uses| uses.are_on(Instant::now())) => wanted.is_ok(),
    };
    is_wanted && engine.connected().await.is_ok()
}

/// Waits until the session is over, or its last handle was dropped.
async fn is_over(engine: &Engine, uses: &mut watch::Receiver<Uses>) {
    let dropped = async { while uses.changed().await.is_ok() {} };
    tokio::select! {
        biased;
        _ = engine.ended() => {}
        () = dropped => {}
    }
}

/// Waits before the next request after one that failed.
async fn pause(engine: &Engine) {
    let shortest = engine.transport().session_timeout() / 40;
    tokio::select! {
        biased;
        _ = engine.ended() => {}
        () = until(Instant::now() + shortest) => {}
    }
}

/// Returns a request that only the leader can answer, at almost no cost.
///
/// The quorum does not agree on it: a deposed leader that does not know it yet would answer.
fn sync() -> Request {
    Request::Sync {
        path: NodePath::root(),
    }
}

/// Sends a request whose only purpose is the reply, and returns whether there was one.
async fn ask(engine: &Engine, request: Request) -> bool {
    let max_wait = Deadline::after(engine.transport().session_timeout());
    match max_wait.bound(engine.send(request)).await {
        Some(Ok(_)) => true,
        answer => {
            tracing::debug!(?answer, "the session could not be proven alive");
            false
        }
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
