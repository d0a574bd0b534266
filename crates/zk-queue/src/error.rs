//! The errors of queue operations.

use zk_core::CommitError;
use zk_core::ErrorClass;
use zk_core::NodePath;
use zk_core::codec::EncodeError;

use crate::layout::Layout;

/// A path is not usable for a queue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// It is not a valid path.
    #[error(transparent)]
    Parse(#[from] zk_core::ParsePathError),
    /// It is the root.
    #[error(r#"a queue cannot be at the root; give it a path of its own, like "/queue""#)]
    Root,
}

/// Not all items were offered, or the outcome is unknown.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OfferError {
    /// The codec could not encode an item.
    #[error("the item cannot be encoded")]
    Encode(#[from] EncodeError),
    /// The queue is at its capacity.
    #[error(
        "the queue {path} has {len} items of at most {capacity}; offer again when some have been taken"
    )]
    Full {
        /// The queue.
        path: NodePath,
        /// The number of items in it.
        len: usize,
        /// Its capacity.
        capacity: usize,
    },
    /// The layout has no priorities, or not this one.
    #[error("the layout {layout:?} cannot store priority {priority}; {}", priority_hint(*.layout))]
    Priority {
        /// The priority of the offer.
        priority: i32,
        /// The layout of the queue.
        layout: Layout,
    },
    /// The layout has no delays.
    #[error("the layout {layout:?} has no delays; use Layout::Native or Layout::CuratorDelay")]
    Delay {
        /// The layout of the queue.
        layout: Layout,
    },
    /// An item is too large to be claimed or put back in one request.
    #[error(
        "an item of {bytes} bytes is too large for {path}, where an item may have {max}; store it elsewhere and offer a reference to it"
    )]
    TooLarge {
        /// The queue.
        path: NodePath,
        /// The item's size, encoded and with Curator's frame if the layout has one.
        bytes: usize,
        /// The largest possible size below this path.
        max: usize,
    },
    /// The counter from which the ensemble numbers the items is nearly used up.
    #[error(
        "the numbers of {path} are used up; let the queue run empty and delete the node, or use another path"
    )]
    Exhausted {
        /// The parent of the items.
        path: NodePath,
    },
    /// The reply was lost for good: the item may be in the queue, or may still be added.
    #[error("the outcome is unknown: the item may or may not have been offered")]
    Unknown(#[source] zk_core::Error),
    /// An operation failed, and nothing was offered.
    #[error(transparent)]
    Core(zk_core::Error),
}

const fn priority_hint(layout: Layout) -> &'static str {
    match layout {
        Layout::Kazoo => "use a priority from 0 to 999",
        _ => "use Layout::Native, Layout::Kazoo or Layout::CuratorPriority",
    }
}

impl OfferError {
    /// Returns what a caller can do about the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Unknown(error) | Self::Core(error) => error.class(),
            Self::Encode(_)
            | Self::Full { .. }
            | Self::Priority { .. }
            | Self::Delay { .. }
            | Self::TooLarge { .. }
            | Self::Exhausted { .. } => ErrorClass::Outcome,
        }
    }
}

impl From<CommitError> for OfferError {
    fn from(failure: CommitError) -> Self {
        if failure.error.is_outcome_unknown() {
            Self::Unknown(failure.error)
        } else {
            Self::Core(failure.error)
        }
    }
}

/// Some of several items were offered, and the others were not.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{offered} of {all} items were offered, in their order")]
#[non_exhaustive]
pub struct OfferAllError {
    /// The number of offered items, from the first one on.
    pub offered: usize,
    /// The number of all items.
    pub all: usize,
    /// Why the next item was not offered. After [`OfferError::Unknown`], either all items of the next transaction are
    /// in the queue or none of them.
    #[source]
    pub source: OfferError,
}

/// No item was taken, or the outcome is unknown.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TakeError {
    /// There is no item. Only calls that require one return this.
    #[error("the queue {path} is empty")]
    Empty {
        /// The queue.
        path: NodePath,
    },
    /// The reply was lost for good: the items may still be in the queue, or this process has taken them.
    ///
    /// The error contains the items, so that none is lost. A caller that processes them may be the second one to do so.
    #[error("the outcome is unknown: {} may or may not have been taken", .0.describe())]
    Unknown(Box<UnknownTake>),
    /// An operation failed, and nothing was taken.
    #[error(transparent)]
    Core(#[from] zk_core::Error),
}

impl TakeError {
    /// Returns what a caller can do about the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Empty { .. } => ErrorClass::Outcome,
            Self::Unknown(unknown) => unknown.source.class(),
            Self::Core(error) => error.class(),
        }
    }
}

/// Items that may or may not have been taken.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UnknownTake {
    /// The path and the data of each item's node.
    pub items: Vec<(NodePath, Vec<u8>)>,
    /// Why there is no reply.
    pub source: zk_core::Error,
}

impl UnknownTake {
    fn describe(&self) -> String {
        match self.items.as_slice() {
            [(path, _)] => format!("{path}"),
            items => format!("{} items", items.len()),
        }
    }
}

impl std::fmt::Display for UnknownTake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.describe())
    }
}

/// A dead letter was not read, offered again or discarded.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DeadLetterError {
    /// It no longer exists: another caller has offered it again or discarded it.
    #[error("the dead letter {name} no longer exists")]
    Gone {
        /// Its name.
        name: String,
    },
    /// It was not offered again.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// An operation failed.
    #[error(transparent)]
    Core(#[from] zk_core::Error),
}

impl DeadLetterError {
    /// Returns what a caller can do about the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Gone { .. } => ErrorClass::Outcome,
            Self::Offer(error) => error.class(),
            Self::Core(error) => error.class(),
        }
    }
}

/// A claim was not settled.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SettleError {
    /// The claim was lost before: its node was deleted, and another consumer may have claimed or finished the item.
    #[error("the claim of {path} was lost before; another consumer may have the item")]
    Lost {
        /// The item.
        path: NodePath,
    },
    /// A part that the caller added to the transaction was refused. Nothing was changed; the item is delivered again.
    #[error("a part of the transaction was refused; the item is delivered again")]
    Refused(#[source] zk_core::Error),
    /// It may or may not have been settled. If it was not, the item is delivered again.
    #[error(
        "the outcome is unknown: the claim may or may not have been settled; if not, the item is delivered again"
    )]
    Unknown(#[source] zk_core::Error),
    /// An operation failed. Nothing was changed, and the item is delivered again.
    #[error(transparent)]
    Core(zk_core::Error),
}

impl SettleError {
    /// Returns what a caller can do about the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Lost { .. } => ErrorClass::Outcome,
            Self::Refused(error) | Self::Unknown(error) | Self::Core(error) => error.class(),
        }
    }
}

impl From<CommitError> for SettleError {
    fn from(failure: CommitError) -> Self {
        if failure.error.is_outcome_unknown() {
            Self::Unknown(failure.error)
        } else {
            Self::Core(failure.error)
        }
    }
}
