//! Ending a session as if it had expired.

use std::time::Duration;

use tokio::time::Instant;
use zk_fault_proxy::end_session;
use zk_fault_proxy::probe_writes;

use super::java::session_password;
use crate::ensemble::Ensemble;
use crate::error::Error;
use crate::wait::Looks;

impl Ensemble {
    /// Has the ensemble end a session of any client, now: its ephemeral nodes go, and its client hears that it expired.
    ///
    /// `session` is the id on the wire, which `dump`, `cons` and a server's log show in hexadecimal.
    /// It is closed from a second connection that presents its id and password, so nothing is waited for but a
    /// transaction; the client sees what it would see had it been silent for its session timeout.
    /// A client that takes its session back meanwhile, which breaks that connection, is outrun with another one.
    /// When this returns, the leader has committed the end of the session.
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] if nobody leads, [`Error::NoSuchSession`] if there is no such session any more, and
    /// [`Error::Expire`] if the leader gave no answer within 10 s; whether the session ended is then not known.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the session ends.
    pub async fn expire(&self, session: i64) -> Result<(), Error> {
        let deadline = Instant::now() + ANSWER_WITHIN;
        let mut polls = Polls::within(ANSWER_WITHIN, POLL_EVERY);
        let password = session_password(session);
        let mut leader = self.leader().await?;
        let mut known = Known::default();
        loop {
            let addr = leader.client_address();
            let remaining = deadline.saturating_duration_since(Instant::now());
            let (answer, mut failed) = match end_session(addr, session, &password, remaining).await
            {
                Ok(true) => (Answer::Ended, None),
                Ok(false) => (Answer::Denied, None),
                Err(error) if error.is_broken() => (Answer::Broken, Some(error)),
                Err(error) => (Answer::Missing, Some(error)),
            };
            match known.next(answer) {
                Next::Done => return Ok(()),
                Next::NoSession => return Err(Error::NoSuchSession { session }),
                Next::Write => {
                    let written = probe_writes(addr, remaining).await;
                    known.is_written_since = written.is_ok();
                    failed = written.err();
                }
                Next::Again => {}
            }
            if let Some(failed) = failed {
                if answer == Answer::Missing || !polls.again().await {
                    return Err(Error::Expire {
                        session,
                        source: Box::new(failed),
                    });
                }
                // Another one may lead by now, or nobody for a moment.
                if let Ok(now) = self.leader().await {
                    leader = now;
                }
            }
        }
    }
}

/// What became of a request to end the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// It is carried out, and that is committed.
    Ended,
    /// There is no such session.
    Denied,
    /// The connection broke: the client took its session back, or the server is no longer the leader.
    Broken,
    /// There was none, or one that makes no sense.
    Missing,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Done,
    NoSession,
    /// Write something, and ask again.
    ///
    /// A leader denies a session from the moment at which it begins to end it. Another leader may know nothing of that
    /// and have the session back. What is written later is in the log behind it: once that is committed, so is the end.
    Write,
    /// Ask again, if there was an answer or there may be one.
    Again,
}

/// What is known of the end of a session that is asked for until it is certain.
#[derive(Debug, Default)]
struct Known {
    /// Whether an earlier request to end it may have been carried out.
    is_open: bool,
    /// Whether something was written since the leader first said that there is no such session.
    is_written_since: bool,
}

impl Known {
    fn next(&mut self, answer: Answer) -> Next {
        match answer {
            Answer::Ended => Next::Done,
            Answer::Denied if !self.is_open => Next::NoSession,
            Answer::Denied if self.is_written_since => Next::Done,
            Answer::Denied => Next::Write,
            Answer::Broken | Answer::Missing => {
                self.is_open = true;
                self.is_written_since = false;
                Next::Again
            }
        }
    }
}

const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const POLL_EVERY: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_is_denied_after_a_broken_connection_is_asked_for_again_behind_a_write() {
        let mut known = Known::default();
        assert_eq!(known.next(Answer::Broken), Next::Again);
        assert_eq!(known.next(Answer::Denied), Next::Write);
        assert_eq!(known.next(Answer::Denied), Next::Write, "none was written");
        known.is_written_since = true;
        assert_eq!(known.next(Answer::Denied), Next::Done);
    }

    #[test]
    fn what_was_written_before_another_leader_had_the_session_back_proves_nothing() {
        let mut known = Known::default();
        known.next(Answer::Broken);
        known.is_written_since = true;
        assert_eq!(known.next(Answer::Broken), Next::Again);
        assert_eq!(known.next(Answer::Denied), Next::Write);
    }

    #[test]
    fn only_a_session_that_nobody_asked_for_yet_is_none() {
        assert_eq!(Known::default().next(Answer::Denied), Next::NoSession);
        assert_eq!(Known::default().next(Answer::Ended), Next::Done);
    }
}
