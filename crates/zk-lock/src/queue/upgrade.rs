//! Joining the queue as a writer while reading.

use super::Enlisted;
use super::Granted;
use super::Progress;
use super::Queue;
use crate::error::AcquireError;
use crate::order;

/// What became of a reader that wanted to write.
#[derive(Debug)]
pub(crate) enum Upgraded {
    /// Nobody else reads, and nobody has written since the reader began.
    Granted(Granted),
    /// This writer is before it and waits for the reader to end.
    Contended(String),
}

impl Queue {
    /// Waits until `reader`, a contender of ours that holds the lock, is the only one that holds it, and nobody can get
    /// it any more.
    ///
    /// The place in the queue is a new one, at its end.
    /// A writer that is before it waits for our reader, which must not wait for it in turn.
    /// Readers that are before it hold the lock like ours, and can only go; one that wants to write as well gets a place
    /// behind us, and finds us before it.
    pub(crate) async fn upgrade(
        &self,
        reader: &str,
        progress: &Progress,
    ) -> Result<Upgraded, AcquireError> {
        let queue = self.except(reader);
        let remains = queue.remains();
        let mut enlisted = queue.enlist().await?;
        let layout = queue.options.layout();
        let writer_before = |enlisted: &Enlisted| {
            let writer = order::writer_before(&enlisted.children, enlisted.name(), layout);
            writer.map(str::to_owned)
        };
        let mut writer = writer_before(&enlisted);
        if writer.is_some() && remains.are_gone().await {
            queue.look_again(&mut enlisted).await?;
            writer = writer_before(&enlisted);
        }
        if let Some(writer) = writer {
            // Waited for, so that whoever tries again does not find its own node.
            enlisted.leave().await?;
            return Ok(Upgraded::Contended(writer));
        }
        queue.wait(enlisted, progress).await.map(Upgraded::Granted)
    }
}
