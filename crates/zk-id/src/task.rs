//! Tasks that end with their handle.

use tokio::task::AbortHandle;

/// A task that lives as long as this, at most.
#[derive(Debug)]
pub(crate) struct Task(AbortHandle);

impl Task {
    /// Starts a task on the runtime that this is called on.
    pub(crate) fn spawn(running: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(running).abort_handle())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
