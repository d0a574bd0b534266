//! Scripted failures: a builder that selects requests and an effect, and the handle of the result.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zk_core::transport::{Request, TransportError};
use zk_core::{MultiResult, SessionId};

use crate::control::index;
use crate::driver::Driver;
use crate::script::{Act, Proposal, Rule, Turn};
use crate::server_reply::ServerReply;

/// A builder of a scripted failure: it selects requests, and a method such as [`lose_reply`](Self::lose_reply)
/// completes it.
///
/// Requests are counted when they are sent, from the completion of the script on.
/// If several scripts match a request, the oldest applies.
#[must_use = "a script has no effect before a method such as `lose_reply` completes it"]
pub struct Script {
    driver: Arc<Driver>,
    rule: Rule,
}

impl Script {
    pub(crate) fn new(
        driver: &Arc<Driver>,
        matcher: impl Fn(&Request) -> bool + Send + 'static,
    ) -> Self {
        Self {
            driver: Arc::clone(driver),
            rule: Rule::new(Box::new(matcher)),
        }
    }

    /// Selects only the requests of one session.
    pub fn session(mut self, session: SessionId) -> Self {
        self.rule.session = Some(session);
        self
    }

    /// Selects the matching request with this number, from 1; default the first.
    pub fn nth(mut self, nth: usize) -> Self {
        self.rule.turn = Turn::Nth(nth);
        self
    }

    /// Selects every matching request.
    pub fn every(mut self) -> Self {
        self.rule.turn = Turn::From(1);
        self
    }

    /// Selects the matching requests from this number on.
    pub fn from(mut self, nth: usize) -> Self {
        self.rule.turn = Turn::From(nth);
        self
    }

    /// Sets the reason that the client sees when the link breaks.
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.rule.cause = cause.into();
        self
    }

    /// The link breaks before the client has written the request, which it sends on the next link.
    ///
    /// Requests in flight are lost. There the request counts as another one, which the script may match again.
    pub fn postpone(self) -> Scripted {
        self.add(Act::Postpone)
    }

    /// The link breaks before the request reaches its server, so the request is not applied.
    pub fn lose_request(self) -> Scripted {
        self.add(Act::LoseRequest)
    }

    /// The request is applied, and the link breaks instead of the reply.
    pub fn lose_reply(self) -> Scripted {
        self.add(Act::LoseReply)
    }

    /// The link breaks, and the write gets stuck between its server and the leader.
    ///
    /// [`Scripted::release`] forwards it to the leader, which applies it unless the session has moved to another
    /// server. If the session returns to the same server, the write is applied first.
    /// A read is lost.
    pub fn stall(self) -> Scripted {
        self.add(Act::Stall)
    }

    /// The link breaks while the leader commits the write; the session continues at server `to`, which does not show
    /// the write yet.
    ///
    /// The server applies it after half a second, or, if it lags already, when that lag ends.
    /// A read is lost.
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub fn stall_then_move(self, to: usize) -> Scripted {
        let to = index(&self.driver, to);
        self.add(Act::StallThenMove { to })
    }

    /// The leader stops after it has proposed the write and before the commit; `proposal` decides whether the write
    /// survives.
    ///
    /// All links break, and the other servers elect another leader if they are a quorum.
    /// A read is lost.
    pub fn kill_leader(self, proposal: Proposal) -> Scripted {
        self.add(Act::KillLeader(proposal))
    }

    /// The request is applied; its reply and all later messages are delayed until [`Scripted::release`].
    pub fn hold(self) -> Scripted {
        self.add(Act::Hold)
    }

    /// The request is not applied, and the reply is `fault`. The link stays up.
    pub fn refuse(self, fault: TransportError) -> Scripted {
        self.add(Act::Refuse(fault))
    }

    /// The request is applied, but the reply is `fault`. The link stays up.
    pub fn misreport(self, fault: TransportError) -> Scripted {
        self.add(Act::Misreport(Err(fault)))
    }

    /// The request is applied, but the reply is that of a transaction with these results. The link stays up.
    pub fn misreport_results(self, results: Vec<MultiResult>) -> Scripted {
        self.add(Act::Misreport(Ok(ServerReply::Committed(results))))
    }

    fn add(mut self, act: Act) -> Scripted {
        self.rule.act = act;
        let Self { driver, rule } = self;
        let rule = driver.with(|world| world.add_rule(rule));
        Scripted { driver, rule }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rule.fmt(f)
    }
}

/// A scripted failure.
///
/// # Dropping
///
/// The failure remains scripted.
#[derive(Debug, Clone)]
pub struct Scripted {
    driver: Arc<Driver>,
    rule: usize,
}

impl Scripted {
    /// Returns how often the failure has occurred.
    pub fn count(&self) -> usize {
        self.driver.with(|world| world.rule(self.rule).applied)
    }

    /// Releases the requests that it holds or stalls, now and in the future.
    pub fn release(&self) {
        self.driver.with(|world| world.release(self.rule));
    }

    /// Ends the failure, and releases the requests that it holds or stalls.
    pub fn withdraw(&self) {
        self.driver.with(|world| world.withdraw(self.rule));
    }

    /// Waits until the failure has occurred.
    ///
    /// # Panics
    ///
    /// If it has not occurred after a minute of Tokio's time.
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
            "the scripted failure did not occur within {LONGEST_WAIT:?}; {seen} requests matched it"
        );
    }
}

const LONGEST_WAIT: Duration = Duration::from_secs(60);
