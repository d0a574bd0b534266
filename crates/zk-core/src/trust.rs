//! How long the ensemble certainly keeps a session, as far as its client can prove.
//!
//! Only the leader expires sessions, a timeout after it last heard of them.
//! It hears of a session in three ways, and in no other:
//!
//! - the session is opened or moves to another server: the leader hears of it before the client has the answer (a move
//!   is not used here: when exactly it happened is not known);
//! - the session is connected to the leader itself: the leader hears of each request;
//! - the session is connected to a follower: the follower notes each request and tells the leader when the leader next
//!   pings it, every half tick. Forwarding a write does not count, and neither does answering a read.
//!
//! An answered request therefore proves nothing by itself: the follower may die before it tells the leader.
//! The proof takes two requests: one that was answered (a *touch*, a read will do), and, no sooner than a good half
//! tick later, one that the quorum has carried out (a *commit*).
//! Follower and leader talk over one connection in order, so what the follower told before the commit has arrived, and
//! a leader that commits is the leader.
//! Then the leader keeps the session until one timeout after the touch was sent, at least.
//!
//! What is assumed: the session timeout is at least two ticks, as servers enforce by default; the leader's clock and
//! this one differ in rate by less than [`CLOCK_SHARE`]; this machine's monotonic clock runs while the process is
//! stopped, which it does, but it stands still while a whole machine is suspended; and a leader does not stop for
//! longer than a third of the timeout and go on as the leader without that the next commit is slow.

use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

/// The proof of one session, moved forward by what its client sees.
#[derive(Debug, Clone)]
pub(crate) struct Trust {
    timeout: Duration,
    /// Answered requests that the leader may not have heard of yet, oldest first.
    touches: VecDeque<Touch>,
    until: Instant,
    last_commit: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Touch {
    sent: Instant,
    answered: Instant,
}

impl Trust {
    /// The proof of a session that was opened between `asked` and now.
    pub(crate) fn opened(timeout: Duration, asked: Instant) -> Self {
        Self {
            timeout,
            touches: VecDeque::new(),
            // A session is opened by a transaction of the quorum.
            until: asked + worth(timeout),
            last_commit: asked,
        }
    }

    /// Until when the ensemble certainly keeps the session.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// A request was answered, whatever the answer.
    pub(crate) fn touched(&mut self, sent: Instant, answered: Instant) {
        let is_news = self
            .touches
            .back()
            .is_none_or(|last| sent >= last.sent + self.timeout / TOUCHES_PER_TIMEOUT);
        if is_news {
            self.touches.push_back(Touch { sent, answered });
            if self.touches.len() > MOST_TOUCHES {
                self.touches.pop_front();
            }
        }
    }

    /// A request that only the quorum can carry out was carried out.
    pub(crate) fn committed(&mut self, sent: Instant, answered: Instant) {
        self.last_commit = self.last_commit.max(sent);
        let lag = self.lag();
        while let Some(touch) = self.touches.front() {
            if touch.answered + lag > sent {
                break;
            }
            let heard = touch.sent;
            self.touches.pop_front();
            self.prove(heard);
        }
        if answered.saturating_duration_since(sent) > self.timeout / SLOW_SHARE {
            // The leader may have stood still, and heard nothing of what was answered meanwhile.
            self.touches.clear();
        }
    }

    /// When the newest request was sent that the quorum has carried out.
    pub(crate) fn last_commit(&self) -> Instant {
        self.last_commit
    }

    fn prove(&mut self, heard: Instant) {
        self.until = self.until.max(heard + worth(self.timeout));
    }

    /// How long after a request was answered the leader has certainly heard of it.
    pub(crate) fn lag(&self) -> Duration {
        self.timeout / LAG_SHARE
    }

    /// How often a session that is used by nothing else must be touched for the proof to be of use.
    pub(crate) fn touch_interval(&self) -> Duration {
        self.timeout / 10
    }

    /// How often a session must commit for the proof not to end.
    pub(crate) fn commit_interval(&self) -> Duration {
        self.timeout / 6
    }
}

/// What a timeout on the leader's clock is on ours, at least.
fn worth(timeout: Duration) -> Duration {
    timeout.saturating_sub(timeout / CLOCK_SHARE)
}

/// A follower has told the leader what it noted after this share of the timeout.
const LAG_SHARE: u32 = 3;
/// A commit that takes longer than this share of the timeout is slow.
const SLOW_SHARE: u32 = 5;
/// Clocks run at the same rate up to this share.
const CLOCK_SHARE: u32 = 50;
const TOUCHES_PER_TIMEOUT: u32 = 40;
const MOST_TOUCHES: usize = 64;

#[cfg(test)]
mod tests;
