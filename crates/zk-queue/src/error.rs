//! What the operations of queues can fail with.

use zk_core::ErrorClass;
use zk_core::NodePath;
use zk_core::codec::EncodeError;

use crate::idempotency::Failure;
use crate::layout::Layout;

/// A path cannot be that of a queue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// It is not a path.
    #[error(transparent)]
    Parse(#[from] zk_core::ParsePathError),
    /// It is the root.
    #[error(r#"a queue cannot be at the root; give it a path of its own, like "/queue""#)]
    Root,
}

/// Items were not offered, or nobody knows.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OfferError {
    /// The codec cannot express an item.
    #[error("the item cannot be encoded")]
    Encode(#[from] EncodeError),
    /// The queue has as many items as it may have.
    #[error(
        "the queue {path} has {len} items of at most {capacity}; offer again when some have been taken"
    )]
    Full {
        /// The queue.
        path: NodePath,
        /// How many items it has.
        len: usize,
        /// How many it may have.
        capacity: usize,
    },
    /// The names of this layout have no place for a priority, or not for this one.
    #[error("priority {priority} has no place in the names of the layout {layout:?}; {}", rule_of(*.layout))]
    Priority {
        /// What was asked for.
        priority: i32,
        /// The layout of the queue.
        layout: Layout,
    },
    /// The names of this layout have no place for a delay.
    #[error("the layout {layout:?} has no delays; use Layout::Native or Layout::CuratorDelay")]
    Delay {
        /// The layout of the queue.
        layout: Layout,
    },
    /// An item is larger than what could be claimed or put back in one request.
    #[error(
        "an item of {bytes} bytes is too large for {path}; with these paths it may have {most}, so store it elsewhere and offer where it is"
    )]
    TooLarge {
        /// The queue.
        path: NodePath,
        /// How large it is, encoded and with Curator's frame if the layout has one.
        bytes: usize,
        /// How large it may be.
        most: usize,
    },
    /// The counter from which the ensemble numbers the items is used up.
    #[error(
        "the numbers of {path} are used up; let the queue run empty and delete the node, or use another path"
    )]
    Exhausted {
        /// The node that has the items for children.
        path: NodePath,
    },
    /// The answer was lost for good: the item may be in the queue or not, and may still come.
    #[error("nobody knows whether it was offered")]
    Unknown(#[source] zk_core::Error),
    /// An operation failed, and nothing was offered.
    #[error(transparent)]
    Core(zk_core::Error),
}

const fn rule_of(layout: Layout) -> &'static str {
    match layout {
        Layout::Kazoo => "it has those from 0 to 999",
        _ => "use Layout::Native, Layout::Kazoo or Layout::CuratorPriority",
    }
}

impl OfferError {
    /// Returns what can be done about it.
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

impl From<Failure> for OfferError {
    fn from(failure: Failure) -> Self {
        if failure.is_in_doubt {
            Self::Unknown(failure.error)
        } else {
            Self::Core(failure.error)
        }
    }
}

/// Of several items some were offered, and the others were not.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{offered} of {all} items were offered, in their order")]
#[non_exhaustive]
pub struct OfferAllError {
    /// How many were, from the first one on.
    pub offered: usize,
    /// How many there are.
    pub all: usize,
    /// What kept the next ones from being offered; if it is [`OfferError::Unknown`], those that were to go with it are
    /// in the queue all together, or none of them is.
    #[source]
    pub source: OfferError,
}

/// An item was not taken, or nobody knows.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TakeError {
    /// There is no item; only where an item is demanded.
    #[error("the queue {path} is empty")]
    Empty {
        /// The queue.
        path: NodePath,
    },
    /// The answer was lost for good: the items are still in the queue, or we have taken them.
    ///
    /// It has the items, so that none is lost; whoever uses them may be the second one to do so.
    #[error("nobody knows whether {} were taken", .0.describe())]
    Undecided(Box<Undecided>),
    /// An operation failed, and nothing was taken.
    #[error(transparent)]
    Core(#[from] zk_core::Error),
}

impl TakeError {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Empty { .. } => ErrorClass::Outcome,
            Self::Undecided(undecided) => undecided.source.class(),
            Self::Core(error) => error.class(),
        }
    }
}

/// Items of which nobody knows whether they were taken.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Undecided {
    /// The items as they are in the data of their nodes, and where those are or were.
    pub items: Vec<(NodePath, Vec<u8>)>,
    /// Why there is no answer.
    pub source: zk_core::Error,
}

impl Undecided {
    fn describe(&self) -> String {
        match self.items.as_slice() {
            [(path, _)] => format!("{path}"),
            items => format!("{} items", items.len()),
        }
    }
}

impl std::fmt::Display for Undecided {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.describe())
    }
}

/// A dead letter could not be read, revived or discarded.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DeadLetterError {
    /// It is not there any more: somebody else has revived or discarded it.
    #[error("the dead letter {name} is not there any more")]
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
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Gone { .. } => ErrorClass::Outcome,
            Self::Offer(error) => error.class(),
            Self::Core(error) => error.class(),
        }
    }
}

/// A claim could not be settled as was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SettleError {
    /// The claim was lost before: its node was deleted, and somebody else may have claimed the item, or finished it.
    #[error("the claim of {path} was lost before, somebody else may have the item")]
    Lost {
        /// The item.
        path: NodePath,
    },
    /// A part that was added to the transaction was refused; nothing was done, and the item goes back.
    #[error("a part of the transaction was refused, and the item goes back to the queue")]
    Refused(#[source] zk_core::Error),
    /// Nobody knows whether it was done. If it was not, the item is delivered again.
    #[error("nobody knows whether it was done; if not, the item is delivered again")]
    Unknown(#[source] zk_core::Error),
    /// An operation failed and nothing was done; the item goes back to the queue.
    #[error(transparent)]
    Core(zk_core::Error),
}

impl SettleError {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Lost { .. } => ErrorClass::Outcome,
            Self::Refused(error) | Self::Unknown(error) | Self::Core(error) => error.class(),
        }
    }
}

impl From<Failure> for SettleError {
    fn from(failure: Failure) -> Self {
        if failure.is_in_doubt {
            Self::Unknown(failure.error)
        } else {
            Self::Core(failure.error)
        }
    }
}
