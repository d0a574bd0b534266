//! The sessions of an application, one after the other.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::deadline::Deadline;
use crate::error::Error;
use crate::retry::RetryPolicy;
use crate::session::Session;
use crate::session::builder::{ConnectError, SessionBuilder};
use crate::transport::SessionEnd;

/// The sessions of an application, one after the other, for what is to outlive each of them.
///
/// A background task opens the first session, and another one whenever a session is lost. Clones share them.
///
/// What a session guards ends with it: locks, claims and leadership are never carried over. But what only reads, or what
/// announces that the application is there, can go on with the next session. Such handles take a `Sessions` instead of a
/// [`Session`], and say what they are missing while there is none. [`run`](Self::run) is how they do it.
///
/// ```no_run
/// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
/// use zk_core::RetryPolicy;
/// use zk_core::Session;
///
/// let sessions = Session::builder("zk1,zk2,zk3").sessions(RetryPolicy::default());
/// let session = sessions.session().await?;
/// println!("the first one is {}", session.id());
/// # Ok(())
/// # }
/// ```
///
/// # Dropping
///
/// When the last clone is dropped, no further session is opened, and the current one is closed in the background as soon
/// as nothing else uses it. Each handle that was started with the sessions has a clone.
#[derive(Clone)]
pub struct Sessions {
    shared: Arc<Shared>,
}

/// Dropped with the last handle; the task does not hold it.
struct Shared {
    status: Arc<watch::Sender<Status>>,
    task: AbortHandle,
    runtime: Handle,
}

#[derive(Debug, Clone)]
enum Status {
    Opening,
    /// There is a session, which may be over by now.
    Open(Session),
    Ended(SessionsEnd),
}

/// Why there will be no further session.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SessionsEnd {
    /// The application closed its session, or all of them with [`Sessions::close`].
    #[error("the application has closed its sessions")]
    Closed,
    /// No session could be opened, and the retry policy allows no further attempt, or none would help.
    #[error("no session could be opened")]
    Connect(#[source] ConnectError),
    /// The session is lost, and the retry policy allows no further one.
    #[error("the session is lost, and the retry policy allows no further session")]
    Lost,
}

/// What runs with one session after the other ended with an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError<E> {
    /// There will be no further session.
    #[error(transparent)]
    Ended(SessionsEnd),
    /// The application returned an error.
    #[error(transparent)]
    Body(E),
}

impl SessionBuilder {
    /// Starts to open sessions, and returns a handle to them at once.
    ///
    /// `reopening` sets the pauses between connection attempts. Lost sessions and failed connection attempts count as
    /// attempts. The count starts again after a session that lived longer than its timeout.
    /// No further session is opened if the settings of the builder are not valid, or if the servers refuse the first
    /// session for a reason that the application has to remove: wrong or missing credentials, or a missing chroot. Once
    /// there was a session, such a refusal is an attempt like any other.
    ///
    /// # Panics
    ///
    /// Panics if called outside a Tokio runtime, which runs the task.
    pub fn sessions(self, reopening: RetryPolicy) -> Sessions {
        Sessions::with_connector(move || self.clone().connect(), reopening)
    }
}

impl Sessions {
    /// Opens each session with `connect`, as [`SessionBuilder::sessions`] does with a builder: for applications whose
    /// sessions need more than a builder can say, such as a namespace.
    ///
    /// # Panics
    ///
    /// Panics if called outside a Tokio runtime, which runs the task.
    pub fn with_connector<F>(
        connect: impl FnMut() -> F + Send + 'static,
        reopening: RetryPolicy,
    ) -> Self
    where
        F: Future<Output = Result<Session, ConnectError>> + Send + 'static,
    {
        let status = Arc::new(watch::Sender::new(Status::Opening));
        let runtime = Handle::current();
        let task = runtime.spawn(keep_open(connect, reopening, Arc::clone(&status)));
        Self {
            shared: Arc::new(Shared {
                status,
                task: task.abort_handle(),
                runtime,
            }),
        }
    }

    /// Returns the current session, or `None` while there is none.
    pub fn current(&self) -> Option<Session> {
        match &*self.shared.status.borrow() {
            Status::Open(session) if !session.state().is_lost() => Some(session.clone()),
            _ => None,
        }
    }

    /// Waits until there is a session that is not lost, and returns it.
    ///
    /// # Errors
    ///
    /// If there will be none.
    pub async fn session(&self) -> Result<Session, SessionsEnd> {
        let mut status = self.shared.status.subscribe();
        loop {
            match &*status.borrow_and_update() {
                Status::Open(session) if !session.state().is_lost() => return Ok(session.clone()),
                Status::Ended(end) => return Err(end.clone()),
                Status::Open(_) | Status::Opening => {}
            }
            if status.changed().await.is_err() {
                return Err(SessionsEnd::Closed);
            }
        }
    }

    /// Runs `body` with the current session. When that session is lost, drops the running `body`, and runs it again with
    /// the next one.
    ///
    /// It returns the result of `body` if that is `Ok`, or if it is `Err` and the session is alive.
    /// If the session is lost, it treats an `Err` as a consequence of the loss, and runs `body` again.
    ///
    /// A session that the application [closes](Session::close), in `body` or elsewhere, is not lost: `body` runs to its
    /// end, and its result is returned.
    ///
    /// # Errors
    ///
    /// [`RunError::Body`] contains the error of `body`; [`RunError::Ended`] if there will be no further session.
    ///
    /// # Session loss
    ///
    /// `body` is dropped and runs again with a new session.
    pub async fn run<T, E, F>(&self, mut body: impl FnMut(Session) -> F) -> Result<T, RunError<E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        loop {
            let session = self.session().await.map_err(RunError::Ended)?;
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
                (Some(Ok(value)), _) => return Ok(value),
                (Some(Err(error)), None | Some(SessionEnd::Closed)) => {
                    return Err(RunError::Body(error));
                }
                (Some(Err(_)) | None, _) => {}
            }
        }
    }

    /// Opens no further session, closes the current one, and waits for the server's reply, as [`Session::close`] does.
    ///
    /// # Errors
    ///
    /// Those of [`Session::close`].
    ///
    /// # Cancel safety
    ///
    /// The sessions are ended even if the future is dropped once it was polled; only the wait is lost.
    pub async fn close(&self) -> Result<(), Error> {
        self.shared.task.abort();
        let ended = Status::Ended(SessionsEnd::Closed);
        let mut session = None;
        self.shared.status.send_if_modified(|status| {
            let is_first = !matches!(status, Status::Ended(_));
            if is_first && let Status::Open(open) = std::mem::replace(status, ended) {
                session = Some(open);
            }
            is_first
        });
        match session {
            Some(session) if !session.state().is_lost() => session.close().await,
            _ => Ok(()),
        }
    }

    /// Spawns a task on the runtime on which the sessions are opened. It may be called outside a runtime.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.shared.runtime.spawn(task)
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions")
            .field("status", &*self.shared.status.borrow())
            .finish_non_exhaustive()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Opens one session after the other until there is a reason to stop.
async fn keep_open<F>(
    mut connect: impl FnMut() -> F,
    reopening: RetryPolicy,
    status: Arc<watch::Sender<Status>>,
) where
    F: Future<Output = Result<Session, ConnectError>>,
{
    let mut has_had_one = false;
    let mut failures = 0;
    let mut since = Instant::now();
    loop {
        let last = match connect().await {
            Ok(session) => {
                let opened = Instant::now();
                advance(&status, Status::Open(session.clone()));
                let end = session.lost().await;
                if end == SessionEnd::Closed {
                    return advance(&status, Status::Ended(SessionsEnd::Closed));
                }
                // A server that requires authentication grants sessions to all clients, and refuses their first request.
                if end == SessionEnd::AuthRequired && !has_had_one {
                    let refused = SessionsEnd::Connect(ConnectError::AuthRequired);
                    return advance(&status, Status::Ended(refused));
                }
                has_had_one = true;
                tracing::warn!(session = %session.id(), ?end, "session lost, opening a new one");
                advance(&status, Status::Opening);
                if opened.elapsed() > session.session_timeout() {
                    failures = 0;
                    since = Instant::now();
                }
                SessionsEnd::Lost
            }
            Err(error) if may_pass(&error, has_had_one) => {
                tracing::warn!(%error, "cannot open a session");
                SessionsEnd::Connect(error)
            }
            Err(error) => return advance(&status, Status::Ended(SessionsEnd::Connect(error))),
        };
        failures += 1;
        let Some(pause) = reopening.pause(failures, since.elapsed(), fastrand::f64) else {
            return advance(&status, Status::Ended(last));
        };
        Deadline::after(std::time::Duration::MAX).pause(pause).await;
    }
}

/// Sets the status, unless the sessions were closed meanwhile.
fn advance(status: &watch::Sender<Status>, next: Status) {
    status.send_if_modified(|status| {
        let is_open = !matches!(status, Status::Ended(_));
        if is_open {
            *status = next;
        }
        is_open
    });
}

/// Returns whether another attempt to connect may succeed without a change of the settings.
fn may_pass(error: &ConnectError, has_had_one: bool) -> bool {
    match error {
        ConnectError::ConnectString(_) | ConnectError::InvalidOption { .. } => false,
        #[cfg(feature = "tls")]
        ConnectError::InvalidTls { .. } => false,
        ConnectError::Unanswered(_)
        | ConnectError::Transport(_)
        | ConnectError::ChrootUnchecked { .. } => true,
        _ => has_had_one,
    }
}
