//! Issues the numbers that servers append to the names of sequential nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use zk_core::{Error, ErrorClass, IntoNodePath, NodePath, ParsePathError, Sequence, Session};

use crate::worker::child;

/// Numbers from 0 on, ordered over all processes.
///
/// Each is the sequence number of a sequential node, which is deleted at once, so that nodes do not accumulate.
/// These numbers order events of many processes strictly. [`BlockIds`](crate::BlockIds) and
/// [`Snowflakes`](crate::Snowflakes) cost a thousandth.
///
/// The numbers have 31 bits. They restart if the node at the path is deleted. It is a persistent node, not a container,
/// so that the ensemble does not delete it by itself.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_id::SequenceIds;
///
/// let tickets = SequenceIds::new(&session, "/ids/tickets")?;
/// println!("ticket {}", tickets.next().await?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct SequenceIds {
    session: Session,
    path: NodePath,
    /// The largest number that any clone has returned.
    last: Arc<AtomicI64>,
}

/// No number was issued.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SequenceError {
    /// The node's counter is used up. From then on, servers from 3.6 on repeat the last number, and older ones continue
    /// below zero.
    #[error(
        "the numbers of {path} are used up at {number}; continue with another path, and add {} to its numbers",
        i32::MAX
    )]
    SequenceExhausted {
        /// The node.
        path: NodePath,
        /// The number that the server appended.
        number: i32,
    },
    /// The numbers have restarted: another client has deleted the node.
    #[error(
        "{path} issued {number} after {last}; it was deleted meanwhile, and its numbers repeat: use another path"
    )]
    SequenceRestarted {
        /// The node.
        path: NodePath,
        /// The number that the server appended.
        number: i32,
        /// The largest number that was issued before.
        last: i64,
    },
    /// A request failed. A number may be skipped.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl SequenceError {
    /// Returns what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::SequenceExhausted { .. } | Self::SequenceRestarted { .. } => ErrorClass::Outcome,
            Self::Failed(error) => error.class(),
        }
    }
}

impl SequenceIds {
    /// Creates a handle to the numbers of the node at `path`.
    ///
    /// The node, and its parents, are created on first use. Use the path for nothing else.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn new(session: &Session, path: impl IntoNodePath) -> Result<Self, ParsePathError> {
        Ok(Self {
            session: session.clone(),
            path: path.into_node_path()?,
            last: Arc::new(AtomicI64::new(-1)),
        })
    }

    /// Requests the next number from the ensemble.
    ///
    /// It is greater than the numbers of all calls, of any process, that had returned before this call.
    /// A dropped call skips a number.
    ///
    /// # Errors
    ///
    /// [`SequenceError::SequenceExhausted`] if the 31 bits are used up, [`SequenceError::SequenceRestarted`] if another
    /// client has deleted the node, and [`SequenceError::Failed`] if the requests did not succeed within the session's
    /// operation timeout.
    ///
    /// # Cost
    ///
    /// One round trip and a write, and another write in the background.
    pub async fn next(&self) -> Result<i64, SequenceError> {
        let last = self.last.load(Ordering::Acquire);
        let parent = &self.path;
        let create = self.session.create(child(parent, "id-"), "");
        let node = create.ephemeral().sequential().parents().owned().await?;
        let name = node.path().name().unwrap_or_default();
        let Some((_, sequence)) = Sequence::split(name) else {
            unreachable!("a sequential node without a sequence number: {name}")
        };
        // The node is deleted in the background.
        drop(node);
        let number = sequence.number();
        if sequence.is_near_end() {
            return Err(SequenceError::SequenceExhausted {
                path: parent.clone(),
                number,
            });
        }
        if i64::from(number) <= last {
            return Err(SequenceError::SequenceRestarted {
                path: parent.clone(),
                number,
                last,
            });
        }
        self.last.fetch_max(number.into(), Ordering::AcqRel);
        Ok(number.into())
    }

    /// Returns the path of the node whose numbers are issued.
    pub fn path(&self) -> &NodePath {
        &self.path
    }
}
