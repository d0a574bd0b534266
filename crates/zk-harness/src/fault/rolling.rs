//! Restarts every server, one after the other.

use crate::ensemble::Ensemble;
use crate::error::Error;
use crate::health::Role;

impl Ensemble {
    /// Restarts one server after the other, like a rolling upgrade: the followers first, the leader last. It waits before
    /// each restart until all servers serve.
    ///
    /// # Errors
    ///
    /// The errors of [`Server::restart`](crate::Server::restart) and [`wait_serving`](Self::wait_serving). The servers
    /// after the failed one are not restarted.
    ///
    /// # Cancel safety
    ///
    /// A dropped future may leave one server stopped.
    pub async fn restart_rolling(&self) -> Result<(), Error> {
        self.wait_serving().await?;
        let status = self.status().await;
        let mut order: Vec<_> = self.servers().iter().zip(&status.servers).collect();
        order.sort_by_key(|(_, status)| status.role == Some(Role::Leader));
        for (server, _) in order {
            server.restart().await?;
            self.wait_serving().await?;
        }
        Ok(())
    }
}
