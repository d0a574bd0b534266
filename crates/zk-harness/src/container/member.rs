//! One container, as the rest of the harness sees it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::Act;
use crate::error::Error;
use crate::process::ProcessState;

/// A server's container: what is known of it, and where to send orders for it.
///
/// The thread of the [`Fleet`](super::Fleet) owns the container; this is a view.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    id: u32,
    name: String,
    index: usize,
    view: Arc<Mutex<View>>,
    orders: mpsc::UnboundedSender<Order>,
}

/// What was last seen of a container.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    pub(super) state: ProcessState,
    /// The port of this machine that leads to the server's port for clients; 0 if there is none.
    pub(super) port: u16,
    /// Whether it is stopped though nobody asked.
    pub(super) has_exited: bool,
    /// Whether what it prints is copied to the server's log file.
    pub(super) follows_log: bool,
}

/// Something to do, and who wants to know how it went.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) index: usize,
    pub(super) act: Act,
    pub(super) done: oneshot::Sender<Result<(), Error>>,
}

impl Member {
    pub(super) fn new(
        id: u32,
        name: String,
        index: usize,
        orders: mpsc::UnboundedSender<Order>,
    ) -> Self {
        Self {
            id,
            name,
            index,
            view: Arc::new(Mutex::new(View {
                state: ProcessState::Stopped,
                port: 0,
                has_exited: false,
                follows_log: false,
            })),
            orders,
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn view(&self) -> View {
        *self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut View)) {
        change(&mut self.view.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The container's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The port of this machine for clients; 0 if there is none now.
    pub(crate) fn port(&self) -> u16 {
        self.view().port
    }

    pub(crate) fn state(&self) -> ProcessState {
        self.view().state
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.view().has_exited
    }

    /// Has it done, and waits for the engine's word.
    pub(crate) async fn perform(&self, act: Act) -> Result<(), Error> {
        self.send(act).await.unwrap_or_else(|_| Err(self.gone(act)))
    }

    /// As [`perform`](Self::perform), for callers that cannot await; blocks the thread.
    pub(crate) fn perform_blocking(&self, act: Act) -> Result<(), Error> {
        wait_blocking(self.send(act)).unwrap_or_else(|| Err(self.gone(act)))
    }

    fn send(&self, act: Act) -> oneshot::Receiver<Result<(), Error>> {
        let (done, answer) = oneshot::channel();
        // If nobody takes it, the answer's channel is closed, which is the answer.
        drop(self.orders.send(Order {
            index: self.index,
            act,
            done,
        }));
        answer
    }

    fn gone(&self, act: Act) -> Error {
        Error::Container {
            action: act.name(),
            id: self.id,
            source: "the ensemble's containers are being removed".into(),
        }
    }
}

/// The answer, or nothing if none will come; blocks the thread.
pub(super) fn wait_blocking<T: Send>(answer: oneshot::Receiver<T>) -> Option<T> {
    // Waiting on the channel here would panic on a thread that runs async code.
    let waited = std::thread::scope(|scope| scope.spawn(|| answer.blocking_recv()).join());
    waited.ok()?.ok()
}
