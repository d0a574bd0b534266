//! ZooKeeper nodes and trees in memory: read without a round trip, told of every difference.

mod board;
mod cache;
mod children;
mod event;
mod events;
mod follower;
mod node;
mod options;
mod reducer;
mod scope;
mod single;
mod snapshot;
mod store;
mod tree;

pub use children::ChildrenCache;
pub use event::End;
pub use event::Event;
pub use event::Gap;
pub use events::Events;
pub use node::Node;
pub use options::CacheOptions;
pub use options::Content;
pub use options::Select;
pub use single::NodeCache;
pub use snapshot::Snapshot;
pub use snapshot::State;
pub use tree::TreeCache;
