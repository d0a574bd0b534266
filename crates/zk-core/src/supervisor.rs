//! The next session for an application whose session was lost.

use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

use crate::deadline::Deadline;
use crate::retry::RetryPolicy;
use crate::session::ConnectError;
use crate::session::Session;
use crate::session::SessionBuilder;
use crate::transport::SessionEnd;

impl SessionBuilder {
    /// Opens a session and runs `body` with it; when the session is lost, and only then, drops what is running, opens
    /// the next session and runs `body` again.
    ///
    /// This is for the outermost layer of an application, which knows everything that was built on the lost session
    /// and builds it again: locks, elections, caches.
    /// It returns what `body` answers as soon as it answers `Ok`, or `Err` while the session is alive; an `Err` that
    /// comes with the loss of the session is taken for its consequence.
    /// The session is closed first, so that its ephemeral nodes are gone.
    ///
    /// A session that is [closed](Session::close) by the application, in `body` or elsewhere, is not lost: `body` is
    /// neither dropped nor run again, and whatever it answers is returned.
    ///
    /// Before it tries to connect again it pauses as `reopening` says; sessions that were lost or not granted count as
    /// its attempts, and the count begins anew when a session has lasted for longer than its timeout.
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
    /// use zk_core::RetryPolicy;
    /// use zk_core::Session;
    ///
    /// Session::builder("zk1,zk2,zk3")
    ///     .supervise(RetryPolicy::default(), async |session| {
    ///         session.create("/workers/me", "").ephemeral().parents().await?;
    ///         serve(&session).await
    ///     })
    ///     .await?;
    /// # async fn serve(_: &Session) -> Result<(), zk_core::Error> { Ok(()) }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`SuperviseError::Body`] has the error of `body`.
    /// [`SuperviseError::Connect`] when no session can be opened: at once when the cause will not pass (an option,
    /// the connect string, credentials), otherwise when `reopening` gives up.
    /// [`SuperviseError::SessionLost`] when `reopening` gives up after a loss.
    ///
    /// # Cancel safety
    ///
    /// Safe: `body` is dropped, and the session ends in the background.
    /// While the session of a `body` that has ended is being closed, its answer is lost.
    ///
    /// # Session loss
    ///
    /// That is what it is for.
    pub async fn supervise<T, E, F>(
        self,
        reopening: RetryPolicy,
        mut body: impl FnMut(Session) -> F,
    ) -> Result<T, SuperviseError<E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        let mut failures = 0;
        let mut since = Instant::now();
        loop {
            let last = match self.clone().connect().await {
                Ok(session) => {
                    let opened = Instant::now();
                    let mut running = pin!(body(session.clone()));
                    let (result, end) = tokio::select! {
                        biased;
                        result = &mut running => (Some(result), session.state().end()),
                        end = session.lost() => match end {
                            SessionEnd::Closed => (Some(running.await), Some(end)),
                            _ => (None, Some(end)),
                        },
                    };
                    match (result, end) {
                        (Some(Ok(value)), _) => {
                            close(&session).await;
                            return Ok(value);
                        }
                        (Some(Err(error)), None | Some(SessionEnd::Closed)) => {
                            close(&session).await;
                            return Err(SuperviseError::Body(error));
                        }
                        (Some(Err(_)) | None, _) => {}
                    }
                    tracing::warn!(session = %session.id(), ?end, "the session is lost, opening another one");
                    if opened.elapsed() > session.session_timeout() {
                        failures = 0;
                        since = Instant::now();
                    }
                    SuperviseError::SessionLost
                }
                Err(error @ ConnectError::Unanswered(_)) => {
                    tracing::warn!(%error, "no session was granted");
                    SuperviseError::Connect(error)
                }
                Err(error) => return Err(SuperviseError::Connect(error)),
            };
            failures += 1;
            let Some(pause) = reopening.pause(failures, since.elapsed(), fastrand::f64) else {
                return Err(last);
            };
            Deadline::after(Duration::MAX).pause(pause).await;
        }
    }
}

/// Ends the session of a body that has ended, unless it is over.
async fn close(session: &Session) {
    if let Err(error) = session.close().await
        && !session.state().is_lost()
    {
        tracing::warn!(session = %session.id(), %error, "the session ends after its timeout");
    }
}

/// A supervised application ended with an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuperviseError<E> {
    /// No session could be opened.
    #[error("no session could be opened")]
    Connect(#[source] ConnectError),
    /// The session was lost, and the policy allows no other one.
    #[error("the session is lost, and no other one is to be opened")]
    SessionLost,
    /// The application gave up.
    #[error(transparent)]
    Body(E),
}
