//! The errors of queue operations.

use std::fmt;

use zk_core::codec::EncodeError;
use zk_core::{CommitError, ErrorClass, NodePath};

use crate::item_id::ItemId;
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
    /// The lock path of a [`WorkLayout`](crate::WorkLayout) is a node of the queue itself.
    #[error(
        "the lock path {lock_path} is a node of the queue itself; use the lock path of the other consumers"
    )]
    LockPath {
        /// The lock path.
        lock_path: NodePath,
    },
}

/// The layout of a queue is another one, or could not be read; returned by [`Queue::check_layout`](crate::Queue::check_layout).
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// The queue has another layout than the handle.
    #[error(
        "the queue {path} has the layout {found}, and this handle the layout {expected}; open it with the layout that it has"
    )]
    Mismatch {
        /// The parent of the queue's items.
        path: NodePath,
        /// The layout of the queue.
        found: Layout,
        /// The layout of the handle.
        expected: Layout,
    },
    /// The queue's node could not be read or created.
    #[error(transparent)]
    Core(#[from] zk_core::Error),
}

impl LayoutError {
    /// Returns what a caller can do about the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Mismatch { .. } => ErrorClass::Outcome,
            Self::Core(error) => error.class(),
        }
    }
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
    /// The layout has no ids, or needs one, or cannot store this one.
    #[error("the layout {layout:?} cannot store {}; {}", id_text(.id.as_deref()), id_hint(.id.as_deref(), *.layout))]
    Id {
        /// The id of the offer.
        id: Option<String>,
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
    /// A part that the caller [added to the transaction](crate::Offer::commit_with) was refused, and nothing was offered.
    ///
    /// [`Error::failed_part`](zk_core::Error::failed_part) counts the caller's parts from two on.
    #[error("a part of the transaction was refused; nothing was offered")]
    Refused(#[source] zk_core::Error),
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

fn id_text(id: Option<&str>) -> String {
    match id {
        Some(id) => format!("an item with the id {id:?}"),
        None => "an item without an id".to_owned(),
    }
}

const fn id_hint(id: Option<&str>, layout: Layout) -> &'static str {
    match id {
        Some(_) if !layout.has_ids() => "use Layout::CuratorId",
        Some(_) => {
            "use one that is not empty and has no control, private-use or supplementary characters"
        }
        None => "give it one with Offer::id",
    }
}

impl OfferError {
    /// Returns what a caller can do about the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Refused(error) | Self::Unknown(error) | Self::Core(error) => error.class(),
            Self::Encode(_)
            | Self::Full { .. }
            | Self::Priority { .. }
            | Self::Delay { .. }
            | Self::Id { .. }
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

/// Some of several items were offered, and then an operation failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "failed after {offered} of {all} items; see the cause for whether the next ones were offered"
)]
#[non_exhaustive]
pub struct OfferAllError {
    /// The number of offered items, from the first one on.
    pub offered: usize,
    /// Their ids, as those of an [`OfferAll`](crate::OfferAll) that succeeds.
    pub ids: Vec<Option<ItemId>>,
    /// The number of all items.
    pub all: usize,
    /// The cause. After [`OfferError::Unknown`], either all items of the next transaction were offered or none.
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

    pub(crate) fn is_fatal(&self) -> bool {
        self.class() == ErrorClass::Fatal
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

impl fmt::Display for UnknownTake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.describe())
    }
}

/// It is not known that an item was removed, or what became of it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CancelError {
    /// The id is that of an item of another queue, or of a queue with another layout.
    #[error(
        "{id} is not the id of an item of the queue {path} with this layout; cancel it where it was offered"
    )]
    OtherQueue {
        /// The id.
        id: ItemId,
        /// The parent of the items of this queue.
        path: NodePath,
    },
    /// The layout of the queue has no [ids of the application](crate::Offer::id).
    #[error("the items of the layout {layout:?} have no ids; use Layout::CuratorId")]
    NoIds {
        /// The layout of the queue.
        layout: Layout,
    },
    /// The reply was lost for good: the item may have been removed, or may still be.
    ///
    /// The call may be repeated. [`Gone`](crate::CancelOutcome::Gone) then means that the item was removed by either
    /// call, or that a consumer has had it.
    #[error("the outcome is unknown: the item may or may not have been removed")]
    Unknown(#[source] zk_core::Error),
    /// An operation failed, and the item was not removed.
    #[error(transparent)]
    Core(#[from] zk_core::Error),
}

impl CancelError {
    /// Returns what a caller can do about the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::OtherQueue { .. } | Self::NoIds { .. } => ErrorClass::Outcome,
            Self::Unknown(error) | Self::Core(error) => error.class(),
        }
    }
}

impl From<CommitError> for CancelError {
    fn from(failure: CommitError) -> Self {
        if failure.error.is_outcome_unknown() {
            Self::Unknown(failure.error)
        } else {
            Self::Core(failure.error)
        }
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

/// Some of several dead letters were offered again or discarded, and then an operation failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("failed after {done} dead letters; see the cause for whether the next ones were changed")]
#[non_exhaustive]
pub struct DeadLetterBatchError {
    /// The number of dead letters that were offered again or discarded before.
    pub done: usize,
    /// The cause. If the outcome is unknown ([`OfferError::Unknown`], or a `Core` error with
    /// [`is_outcome_unknown`](zk_core::Error::is_outcome_unknown)), either all dead letters of the next transaction were
    /// changed or none.
    #[source]
    pub source: DeadLetterError,
}

impl DeadLetterBatchError {
    /// Returns what a caller can do about the error.
    pub fn class(&self) -> ErrorClass {
        self.source.class()
    }
}

/// Why a claim was not settled; [`NotSettled`](crate::NotSettled) contains it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SettleError {
    /// The claim was lost before: its node was deleted, and another consumer may have claimed or finished the item.
    #[error("the claim of {path} was lost before; another consumer may have the item")]
    Lost {
        /// The item.
        path: NodePath,
    },
    /// A part that the caller added to the transaction was refused. Nothing was changed.
    #[error(
        "a part of the transaction was refused; unless the claim is settled without it, the item is delivered again"
    )]
    Refused(#[source] zk_core::Error),
    /// It may or may not have been settled. If it was, another attempt returns [`Lost`](Self::Lost); if not, the item is
    /// delivered again.
    #[error(
        "the outcome is unknown: the claim may or may not have been settled; if not, the item is delivered again"
    )]
    Unknown(#[source] zk_core::Error),
    /// An operation failed, for example because the servers refuse to delete the item. Nothing was changed. Unless the
    /// claim is settled by another attempt, the item is delivered again.
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
