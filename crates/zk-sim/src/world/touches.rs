//! When the leader has last heard of a session.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

/// The messages of a session, which its server reports to the leader.
///
/// The leader hears of messages to itself at once. Another server reports at regular intervals which sessions have sent
/// something, and the leader then restarts their timeouts (`Learner.ping`). The interval is half a tick, and a session
/// timeout is at least two ticks: here it is always a quarter of the timeout, the longest that servers allow.
#[derive(Debug)]
pub(super) struct Touches {
    timeout: Duration,
    /// When the leader last heard of the session.
    heard: Duration,
    /// When its server last received something.
    received: Duration,
    /// When its server reports what it has received since its last report; `None` if that is nothing.
    report_due: Option<Duration>,
}

impl Touches {
    /// Creates the state of a session that is opened now.
    pub(super) fn new(timeout: Duration, now: Duration) -> Self {
        let mut touches = Self {
            timeout: timeout.max(MIN_TIMEOUT),
            heard: now,
            received: now,
            report_due: None,
        };
        touches.receive(now);
        touches
    }

    /// Records that the leader hears of the session now, in another way than by a report.
    pub(super) fn touch(&mut self, now: Duration) {
        self.received = now;
        self.reported(now);
    }

    /// Records that the leader receives the report of all messages until now.
    pub(super) fn reported(&mut self, now: Duration) {
        self.heard = now;
        self.report_due = None;
    }

    /// Records a message to the session's server.
    pub(super) fn receive(&mut self, now: Duration) {
        self.received = now;
        let interval = (self.timeout / REPORTS_PER_TIMEOUT).as_nanos();
        let nanos = (now.as_nanos() / interval + 1) * interval;
        let next = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.report_due.get_or_insert(next);
    }

    /// Records that the server, or the leader, was paused until now.
    pub(super) fn postpone_report(&mut self, now: Duration) {
        self.report_due = self.report_due.map(|due| due.max(now));
    }

    /// Records that the process of the server has ended, with what it had not reported.
    pub(super) fn forget_report(&mut self) {
        self.report_due = None;
    }

    /// Records the pings until now, and the reports until `reports_end`. The link and the server were working.
    pub(super) fn catch_up(&mut self, now: Duration, reports_end: Duration) {
        let interval = self.timeout / PINGS_PER_TIMEOUT;
        while self.received + interval <= now {
            let ping = self.received + interval;
            self.report(ping.min(reports_end));
            self.receive(ping);
        }
        self.report(now.min(reports_end));
    }

    /// Records the pings to the leader until now. The link and the leader were working.
    pub(super) fn catch_up_on_leader(&mut self, now: Duration) {
        self.catch_up(now, Duration::ZERO);
        self.reported(self.received);
    }

    fn report(&mut self, until: Duration) {
        if let Some(due) = self.report_due.filter(|due| *due <= until) {
            self.reported(due);
        }
    }

    /// Returns when the server reports what it has received since its last report.
    pub(super) fn report_due(&self) -> Option<Duration> {
        self.report_due
    }

    /// Returns when the leader last heard of the session.
    pub(super) fn heard(&self) -> Duration {
        self.heard
    }
}

/// The clients of a simulated session send as many, as `zk-core` does.
const PINGS_PER_TIMEOUT: u32 = 3;
const REPORTS_PER_TIMEOUT: u32 = 4;
const MIN_TIMEOUT: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_message_is_heard_with_the_report_due() {
        let mut touches = Touches::new(MS * 1000, MS * 100);
        let mut heard = |now| {
            touches.catch_up(MS * now, MS * now);
            let heard = touches.heard();
            touches.receive(MS * now);
            heard
        };
        for (now, expected) in [(249, 100), (260, 250), (499, 250), (500, 500), (720, 500)] {
            assert_eq!(heard(now), MS * expected, "{now}");
        }
        assert_eq!(touches.report_due(), Some(MS * 750));
    }

    #[test]
    fn an_idle_session_sends_pings() {
        let mut touches = Touches::new(MS * 1200, Duration::ZERO);
        // The pings of 400, 800, 1200 and 1600 ms are reported at 600, 900, 1500 and 1800 ms.
        for (now, heard) in [(599, 300), (600, 600), (1499, 900), (1799, 1500)] {
            touches.catch_up(MS * now, MS * now);
            assert_eq!(touches.heard(), MS * heard, "{now}");
        }
        touches.catch_up(MS * 1_000_000, MS * 1_000_000);
        assert_eq!(touches.heard(), MS * 999_900);
    }

    #[test]
    fn a_report_without_a_message_does_not_count() {
        let mut touches = Touches::new(MS * 1000, Duration::ZERO);
        touches.touch(MS * 10);
        touches.catch_up(MS * 300, MS * 300);
        assert_eq!((touches.heard(), touches.report_due()), (MS * 10, None));
        touches.receive(MS * 310);
        touches.reported(MS * 350);
        touches.catch_up(MS * 600, MS * 600);
        assert_eq!((touches.heard(), touches.report_due()), (MS * 350, None));
    }

    #[test]
    fn a_report_waits_for_a_pause_and_ends_with_the_server() {
        let mut touches = Touches::new(MS * 1000, Duration::ZERO);
        touches.catch_up(MS * 800, MS * 200);
        assert_eq!(touches.heard(), Duration::ZERO);
        assert_eq!(touches.report_due(), Some(MS * 250));
        touches.postpone_report(MS * 810);
        touches.catch_up(MS * 809, MS * 809);
        assert_eq!(touches.heard(), Duration::ZERO);
        touches.catch_up(MS * 900, MS * 900);
        assert_eq!((touches.heard(), touches.report_due()), (MS * 810, None));
        touches.receive(MS * 910);
        touches.forget_report();
        touches.catch_up(MS * 1100, MS * 1100);
        assert_eq!(touches.heard(), MS * 810);
    }

    #[test]
    fn the_leader_hears_messages_to_itself_at_once() {
        let mut touches = Touches::new(MS * 1200, Duration::ZERO);
        touches.touch(MS * 100);
        touches.catch_up_on_leader(MS * 899);
        assert_eq!((touches.heard(), touches.report_due()), (MS * 500, None));
    }
}
