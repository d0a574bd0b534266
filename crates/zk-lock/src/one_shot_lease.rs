//! `OneShotLease`: kazoo's non-blocking lease, which is taken for a time and outlives the session.
//!
//! The record of the lease is a persistent node. It is read and written under a lock of kazoo's layout, as kazoo does; in
//! addition, the transaction that writes it checks the lock's node, so that a contender which has lost the lock writes
//! nothing.

use std::time::{Duration, Instant, SystemTime};

use zk_core::{ErrorKind, IntoNodePath, NodePath, Session};

use crate::fair::FairLock;
use crate::guard::Guard;
use crate::layout::Layout;
use crate::node_monitor::node_lost;
use crate::options::LockOptions;

mod error;
mod record;
mod utc;

pub use error::TakeLeaseError;
use record::{Malformed, Parsed, Record};

/// A lease that was taken for a time, without waiting for its holder, and that ends by the clock alone: kazoo's
/// `NonBlockingLease`.
///
/// It is for a task that one host at a time should run now and then: an hourly clean-up takes the lease for 70 minutes, so
/// it stays on its host as long as that works, and moves to another one if it does not. The lease outlives the process
/// and its session. It cannot be released; its holder renews it by taking it again.
///
/// For mutual exclusion, use a [`FairLock`]: it depends on the rate of clocks only, and ends when its holder does.
///
/// # What it guarantees
///
/// Two holders rely on one lease at the same moment only if clocks differ by more than
/// [`with_clock_error`](OneShotLeaseOptions::with_clock_error) allows for; by default it allows for none.
///
/// - The end of a lease is a time of the leader's clock, which replies report. The clocks of hosts do not matter among
///   processes of this crate. What matters is by how much a leader's clock is ahead of that of an earlier leader, which
///   wrote the end.
/// - [`is_valid`](Self::is_valid) uses the monotonic clock of this process, for the duration that was asked for. What
///   matters is its rate. On Linux it is `CLOCK_MONOTONIC`, which stops while the machine is suspended: do not suspend
///   machines that take or hold a lease.
/// - kazoo writes and reads the end by the clock of its host, without a tolerance.
///
/// A process that uses the same name as the holder gets the lease, too: that is how it is renewed. Give each host, or each
/// process, a name of its own.
///
/// # Failure behaviour
///
/// | event | process that takes the lease | lease |
/// |---|---|---|
/// | a request or a reply is lost | gets the same result, later; the lease [may be over](Self::is_valid) by then | is written once, or left to its holder |
/// | the outcome of the write cannot be found out within the operation timeout, or the session is lost meanwhile | an error that [is unknown](TakeLeaseError::is_outcome_unknown) | is taken for its whole time, or not at all |
/// | the session is lost before the write | a fatal error | is not taken |
/// | the session is lost after the write | not affected | is not affected |
/// | the future is dropped | – | is taken for its whole time, or not at all; nothing is written once the session [has settled](Session::settled) |
/// | the process dies | – | ends at its time, or is not taken. If it died while it took the lease, other processes wait until its session expires, and may get [`TakeLeaseError::Lock`] |
/// | the process is stopped, and resumes | gets its result, or a fatal error if its session has expired. A holder has to ask [`is_valid`](Self::is_valid) before each step | as if the process had died, until it resumes |
/// | another client deletes the node of the lock that guards the record | [`TakeLeaseError::Lock`] | is not taken |
/// | a server lags behind | waits longer: the list of the lock's nodes shows all that earlier holders have written | is not affected |
/// | the clock of a host is wrong, or is set | not affected, unless the host runs kazoo | is not affected, unless the host runs kazoo |
/// | the leader's clock jumps forward, or the next leader's clock is ahead | takes a lease of another holder that early, less the tolerance | has two holders for that long |
/// | the leader's clock jumps back, or the next leader's clock is behind | takes a lease of another holder that much later. Delete `lease_holder` if its end is too far away | is reserved for its holder for longer |
/// | the clock of the leader is faster than that of the holder's process | takes a lease of another holder early, by their difference over its duration, less the tolerance | has two holders for that long |
/// | the clock of a host with kazoo is ahead of the leader's | – | kazoo takes it early, and has its own for longer |
/// | the clock of a host with kazoo is behind the leader's | takes kazoo's lease that early, less the tolerance | kazoo takes it late, and has its own for less time |
/// | a kazoo client writes although it has lost the lock | does not notice | may have two holders |
///
/// # Layout
///
/// ```text
/// /leases/clean-up
/// ├── lease_holder                             {"version": 1, "holder": "host-7", "end": "2026-11-26T05:44:00"}
/// ├── _c_<uuid>-marker              ephemeral  shows after a lost reply whether the record was written
/// └── _c_<uuid>-__lock__0000000007  ephemeral  the lock that guards the record, for a moment
/// ```
///
/// kazoo's clients and these exclude each other on one path. A record of a later version counts as a lease of another
/// holder, as it does for kazoo.
///
/// # Examples
///
/// ```no_run
/// # async fn clean_up() {}
/// # async fn demo(session: zk_core::Session) -> Result<(), zk_lock::TakeLeaseError> {
/// use std::time::Duration;
/// use zk_lock::{OneShotLease, OneShotLeaseOptions};
///
/// let options = OneShotLeaseOptions::new("host-7", Duration::from_secs(70 * 60));
/// if let Some(lease) = OneShotLease::try_take(&session, "/leases/clean-up", &options).await? {
///     tokio::select! {
///         () = clean_up() => {}
///         () = lease.ended() => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneShotLease {
    path: NodePath,
    holder: String,
    end: SystemTime,
    valid_until: Instant,
}

/// Who takes a [`OneShotLease`], and for how long.
///
/// # Defaults
///
/// No clock error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneShotLeaseOptions {
    holder: String,
    duration: Duration,
    clock_error: Duration,
}

impl OneShotLeaseOptions {
    /// Takes a lease under this name, and for this time.
    ///
    /// The name should be that of a host or a process, and the same each time: the holder renews its lease by it. kazoo's
    /// default is the name of the host.
    pub fn new(holder: impl Into<String>, duration: Duration) -> Self {
        Self {
            holder: holder.into(),
            duration,
            clock_error: Duration::ZERO,
        }
    }

    /// Sets by how much the clocks of leaders, and of hosts with kazoo clients, may differ; none by default.
    ///
    /// The lease of another holder counts as ended so much later. kazoo rounds the end of its leases down to a second, so
    /// allow for one second more than the clocks differ by while its clients are on the path. All clients should have the
    /// same, which kazoo's cannot.
    #[must_use]
    pub const fn with_clock_error(mut self, clock_error: Duration) -> Self {
        self.clock_error = clock_error;
        self
    }
}

impl OneShotLease {
    /// Takes the lease at `path`, or renews it; `None` if another holder has it.
    ///
    /// It does not wait for the holder, but for the clients that read or write the record at this moment.
    ///
    /// # Errors
    ///
    /// [`TakeLeaseError`]. Unless it [is unknown](TakeLeaseError::is_outcome_unknown), the lease was not taken.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe once it was polled: the lease may be taken, and then lasts as long as asked for. Taking it again
    /// with the same name finds out.
    ///
    /// # Session loss
    ///
    /// A fatal error; [unknown](TakeLeaseError::is_outcome_unknown) if the lease may have been taken. A lease that was
    /// taken is not affected.
    ///
    /// # Cost
    ///
    /// That of acquiring and releasing a [`FairLock`], and a read; if the lease is taken, a transaction, and one round
    /// trip in the background for its idempotency token. It waits for the lock for at most the operation timeout and half
    /// of the session timeout.
    pub async fn try_take(
        session: &Session,
        path: impl IntoNodePath,
        options: &OneShotLeaseOptions,
    ) -> Result<Option<Self>, TakeLeaseError> {
        let path = path.into_node_path()?;
        let lock_options = LockOptions::default()
            .with_layout(Layout::kazoo())
            .with_owner(options.holder.as_bytes());
        let lock = FairLock::with_options(session, &path, lock_options)?;
        let began = now();
        // A lock that is acquired after an idle time needs up to two fifths of the session timeout.
        let idle = session.session_timeout() / 2;
        let limit = session.operation_timeout().saturating_add(idle);
        let acquiring = lock.acquire_timeout(limit);
        let guard = acquiring.await.map_err(TakeLeaseError::Lock)?;
        let taken = take(session, &path, options, &guard, began).await;
        // The record is written. Whatever becomes of the lock, the session deletes its node.
        if let Err(error) = guard.release().await {
            tracing::debug!(%path, %error, "the lock that guards the record of a lease is released later");
        }
        taken
    }

    /// Takes one of several leases, below `path` and named by the numbers from 0 to `count` - 1: kazoo's
    /// `MultiNonBlockingLease`. `None` if other holders have all of them.
    ///
    /// At most `count` holders have one at the same moment. The leases are tried in their order, so a holder that renews
    /// may get another one, with a lower number, and have two for a while.
    ///
    /// # Errors
    ///
    /// As [`try_take`](Self::try_take), also for cancel safety and after a session loss. The cost is that of `try_take`
    /// for each lease up to the one that is taken.
    pub async fn try_take_one_of(
        session: &Session,
        path: impl IntoNodePath,
        count: u32,
        options: &OneShotLeaseOptions,
    ) -> Result<Option<Self>, TakeLeaseError> {
        let path = path.into_node_path()?;
        for number in 0..count {
            let lease = path.join(&number.to_string())?;
            let taken = Self::try_take(session, lease, options).await?;
            if taken.is_some() {
                return Ok(taken);
            }
        }
        Ok(None)
    }

    /// Returns the path of the lease.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Returns the name of the holder.
    pub fn holder(&self) -> &str {
        &self.holder
    }

    /// Returns the recorded end of the lease, by the leader's clock, in whole seconds.
    pub fn end(&self) -> SystemTime {
        self.end
    }

    /// Returns until when this process may rely on the lease: for the time that was asked for, since the lease was taken.
    pub fn valid_until(&self) -> Instant {
        self.valid_until
    }

    /// Returns whether this process may still rely on the lease, see [the type](Self). Sends nothing.
    pub fn is_valid(&self) -> bool {
        now() < self.valid_until
    }

    /// Waits until the lease [is no longer valid](Self::is_valid).
    ///
    /// # Session loss
    ///
    /// Does not affect it.
    pub async fn ended(&self) {
        let never = std::future::pending::<()>();
        drop(tokio::time::timeout_at(self.valid_until.into(), never).await);
    }
}

/// Reads the record, and writes it if it allows that.
///
/// `began` is a moment before the lock's node was created. So the leader's clock now shows at least its time at the
/// creation, and at most that and the time since `began`.
async fn take(
    session: &Session,
    path: &NodePath,
    options: &OneShotLeaseOptions,
    guard: &Guard,
    began: Instant,
) -> Result<Option<OneShotLease>, TakeLeaseError> {
    let record_path = path.join(RECORD)?;
    loop {
        // The lock was granted by a list of its nodes: in kazoo's layout it never is by the event of a deletion alone, see
        // `Layout::cannot_downgrade`. So no server that this session accepts lags behind what earlier holders of the lock
        // have written. The version would not tell: kazoo's records all have the version 0.
        let current = match session.get(&record_path).await {
            Ok((data, stat)) => Some((data, stat.version)),
            Err(error) if error.is_no_node() => None,
            Err(error) => return Err(error.into()),
        };
        let created_at = guard.created_at();
        let earliest = created_at.duration_since(SystemTime::UNIX_EPOCH);
        let earliest = earliest.unwrap_or_default();
        let mut own_end = 0;
        if let Some((data, _)) = &current {
            match Record::parse(data) {
                Ok(Parsed::Record(record)) => {
                    if !record.allows(&options.holder, earliest, options.clock_error) {
                        return Ok(None);
                    }
                    if record.holder == options.holder {
                        own_end = record.end;
                    }
                }
                Ok(Parsed::OtherVersion(version)) => {
                    tracing::warn!(path = %record_path, version, "the lease is left to clients of another version");
                    return Ok(None);
                }
                Err(Malformed(reason)) => {
                    let path = record_path;
                    return Err(TakeLeaseError::Malformed { path, reason });
                }
            }
        }
        let taken_at = now();
        let valid_until = taken_at.checked_add(options.duration);
        let elapsed = taken_at.saturating_duration_since(began);
        let end = record::end(earliest, elapsed, options.duration);
        let (Some(valid_until), Some(end)) = (valid_until, end) else {
            return Err(TakeLeaseError::TooLong);
        };
        let record = Record {
            holder: options.holder.clone(),
            // Not before the end of a longer lease of the same holder, which stays valid.
            end: end.max(own_end),
        };
        let data = record.to_bytes().ok_or(TakeLeaseError::TooLong)?;
        let guarded = guard.txn();
        let written = match current {
            Some((_, version)) => guarded.set_version(&record_path, data, version),
            None => guarded.create(&record_path, data),
        };
        match written.commit_marked(path).await {
            Ok(_) => {
                return Ok(Some(OneShotLease {
                    path: path.clone(),
                    holder: record.holder,
                    end: SystemTime::UNIX_EPOCH + Duration::from_secs(record.end),
                    valid_until,
                }));
            }
            // A client that has lost the lock has changed the record.
            Err(error) if error.failed_part() == Some(1) && is_changed(error.kind()) => {}
            // The lock's node is gone, and the session may be over, too.
            Err(error) if error.failed_part() == Some(0) && error.is_no_node() => {
                let lost = node_lost(session, guard.path()).await;
                return Err(TakeLeaseError::Lock(lost));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

const fn is_changed(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::BadVersion | ErrorKind::NoNode | ErrorKind::NodeExists
    )
}

/// Returns the present moment, also when tests have paused the clock.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The name of the record's node.
const RECORD: &str = "lease_holder";
