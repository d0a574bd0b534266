//! Proof that the ensemble still keeps a session, which is read without a round trip.

use std::time::{Duration, Instant};

use crate::deadline::Deadline;
use crate::engine::heartbeat::{Use, Uses};
use crate::error::{Error, ErrorKind, Operation};
use crate::lease_clock;
use crate::session_handle::SessionHandle;
use crate::transport::{Phase, SessionEnd};

/// Keeps proving that a session is alive; created by
/// [`Session::keep_lease`](crate::Session::keep_lease).
///
/// A client that was stopped or cut off may believe in its session long after the ensemble gave its locks to others.
/// This type proves until when that cannot have happened, from what the client itself has observed. When one request
/// was answered and a quorum committed a later transaction, of this session or of another one, the leader had heard of
/// the session by then. It keeps the session for one session timeout from the first request, less 2 % for clock drift.
/// The timeout is the smallest one that any server has granted to the session.
///
/// The proof rests on these assumptions:
///
/// 1. The session timeout is at least two ticks, which servers enforce by default. A follower then reports a session to
///    its leader within a quarter of the timeout.
/// 2. The clocks of the leader and of this machine differ in rate by less than 2 %. Their absolute times do not matter.
/// 3. The clock of this machine advances while the process does not run. It does while the process is stopped, and on
///    Linux while the machine is suspended. It does not while a virtual machine is paused by its host, as for a snapshot
///    or at the end of a live migration, and a machine or a process that is restored from a snapshot or a checkpoint goes
///    on with the clock of that time: after more than the rest of the session timeout, such a client takes its lease for
///    valid until its next round trip. On other systems than Linux, the same may hold while the machine is suspended.
///    Where this happens, let the protected resource check fencing tokens.
/// 4. A leader that answers requests also runs its other threads: it marks a session that it is about to expire within
///    a twentieth of the session timeout.
/// 5. All servers have the same limits of the session timeout, or the reply to each reconnect arrives in time. Two
///    successive reports of a follower to its leader do not both omit a session that it has just heard of; servers from
///    3.5 on can omit one in a rare race.
/// 6. No other client closes the session with its id and password. The ensemble would then give away at once what the
///    session held.
/// 7. A load balancer does not have the address of one of the servers, unless their configuration names the ports for
///    clients, as dynamic configurations do. Other load balancers are recognized, see below.
/// 8. No observer is behind an `ObserverMaster` with a session timeout below four ticks, the ensemble has no Oracle
///    quorum, and its data are not restored through the admin server.
/// 9. The session is not a local one (`localSessionsEnabled`), which only its server knows until it creates its first
///    ephemeral node. A lock has such a node.
///
/// Nothing is assumed about how long servers or the network may pause: the leader answers a `sync` of the session in
/// every tenth of its timeout, and a pause shows as a gap between the replies.
///
/// The next write does not revive a proof that has run out, because an ensemble that is about to expire a session may
/// still commit a last write of it. A new proof takes as long as for an idle session, see [`Standby`].
///
/// # Cost
///
/// While at least one of these exists, the session sends a `sync`, which the leader answers, in every tenth of its
/// timeout, unless other requests serve the same purpose. How often it also sends an empty check, which a quorum commits,
/// depends on its server:
///
/// | server | checks |
/// |---|---|
/// | a follower or an observer | three per timeout, less those for which a write of any client of the ensemble serves; none while any client writes once per tenth of the timeout |
/// | the leader | two per timeout |
/// | unknown | four per timeout |
///
/// The session asks its server for its role (`srvr`), on a connection of its own, after each connect. The role is unknown
///
/// - before 3.5, on a single server, and over a client that does not find it out;
/// - where `srvr` is not in the `4lw.commands.whitelist`;
/// - if the configuration of the ensemble does not name the address of the connection, by an address or by a name that
///   can be resolved here: behind a load balancer or a proxy, and on a port for TLS if it names another one for clients.
///
/// # Dropping
///
/// When the last one of a session is dropped, the checks stop. The `sync`s stop a minute later.
#[derive(Debug)]
pub struct SessionLease {
    session: SessionHandle,
}

/// Keeps a session ready to prove without delay that it is alive; created by
/// [`Session::stand_by`](crate::Session::stand_by).
///
/// A session that no handle relies on sends only pings, which its own server answers. Pings prove nothing about the
/// leader. The first [`SessionLease`] after that, and with it the first lock, therefore takes about two fifths of the
/// session timeout: by then the leader has heard of the session and is not about to expire it.
/// With a `Standby`, and for a minute after the last one was dropped, it takes one round trip. It also takes one round
/// trip within the first two fifths of the session timeout after connecting.
///
/// Locks, elections and queues keep one while they wait; the next in line for a lock keeps a [`SessionLease`].
/// Keep one in a service that locks less often than once a minute and must not wait when it does.
///
/// # Cost
///
/// While at least one of these exists, the session sends a `sync`, which the leader answers, in every tenth of its
/// timeout. It writes nothing.
///
/// # Dropping
///
/// When the last one of a session is dropped, the `sync`s stop a minute later.
#[derive(Debug)]
pub struct Standby {
    session: SessionHandle,
}

impl Standby {
    pub(super) fn new(session: SessionHandle) -> Self {
        Uses::begin(session.uses(), Use::Standby, session.engine());
        Self { session }
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        Uses::end(self.session.uses(), Use::Standby);
    }
}

impl SessionLease {
    pub(super) fn new(session: SessionHandle) -> Self {
        Uses::begin(session.uses(), Use::Holder, session.engine());
        Self { session }
    }

    /// Returns whether the ensemble certainly keeps the session now. Sends no request.
    pub fn is_valid(&self) -> bool {
        self.valid_until().is_some_and(|until| now() < until)
    }

    /// Returns whether the proof holds now and will continue to hold as long as the ensemble replies. Sends no request.
    ///
    /// Returns false if the proof has run out, or will run out before it can be renewed, such as the proof from
    /// connecting in a session that was idle since. Work begun then would soon have to stop; see
    /// [`renewed`](Self::renewed).
    pub fn is_lasting(&self) -> bool {
        self.valid_until().is_some()
            && self
                .session
                .engine()
                .lease_proof()
                .is_lasting(lease_clock::now())
    }

    /// Returns the instant until which the ensemble certainly keeps the session, or `None` if it is over or being
    /// closed.
    ///
    /// It is one of the monotonic clock. On Linux that clock stands still while the machine is suspended; the instant is
    /// earlier by that time afterwards.
    /// The instant advances while the ensemble replies. A reconnect to a server that grants a shorter timeout may bring
    /// it forward, so read it again rather than keep it.
    pub fn valid_until(&self) -> Option<Instant> {
        self.session.engine().valid_until()
    }

    /// Waits until the proof has run out, or the session is over or being closed.
    ///
    /// After the machine was suspended it may return late, by no more than the rest that the proof had before;
    /// [`is_valid`](Self::is_valid) is right at once.
    /// The proof may be renewed later, if the session has survived.
    pub async fn lapsed(&self) {
        let engine = self.session.engine();
        let mut link = engine.link();
        while let Some(until) = self.valid_until().filter(|until| now() < *until) {
            // At that instant the proof may have been renewed, and with each connection the timeout may be shorter, so
            // the loop checks again.
            let changed = async {
                tokio::select! {
                    biased;
                    () = engine.closing() => true,
                    changed = link.changed() => changed.is_err(),
                }
            };
            if let Ok(true) = tokio::time::timeout_at(until.into(), changed).await {
                return;
            }
        }
    }

    /// Waits until the proof is [lasting](Self::is_lasting). Returns at once if it is.
    ///
    /// # Errors
    ///
    /// [`TimedOut`](ErrorKind::TimedOut) if it was not renewed within `timeout`, or a fatal error if the session is
    /// over.
    ///
    /// # Cost
    ///
    /// No request besides those that renew the proof.
    /// After a minute without use, and after a pause or disconnection of more than half of the session timeout, it
    /// takes about two fifths of the session timeout, so a shorter `timeout` always fails; see [`Standby`].
    pub async fn renewed(&self, timeout: Duration) -> Result<(), Error> {
        let deadline = Deadline::after(timeout);
        deadline.bound(self.renew()).await.unwrap_or_else(|| {
            Err(
                Error::new(Operation::RenewLease, None, ErrorKind::TimedOut).detail(format!(
                    "no proof within {timeout:?} that session {} is alive",
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
                    return Err(Error::new(Operation::RenewLease, None, ending.into()));
                }
                // The engine owns the sender.
                _ = proven.changed() => {}
            }
        }
        Ok(())
    }
}

impl Drop for SessionLease {
    fn drop(&mut self) {
        Uses::end(self.session.uses(), Use::Holder);
    }
}

/// Reads the monotonic clock, which tests may pause.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
