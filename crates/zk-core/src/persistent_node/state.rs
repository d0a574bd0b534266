//! What is known of a persistent node: shared by its task and its handle.

use std::fmt;
use std::ops::RangeInclusive;

use tokio::sync::watch;
use zk_wire::{NodePath, SessionId, Stat};

use crate::error::{Error, ErrorClass};
use crate::session::Session;

/// A persistent node that exists; returned by [`PersistentNode::current`](crate::PersistentNode::current).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PresentNode {
    /// The path of the node, below the namespace of the session. It has the unique id and the sequence number.
    pub path: NodePath,
    /// The stat when the node was created, found, or last written by the handle.
    pub stat: Stat,
    /// The session with which it is kept.
    pub session: SessionId,
}

/// Why a persistent node does not exist, or is not kept alive.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PersistentNodeProblem {
    /// A node that is not of this handle exists at the path. The handle waits until it is gone.
    #[error("node {path} {}", owner_text(*.owner))]
    #[non_exhaustive]
    Taken {
        /// The path.
        path: NodePath,
        /// The session that owns the node; `None` if it is not ephemeral.
        owner: Option<SessionId>,
    },
    /// A request failed. It is repeated after a pause.
    #[error("a persistent node cannot be kept")]
    Failed(#[source] Error),
}

/// A persistent node was not created, written or removed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PersistentNodeError {
    /// A server, or a check before sending, refused it.
    #[error("a persistent node is refused")]
    Refused(#[source] Error),
    /// There will be no further session, or the node was removed.
    #[error("a persistent node was removed, or there will be no further session to keep it with")]
    Ended,
}

impl PersistentNodeError {
    /// Returns the class of the error: what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Refused(error) => error.class(),
            Self::Ended => ErrorClass::Fatal,
        }
    }
}

/// What is known of a [`PersistentNode`](crate::PersistentNode); returned by its
/// [`state`](crate::PersistentNode::state).
///
/// It does not keep the node: that is for the handle. Like each clone of the session, it keeps the session open.
#[derive(Clone)]
pub struct PersistentNodeState(watch::Receiver<State>);

impl PersistentNodeState {
    pub(super) const fn new(state: watch::Receiver<State>) -> Self {
        Self(state)
    }

    /// Returns the node if it exists, as [`PersistentNode::current`](crate::PersistentNode::current) does.
    pub fn current(&self) -> Option<PresentNode> {
        self.0.borrow().current()
    }

    /// Returns why the node does not exist, as [`PersistentNode::problem`](crate::PersistentNode::problem) does.
    pub fn problem(&self) -> Option<PersistentNodeProblem> {
        self.0.borrow().problem.clone()
    }

    /// Returns whether this is a session of the handle that is lost. The servers may not have deleted its nodes yet, and a
    /// cache may still show them.
    pub fn has_lost(&self, session: SessionId) -> bool {
        let state = self.0.borrow();
        let current = state.session.as_ref();
        let is_current = current.is_some_and(|current| current.id() == session);
        state.previous.contains(&session) || is_current && state.is_lost()
    }

    /// Waits until the state has changed since the last call on this clone: until the node was created or written, is gone,
    /// or a request failed.
    ///
    /// Returns `false` if it will not change any more, because the node was removed, or there will be no further session.
    pub async fn changed(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }

    /// Waits for a state that gives a result.
    pub(super) async fn first<T>(
        &self,
        result: impl Fn(&State) -> Option<Result<T, Error>>,
    ) -> Result<T, PersistentNodeError> {
        let mut state = self.0.clone();
        loop {
            if let Some(result) = result(&state.borrow_and_update()) {
                return result.map_err(PersistentNodeError::Refused);
            }
            if state.changed().await.is_err() {
                return Err(PersistentNodeError::Ended);
            }
        }
    }
}

impl fmt::Debug for PersistentNodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.borrow();
        f.debug_struct("PersistentNode")
            .field("node", &state.current())
            .field("problem", &state.problem)
            .finish_non_exhaustive()
    }
}

/// The state that the task publishes.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The current session, or the last one.
    pub(super) session: Option<Session>,
    pub(super) present: Option<PresentNode>,
    pub(super) problem: Option<PersistentNodeProblem>,
    /// The newest revision of the data that was written or refused.
    pub(super) handled: u64,
    /// The newest revisions of the data that were refused, and why.
    pub(super) refused: Option<(RangeInclusive<u64>, Error)>,
    /// The outcome of the removal, and the request for it that was the newest one.
    pub(super) removal: Option<(u64, Result<(), Error>)>,
    /// The sessions before that one.
    pub(super) previous: Vec<SessionId>,
}

impl State {
    /// Returns the node, unless the session was lost meanwhile, which the task may not have seen yet.
    pub(super) fn current(&self) -> Option<PresentNode> {
        self.present.clone().filter(|_| !self.is_lost())
    }

    fn is_lost(&self) -> bool {
        let session = self.session.as_ref();
        session.is_some_and(|session| session.state().is_lost())
    }

    /// Goes on with the next session.
    pub(super) fn begin(&mut self, session: &Session) {
        if let Some(lost) = self.session.replace(session.clone()) {
            self.previous.push(lost.id());
        }
        // What was refused to the session before may be allowed to this one.
        self.problem = None;
    }

    /// Gives up the revisions of the data up to this one, because a server refused it.
    pub(super) fn refuse(&mut self, revision: u64, error: Error) {
        let first = match &self.refused {
            // Nothing was written since.
            Some((refused, _)) if *refused.end() == self.handled => *refused.start(),
            _ => self.handled + 1,
        };
        self.handled = revision;
        self.refused = Some((first..=revision, error));
    }

    /// Returns the error of a request that a server refused, and that will be refused again unless something changes.
    pub(super) fn refusal(&self) -> Option<Error> {
        match &self.problem {
            Some(PersistentNodeProblem::Failed(error)) if error.class() == ErrorClass::Outcome => {
                Some(error.clone())
            }
            _ => None,
        }
    }

    /// Returns what became of a revision of the data, or of a newer one; `None` if nothing yet.
    pub(super) fn outcome_of(&self, revision: u64) -> Option<Result<(), Error>> {
        match &self.refused {
            Some((refused, error)) if refused.contains(&revision) => Some(Err(error.clone())),
            _ => (self.handled >= revision).then_some(Ok(())),
        }
    }
}

/// Publishes a node, and withdraws it when dropped.
pub(super) struct Published<'a>(pub(super) &'a watch::Sender<State>);

impl<'a> Published<'a> {
    pub(super) fn new(
        state: &'a watch::Sender<State>,
        session: &Session,
        path: &NodePath,
        stat: Stat,
        handled: u64,
    ) -> Self {
        let published = Self(state);
        published.publish(session, path, stat, handled, true);
        published
    }

    /// Publishes that a revision of the data was written.
    pub(super) fn update(&self, session: &Session, path: &NodePath, stat: Stat, handled: u64) {
        // A problem is one of the touches.
        self.publish(session, path, stat, handled, false);
    }

    fn publish(
        &self,
        session: &Session,
        path: &NodePath,
        stat: Stat,
        handled: u64,
        is_solved: bool,
    ) {
        let node = PresentNode {
            path: path.clone(),
            stat,
            session: session.id(),
        };
        self.0.send_modify(|state| {
            state.present = Some(node);
            state.handled = state.handled.max(handled);
            if is_solved {
                state.problem = None;
            }
        });
    }
}

impl Drop for Published<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|state| {
            state.present = None;
            // It was one of the touches of this node.
            state.problem = None;
        });
    }
}

fn owner_text(owner: Option<SessionId>) -> String {
    match owner {
        Some(owner) => format!("belongs to session {owner}"),
        None => "exists and is not ephemeral".to_owned(),
    }
}
