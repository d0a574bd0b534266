//! Knowing without asking that a session is alive.

use std::time::Duration;
use std::time::Instant;

use super::Session;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Operation;
use crate::transport::Phase;
use crate::transport::SessionEnd;

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
/// 4. A leader that goes on answering requests also runs its other threads: within a twentieth of the session timeout
///    it marks a session that it is about to expire.
/// 5. All servers grant the session the same timeout, and a follower's report to the leader omits no session that it has
///    just heard of; a server from 3.5 on can in a rare race, which costs a tenth of the timeout of the margin.
/// 6. No other client ends the session from outside, with its id and password. The ensemble then gives away what it held at once.
///
/// Nothing is assumed of how long servers or the network stand still: the session lets the leader answer a `sync` every
/// tenth of its timeout, and a standstill shows as a gap between the answers.
///
/// A proof that has run out is not revived by the next write: an ensemble that is about to expire a session may still
/// carry out a last one. It takes what a session takes that has been idle, see [`Standby`].
///
/// # Cost
///
/// While at least one of these exists, the session lets the leader answer a `sync` every tenth of its timeout, and makes
/// the quorum carry out an empty check every quarter of it, unless other requests do as well.
///
/// # Dropping
///
/// When the last one of a session is dropped, the checks stop, and a minute later so do the `sync`s.
#[derive(Debug)]
pub struct Trusted {
    session: Session,
}

/// Keeps a session ready to prove without delay that it is alive; made by [`Session::stand_by`].
///
/// A session that no handle relies on sends pings only, which its own server answers. They prove nothing of the leader, so
/// that the first [`Trusted`] after that, and with it the first lock, takes about two fifths of the session timeout:
/// time enough to know that the leader has heard of the session, and is not about to expire it.
/// With one of these, and for a minute after the last use of any, it takes a round trip.
/// So it does within the first two fifths of the session timeout after the session was opened.
///
/// Locks, elections and queues keep one of these while they wait, and it is of use to a service that locks now and then,
/// less often than once a minute, and must not wait when it does.
///
/// # Cost
///
/// While at least one of these exists, the session lets the leader answer a `sync` every tenth of its timeout; no write.
///
/// # Dropping
///
/// When the last one of a session is dropped, the `sync`s stop a minute later.
#[derive(Debug)]
pub struct Standby {
    session: Session,
}

impl Standby {
    pub(super) fn new(session: Session) -> Self {
        session
            .engine()
            .uses()
            .send_modify(|uses| uses.standbys += 1);
        Self { session }
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        self.session.engine().uses().send_modify(|uses| {
            uses.standbys -= 1;
            uses.last = Some(tokio::time::Instant::now());
        });
    }
}

impl Trusted {
    pub(super) fn new(session: Session) -> Self {
        session
            .engine()
            .uses()
            .send_modify(|uses| uses.holders += 1);
        Self { session }
    }

    /// Tells whether the ensemble certainly keeps the session now. Asks nobody.
    pub fn is_trusted(&self) -> bool {
        self.until().is_some_and(|until| now() < until)
    }

    /// Tells whether the proof holds now and goes on to hold as long as the ensemble answers. No request.
    ///
    /// It is false when the proof has run out, and when it will before the next one can be had: that of the opening of
    /// a session that was idle since, for one. What is begun then would have to be given up soon; see
    /// [`renewed`](Self::renewed).
    pub fn is_lasting(&self) -> bool {
        self.until().is_some() && self.session.engine().trust().is_lasting(now())
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

    /// Waits until the proof holds and is [lasting](Self::is_lasting): at once if it is.
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
    /// No request besides those that keep the proof fresh.
    /// After a minute without use, and after a stop or a break of more than half of the session timeout, it takes about
    /// two fifths of the session timeout, so that a shorter `timeout` is of no use; see [`Standby`].
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
        let mut proven = engine.proven();
        while !self.is_lasting() {
            tokio::select! {
                biased;
                () = engine.closing() => {
                    let ending = match engine.link_now().phase {
                        Phase::Over(ending) => ending,
                        _ => SessionEnd::Closed,
                    };
                    return Err(Error::new(Operation::Probe, None, ending.kind()));
                }
                // The engine has the sender.
                _ = proven.changed() => {}
            }
        }
        Ok(())
    }
}

impl Drop for Trusted {
    fn drop(&mut self) {
        self.session.engine().uses().send_modify(|uses| {
            uses.holders -= 1;
            uses.last = Some(tokio::time::Instant::now());
        });
    }
}

/// The monotonic clock, which tests may stop.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
