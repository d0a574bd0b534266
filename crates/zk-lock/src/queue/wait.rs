//! Waiting for our turn.

use futures_util::future;
use zk_core::ErrorClass;
use zk_core::Trusted;
use zk_core::Watch;
use zk_core::WatchEvent;

use super::Enlisted;
use super::Granted;
use super::Progress;
use super::Queue;
use crate::error::AcquireError;
use crate::error::Ahead;
use crate::error::SequenceExhausted;
use crate::order;
use crate::order::Place;

/// What a look at the queue says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Turn {
    Ours,
    After {
        predecessor: String,
        ahead: usize,
    },
    /// Nobody's, for ever.
    NoOnes(SequenceExhausted),
}

impl Queue {
    /// Waits until nobody is before this contender and the session is known to be alive.
    ///
    /// Each waiter watches one other node, so that a node that goes wakes one waiter.
    /// Being woken means to look again: the one before may have given up while others are still before it.
    pub(crate) async fn wait(
        &self,
        mut enlisted: Enlisted,
        progress: &mut Progress,
    ) -> Result<Granted, AcquireError> {
        loop {
            match self.turn(&enlisted)? {
                Turn::Ours => {
                    *progress = Some(Ahead::new(0));
                    let trusted = self.session.keep_trusted();
                    if trusted.is_trusted() {
                        let Enlisted { node, .. } = enlisted;
                        return Ok(Granted { node, trusted });
                    }
                    // We waited for long, or were stopped or cut off since we looked.
                    // Prove that the session is alive, and look at the queue once more.
                    let (proved, listed) = future::join(self.prove(&trusted), self.list()).await;
                    proved?;
                    enlisted.children = listed?;
                }
                Turn::After { predecessor, ahead } => {
                    *progress = Some(Ahead::new(ahead));
                    if let Some((predecessor, watch)) = self.watch(&predecessor).await? {
                        *progress = Some(Ahead::new(ahead).behind(predecessor));
                        self.changed(watch).await?;
                    }
                    enlisted.children = self.list().await?;
                }
                Turn::NoOnes(exhausted) => {
                    // Waited for, so that the path can be deleted as the message says.
                    enlisted.leave().await?;
                    return Err(AcquireError::SequenceExhausted(exhausted));
                }
            }
        }
    }

    /// Takes the lock if it is this contender's turn, and takes the contender out of the queue if not.
    pub(crate) async fn try_once(
        &self,
        enlisted: Enlisted,
    ) -> Result<Option<Granted>, AcquireError> {
        if let Turn::After { .. } = self.turn(&enlisted)? {
            // Waited for, so that the next try of the same caller does not find its own node before it.
            enlisted.leave().await.map(|()| None)
        } else {
            self.wait(enlisted, &mut None).await.map(Some)
        }
    }

    /// Judges the children as they were last seen.
    ///
    /// Contenders with lower numbers can only go, never come, once our node exists.
    /// So an old list in which our node is does no harm: it can only make us wait for one that has gone.
    fn turn(&self, enlisted: &Enlisted) -> Result<Turn, AcquireError> {
        let layout = self.options.layout();
        match order::place(&enlisted.children, enlisted.name(), layout) {
            Place::First => Ok(Turn::Ours),
            Place::Behind { predecessor, ahead } => Ok(Turn::After {
                predecessor: predecessor.to_owned(),
                ahead,
            }),
            Place::Unordered { tied_with } => Ok(Turn::NoOnes(SequenceExhausted {
                path: self.path.clone(),
                name: enlisted.name().to_owned(),
                sequence: layout.sequence_of(enlisted.name()),
                tied_with: tied_with.map(str::to_owned),
            })),
            Place::Missing => Err(AcquireError::NodeLost {
                path: enlisted.node.path().clone(),
            }),
        }
    }

    /// Waits until the node before ours changed or went.
    async fn changed(&self, mut watch: Watch) -> Result<(), AcquireError> {
        let event = tokio::select! {
            biased;
            () = self.session.lost() => WatchEvent::SessionLost,
            event = watch.changed() => event,
        };
        match event {
            WatchEvent::SessionLost => Err(AcquireError::SessionLost { source: None }),
            _ => Ok(()),
        }
    }

    /// Makes sure that the session is alive, however long it takes to know.
    async fn prove(&self, trusted: &Trusted) -> Result<(), AcquireError> {
        loop {
            match trusted.renewed(self.session.session_timeout()).await {
                Err(error) if error.class() == ErrorClass::Recoverable => {
                    tracing::debug!(path = %self.path, %error, "the first in line proves its session again");
                }
                proved => return Ok(proved?),
            }
        }
    }
}
