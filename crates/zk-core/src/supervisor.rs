//! Runs an application with one session after the other.

use crate::retry::RetryPolicy;
use crate::session::Session;
use crate::session::builder::SessionBuilder;
use crate::sessions::RunError;

impl SessionBuilder {
    /// Opens a session and runs `body` with it. When the session is lost, drops the running `body`, opens a new session
    /// and runs `body` again.
    ///
    /// Use it in the outermost layer of an application that rebuilds everything with each session.
    /// It is [`Sessions::run`](crate::Sessions::run) with [sessions](Self::sessions) of its own: before it returns, it closes the
    /// session, which deletes its ephemeral nodes.
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
    /// Those of [`Sessions::run`](crate::Sessions::run).
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
        body: impl FnMut(Session) -> F,
    ) -> Result<T, RunError<E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        let sessions = self.sessions(reopening);
        let result = sessions.run(body).await;
        if let Err(error) = sessions.close().await {
            tracing::warn!(%error, "cannot close the session; it ends after its timeout");
        }
        result
    }
}
