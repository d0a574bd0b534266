//! The next session for an application whose session was lost.

use std::time::Duration;

use tokio::time::Instant;

use crate::deadline::Deadline;
use crate::retry::RetryPolicy;
use crate::session::ConnectError;
use crate::session::Session;
use crate::session::SessionBuilder;

impl SessionBuilder {
    /// Opens a session and runs `body` with it; when the session is lost, and only then, drops what is running, opens
    /// the next session and runs `body` again.
    ///
    /// This is for the outermost layer of an application, which knows everything that was built on the lost session
    /// and builds it again: locks, elections, caches.
    /// It returns what `body` answers as soon as it answers `Ok`, or `Err` while the session is alive; an `Err` that
    /// comes with the loss of the session is taken for its consequence.
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
                    tokio::select! {
                        biased;
                        result = body(session.clone()) => match result {
                            Ok(value) => return Ok(value),
                            Err(error) if !is_lost(&session) => return Err(SuperviseError::Body(error)),
                            Err(_) => {}
                        },
                        () = session.lost() => {}
                    }
                    tracing::warn!(session = %session.id(), "the session is lost, opening another one");
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

fn is_lost(session: &Session) -> bool {
    session.state() == crate::state::ConnectionState::Lost
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
