//! Opens a new session and restarts the application when its session is lost.

use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

use crate::deadline::Deadline;
use crate::retry::RetryPolicy;
use crate::session::Session;
use crate::session::builder::ConnectError;
use crate::session::builder::SessionBuilder;
use crate::transport::SessionEnd;

impl SessionBuilder {
    /// Opens a session and runs `body` with it. When the session is lost, drops the running `body`, opens a new session
    /// and runs `body` again.
    ///
    /// Use it in the outermost layer of an application, which can rebuild everything that depends on the session:
    /// locks, elections, caches.
    /// It returns the result of `body` if that is `Ok`, or if it is `Err` and the session is alive.
    /// If the session is lost, it treats an `Err` as a consequence of the loss, and runs `body` again.
    /// Before it returns, it closes the session, which deletes its ephemeral nodes.
    ///
    /// A session that the application [closes](Session::close), in `body` or elsewhere, is not lost: `body` runs to its
    /// end, and its result is returned.
    ///
    /// `reopening` sets the pauses between connection attempts. Lost sessions and failed connection attempts count as
    /// attempts. The count starts again after a session that lived longer than its timeout.
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
    /// [`SuperviseError::Body`] contains the error of `body`.
    /// [`SuperviseError::Connect`] if no session can be opened: immediately for a permanent cause (an option, the
    /// connect string, credentials), otherwise when `reopening` gives up.
    /// [`SuperviseError::SessionLost`] if `reopening` gives up after a loss.
    ///
    /// # Cancel safety
    ///
    /// Safe: `body` is dropped, and the session is closed in the background.
    /// If `body` has already ended and its session is being closed, the result of `body` is lost.
    ///
    /// # Session loss
    ///
    /// `body` is dropped and runs again with a new session.
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
                    tracing::warn!(session = %session.id(), ?end, "session lost, opening a new one");
                    if opened.elapsed() > session.session_timeout() {
                        failures = 0;
                        since = Instant::now();
                    }
                    SuperviseError::SessionLost
                }
                Err(error @ ConnectError::Unanswered(_)) => {
                    tracing::warn!(%error, "cannot open a session");
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

/// Closes the session of a completed body, unless the session is over.
async fn close(session: &Session) {
    if let Err(error) = session.close().await
        && !session.state().is_lost()
    {
        tracing::warn!(session = %session.id(), %error, "cannot close the session; it ends after its timeout");
    }
}

/// A supervised application ended with an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuperviseError<E> {
    /// No session could be opened.
    #[error("no session could be opened")]
    Connect(#[source] ConnectError),
    /// The session was lost, and the retry policy allows no further session.
    #[error("the session is lost, and the retry policy allows no further session")]
    SessionLost,
    /// The application returned an error.
    #[error(transparent)]
    Body(E),
}
