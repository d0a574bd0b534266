//! What changes among the instances of a service, for one consumer.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use futures_util::Stream;
use futures_util::stream;
use tokio::sync::watch;

use crate::follow::Board;
use crate::roster::Change;
use crate::roster::Roster;

/// What changes among the instances of a service, for one consumer; made by
/// [`Providers::changes`](crate::Providers::changes).
///
/// A consumer is told the [difference](Roster::since) between what it was told last and what is.
/// So one that is slow holds up nobody, and what is kept for it is one list of instances, however much happens meanwhile:
/// what was undone before it looked is not told.
///
/// # Dropping
///
/// Nothing happens; it does not keep its [`Providers`](crate::Providers) alive either.
pub struct Changes<P> {
    board: Arc<Board<P>>,
    next: watch::Receiver<u64>,
    base: Roster<P>,
    pending: VecDeque<Change<P>>,
}

impl<P> Changes<P> {
    pub(crate) fn new(board: &Arc<Board<P>>, base: Roster<P>) -> Self {
        let mut next = board.subscribe();
        next.mark_changed();
        Self {
            board: Arc::clone(board),
            next,
            base,
            pending: VecDeque::new(),
        }
    }

    /// Waits for the next change; `None` after [`Change::Ended`].
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing is missed.
    ///
    /// # Session loss
    ///
    /// Answered as [`Change::Ended`], then `None`.
    pub async fn next(&mut self) -> Option<Change<P>> {
        loop {
            if let Some(change) = self.pending.pop_front() {
                return Some(change);
            }
            if self.base.0.end.is_some() {
                return None;
            }
            // The board is held by this, and so is its sender.
            self.next.changed().await.ok()?;
            self.next.mark_unchanged();
            let newest = self.board.roster();
            self.pending = newest.since(&self.base).into();
            self.base = newest;
        }
    }

    /// Turns this into a stream of the same changes.
    pub fn into_stream(self) -> impl Stream<Item = Change<P>> + Send + 'static
    where
        P: Send + Sync + 'static,
    {
        stream::unfold(self, async |mut changes| {
            let change = changes.next().await?;
            Some((change, changes))
        })
    }
}

impl<P> fmt::Debug for Changes<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes")
            .field("base", &self.base)
            .field("pending", &self.pending.len())
            .finish_non_exhaustive()
    }
}
