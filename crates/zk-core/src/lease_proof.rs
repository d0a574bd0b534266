//! Computes until when the ensemble certainly keeps a session, from what its client has observed.
//!
//! Only the leader expires sessions, one timeout after it last heard of them.
//! It hears of a session in exactly three ways:
//!
//! - The session is opened or moves to another server. The leader hears of it before the client receives the reply.
//!   (A move is not used here, because its exact time is unknown.)
//! - The session is connected to the leader itself. The leader hears of each request.
//! - The session is connected to a follower. The follower records each request and reports it when the leader next
//!   pings it, every half tick. Neither forwarding a write nor answering a read counts as a report.
//!
//! A single reply therefore proves nothing: the follower may fail before it reports to the leader.
//! The proof takes two requests: one with a reply (a *touch*, for which a read is enough), and a later one that the
//! quorum has committed (a *commit*).
//! The commit proves in either of two ways that the leader heard of the touch:
//!
//! - *By time.* Leader and follower communicate in order over one connection, so every report that the follower sent
//!   before the commit has arrived, and a leader that commits is the leader. The follower reports when the leader pings
//!   it, at most half a tick later, unless one of the two or the network between them pauses.
//!   The leader replies to nothing during such a pause, so a pause is no longer than the longest gap between its
//!   replies to commits and `sync`s. The proof takes [`HALF_TICK_SHARE`] and that gap from the reply to the touch on.
//!   A touch whose reply came before or during a gap longer than [`GAP_SHARE`] counts from the end of the gap.
//! - *By a move.* If the link was broken after the reply to the touch, and the commit was sent after that, the session
//!   moved in between, and the leader heard of it by the move at the latest.
//!
//! The leader then keeps the session for at least one timeout after the touch was sent.
//!
//! When that time has passed, the leader may be about to expire the session: its expiry thread has removed the session
//! from its list. Until the thread marks the session as closing, a moment later, the leader accepts moves, touches and
//! writes without extending the session.
//! A commit after the lapse therefore proves a touch only by time, over one link, and only if it was sent later than
//! the leader heard of the touch by the longest such moment: [`EXPIRY_SHARE`] and one more gap.
//! If the session was removed from the list before the leader heard of the touch, the commit is refused; otherwise the
//! touch counts.
//!
//! The gaps are known only while the session sends requests to the leader regularly. It does so while a handle relies
//! on it, and for a minute after. After a longer idle time, the first proof takes two fifths of the timeout.
//!
//! Assumptions: the session timeout is at least two ticks, which servers enforce by default; the leader's clock and
//! this one differ in rate by less than [`CLOCK_SHARE`]; this machine's monotonic clock advances while the process is
//! stopped (it does, but not while the whole machine is suspended); and a leader that replies for [`EXPIRY_SHARE`] has
//! run its ping and expiry threads in that time.

use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

/// The proof for one session, extended by what its client observes.
#[derive(Debug, Clone)]
pub(crate) struct LeaseProof {
    timeout: Duration,
    /// Requests with a reply that the leader may not have heard of yet, oldest first.
    touches: VecDeque<Touch>,
    until: Instant,
    /// When the newest request was sent that the leader has replied to.
    last_reach: Instant,
    /// When the newest request was sent that the quorum has committed.
    last_commit: Instant,
    /// The latest instant at which the link was certainly broken.
    broken: Option<Instant>,
    /// How often the link is known to have broken.
    breaks: u64,
    /// A deliberate flaw for tests: a lapsed proof is renewed under the same rules as a valid one.
    #[cfg(test)]
    is_revived_at_once: bool,
}

#[derive(Debug, Clone, Copy)]
struct Touch {
    sent: Instant,
    answered: Instant,
    /// The instant from which the follower had time to report it.
    from: Instant,
    /// The longest gap between replies of the leader since then.
    gap: Duration,
    /// Whether the session may have moved to another server since.
    has_moved: bool,
}

impl LeaseProof {
    /// Creates the proof of a session that was opened between `asked` and now.
    pub(crate) fn opened(timeout: Duration, asked: Instant) -> Self {
        Self {
            timeout,
            touches: VecDeque::new(),
            // A session is opened by a transaction of the quorum.
            until: asked + worth(timeout),
            last_reach: asked,
            last_commit: asked,
            broken: None,
            breaks: 0,
            #[cfg(test)]
            is_revived_at_once: false,
        }
    }

    /// Creates the state of a session that the quorum does not know, which has no proof.
    pub(crate) fn unproven(timeout: Duration, asked: Instant) -> Self {
        Self {
            until: asked,
            ..Self::opened(timeout, asked)
        }
    }

    /// Returns the instant until which the ensemble certainly keeps the session.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// Records a reply of any kind. Called after [`reached`](Self::reached) or [`committed`](Self::committed), if the
    /// reply is one of those too.
    pub(crate) fn touched(&mut self, sent: Instant, answered: Instant) {
        let is_news = self
            .touches
            .back()
            .is_none_or(|last| sent >= last.sent + self.timeout / TOUCHES_PER_TIMEOUT);
        if is_news {
            self.touches.push_back(Touch {
                sent,
                answered,
                from: answered,
                gap: Duration::ZERO,
                has_moved: false,
            });
            if self.touches.len() > MOST_TOUCHES {
                self.touches.pop_front();
            }
        }
    }

    /// Records how often the link has broken, and an instant at which it certainly was broken. No reply over an earlier
    /// link comes after that instant.
    pub(crate) fn broke(&mut self, breaks: u64, at: Option<Instant>) {
        self.broken = self.broken.max(at);
        if breaks > self.breaks {
            self.breaks = breaks;
            for touch in &mut self.touches {
                touch.has_moved = true;
            }
        }
    }

    /// Records a reply that only a leader can give, which may be a deposed leader that does not know it yet.
    pub(crate) fn reached(&mut self, sent: Instant, answered: Instant) {
        if sent < self.last_reach {
            return;
        }
        let gap = answered.saturating_duration_since(self.last_reach);
        self.last_reach = sent;
        for touch in &mut self.touches {
            if gap > self.timeout * GAP_SHARE.0 / GAP_SHARE.1 {
                touch.from = touch.from.max(answered);
                touch.gap = Duration::ZERO;
            } else {
                touch.gap = touch.gap.max(gap);
            }
        }
    }

    /// Records a commit of the quorum.
    pub(crate) fn committed(&mut self, sent: Instant, answered: Instant) {
        self.reached(sent, answered);
        if sent < self.last_commit {
            // The reply to a later commit came first and proved everything that this one can prove.
            return;
        }
        self.last_commit = sent;
        let has_lapsed = self.is_revival(answered);
        let moved = self.broken.filter(|broken| *broken <= sent);
        let is_heard = |touch: &Touch| {
            let by_time = self.heard(touch, has_lapsed) <= sent;
            if has_lapsed {
                by_time && !touch.has_moved
            } else {
                by_time || moved.is_some_and(|broken| touch.answered <= broken)
            }
        };
        if let Some(newest) = self.touches.iter().rposition(is_heard) {
            let heard = self.touches.drain(..=newest).next_back();
            self.prove(heard.expect("it is there").sent);
        }
    }

    /// Returns whether the leader may have accepted a commit, whose reply comes now, while it expires the session.
    fn is_revival(&self, answered: Instant) -> bool {
        #[cfg(test)]
        if self.is_revived_at_once {
            return false;
        }
        answered > self.until
    }

    /// Returns when the leader had certainly heard of a touch or, if the proof had lapsed, heard of it in time or
    /// never.
    fn heard(&self, touch: &Touch, has_lapsed: bool) -> Instant {
        let usual = touch.from + self.half_tick() + touch.gap;
        if has_lapsed {
            usual + touch.gap + self.timeout * EXPIRY_SHARE.0 / EXPIRY_SHARE.1
        } else {
            usual
        }
    }

    /// Returns whether the proof holds and can be renewed before it ends, if the ensemble continues to reply.
    pub(crate) fn is_lasting(&self, now: Instant) -> bool {
        let oldest = self.touches.front();
        let (from, gap) = oldest.map_or((now, Duration::ZERO), |touch| (touch.from, touch.gap));
        let usual_gap = self.timeout / 10;
        let heard = from + self.half_tick() + gap.max(usual_gap);
        now < self.until && heard + self.timeout / 10 <= self.until
    }

    /// Returns the instant from which a commit proves the oldest touch that it can prove at all.
    fn provable(&self) -> Option<Instant> {
        let usual = self.heard(self.touches.front()?, false);
        if usual + self.timeout / 20 <= self.until {
            return Some(usual);
        }
        let mut touches = self.touches.iter();
        let oldest = touches.find(|touch| !touch.has_moved)?;
        Some(self.heard(oldest, true))
    }

    /// Returns when the next request to the leader is due so that its replies leave no gap. It is due sooner while no
    /// proof is near, because longer gaps delay the proof.
    pub(crate) fn reach_due(&self, now: Instant) -> Instant {
        let is_hurried = !self.is_lasting(now) && self.provable().is_none_or(|at| now < at);
        self.last_reach + self.timeout / if is_hurried { 20 } else { 10 }
    }

    /// Returns when the next commit is due to extend the proof, or to renew it.
    pub(crate) fn commit_due(&self, now: Instant) -> Instant {
        let soonest = self.last_commit + self.timeout / TOUCHES_PER_TIMEOUT;
        let usual = self.last_commit + self.timeout / 4;
        let least = if self.is_lasting(now) { usual } else { soonest };
        let has_moved = now < self.until && self.broken.is_some_and(|at| at > self.last_commit);
        match self.provable() {
            None => usual,
            // The commit proves the touches from before the move.
            Some(_) if has_moved => least,
            // An earlier commit would prove nothing.
            Some(at) => at.max(least),
        }
    }

    fn half_tick(&self) -> Duration {
        self.timeout * HALF_TICK_SHARE.0 / HALF_TICK_SHARE.1
    }

    fn prove(&mut self, heard: Instant) {
        self.until = self.until.max(heard + worth(self.timeout));
    }
}

/// Returns the minimum length on this machine's clock of a timeout on the leader's clock.
fn worth(timeout: Duration) -> Duration {
    timeout.saturating_sub(timeout / CLOCK_SHARE)
}

/// Half a tick is at most a quarter of the timeout.
const HALF_TICK_SHARE: (u32, u32) = (5, 20);
/// Touches before or during a gap between the leader's replies longer than this share of the timeout do not count from
/// their reply.
const GAP_SHARE: (u32, u32) = (4, 20);
/// A leader that replies marks a session that it is about to expire as closing within this share of the timeout.
const EXPIRY_SHARE: (u32, u32) = (1, 20);
/// Clocks differ in rate by less than one part in this number.
const CLOCK_SHARE: u32 = 50;
const TOUCHES_PER_TIMEOUT: u32 = 40;
const MOST_TOUCHES: usize = 64;

#[cfg(test)]
mod tests;
