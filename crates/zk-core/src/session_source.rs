//! Where a handle that works with one session or with several gets them from.

use tokio::task::JoinHandle;

use crate::session::Session;
use crate::sessions::Sessions;

/// One session, or the sessions of an application one after the other: what a handle that works with
/// either is started with.
///
/// Functions that start such a handle accept `&Session` and `&Sessions` alike. With a session, the handle ends with it.
/// With [`Sessions`] it goes on with the next one, and a view says meanwhile that what it
/// shows may be out of date.
#[derive(Debug, Clone)]
pub struct SessionSource(Source);

#[derive(Debug, Clone)]
enum Source {
    One { session: Session, is_taken: bool },
    All(Sessions),
}

impl SessionSource {
    /// Waits for the session to go on with, and returns it; `None` if there will be no further one.
    ///
    /// The first call returns the session, or the current one of several. Call it again when that one is lost.
    pub async fn next(&mut self) -> Option<Session> {
        match &mut self.0 {
            Source::One { session, is_taken } => {
                let is_first = !std::mem::replace(is_taken, true);
                is_first.then(|| session.clone())
            }
            Source::All(sessions) => sessions.session().await.ok(),
        }
    }

    /// Returns whether [`next`](Self::next) may return another session.
    pub const fn has_next(&self) -> bool {
        !matches!(self.0, Source::One { is_taken: true, .. })
    }

    /// Spawns a task on the runtime of the session, or on that of the sessions. It may be called outside a runtime.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        match &self.0 {
            Source::One { session, .. } => session.spawn(task),
            Source::All(sessions) => sessions.spawn(task),
        }
    }
}

impl From<&Session> for SessionSource {
    fn from(session: &Session) -> Self {
        Self(Source::One {
            session: session.clone(),
            is_taken: false,
        })
    }
}

impl From<&Sessions> for SessionSource {
    fn from(sessions: &Sessions) -> Self {
        Self(Source::All(sessions.clone()))
    }
}

impl From<&Self> for SessionSource {
    fn from(source: &Self) -> Self {
        source.clone()
    }
}
