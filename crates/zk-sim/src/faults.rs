//! Scripted failures: which request is applied, and what happens to it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zk_core::SessionId;
use zk_core::transport::Fault;
use zk_core::transport::Request;

use crate::control::index;
use crate::driver::Driver;
use crate::script::Act;
use crate::script::Proposal;
use crate::script::Rule;
use crate::script::Turn;

/// A failure about to be scripted: the requests it is meant for, until one of the last methods says what happens.
///
/// Requests are counted when they are sent, from the moment the script is complete.
/// When several scripts want the same request, the oldest has it.
#[must_use = "nothing happens before it is said what"]
pub struct Script {
    driver: Arc<Driver>,
    matcher: Box<dyn Fn(&Request) -> bool + Send>,
    session: Option<SessionId>,
    turn: Turn,
    cause: String,
}

impl Script {
    pub(crate) fn new(
        driver: &Arc<Driver>,
        matcher: impl Fn(&Request) -> bool + Send + 'static,
    ) -> Self {
        Self {
            driver: Arc::clone(driver),
            matcher: Box::new(matcher),
            session: None,
            turn: Turn::Nth(1),
            cause: DEFAULT_CAUSE.to_owned(),
        }
    }

    /// Means the requests of one session only.
    pub fn session(mut self, session: SessionId) -> Self {
        self.session = Some(session);
        self
    }

    /// Means the request with this number among those that match, from 1; default the first.
    pub fn nth(mut self, nth: usize) -> Self {
        self.turn = Turn::Nth(nth);
        self
    }

    /// Means every request that matches.
    pub fn every(mut self) -> Self {
        self.turn = Turn::From(1);
        self
    }

    /// Means every request that matches from the one with this number on.
    pub fn from(mut self, nth: usize) -> Self {
        self.turn = Turn::From(nth);
        self
    }

    /// Sets what the client sees as the reason when the link breaks.
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.cause = cause.into();
        self
    }

    /// The link breaks before the request reaches its server: it is not carried out.
    pub fn lose_request(self) -> Scripted {
        self.add(Act::LoseRequest)
    }

    /// The request is carried out, and the link breaks in place of the answer.
    pub fn lose_reply(self) -> Scripted {
        self.add(Act::LoseReply)
    }

    /// The link breaks while the write is between its server and the leader, where it stays.
    ///
    /// [`Scripted::release`] lets it come to the leader, which carries it out unless the session has gone on at another
    /// server: then it never lands.
    /// When the session comes back at the same server, the write lands before.
    /// A read is just lost.
    pub fn stall(self) -> Scripted {
        self.add(Act::Stall)
    }

    /// The link breaks while the write is on its way to the leader; the session goes on at server `to`, and the leader
    /// commits the write while that server does not show it yet.
    ///
    /// The server shows it after half a second, or, when it lags already, as it does then.
    /// A read is just lost.
    ///
    /// # Panics
    ///
    /// When there is no such server.
    pub fn stall_then_move(self, to: usize) -> Scripted {
        let to = index(&self.driver, to);
        self.add(Act::StallThenMove { to })
    }

    /// The leader stops after it has proposed the write and before it is committed; what becomes of the write is
    /// `proposal`.
    ///
    /// All links break, and the other servers elect another leader if they are enough.
    /// A read is just lost.
    pub fn kill_leader(self, proposal: Proposal) -> Scripted {
        self.add(Act::KillLeader(proposal))
    }

    /// The request is carried out; the answer and everything after it stay on their way until
    /// [`Scripted::release`].
    pub fn hold(self) -> Scripted {
        self.add(Act::Hold)
    }

    /// The request is answered by `fault` and not carried out. The link stays.
    pub fn refuse(self, fault: Fault) -> Scripted {
        self.add(Act::Refuse(fault))
    }

    /// The request is carried out and yet answered by `fault`. The link stays.
    pub fn misreport(self, fault: Fault) -> Scripted {
        self.add(Act::Misreport(fault))
    }

    fn add(self, act: Act) -> Scripted {
        let Self {
            driver,
            matcher,
            session,
            turn,
            cause,
        } = self;
        let rule = driver.with(|world| {
            world.add_rule(Rule {
                matcher,
                session,
                turn,
                act,
                cause,
                matched: 0,
                applied: 0,
                is_released: false,
            })
        });
        Scripted { driver, rule }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("session", &self.session)
            .field("turn", &self.turn)
            .finish_non_exhaustive()
    }
}

/// A failure in the script.
///
/// # Dropping
///
/// It stays in the script.
#[derive(Debug, Clone)]
pub struct Scripted {
    driver: Arc<Driver>,
    rule: usize,
}

impl Scripted {
    /// Returns how often it has happened.
    pub fn count(&self) -> usize {
        self.driver.with(|world| world.rule(self.rule).applied)
    }

    /// Lets go what it holds or has stalled, now and from now on.
    pub fn release(&self) {
        self.driver.with(|world| world.release(self.rule));
    }

    /// Takes it out of the script, and lets go what it holds or has stalled.
    pub fn withdraw(&self) {
        self.driver.with(|world| world.withdraw(self.rule));
    }

    /// Waits until it has happened.
    ///
    /// # Panics
    ///
    /// When it has not happened after a minute of Tokio's time.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    pub async fn happened(&self) {
        let waited = tokio::time::timeout(LONGEST_WAIT, async {
            loop {
                let mut applied = std::pin::pin!(self.driver.rule_applied.notified());
                applied.as_mut().enable();
                if self.count() > 0 {
                    return;
                }
                applied.await;
            }
        })
        .await;
        let seen = self.driver.with(|world| world.rule(self.rule).matched);
        assert!(
            waited.is_ok(),
            "waited {LONGEST_WAIT:?} for a scripted failure; {seen} requests matched it"
        );
    }
}

const DEFAULT_CAUSE: &str = "connection reset by peer";
const LONGEST_WAIT: Duration = Duration::from_secs(60);
