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
//!   The leader answers nothing meanwhile, so that a standstill is no longer than the longest gap between its answers,
//!   to commits and to `sync`: the proof takes [`HALF_TICK_SHARE`] and that gap from the answer on.
//!   What was answered before or during a gap longer than [`GAP_SHARE`] counts as answered at the end of the gap.
//! - *By a move.* When the link was seen broken after the touch was answered, and the commit was sent after that, the
//!   session has moved in between, and the leader heard of it by the move, if not before.
//!
//! Then the leader keeps the session until one timeout after the touch was sent, at least.
//!
//! Once that has run out, the leader may be about to expire the session: its expiry thread has taken the session off
//! its list, and until it marks it as closing, a moment later, a move, a touch and a write are accepted and save nothing.
//! A commit after the lapse therefore proves a touch only by time, over one link, and only if it was sent later than
//! the touch was heard by as long as that moment can take: [`EXPIRY_SHARE`] and one more gap.
//! Either the session was taken off before the touch was heard, and then the commit is refused, or the touch counts.
//!
//! The gaps are known only while the session asks the leader all the time, which it does while it is relied on and for
//! a minute after. A session that was idle for longer begins anew: its first proof takes two fifths of the timeout.
//!
//! What is assumed: the session timeout is at least two ticks, as servers enforce by default; the leader's clock and
//! this one differ in rate by less than [`CLOCK_SHARE`]; this machine's monotonic clock runs while the process is
//! stopped, which it does, but it stands still while a whole machine is suspended; and a leader that goes on answering
//! for [`EXPIRY_SHARE`] has given its ping and expiry threads a turn.

use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

/// The proof of one session, moved forward by what its client sees.
#[derive(Debug, Clone)]
pub(crate) struct LeaseProof {
    timeout: Duration,
    /// Answered requests that the leader may not have heard of yet, oldest first.
    touches: VecDeque<Touch>,
    until: Instant,
    /// When the newest request was sent that the leader has answered.
    last_reach: Instant,
    /// When the newest request was sent that the quorum has carried out.
    last_commit: Instant,
    /// The newest instant at which the link was certainly broken.
    broken: Option<Instant>,
    /// How often the link has broken, as far as is known.
    breaks: u64,
    /// The planted flaw: a lapsed proof is revived as one that holds is extended.
    #[cfg(test)]
    is_revived_at_once: bool,
}

#[derive(Debug, Clone, Copy)]
struct Touch {
    sent: Instant,
    answered: Instant,
    /// From when on the follower had the time to tell it.
    from: Instant,
    /// The longest gap between answers of the leader since then.
    gap: Duration,
    /// Whether the session may have moved to another server since.
    has_moved: bool,
}

impl LeaseProof {
    /// The proof of a session that was opened between `asked` and now.
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

    /// The proof of a session that the quorum does not know: there is none.
    pub(crate) fn unproven(timeout: Duration, asked: Instant) -> Self {
        Self {
            until: asked,
            ..Self::opened(timeout, asked)
        }
    }

    /// Until when the ensemble certainly keeps the session.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// A request was answered, whatever the answer; after what else it is, see [`reached`](Self::reached).
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

    /// The link has broken so often by now, and certainly was at this instant, which no answer over an earlier link
    /// comes after.
    pub(crate) fn broke(&mut self, breaks: u64, at: Option<Instant>) {
        self.broken = self.broken.max(at);
        if breaks > self.breaks {
            self.breaks = breaks;
            for touch in &mut self.touches {
                touch.has_moved = true;
            }
        }
    }

    /// A request that only a leader can answer was answered, be it one that was deposed and does not know it.
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

    /// A request that only the quorum can carry out was carried out.
    pub(crate) fn committed(&mut self, sent: Instant, answered: Instant) {
        self.reached(sent, answered);
        if sent < self.last_commit {
            // The answer to a later one came first, and said all that this one can say.
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

    /// Whether a commit that is answered now may be one that the leader accepts while it expires the session.
    fn is_revival(&self, answered: Instant) -> bool {
        #[cfg(test)]
        if self.is_revived_at_once {
            return false;
        }
        answered > self.until
    }

    /// When a touch certainly was heard, and, if the proof had lapsed, was heard in time or not at all.
    fn heard(&self, touch: &Touch, has_lapsed: bool) -> Instant {
        let usual = touch.from + self.half_tick() + touch.gap;
        if has_lapsed {
            usual + touch.gap + self.timeout * EXPIRY_SHARE.0 / EXPIRY_SHARE.1
        } else {
            usual
        }
    }

    /// Whether the proof holds, and will go on to hold if the ensemble answers: what was answered will have been heard
    /// before it ends.
    pub(crate) fn is_lasting(&self, now: Instant) -> bool {
        let oldest = self.touches.front();
        let (from, gap) = oldest.map_or((now, Duration::ZERO), |touch| (touch.from, touch.gap));
        let usual_gap = self.timeout / 10;
        let heard = from + self.half_tick() + gap.max(usual_gap);
        now < self.until && heard + self.timeout / 10 <= self.until
    }

    /// From when on a commit proves the oldest touch that it can prove at all.
    fn provable(&self) -> Option<Instant> {
        let usual = self.heard(self.touches.front()?, false);
        if usual + self.timeout / 20 <= self.until {
            return Some(usual);
        }
        let mut touches = self.touches.iter();
        let oldest = touches.find(|touch| !touch.has_moved)?;
        Some(self.heard(oldest, true))
    }

    /// When the leader must be asked next for its answers to leave no gap; sooner while no proof is near, which takes
    /// the longer the longer the gaps are.
    pub(crate) fn reach_due(&self, now: Instant) -> Instant {
        let is_hurried = !self.is_lasting(now) && self.provable().is_none_or(|at| now < at);
        self.last_reach + self.timeout / if is_hurried { 20 } else { 10 }
    }

    /// When the quorum must carry out something next for the proof not to end, or to begin again.
    pub(crate) fn commit_due(&self, now: Instant) -> Instant {
        let soonest = self.last_commit + self.timeout / TOUCHES_PER_TIMEOUT;
        let usual = self.last_commit + self.timeout / 4;
        let least = if self.is_lasting(now) { usual } else { soonest };
        let has_moved = now < self.until && self.broken.is_some_and(|at| at > self.last_commit);
        match self.provable() {
            None => usual,
            // It proves what was answered before the move.
            Some(_) if has_moved => least,
            // An earlier one would prove nothing.
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

/// What a timeout on the leader's clock is on ours, at least.
fn worth(timeout: Duration) -> Duration {
    timeout.saturating_sub(timeout / CLOCK_SHARE)
}

/// Half a tick is a quarter of the timeout at most.
const HALF_TICK_SHARE: (u32, u32) = (5, 20);
/// Answers of the leader that are further apart than this share of the timeout are not counted with.
const GAP_SHARE: (u32, u32) = (4, 20);
/// A leader that answers marks a session as closing within this share of the timeout, once it is about to expire it.
const EXPIRY_SHARE: (u32, u32) = (1, 20);
/// Clocks run at the same rate up to this share.
const CLOCK_SHARE: u32 = 50;
const TOUCHES_PER_TIMEOUT: u32 = 40;
const MOST_TOUCHES: usize = 64;

#[cfg(test)]
mod tests;
