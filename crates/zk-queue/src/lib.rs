//! Queues on ZooKeeper that lose nothing when answers are lost and processes die.

mod clock;
mod deadline;
mod detached;
mod error;
mod frame;
mod layout;
mod line;
mod offer;
mod options;
mod place;
mod queue;
mod receipt;
mod shelf;

pub use error::OfferAllError;
pub use error::OfferError;
pub use error::PathError;
pub use error::SettleError;
pub use error::TakeError;
pub use error::Undecided;
pub use layout::Layout;
pub use offer::Offer;
pub use offer::OfferAll;
pub use offer::OfferFuture;
pub use options::QueueOptions;
pub use queue::Drained;
pub use queue::Queue;
