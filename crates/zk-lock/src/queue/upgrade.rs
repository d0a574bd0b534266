//! Upgrades a reader: it joins the queue as a writer while it still reads.

use super::{Enlisted, Queue};
use crate::error::AcquireError;
use crate::guard::Granted;
use crate::order;
use crate::progress::AcquireProgress;

/// The outcome of an upgrade that did not fail.
#[derive(Debug)]
pub(crate) enum UpgradeOutcome {
    /// There is no other reader, and no writer had the lock since the reader began.
    Granted(Granted),
    /// This writer is ahead and waits for the reader to end.
    Contended(String),
}

impl Queue {
    /// Waits until `reader`, our own contender, is the only holder and no other contender can get the lock.
    ///
    /// The upgrade takes a new place at the end of the queue.
    /// A writer ahead of it waits for our reader, so our reader must not wait for that writer.
    /// Readers ahead of it hold the lock like ours and can only leave. A reader among them that upgrades as well
    /// gets a place behind us and finds us ahead.
    pub(crate) async fn upgrade(
        &self,
        reader: &str,
        progress: &AcquireProgress,
    ) -> Result<UpgradeOutcome, AcquireError> {
        let queue = Self {
            ignored_child: Some(reader.to_owned()),
            ..self.clone()
        };
        let pending = queue.pending_deletes();
        let mut enlisted = queue.enlist().await?;
        let layout = queue.layout();
        let writer_before = |enlisted: &Enlisted| {
            let writer = order::writer_before(&enlisted.children, enlisted.name(), layout);
            writer.map(str::to_owned)
        };
        let mut writer = writer_before(&enlisted);
        if writer.is_some() && pending.wait().await {
            queue.relist(&mut enlisted).await?;
            writer = writer_before(&enlisted);
        }
        if let Some(writer) = writer {
            // Awaited, so that a later attempt does not find its own node.
            enlisted.leave().await?;
            return Ok(UpgradeOutcome::Contended(writer));
        }
        queue
            .wait(enlisted, progress)
            .await
            .map(UpgradeOutcome::Granted)
    }
}
