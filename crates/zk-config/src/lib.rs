//! Configuration in ZooKeeper: published safely, followed as typed values.

mod error;
mod history;
mod outcome;
mod plan;
mod publication;
mod publisher;

pub use error::PublishError;
pub use history::Replaced;
pub use plan::Expected;
pub use publisher::Change;
pub use publisher::Publish;
pub use publisher::PublishOptions;
pub use publisher::PublishSeveral;
pub use publisher::Published;
pub use publisher::Publisher;
