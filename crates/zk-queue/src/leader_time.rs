//! Keeps what a process knows of the leader's clock: the idempotency tokens record it, and the store reads it.

use std::sync::Mutex;
use std::time::Duration;
use std::time::SystemTime;

use tokio::time::Instant;

use crate::leader_clock::LeaderClock;
use crate::mutex::lock;

/// The leader's clock, as the replies to all tasks of this process show it.
#[derive(Debug)]
pub(crate) struct LeaderTime {
    /// The moment from which the clock counts the moments of this process.
    began: Instant,
    clock: Mutex<LeaderClock>,
}

impl LeaderTime {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            clock: Mutex::default(),
        }
    }

    /// Returns the present moment of this process, for [`record`](Self::record).
    pub(crate) fn moment(&self) -> Duration {
        self.began.elapsed()
    }

    /// Records the leader's timestamp in the reply to a request that was sent at the moment `sent`.
    pub(crate) fn record(&self, sent: Duration, timestamp: SystemTime) {
        lock(&self.clock).record(sent, self.moment(), unix_millis(timestamp));
    }

    /// Returns the earliest time that the leader's clock can show, in milliseconds since 1970.
    pub(crate) fn earliest(&self) -> Option<u64> {
        lock(&self.clock).at_least(self.moment())
    }

    /// Returns the latest time that the leader's clock can show, in milliseconds since 1970.
    pub(crate) fn latest(&self) -> Option<u64> {
        lock(&self.clock).at_most(self.moment())
    }

    /// Returns whether the newest timestamp is recent enough to be relied on.
    pub(crate) fn is_recent(&self) -> bool {
        let age = lock(&self.clock).age(self.moment());
        age.is_some_and(|age| age < MAX_AGE)
    }

    /// Returns whether the time is known exactly enough for a delay.
    pub(crate) fn is_exact(&self) -> bool {
        lock(&self.clock).uncertainty() < MAX_UNCERTAINTY
    }
}

/// Returns a time in milliseconds since 1970.
pub(crate) fn unix_millis(time: SystemTime) -> u64 {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// How long a timestamp of the leader is used.
const MAX_AGE: Duration = Duration::from_secs(10);
/// How exactly the leader's time has to be known for a delay, which the uncertainty prolongs.
const MAX_UNCERTAINTY: Duration = Duration::from_millis(250);
