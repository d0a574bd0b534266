//! Locks on ZooKeeper whose guards know when they may no longer be relied on.

mod contender;
mod error;
mod fair;
mod guard;
mod keeper;
mod layout;
mod options;
mod order;
mod queue;

pub use contender::Contender;
pub use error::AcquireError;
pub use error::Ahead;
pub use error::Loss;
pub use error::ReleaseError;
pub use error::RunError;
pub use error::SequenceExhausted;
pub use error::TimedOut;
pub use fair::FairLock;
pub use guard::FencingToken;
pub use guard::Guard;
pub use layout::Layout;
pub use options::LockOptions;
