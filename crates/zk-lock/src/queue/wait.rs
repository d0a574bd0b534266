//! Waiting for our turn.

use futures_util::future;

use super::Enlisted;
use super::Granted;
use super::Progress;
use super::Queue;
use super::watches::Vigil;
use super::watches::Woken;
use crate::error::AcquireError;
use crate::error::Ahead;
use crate::error::SequenceExhausted;
use crate::order;
use crate::order::Outlook;
use crate::order::Place;
use crate::retry::Remains;
use crate::retry::proved;

/// What a look at the queue says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Turn {
    Ours,
    After {
        predecessor: String,
        /// Whose going is worth a look, beside the predecessor's.
        before_it: Option<String>,
        /// Whether the deletion of the predecessor makes it ours.
        is_next: bool,
        ahead: usize,
    },
    /// Nobody's: our node is gone.
    Gone,
    /// Nobody's, for ever.
    NoOnes(SequenceExhausted),
}

impl Queue {
    /// Waits until nobody is before this contender and the session is known to be alive.
    ///
    /// Each waiter watches the node before it, and the one before that, so that a node that goes wakes two waiters.
    /// The one right behind it takes over without another look if it knows to be the next
    /// ([`Outlook::Next`]), which the other one finds out meanwhile, and if its own node was under watch by then and is
    /// still there ([`Woken::PredecessorDeleted`]).
    /// In all other cases being woken means to look again: whoever went may have given up while others are still before.
    pub(crate) async fn wait(
        &self,
        mut enlisted: Enlisted,
        progress: &Progress,
    ) -> Result<Granted, AcquireError> {
        let mut vigil = Vigil::default();
        loop {
            let is_ours = match self.turn(&enlisted) {
                Turn::Ours => true,
                Turn::After {
                    predecessor,
                    before_it,
                    is_next,
                    ahead,
                } => {
                    progress.note(Ahead::new(ahead));
                    let holds = self.is_first(&predecessor, &enlisted.children);
                    let own = enlisted.node.path();
                    let watched = self.watch_all(
                        &mut vigil,
                        &predecessor,
                        before_it.as_deref(),
                        is_next.then_some(own),
                    );
                    // Most are granted the lock without a wait, and need no room for these.
                    let is_there = Box::pin(watched).await?;
                    if let Some(predecessor) = vigil.predecessor() {
                        let contender = Some(predecessor.clone());
                        progress.note(Ahead::new(ahead).behind(contender, holds));
                    }
                    is_there
                        && Box::pin(self.changed(&mut vigil, own)).await?
                            == Woken::PredecessorDeleted
                        && is_next
                }
                Turn::Gone => return Err(Box::pin(self.node_lost(enlisted.node.path())).await),
                Turn::NoOnes(exhausted) => {
                    // Waited for, so that the path can be deleted as the message says.
                    enlisted.leave().await?;
                    return Err(AcquireError::SequenceExhausted(exhausted));
                }
            };
            enlisted.children = if is_ours {
                progress.note(Ahead::new(0));
                let trusted = self.session.keep_trusted();
                if trusted.is_lasting() {
                    let Enlisted { node, .. } = enlisted;
                    let watch = vigil.into_own();
                    return Ok(Granted {
                        node,
                        trusted,
                        watch,
                    });
                }
                // The session was idle, or we were stopped or cut off since we looked.
                // Prove that the session is alive, and look at the queue once more.
                let (proved, listed) =
                    future::join(proved(&self.session, &trusted), self.list()).await;
                proved?;
                listed?
            } else {
                self.list().await?
            };
        }
    }

    /// Joins the queue and takes the lock if it is our turn, or leaves the queue again.
    pub(crate) async fn try_acquire(&self) -> Result<Option<Granted>, AcquireError> {
        let remains = self.remains();
        let enlisted = self.enlist().await?;
        self.try_once(enlisted, &remains).await
    }

    /// Takes the lock if it is this contender's turn, and takes the contender out of the queue if not.
    ///
    /// `remains` are those from before it joined the queue.
    pub(crate) async fn try_once(
        &self,
        mut enlisted: Enlisted,
        remains: &Remains<'_>,
    ) -> Result<Option<Granted>, AcquireError> {
        if let Turn::After { .. } = self.turn(&enlisted)
            && remains.are_gone().await
        {
            self.look_again(&mut enlisted).await?;
        }
        if let Turn::After { .. } = self.turn(&enlisted) {
            // Waited for, so that the next try of the same caller does not find its own node before it.
            enlisted.leave().await.map(|()| None)
        } else {
            self.wait(enlisted, &Progress::default()).await.map(Some)
        }
    }

    /// Judges the children as they were last seen.
    ///
    /// Contenders with lower numbers can only go, never come, once our node exists.
    /// So an old list in which our node is does no harm: it can only make us wait for one that has gone.
    fn turn(&self, enlisted: &Enlisted) -> Turn {
        let layout = self.options.layout();
        let (place, outlook) = order::view(&enlisted.children, enlisted.name(), layout);
        match place {
            Place::First => Turn::Ours,
            Place::Behind { predecessor, ahead } => Turn::After {
                predecessor: predecessor.to_owned(),
                before_it: match outlook {
                    Outlook::After(before_it) => Some(before_it.to_owned()),
                    Outlook::Next | Outlook::Unknown => None,
                },
                is_next: outlook == Outlook::Next,
                ahead,
            },
            Place::Unordered { tied_with } => Turn::NoOnes(SequenceExhausted {
                path: self.path.clone(),
                name: enlisted.name().to_owned(),
                sequence: layout.sequence_of(enlisted.name()),
                tied_with: tied_with.map(str::to_owned),
            }),
            Place::Missing => Turn::Gone,
        }
    }

    /// Tells whether nobody is before this contender either: of those whom a reader waits for, the last one may be
    /// waiting for readers itself.
    fn is_first(&self, name: &str, children: &[String]) -> bool {
        order::place(children, name, self.options.layout()) == Place::First
    }
}
