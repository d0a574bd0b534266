//! Runs a future on a thread with its own runtime, and stops both.

use std::future::Future;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

/// A thread with its own runtime, so that a test that blocks its runtime does not block this one.
///
/// Dropping it stops the thread and waits for it.
#[derive(Debug)]
pub(crate) struct RuntimeThread {
    running: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

impl RuntimeThread {
    /// Calls `run` on the new thread and polls its future there, until that ends or [`stop`](Self::stop) is called.
    pub(crate) fn start<F: Future<Output = ()>>(
        name: &str,
        run: impl FnOnce() -> F + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    tokio::select! {
                        () = run() => {}
                        _ = stopped => {}
                    }
                });
                // Dropping the runtime drops every task, and with it every socket.
            })?;
        Ok(Self {
            running: Mutex::new(Some((stop, thread))),
        })
    }

    /// Ends the thread and waits for it; its sockets are closed then.
    pub(crate) fn stop(&self) {
        let running = self
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some((stop, thread)) = running {
            drop(stop);
            if thread.join().is_err() {
                tracing::warn!("a thread of a proxy panicked");
            }
        }
    }
}

impl Drop for RuntimeThread {
    fn drop(&mut self) {
        self.stop();
    }
}
