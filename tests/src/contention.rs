//! Processes that contend for our lock, what they tell, and how that is judged.
//!
//! The program `lock-worker` is the process, [`Worker`] drives it; it answers with lines of JSON, one [`Record`] each,
//! with moments of the clock that all processes of a host share.
//! What it does to the lock it also records as a [history](zk_harness::history), which checkers judge.

mod journal;
mod register;
mod worker;

pub use self::journal::Event;
pub use self::journal::Record;
pub use self::journal::Turn;
pub use self::journal::turns;
pub use self::register::Refused;
pub use self::register::Register;
pub use self::worker::Worker;
