//! The time that goes into ids.

use std::fmt;
use std::time::SystemTime;

/// What tells the time that goes into ids.
///
/// It may be wrong, jump and go back: ids do not repeat for that, but are late.
/// Any function that answers a [`SystemTime`] is one.
pub trait Clock: Send + Sync + 'static {
    /// Returns the time now.
    fn now(&self) -> SystemTime;
}

impl<F> Clock for F
where
    F: Fn() -> SystemTime + Send + Sync + 'static,
{
    fn now(&self) -> SystemTime {
        self()
    }
}

/// The clock of the operating system.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// A clock among other fields.
pub(crate) struct AnyClock(pub(crate) Box<dyn Clock>);

impl fmt::Debug for AnyClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyClock")
    }
}
