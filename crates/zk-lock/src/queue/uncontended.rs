//! Lets the only session that uses a lock take it again without a list.
//!
//! When a contender was alone in the queue and has deleted its node, with the number n, nothing at or below n is in the
//! queue, and none will join there: contenders join behind all others. If the session's next node has the number n + 1, no
//! node was created in between (the server counts the creates below each parent). So this node is alone, too.
//!
//! This requires that the queue's path is the same node as before: with a new one the counter starts again, as after a server
//! has removed the empty container. A watch on the path shows that. Its event would come before the reply to the create,
//! unless the connection was lost since the watch was set.
//!
//! A contender does without the list only if this session's last two turns had successive numbers: otherwise it would
//! often have to list after the create instead of along with it.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use zk_core::{Sequence, Session, Watch};

use super::Queue;

/// What the last turn of a handle proves for the next one.
#[derive(Debug, Default)]
pub(crate) enum LastTurn {
    /// Nothing.
    #[default]
    Unknown,
    /// The contender with this number was alone, and left.
    Alone(Sequence),
    /// So did this one and the one with the number before.
    Successive(Sequence),
    /// The same, and the path of the queue is watched since.
    Watched(Sequence, PathWatch),
}

/// A watch on the path of the queue, set when a contender of this session was in it.
#[derive(Debug)]
pub(crate) struct PathWatch {
    watch: Watch,
    /// The number of connection losses before it was requested.
    connection_losses: u64,
}

/// The turn of a contender that was alone in the queue.
#[derive(Debug)]
pub(crate) struct Turn {
    last: Arc<Mutex<LastTurn>>,
    number: Sequence,
    /// Whether the turn before had the number before.
    is_successive: bool,
    path_watch: Option<PathWatch>,
}

impl LastTurn {
    /// Returns the number of the last contender, if it was alone.
    pub(super) fn number(&self) -> Option<Sequence> {
        match self {
            Self::Unknown => None,
            Self::Alone(number) | Self::Successive(number) | Self::Watched(number, _) => {
                Some(*number)
            }
        }
    }

    /// Returns whether `number` is the one after that of the last contender.
    fn precedes(&self, number: Sequence) -> bool {
        self.number()
            .is_some_and(|last| number.distance_from(last) == 1)
    }
}

impl PathWatch {
    /// Returns whether the path is still the node that it was when the watch was set.
    fn holds(&mut self, session: &Session) -> bool {
        // The task's coop budget must not delay the event.
        let fired = tokio::task::coop::unconstrained(self.watch.changed()).now_or_never();
        fired.is_none() && self.connection_losses == connection_losses(session)
    }
}

impl Turn {
    /// Records that the reply to the deletion of the contender's node has come.
    pub(crate) fn ended(self) {
        let turn = match self.path_watch {
            _ if !self.is_successive => LastTurn::Alone(self.number),
            None => LastTurn::Successive(self.number),
            Some(watch) => LastTurn::Watched(self.number, watch),
        };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = turn;
    }
}

impl Queue {
    /// Takes what the last turn proves; one contender may use it.
    pub(super) fn take_last_turn(&self) -> LastTurn {
        self.last_turn.as_ref().map_or(LastTurn::Unknown, |last| {
            std::mem::take(&mut *last.lock().unwrap_or_else(PoisonError::into_inner))
        })
    }

    /// Watches the path of the queue; `None` if that is not possible, or the connection was lost meanwhile.
    pub(super) async fn watch_path(&self) -> Option<PathWatch> {
        let connection_losses = connection_losses(&self.session);
        match self.session.exists(&self.path).watched().await {
            Ok((Some(_), watch)) if connection_losses == self::connection_losses(&self.session) => {
                Some(PathWatch {
                    watch,
                    connection_losses,
                })
            }
            _ => None,
        }
    }

    /// Returns the watch on the path if the contender with this number is certainly alone.
    pub(super) fn is_alone_after(&self, last: LastTurn, number: Sequence) -> Option<PathWatch> {
        let is_next = last.precedes(number);
        let LastTurn::Watched(_, mut watch) = last else {
            return None;
        };
        (is_next && watch.holds(&self.session)).then_some(watch)
    }

    /// Begins the turn of a contender that is alone in the queue.
    pub(super) fn begin_turn(
        &self,
        last: Option<Sequence>,
        number: Sequence,
        path_watch: Option<PathWatch>,
    ) -> Option<Box<Turn>> {
        Some(Box::new(Turn {
            last: Arc::clone(self.last_turn.as_ref()?),
            number,
            is_successive: last.is_some_and(|last| number.distance_from(last) == 1),
            path_watch,
        }))
    }
}

/// Returns how often the session has lost its connection.
fn connection_losses(session: &Session) -> u64 {
    session.counters().connection_losses
}
