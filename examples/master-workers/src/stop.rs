//! A stop request for all parts of a process.

use tokio::sync::watch;

/// Requests a process to stop.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Observes the stop request of a process; clones observe the same request.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stopper {
    /// Creates a stopper and its observer.
    pub fn new() -> (Self, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), Stop(receiver))
    }

    /// Requests the process to stop.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Waits for the stop request. Waits forever if the [`Stopper`] is dropped without a request.
    pub async fn asked(&self) {
        let asked = self.0.clone().wait_for(|asked| *asked).await.is_ok();
        if !asked {
            std::future::pending::<()>().await;
        }
    }
}
