//! Computes until when the ensemble certainly keeps a session, from what its client has observed.
//!
//! Only the leader expires sessions, one timeout after it last heard of them.
//! It hears of a session in exactly three ways:
//!
//! - The session is opened or moves to another server. The leader hears of it before the client receives the reply.
//!   (A move is not used here, because its exact time is unknown.)
//! - The session is connected to the leader itself. The leader hears of each request
//!   (`ZooKeeperServer.submitRequestNow`).
//! - The session is connected to a learner, which is a follower or an observer. The learner records each request and
//!   reports it when the leader next pings it, every half tick (`Learner.ping`). Neither forwarding a write nor
//!   answering a read counts as a report.
//!
//! A single reply therefore proves nothing: the learner may fail before it reports to the leader.
//! The proof takes two requests: one with a reply (a *touch*, for which a read is enough), and a later one that the
//! quorum has committed (a *commit*).
//! The commit proves in one of three ways that the leader heard of the touch:
//!
//! - *By time.* Leader and learner communicate in order over one connection, so every report that the learner sent
//!   before the commit has arrived, and a leader that commits is the leader. The learner reports when the leader pings
//!   it, at most half a tick later, unless one of the two or the network between them pauses.
//!   The leader replies to nothing during such a pause, so a pause is no longer than the longest gap between its
//!   replies to commits and `sync`s. The proof takes [`REPORT_SHARE`] and that gap from the reply to the touch on.
//!   A touch whose reply came before or during a gap longer than [`GAP_SHARE`] counts from the end of the gap.
//!   From 3.5 on, a report can omit a session that is recorded at the same moment (`LearnerSessionTracker.snapshot`).
//!   Within the gap comes another request that the leader replies to, which is in the next report. If the leader pings
//!   more often than it replies, that report may be later: by twice the gap, and once more for the time of a ping.
//! - *By a move.* If the link was broken after the reply to the touch, and the commit was sent after that, the session
//!   moved in between, and the leader heard of it by the move at the latest.
//! - *At once*, if the session is connected to the leader.
//!
//! The leader then keeps the session for at least one timeout after the touch was sent: for the smallest timeout that
//! the session was ever granted. A move may grant another one, and a new leader counts with that of the creation.
//!
//! # Commits of other sessions
//!
//! A `sync` of a session on a learner is answered only after everything that the leader had proposed by then is
//! committed (`Leader.processSync`, which shares its monitor with `propose` and `tryToCommit`; COMMIT and INFORM are
//! sent before SYNC in the same queue). Each reply names the newest transaction that the learner has applied
//! (`FinalRequestProcessor`). A transaction that is newer than the one in the reply to the `sync`, seen later over the
//! same connection, was therefore proposed after the leader had processed the `sync`, and a quorum acknowledged it after
//! that. It proves whatever a commit of this session would prove that was sent with the `sync`.
//!
//! This does not hold on the leader, where a `sync` waits for nothing: a leader that is deposed and does not know it may
//! answer it, and then commit what was acknowledged before. So it is used only if the server is known to be a learner.
//! A server closes its connections before it takes another role, so its role holds as long as the connection.
//!
//! # After a lapse
//!
//! When that time has passed, the leader may be about to expire the session: its expiry thread has removed the session
//! from its list. Until the thread marks the session as closing, a moment later, the leader accepts moves, touches and
//! writes without extending the session (`SessionTrackerImpl.run`, from 3.5 on).
//! A commit after the lapse therefore proves a touch only by time, over one link, and only if it was sent later than
//! the leader heard of the touch by the longest such moment: [`EXPIRY_SHARE`] and one more gap.
//! If the session was removed from the list before the leader heard of the touch, the commit is refused; otherwise the
//! touch counts. Commits of other sessions prove nothing then.
//!
//! The gaps are known only while the session sends requests to the leader regularly. It does so while a handle relies
//! on it, and for a minute after. After a longer idle time, the first proof takes two fifths of the timeout.
//!
//! # Assumptions
//!
//! Each session timeout is at least two ticks, which servers enforce by default. All servers have the same limits of
//! the timeout, or the reply to each move arrives in time. A report omits no session twice in a row. Between a touch and
//! its report, the leader pauses at most once, or replies in between. The leader's clock and this
//! one differ in rate by less than [`CLOCK_SHARE`]. This machine's clock advances while the process does not run (see
//! `lease_clock`: not while a virtual machine is paused by its host, or restored). A leader that replies for [`EXPIRY_SHARE`] has run its ping
//! and expiry threads in that time. There is no Oracle quorum, no restore by the admin server, no `ObserverMaster` with
//! timeouts below four ticks, no local session (`localSessionsEnabled`) without an ephemeral node, and no other client
//! closes the session.
//!
//! The server code named here was read in 3.4.13, 3.5.9, 3.9.3 and 3.9.5.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::transport::ServerRole;

/// The proof for one session, extended by what its client observes.
#[derive(Debug, Clone)]
pub(crate) struct LeaseProof {
    timeout: Duration,
    /// Requests with a reply that the leader may not have heard of yet, oldest first.
    touches: VecDeque<Touch>,
    /// When the newest request was sent that the leader has certainly heard of; `None` in a session that the quorum does
    /// not know.
    heard: Option<Instant>,
    opened: Instant,
    /// When the newest request was sent that the leader has replied to.
    last_reach: Instant,
    /// When the newest request was sent that the quorum has committed.
    last_commit: Instant,
    /// The latest instant at which the link was certainly broken.
    broken: Option<Instant>,
    /// How often the link is known to have broken.
    breaks: u64,
    /// The role of the server at the other end of the link, if it is known.
    role: Option<ServerRole>,
    /// The last `sync` whose reply came over the link.
    sync: Option<Synced>,
    /// A deliberate flaw, which tests have to find.
    #[cfg(test)]
    flaw: Option<Flaw>,
}

/// A rule that is left out.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    /// A lapsed proof is renewed under the same rules as a valid one.
    RevivesAtOnce,
    /// A lapsed proof is renewed by commits of others.
    RevivesByOthers,
    /// Commits of others count in sessions on the leader.
    OthersOnLeader,
    /// A `sync` over an earlier link is compared with replies over this one.
    SyncOfEarlierLink,
    /// The timeout stays that of the first grant.
    FirstTimeout,
    /// Pauses between the leader's replies are ignored.
    NoGaps,
    /// Such pauses restart the time that a report takes, but shorter ones do not lengthen it.
    NoShortGaps,
    /// A learner reports at once.
    NoReportTime,
    /// No report omits a touch.
    NoOmissions,
}

/// A `sync` with a reply.
#[derive(Debug, Clone, Copy)]
struct Synced {
    sent: Instant,
    /// The newest transaction that the server had applied.
    zxid: i64,
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
            heard: Some(asked),
            opened: asked,
            last_reach: asked,
            last_commit: asked,
            broken: None,
            breaks: 0,
            role: None,
            sync: None,
            #[cfg(test)]
            flaw: None,
        }
    }

    /// Creates the state of a session that the quorum does not know, which has no proof.
    pub(crate) fn unproven(timeout: Duration, asked: Instant) -> Self {
        Self {
            heard: None,
            ..Self::opened(timeout, asked)
        }
    }

    /// Returns the instant until which the ensemble certainly keeps the session.
    pub(crate) fn until(&self) -> Instant {
        self.heard
            .map_or(self.opened, |heard| heard + worth(self.timeout))
    }

    /// Limits the session timeout to one that was granted by now.
    pub(crate) fn limit_timeout(&mut self, granted: Duration) {
        #[cfg(test)]
        if self.flaw == Some(Flaw::FirstTimeout) {
            return;
        }
        self.timeout = self.timeout.min(granted);
    }

    /// Returns how often the link is known to have broken.
    pub(crate) fn breaks(&self) -> u64 {
        self.breaks
    }

    /// Records the role of the server at the other end of the present link.
    pub(crate) fn connected_to(&mut self, role: ServerRole) {
        self.role = Some(role);
    }

    /// Returns whether commits of other sessions may prove this one alive.
    pub(crate) fn is_on_learner(&self) -> bool {
        self.role == Some(ServerRole::Learner)
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
            self.role = None;
            for touch in &mut self.touches {
                touch.has_moved = true;
            }
            #[cfg(test)]
            if self.flaw == Some(Flaw::SyncOfEarlierLink) {
                return;
            }
            self.sync = None;
        }
    }

    /// Records a reply that only a leader can give, which may be a deposed leader that does not know it yet.
    pub(crate) fn reached(&mut self, sent: Instant, answered: Instant) {
        if sent < self.last_reach {
            return;
        }
        let gap = answered.saturating_duration_since(self.last_reach);
        self.last_reach = sent;
        #[cfg(test)]
        if self.flaw == Some(Flaw::NoGaps) {
            return;
        }
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
            let by_time = self.counts_from(touch, has_lapsed) <= sent;
            if has_lapsed {
                by_time && !touch.has_moved
            } else {
                by_time || moved.is_some_and(|broken| touch.answered <= broken)
            }
        };
        if let Some(newest) = self.touches.iter().rposition(is_heard) {
            let heard = self.touches.drain(..=newest).next_back();
            let heard = heard.expect("it is there").sent;
            self.heard = self.heard.max(Some(heard));
        }
    }

    /// Records a reply to a `sync` over the present link, with the newest transaction that the server had applied.
    /// Called after [`applied`](Self::applied).
    pub(crate) fn synced(&mut self, sent: Instant, zxid: i64) {
        self.sync = Some(Synced { sent, zxid });
    }

    /// Records the newest transaction that the server had applied when it sent a reply over the present link.
    pub(crate) fn applied(&mut self, zxid: i64, answered: Instant) {
        if let Some(sync) = self.sync
            && sync.zxid < zxid
        {
            self.sync = None;
            if self.proves_by_others(answered) {
                self.committed(sync.sent, answered);
            }
        }
    }

    /// Returns whether a commit of another session, of which the client hears now, proves anything.
    fn proves_by_others(&self, answered: Instant) -> bool {
        #[cfg(test)]
        match self.flaw {
            Some(Flaw::RevivesByOthers) => return self.is_on_learner(),
            Some(Flaw::OthersOnLeader) => return answered <= self.until(),
            _ => {}
        }
        self.is_on_learner() && answered <= self.until()
    }

    /// Returns whether the leader may have accepted a commit, whose reply comes now, while it expires the session.
    fn is_revival(&self, answered: Instant) -> bool {
        #[cfg(test)]
        if matches!(self.flaw, Some(Flaw::RevivesAtOnce | Flaw::RevivesByOthers)) {
            return false;
        }
        answered > self.until()
    }

    /// Returns when a commit must have been sent so that it proves a touch.
    fn counts_from(&self, touch: &Touch, has_lapsed: bool) -> Instant {
        if !has_lapsed && !touch.has_moved && self.role == Some(ServerRole::Leader) {
            return touch.answered;
        }
        let gap = touch.gap;
        #[cfg(test)]
        let gap = match self.flaw {
            Some(Flaw::NoShortGaps) => Duration::ZERO,
            _ => gap,
        };
        let reported = self.report_time() + gap;
        // If a report omits it.
        let reported_next = 3 * gap + self.timeout / 40;
        #[cfg(test)]
        let reported_next = match self.flaw {
            Some(Flaw::NoOmissions) => Duration::ZERO,
            _ => reported_next,
        };
        let heard = touch.from + reported.max(reported_next);
        if has_lapsed {
            // The leader has heard of it in time or never.
            heard + gap + self.timeout * EXPIRY_SHARE.0 / EXPIRY_SHARE.1
        } else {
            heard
        }
    }

    /// Returns whether the proof holds and can be renewed before it ends, if the ensemble continues to reply.
    pub(crate) fn is_lasting(&self, now: Instant) -> bool {
        let usual_gap = self.timeout / 10;
        let counts_from = match self.touches.front() {
            Some(first) => self.counts_from(first, false) + usual_gap.saturating_sub(first.gap),
            None => now + self.report_time() + usual_gap,
        };
        now < self.until() && counts_from + self.timeout / 10 <= self.until()
    }

    /// Returns the instant from which a commit proves the oldest touch that it can prove at all.
    fn provable(&self) -> Option<Instant> {
        let usual = self.counts_from(self.touches.front()?, false);
        if usual + self.timeout / 20 <= self.until() {
            return Some(usual);
        }
        let oldest = self.touches.iter().find(|touch| !touch.has_moved)?;
        Some(self.counts_from(oldest, true))
    }

    /// Returns when the next request to the leader is due so that its replies leave no gap. It is due sooner while no
    /// proof is near, because longer gaps delay the proof.
    pub(crate) fn reach_due(&self, now: Instant) -> Instant {
        let is_hurried = !self.is_lasting(now) && self.provable().is_none_or(|at| now < at);
        self.last_reach + self.timeout / if is_hurried { TOUCHES_PER_TIMEOUT } else { 10 }
    }

    /// Returns when the next commit is due to extend the proof, or to renew it.
    pub(crate) fn commit_due(&self, now: Instant) -> Instant {
        let soonest = self.last_commit + self.timeout / TOUCHES_PER_TIMEOUT;
        let interval = match self.role {
            Some(ServerRole::Leader) => self.timeout / 2,
            Some(ServerRole::Learner) | None => self.timeout / 4,
        };
        let usual = self.last_commit + interval;
        let least = if self.is_lasting(now) {
            // Sooner if the proof ends sooner than usual, as a renewed one does.
            let last = self.until().checked_sub(self.timeout * 3 / 20);
            usual.min(last.map_or(now, |last| last.max(now)))
        } else {
            soonest
        };
        let has_moved = now < self.until() && self.broken.is_some_and(|at| at > self.last_commit);
        match self.provable() {
            None => usual,
            // The commit proves the touches from before the move.
            Some(_) if has_moved => least,
            // An earlier commit would prove nothing.
            Some(at) => at.max(least).max(soonest),
        }
    }

    /// Returns the longest time until a learner that is not paused reports a touch.
    fn report_time(&self) -> Duration {
        #[cfg(test)]
        if self.flaw == Some(Flaw::NoReportTime) {
            return Duration::ZERO;
        }
        self.timeout * REPORT_SHARE.0 / REPORT_SHARE.1
    }
}

/// Returns the minimum length on this machine's clock of a timeout on the leader's clock.
fn worth(timeout: Duration) -> Duration {
    timeout.saturating_sub(timeout / CLOCK_SHARE)
}

/// Half a tick is at most a quarter of the timeout. The rest is for what the leader's loop takes itself.
const REPORT_SHARE: (u32, u32) = (11, 40);
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
mod model;
#[cfg(test)]
mod tests;
