//! Runs processes that contend for our lock, and reads their reports.
//!
//! [`Worker`] drives the program `lock-worker`, which prints lines of JSON, one [`Record`] each, with times of the
//! clock that all processes of a host share.
//! It also records a [history](zk_history) of the lock for the checkers.

mod journal;
mod register;
mod worker;

pub use self::journal::{Event, Record, Turn, turns};
pub use self::register::{Refused, Register};
pub use self::worker::Worker;
