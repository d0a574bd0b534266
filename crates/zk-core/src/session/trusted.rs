//! Knowing without asking that a session is alive.

use std::time::Duration;
use std::time::Instant;

use super::Session;
use crate::deadline::Deadline;
use crate::engine::pulse;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Operation;

/// The proof that a session is alive, kept fresh; made by [`Session::keep_trusted`].
///
/// A client that was stopped, or cut off, may believe in its session long after the ensemble gave its locks to others.
/// This says until when that cannot have happened, from what the client itself has seen:
/// some request was answered, and a little later the quorum carried out another one; then the leader had heard of the
/// session by the time of the second, and keeps it for one session timeout from the first, less 2 % for its clock.
///
/// What that rests on:
///
/// 1. The session timeout is at least two ticks of the servers, which they enforce by default, so that a follower tells
///    its leader of a session within a quarter of the timeout.
/// 2. The clocks of the leader and of this machine differ in rate by less than 2 %. Their times do not matter.
/// 3. The monotonic clock of this machine goes on while the process is stopped. It does; while a whole machine is
///    suspended it does not, on Linux, so do not suspend machines that hold locks.
///
/// Nothing is assumed of how long servers or the network stand still: a session lets the leader answer a `sync` every
/// tenth of its timeout, and a standstill shows as a gap between the answers.
///
/// # Cost
///
/// While at least one of these exists, the session makes the quorum carry out an empty check every eighth of its
/// timeout, unless other writes do as well.
///
/// # Dropping
///
/// When the last one of a session is dropped, the checks stop.
#[derive(Debug)]
pub struct Trusted {
    session: Session,
}

impl Trusted {
    pub(super) fn new(session: Session) -> Self {
        session.engine().holders().send_modify(|count| *count += 1);
        Self { session }
    }

    /// Tells whether the ensemble certainly keeps the session now. Asks nobody.
    pub fn is_trusted(&self) -> bool {
        self.until().is_some_and(|until| now() < until)
    }

    /// Returns the instant until which the ensemble certainly keeps the session, `None` when it is over or being closed.
    pub fn until(&self) -> Option<Instant> {
        self.session.trusted_until()
    }

    /// Waits until the proof has run out, or the session is over or being closed.
    ///
    /// The proof may be renewed later, if the session has survived.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// It resolves.
    pub async fn lapsed(&self) {
        let engine = self.session.engine();
        while let Some(until) = self.until().filter(|until| now() < *until) {
            // Either the session ends, or the instant comes and it is seen whether it has moved.
            if tokio::time::timeout_at(until.into(), engine.closing())
                .await
                .is_ok()
            {
                return;
            }
        }
    }

    /// Makes sure that the proof holds now: at once if it does, otherwise with the help of the ensemble.
    ///
    /// # Errors
    ///
    /// [`TimedOut`](ErrorKind::TimedOut) when it could not be renewed within `timeout`, or a fatal error when the
    /// session is over.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// Nothing, or one commit; after a stop or a break of more than half of the session timeout it may take half of
    /// the session timeout.
    pub async fn renewed(&self, timeout: Duration) -> Result<(), Error> {
        let deadline = Deadline::after(timeout);
        deadline.bound(self.renew()).await.unwrap_or_else(|| {
            Err(
                Error::new(Operation::Probe, None, ErrorKind::TimedOut).detail(format!(
                    "waited {timeout:?} for proof that session {} is alive",
                    self.session.id()
                )),
            )
        })
    }

    async fn renew(&self) -> Result<(), Error> {
        let engine = self.session.engine();
        let lag = engine.trust().lag();
        while !self.is_trusted() {
            if let Err(ending) = engine.connected().await {
                return Err(Error::new(Operation::Probe, None, ending.kind()));
            }
            pulse::probe(engine).await;
            if self.is_trusted() {
                break;
            }
            // Nothing old enough is known to have been answered: begin anew.
            pulse::ask(engine, pulse::touch()).await;
            Deadline::after(Duration::MAX).pause(lag / 8).await;
        }
        Ok(())
    }
}

impl Drop for Trusted {
    fn drop(&mut self) {
        self.session
            .engine()
            .holders()
            .send_modify(|count| *count -= 1);
    }
}

/// The monotonic clock, which tests may stop.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
