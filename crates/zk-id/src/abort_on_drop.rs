//! A task that is aborted when its handle is dropped.

use tokio::task::AbortHandle;
use zk_core::Session;

/// The handle of a task. Dropping it aborts the task.
#[derive(Debug)]
pub(crate) struct AbortOnDrop(AbortHandle);

impl AbortOnDrop {
    /// Spawns a task on the current runtime.
    pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(future).abort_handle())
    }

    /// Spawns a task on the runtime of a session.
    pub(crate) fn spawn_on(
        session: &Session,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self(session.spawn(future).abort_handle())
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
