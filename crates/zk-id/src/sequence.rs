//! Ids from the numbers that servers append to the names of sequential nodes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering;

use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Sequence;
use zk_core::Session;

use crate::path_schema::ROUNDS;
use crate::worker::below;

/// Numbers from 0 on in the order in which the ensemble was asked for them, over all processes.
///
/// Each is the number of a sequential node, which is removed again at once, so that nodes do not pile up.
/// They are what orders events of many processes strictly; [`BlockIds`](crate::BlockIds) and
/// [`Snowflakes`](crate::Snowflakes) cost a thousandth.
///
/// The numbers have 31 bits, and begin anew when the node at the path is deleted: it is a persistent one, and no container,
/// so that the ensemble does not do that by itself.
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
#[derive(Clone)]
pub struct SequenceIds {
    session: Session,
    path: NodePath,
    /// The largest number that a call of a clone of this has answered.
    last: Arc<AtomicI64>,
}

/// No number was given out.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SequenceError {
    /// The counter of the node is used up; servers from 3.6 on give out the last number again and again, older ones begin
    /// below zero.
    #[error(
        "the numbers of {path} are used up, at {number}; go on with another path, and add {} to its numbers",
        i32::MAX
    )]
    SequenceExhausted {
        /// The node.
        path: NodePath,
        /// The number that it gave.
        number: i32,
    },
    /// The numbers have begun anew: somebody has deleted the node.
    #[error(
        "{path} gave {number} after {last}; somebody has deleted it, so that its numbers repeat"
    )]
    StartedAnew {
        /// The node.
        path: NodePath,
        /// The number that it gave.
        number: i32,
        /// What it had given before.
        last: i64,
    },
    /// The ensemble did not do it; a number may be skipped.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl SequenceError {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::SequenceExhausted { .. } | Self::StartedAnew { .. } => ErrorClass::Outcome,
            Self::Failed(error) => error.class(),
        }
    }
}

impl SequenceIds {
    /// Makes a handle of the numbers of the node at `path`.
    ///
    /// The node is made when it is needed, and so are its parents; use it for nothing else.
    ///
    /// # Errors
    ///
    /// When `path` is none.
    pub fn new<P>(session: &Session, path: P) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Ok(Self {
            session: session.clone(),
            path: path.try_into().map_err(Into::into)?,
            last: Arc::new(AtomicI64::new(-1)),
        })
    }

    /// Asks the ensemble for the next number.
    ///
    /// It is greater than that of every call, of any process, that had been answered before this one was made.
    /// Numbers are skipped when a call is dropped.
    ///
    /// # Errors
    ///
    /// [`SequenceError::SequenceExhausted`] when the 31 bits are used up, [`SequenceError::StartedAnew`] when somebody has
    /// deleted the node, and [`SequenceError::Failed`] when the ensemble did not do it within the session's operation
    /// timeout.
    ///
    /// # Cancel safety
    ///
    /// Safe: the node that was made, or will be by a request that has left, is removed in the background.
    ///
    /// # Session loss
    ///
    /// A fatal [`SequenceError::Failed`].
    ///
    /// # Cost
    ///
    /// One round trip and a write, and another write in the background.
    pub async fn next(&self) -> Result<i64, SequenceError> {
        let last = self.last.load(Ordering::Acquire);
        let parent = &self.path;
        let child = below(parent, "id-");
        let mut round = 0;
        let node = loop {
            let create = self.session.create(&child, "").ephemeral().sequential();
            match create.owned().await {
                Ok(node) => break node,
                // Somebody may remove it again.
                Err(error) if error.is_no_node() && round < ROUNDS => {
                    round += 1;
                    match self.session.create(parent, "").parents().await {
                        Ok(_) => {}
                        Err(error) if error.is_node_exists() || error.is_outcome_unknown() => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(error) => return Err(error.into()),
            }
        };
        let name = node.path().name().unwrap_or_default();
        let Some((_, sequence)) = Sequence::split(name) else {
            unreachable!("servers number sequential nodes, and not like this: {name}")
        };
        // Its end is not waited for.
        drop(node);
        let number = sequence.number();
        if sequence.is_near_end() {
            return Err(SequenceError::SequenceExhausted {
                path: parent.clone(),
                number,
            });
        }
        if i64::from(number) <= last {
            return Err(SequenceError::StartedAnew {
                path: parent.clone(),
                number,
                last,
            });
        }
        self.last.fetch_max(number.into(), Ordering::AcqRel);
        Ok(number.into())
    }

    /// Returns the node whose numbers these are.
    pub fn path(&self) -> &NodePath {
        &self.path
    }
}

impl fmt::Debug for SequenceIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequenceIds")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
