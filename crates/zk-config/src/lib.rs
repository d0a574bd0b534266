//! Configuration in ZooKeeper: published safely, followed as typed values.

mod error;
mod history;
#[cfg(feature = "layers")]
mod layers;
mod life;
mod listener;
mod outcome;
mod plan;
mod publication;
mod publisher;
mod sight;
mod subtree;
mod typed;

pub use error::PublishError;
pub use history::Replaced;
#[cfg(feature = "layers")]
pub use layers::LayerError;
#[cfg(feature = "layers")]
pub use layers::Layers;
pub use life::Delivery;
pub use life::Lasting;
pub use listener::CallbackPanicked;
pub use listener::Event;
pub use listener::Events;
pub use listener::Listener;
pub use listener::Listening;
pub use listener::Value;
pub use plan::Expected;
pub use publisher::Change;
pub use publisher::Publish;
pub use publisher::PublishOptions;
pub use publisher::PublishSeveral;
pub use publisher::Published;
pub use publisher::Publisher;
pub use subtree::Subtree;
pub use typed::Current;
pub use typed::Following;
pub use typed::Problem;
pub use typed::Typed;
pub use typed::TypedBuilder;
