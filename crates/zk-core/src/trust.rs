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
//! The proof takes two requests: one that was answered (a *touch*, a read will do), and, later, one that the quorum has
//! carried out (a *commit*).
//! The commit proves that the leader heard of the touch in either of two ways:
//!
//! - *By time.* Leader and follower talk over one connection in order, so what the follower told before the commit has
//!   arrived, and a leader that commits is the leader. The follower tells when the leader pings it, half a tick later
//!   at most, unless one of the two stands still or the network between them does.
//!   Nothing is carried out meanwhile, so that a standstill is seen as a gap between commits: what was answered before
//!   or during a gap longer than [`GAP_SHARE`] counts as answered at the end of the gap, and the proof takes
//!   [`LAG_SHARE`] from there, which is half a tick and the longest gap that is not noticed.
//! - *By a move.* When the link was seen broken after the touch was answered, and the commit was sent after that, the
//!   session has moved in between, and the leader heard of it by the move, if not before.
//!
//! Then the leader keeps the session until one timeout after the touch was sent, at least.
//!
//! What is assumed: the session timeout is at least two ticks, as servers enforce by default; the leader's clock and
//! this one differ in rate by less than [`CLOCK_SHARE`]; and this machine's monotonic clock runs while the process is
//! stopped, which it does, but it stands still while a whole machine is suspended.

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
    /// When the newest request was sent that the quorum has carried out.
    last_commit: Instant,
    /// The newest instant at which the link was certainly broken.
    broken: Option<Instant>,
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
            broken: None,
        }
    }

    /// The proof of a session that the quorum does not know: there is none.
    pub(crate) fn of_nobody(timeout: Duration, asked: Instant) -> Self {
        Self {
            until: asked,
            ..Self::opened(timeout, asked)
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

    /// The link was broken at this instant, which no answer over an earlier link comes after.
    pub(crate) fn broke(&mut self, at: Instant) {
        self.broken = self.broken.max(Some(at));
    }

    /// A request that only the quorum can carry out was carried out.
    pub(crate) fn committed(&mut self, sent: Instant, answered: Instant) {
        if sent < self.last_commit {
            // The answer to a later one came first, and said all that this one can say.
            return;
        }
        let gap = answered.saturating_duration_since(self.last_commit);
        self.last_commit = sent;
        let moved = self.broken.filter(|broken| *broken <= sent);
        let lag = self.lag();
        let stood_still = gap > self.timeout * GAP_SHARE.0 / GAP_SHARE.1;
        let is_heard = |touch: &Touch| {
            let by_time = !stood_still && touch.answered + lag <= sent;
            by_time || moved.is_some_and(|broken| touch.answered <= broken)
        };
        while let Some(touch) = self.touches.front().copied().filter(is_heard) {
            self.touches.pop_front();
            self.prove(touch.sent);
        }
        if stood_still {
            for touch in &mut self.touches {
                touch.answered = touch.answered.max(answered);
            }
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
        self.timeout * LAG_SHARE.0 / LAG_SHARE.1
    }

    /// How often a session that is used by nothing else must be touched for the proof to be of use.
    pub(crate) fn touch_interval(&self) -> Duration {
        self.timeout / 10
    }

    /// How often a session must commit for the proof not to end, and for no gap to be seen.
    pub(crate) fn commit_interval(&self) -> Duration {
        self.timeout / 8
    }
}

/// What a timeout on the leader's clock is on ours, at least.
fn worth(timeout: Duration) -> Duration {
    timeout.saturating_sub(timeout / CLOCK_SHARE)
}

/// Half a tick is a quarter of the timeout at most.
#[cfg(test)]
const HALF_TICK_SHARE: (u32, u32) = (5, 20);
/// Commits that are further apart than this share of the timeout may have had a standstill between them.
const GAP_SHARE: (u32, u32) = (4, 20);
/// A follower has told the leader what it noted after this share of the timeout, if nothing stood still for longer
/// than goes unnoticed.
const LAG_SHARE: (u32, u32) = (9, 20);
/// Clocks run at the same rate up to this share.
const CLOCK_SHARE: u32 = 50;
const TOUCHES_PER_TIMEOUT: u32 = 40;
const MOST_TOUCHES: usize = 64;

#[cfg(test)]
mod tests;
