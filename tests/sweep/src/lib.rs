//! Crash-point sweeps: requests of a story are struck, one at a time, by everything that may strike them.
//!
//! The servers are real, and the fault proxy injects the faults. The affected client begins at a certain server, the
//! leader or a follower, and reconnects to another one, which lags as far as it may.
//!
//! By default a sample is struck, which is drawn from a seed: `SEED=7` in the environment draws another one. With
//! `SWEEP=full`, every request is struck by every fault, at the leader and at a follower.
//!
//! The stories are in `tests/it`, except for [those of a lock](lock).

mod extent;
pub mod lock;
mod scene;
mod stage;
mod strike;

pub use scene::{
    Scene, contenders, names, no_contender_is_left, settled, until_one_waits, until_or_late,
};
pub use stage::Stage;

use std::time::Duration;

/// The limit of what takes moments on an idle machine.
pub const SOON: Duration = Duration::from_secs(60);
