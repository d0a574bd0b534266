//! A handle to one container: reads its last observed state, and sends commands to the thread that owns it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::ContainerAction;
use crate::error::Error;
use crate::process::ProcessState;

/// A handle to a server's container, which the thread of the [`Containers`](super::Containers) owns.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    id: u32,
    name: String,
    index: usize,
    observed: Arc<Mutex<ObservedState>>,
    commands: mpsc::UnboundedSender<Command>,
}

/// The state of a container when it was last inspected.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObservedState {
    pub(super) state: ProcessState,
    /// The port on this machine that maps to the server's client port; 0 if there is none.
    pub(super) port: u16,
    /// Whether it stopped by itself.
    pub(super) has_exited: bool,
    /// Whether its output is copied to the server's log file.
    pub(super) follows_log: bool,
}

/// An action with the channel for its result.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) index: usize,
    pub(super) action: ContainerAction,
    pub(super) done: oneshot::Sender<Result<(), Error>>,
}

impl Member {
    pub(super) fn new(
        id: u32,
        name: String,
        index: usize,
        commands: mpsc::UnboundedSender<Command>,
    ) -> Self {
        Self {
            id,
            name,
            index,
            observed: Arc::new(Mutex::new(ObservedState {
                state: ProcessState::Stopped,
                port: 0,
                has_exited: false,
                follows_log: false,
            })),
            commands,
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn observed(&self) -> ObservedState {
        *self.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut ObservedState)) {
        change(&mut self.observed.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the port on this machine for clients; 0 if there is none.
    pub(crate) fn port(&self) -> u16 {
        self.observed().port
    }

    pub(crate) fn state(&self) -> ProcessState {
        self.observed().state
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.observed().has_exited
    }

    /// Carries out an action and waits for the result.
    pub(crate) async fn perform(&self, action: ContainerAction) -> Result<(), Error> {
        self.send(action)
            .await
            .unwrap_or_else(|_| Err(self.gone(action)))
    }

    /// As [`perform`](Self::perform), but blocks the thread.
    pub(crate) fn perform_blocking(&self, action: ContainerAction) -> Result<(), Error> {
        wait_blocking(self.send(action)).unwrap_or_else(|| Err(self.gone(action)))
    }

    fn send(&self, action: ContainerAction) -> oneshot::Receiver<Result<(), Error>> {
        let (done, result) = oneshot::channel();
        // If the thread has ended, the returned channel is closed, which callers handle.
        drop(self.commands.send(Command {
            index: self.index,
            action,
            done,
        }));
        result
    }

    fn gone(&self, action: ContainerAction) -> Error {
        Error::Container {
            action: action.name(),
            id: self.id,
            source: "the ensemble's containers are being removed".into(),
        }
    }
}

/// Blocks until a value arrives; `None` if the sender was dropped.
pub(super) fn wait_blocking<T: Send>(result: oneshot::Receiver<T>) -> Option<T> {
    // Waiting on the channel here would panic on a thread that runs async code.
    let waited = std::thread::scope(|scope| scope.spawn(|| result.blocking_recv()).join());
    waited.ok()?.ok()
}
