//! Shares the state of a proxy between its thread and the handles, and wakes connections that have to be cut or released.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::core::{ConnectionId, Core, HoldId};
use crate::error::Error;
use crate::shared::Shared;
use crate::sockets::Close;

/// The state, and the channel that signals what connections have to do.
#[derive(Debug)]
pub(super) struct SharedCore {
    pub(super) core: Shared<Core>,
    /// Signals a cut or a release, so that other changes do not wake every connection.
    requested: watch::Sender<()>,
}

impl SharedCore {
    pub(super) fn new(core: Core) -> Self {
        Self {
            core: Shared::new(core),
            requested: watch::Sender::new(()),
        }
    }

    /// Changes what connections have to do.
    pub(super) fn request<T>(&self, change: impl FnOnce(&mut Core) -> T) -> T {
        let result = self.core.change(|core, _| change(core));
        self.requested.send_replace(());
        result
    }

    /// Waits until a cut of the connection is requested.
    pub(super) async fn cut_requested(&self, connection: ConnectionId) -> Close {
        self.core
            .until_signalled(&self.requested, |core| core.requested_cut(connection))
            .await
    }

    pub(super) async fn released(&self, hold: HoldId) {
        let released = |core: &Core| (!core.is_held(hold)).then_some(());
        self.core.until_signalled(&self.requested, released).await;
    }

    /// Waits at most `within` until `is_done`.
    pub(super) async fn wait_until(
        &self,
        what: &str,
        within: Duration,
        is_done: impl Fn(&Core) -> bool,
    ) -> Result<(), Error> {
        let done = self.core.until(|core| is_done(core).then_some(()));
        timeout(within, done).await.map_err(|_| Error::NotSeen {
            what: what.to_owned(),
            within,
            seen: self.core.lock().events.tail(),
        })
    }
}
