//! Ends a session as if it had expired.

use std::time::Duration;

use tokio::time::Instant;
use zk_fault_proxy::{end_session, probe_writes};

use super::java::session_password;
use crate::ensemble::Ensemble;
use crate::error::Error;
use crate::wait::Polls;

impl Ensemble {
    /// Ends a session of any client at once: its ephemeral nodes are deleted, and its client sees that it expired.
    ///
    /// `session` is the session id, which `dump`, `cons` and a server's log show in hexadecimal.
    /// A second connection resumes the session with its id and password and closes it, so this takes only one
    /// transaction. The client sees the same as after a silence of its session timeout.
    /// If the client reconnects meanwhile, which closes the second connection, the attempt is repeated.
    /// When this returns, the leader has committed the end of the session.
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] without a leader for 10 s, [`Error::NoSuchSession`] if the session does not exist, and
    /// [`Error::Expire`] without a reply of the leader within 60 s; it is unknown then whether the session ended.
    ///
    /// # Cancel safety
    ///
    /// After a cancelled call it is unknown whether the session ended.
    pub async fn expire(&self, session: i64) -> Result<(), Error> {
        let password = session_password(session);
        let mut leader = self.wait_leader(LEADER_WITHIN).await?;
        let deadline = Instant::now() + REPLY_WITHIN;
        let mut polls = Polls::within(REPLY_WITHIN, POLL_EVERY);
        let mut state = ExpireState::default();
        loop {
            let addr = leader.client_address();
            let remaining = deadline.saturating_duration_since(Instant::now());
            let (attempt, mut failed) = match end_session(addr, session, &password, remaining).await
            {
                Ok(true) => (Attempt::Ended, None),
                Ok(false) => (Attempt::NoSession, None),
                Err(error) if error.is_broken() => (Attempt::Broken, Some(error)),
                Err(error) => (Attempt::NoReply, Some(error)),
            };
            match state.next(attempt) {
                Next::Done => return Ok(()),
                Next::NoSession => return Err(Error::NoSuchSession { session }),
                Next::Write => {
                    let written = probe_writes(addr, remaining).await;
                    state.is_written_since = written.is_ok();
                    failed = written.err();
                }
                Next::Retry => {}
            }
            if let Some(failed) = failed {
                if attempt == Attempt::NoReply || !polls.again().await {
                    return Err(Error::Expire {
                        session,
                        source: Box::new(failed),
                    });
                }
                // There may be another leader by now, or none for a moment.
                if let Ok(now) = self.leader().await {
                    leader = now;
                }
            }
        }
    }
}

/// The outcome of one attempt to end the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// The end is committed.
    Ended,
    /// The session does not exist.
    NoSession,
    /// The connection broke: the client reconnected, or the server is no longer the leader.
    Broken,
    /// There was no reply, or an invalid one.
    NoReply,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Done,
    NoSession,
    /// Write a node, and repeat the attempt.
    ///
    /// A leader refuses a session as soon as it begins to end it. Another leader may not know of that and still have the
    /// session. A later write is behind the end of the session in the log: once the write is committed, so is the end.
    Write,
    /// Repeat the attempt.
    Retry,
}

/// The state of repeated attempts to end a session.
#[derive(Debug, Default)]
struct ExpireState {
    /// Whether an earlier attempt may have succeeded.
    is_uncertain: bool,
    /// Whether a node was written since the leader first reported that the session does not exist.
    is_written_since: bool,
}

impl ExpireState {
    fn next(&mut self, attempt: Attempt) -> Next {
        match attempt {
            Attempt::Ended => Next::Done,
            Attempt::NoSession if !self.is_uncertain => Next::NoSession,
            Attempt::NoSession if self.is_written_since => Next::Done,
            Attempt::NoSession => Next::Write,
            Attempt::Broken | Attempt::NoReply => {
                self.is_uncertain = true;
                self.is_written_since = false;
                Next::Retry
            }
        }
    }
}

/// An election may be going on.
const LEADER_WITHIN: Duration = Duration::from_secs(10);
const REPLY_WITHIN: Duration = Duration::from_secs(60);
const POLL_EVERY: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_session_after_a_broken_attempt_needs_a_write() {
        let mut state = ExpireState::default();
        assert_eq!(state.next(Attempt::Broken), Next::Retry);
        assert_eq!(state.next(Attempt::NoSession), Next::Write);
        assert_eq!(
            state.next(Attempt::NoSession),
            Next::Write,
            "nothing was written"
        );
        state.is_written_since = true;
        assert_eq!(state.next(Attempt::NoSession), Next::Done);
    }

    #[test]
    fn a_write_before_another_broken_attempt_does_not_count() {
        let mut state = ExpireState::default();
        state.next(Attempt::Broken);
        state.is_written_since = true;
        assert_eq!(state.next(Attempt::Broken), Next::Retry);
        assert_eq!(state.next(Attempt::NoSession), Next::Write);
    }

    #[test]
    fn a_first_attempt_believes_the_reply() {
        assert_eq!(
            ExpireState::default().next(Attempt::NoSession),
            Next::NoSession
        );
        assert_eq!(ExpireState::default().next(Attempt::Ended), Next::Done);
    }
}
