//! What locks report to the facade of the crate `metrics`.

use metrics::{Unit, describe_histogram, histogram};
use tokio::time::Instant;

use crate::labels::{LockKind, WaitOutcome};

/// Gives the recorder of the process the units and descriptions of all metrics of this crate.
///
/// Call it once, after the recorder is installed. The metrics are reported without it, too.
/// Those of sessions are described by `zk_core::describe_metrics`.
///
/// | name | kind | unit | labels |
/// |---|---|---|---|
/// | `zk_lock_wait_duration_seconds` | histogram | seconds, from the first poll of an acquire to its result, or until its future is dropped | `kind`, `outcome`: `acquired`; `taken`: a `try_acquire` found the lock taken, or an upgrade another writer; `given_up`: the time limit elapsed or the caller dropped the future; `failed` |
/// | `zk_lock_hold_duration_seconds` | histogram | seconds, from the grant until the guard is dropped or its release has ended | `kind`, `outcome`: `released`; `lost`: known to be lost for good before its guard ended |
///
/// The kinds are `fair`, `read`, `write`, `reentrant`, `cohort`, `race` and `semaphore`.
///
/// - Of a [`CohortLock`](crate::CohortLock), the wait and the holding of each task count.
/// - A [`ReentrantLock`](crate::ReentrantLock) is held until the last guard of its owner ends. A repeated acquire of the
///   owner counts as a wait.
/// - A [`MultiLock`](crate::MultiLock) reports each of its locks by its own kind.
/// - An [upgrade](crate::ReadGuard::upgrade) is a wait of the kind `write`. After it, or after a
///   [downgrade](crate::WriteGuard::downgrade), the holding of the new kind begins.
/// - A place in the queue from [`FairLock::enlist`](crate::FairLock::enlist), as leader elections use it, is not
///   measured.
///
/// No label contains a path or an owner, so the number of time series is bounded.
pub fn describe_metrics() {
    describe_histogram!(
        WAIT_DURATION,
        Unit::Seconds,
        "Time of an acquire from its first poll to its end"
    );
    describe_histogram!(
        HOLD_DURATION,
        Unit::Seconds,
        "Time for which a lock was held"
    );
}

pub(crate) fn wait_ended(kind: LockKind, outcome: WaitOutcome, since: Instant) {
    histogram!(WAIT_DURATION, "kind" => kind.label(), "outcome" => outcome.label())
        .record(since.elapsed());
}

pub(crate) fn hold_ended(kind: LockKind, is_lost: bool, since: Instant) {
    let outcome = if is_lost { "lost" } else { "released" };
    histogram!(HOLD_DURATION, "kind" => kind.label(), "outcome" => outcome).record(since.elapsed());
}

const WAIT_DURATION: &str = "zk_lock_wait_duration_seconds";
const HOLD_DURATION: &str = "zk_lock_hold_duration_seconds";
