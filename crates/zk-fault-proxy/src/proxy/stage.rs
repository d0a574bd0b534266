//! A thread with a runtime of its own, which ends when it is told to.

use std::future::Future;
use std::io;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

/// A running thread.
///
/// A test that blocks its own runtime does not stop what runs here.
#[derive(Debug)]
pub(crate) struct Stage {
    running: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

impl Stage {
    /// Runs `play` on a thread of its own until it ends or [`stop`](Self::stop) is called.
    ///
    /// `play` is made on that thread, within its runtime.
    pub(crate) fn start<F: Future<Output = ()>>(
        name: &str,
        play: impl FnOnce() -> F + Send + 'static,
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
                        () = play() => {}
                        _ = stopped => {}
                    }
                });
                // Dropping the runtime drops every task, and with it every socket.
            })?;
        Ok(Self {
            running: Mutex::new(Some((stop, thread))),
        })
    }

    /// Ends the thread and waits for it. Every socket of it is closed then.
    pub(crate) fn stop(&self) {
        let running = self
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some((stop, thread)) = running {
            drop(stop);
            if thread.join().is_err() {
                tracing::warn!("a thread of the harness has panicked");
            }
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop();
    }
}
