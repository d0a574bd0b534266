//! A timer for the next moment at which the session must be advanced.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep};

/// A timer that may fire early and is then set again.
///
/// Each request moves the moment of the next ping away. Setting a timer costs a lock of the runtime, so it is set for an
/// earlier moment only, or once it has fired.
#[derive(Debug)]
pub(super) struct Timer {
    sleep: Pin<Box<Sleep>>,
}

impl Timer {
    #[expect(clippy::disallowed_methods, reason = "this is such a deadline")]
    pub(super) fn new() -> Self {
        Self {
            sleep: Box::pin(tokio::time::sleep_until(Instant::now())),
        }
    }

    /// Makes the timer fire at this moment at the latest.
    pub(super) fn set(&mut self, moment: Instant) {
        if self.sleep.is_elapsed() || moment < self.sleep.deadline() {
            self.sleep.as_mut().reset(moment);
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.sleep.as_mut().poll(cx)
    }

    /// Waits until it fires.
    pub(super) async fn elapsed(&mut self) {
        poll_fn(|cx| self.poll(cx)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_fires_at_the_earliest_moment_and_can_be_set_again() {
        let start = Instant::now();
        let mut timer = Timer::new();
        timer.elapsed().await;
        timer.set(start + Duration::from_secs(3));
        timer.set(start + Duration::from_secs(2));
        timer.set(start + Duration::from_secs(9));
        timer.elapsed().await;
        assert_eq!(start.elapsed(), Duration::from_secs(2));
        timer.set(start + Duration::from_secs(9));
        timer.elapsed().await;
        assert_eq!(start.elapsed(), Duration::from_secs(9));
    }
}
