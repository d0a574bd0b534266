//! Ids that never repeat.

mod block;
mod charter;
mod clock;
mod core;
mod error;
mod generator;
mod id;
mod layout;
mod line;
mod mark;
mod pace;
mod run;
mod sequence;
mod slots;
mod snowflake;
mod task;
mod worker;

pub use block::BlockError;
pub use block::BlockIds;
pub use clock::Clock;
pub use clock::SystemClock;
pub use error::ClaimError;
pub use error::Loss;
pub use error::NextError;
pub use generator::Generator;
pub use id::Id;
pub use id::ParseIdError;
#[cfg(feature = "serde")]
pub use id::as_base62;
#[cfg(feature = "serde")]
pub use id::as_crockford;
#[cfg(feature = "serde")]
pub use id::as_number;
pub use layout::Layout;
pub use layout::Parts;
pub use run::Run;
pub use sequence::SequenceError;
pub use sequence::SequenceIds;
pub use snowflake::Snowflake;
pub use snowflake::Snowflakes;
pub use worker::WorkerId;
pub use worker::WorkerIds;
