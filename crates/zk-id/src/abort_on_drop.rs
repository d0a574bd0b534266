//! Tasks that end with their handle.

use tokio::task::AbortHandle;
use zk_core::Session;

/// A task that lives as long as this, at most.
#[derive(Debug)]
pub(crate) struct Task(AbortHandle);

impl Task {
    /// Starts a task on the runtime that this is called on.
    pub(crate) fn spawn(running: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(running).abort_handle())
    }

    /// Starts a task of a session, on the runtime of that.
    pub(crate) fn spawn_on(
        session: &Session,
        running: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self(session.spawn(running).abort_handle())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
