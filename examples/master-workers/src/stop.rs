//! The wish that a process ends, for all of its parts.

use tokio::sync::watch;

/// Asks a process to end.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Tells whether a process is asked to end; clones tell the same.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stopper {
    /// Makes one, and what its process looks at.
    pub fn new() -> (Self, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), Stop(receiver))
    }

    /// Asks the process to end.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Waits until the process is asked to end. It is never asked when the [`Stopper`] is gone.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    pub async fn asked(&self) {
        let asked = self.0.clone().wait_for(|asked| *asked).await.is_ok();
        if !asked {
            std::future::pending::<()>().await;
        }
    }
}
