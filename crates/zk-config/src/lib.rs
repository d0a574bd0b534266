//! Configuration in ZooKeeper: published safely, followed as typed values.
//!
//! Many processes share a configuration that changes while they run.
//! A [`Publisher`] puts it into nodes and says exactly what became of that; a [`Listener`] tells what happens to a key; a
//! [`Typed`] value is at hand without a round trip, follows every change, and stays the last good one whatever is
//! published or breaks.
//!
//! Do not use it for data that is larger than about half a megabyte per key or changes many times per second, for which a
//! store is made; nor for secrets that not everybody with access to the ensemble may read, unless with access rules.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_config::{PublishOptions, Publisher, Typed};
//! use zk_core::Session;
//! use zk_core::codec::Text;
//!
//! let session = Session::builder("zk1:2181,zk2:2181,zk3:2181").connect().await?;
//! let publisher = Publisher::with_options(&session, Text, PublishOptions::default().with_history(10));
//! publisher.publish("/app/motto", &"one for all".to_owned()).await?;
//!
//! let mut motto = Typed::<String>::node("/app/motto", Text)?.build();
//! let _following = motto.follow(&session);
//! println!("{}", **motto.ready().await);
//! println!("now {}", **motto.changed().await);
//! # Ok(())
//! # }
//! ```
//!
//! With the features `json` and `toml` the codecs [`Json`](zk_core::codec::Json) and [`Toml`](zk_core::codec::Toml) take any
//! type that serde can write and read.
//!
//! # Guarantees
//!
//! 1. Nothing is overwritten unseen: every write is made under the version that was read before, and what is
//!    [expected](Expected) is judged by a server that has caught up before it is refused.
//! 2. Keys that are published together change in one transaction: all or none.
//! 3. A publication whose answer was lost is never blindly repeated. It is found out whether it was carried out, or said
//!    that nobody knows ([`PublishError::OutcomeUnknown`]); with a [history](PublishOptions::with_history) that is rare.
//! 4. A listener is told of the last state, whatever it missed: a node that was deleted and made anew while nobody looked
//!    is told as both. Revisions only rise.
//! 5. A [`Typed`] value is always one that was published, decoded and validated, or the default; it never goes back to an
//!    older one, also when the next session is at a server that lags.
//! 6. A [subtree](Typed::subtree) is read as it was at one moment: a transaction over several of its keys is never seen
//!    half.
//! 7. User code runs on tasks of its own or on the caller's: a callback that waits holds up nobody else.
//!
//! Not guaranteed: that every value is seen, since values that are replaced before they are read are left out; that two
//! processes see a change at the same moment; that the data is not changed by others than publishers, who may write what
//! they like.
//!
//! # Failure behaviour
//!
//! | event | publisher | listener | typed value |
//! |---|---|---|---|
//! | the connection breaks | waits for it, and finds out what became of the request | nothing; the difference, when it is back | [`Problem::Stale`] until it is back; the value stays |
//! | the answer is lost and nothing tells | [`PublishError::OutcomeUnknown`] | – | – |
//! | somebody else was there first | tries again, or [`PublishError::Conflict`] if something was expected | – | – |
//! | the data is not of the format or the type | – | [`Event::Invalid`] with path, format and position | [`Problem::Invalid`]; the value stays |
//! | the validation refuses it | – | – | [`Problem::Rejected`]; the value stays |
//! | the value is larger than servers take | [`PublishError::is_too_large`], nothing is sent | – | – |
//! | a subtree changes faster than it can be read | – | – | [`Problem::Moving`]; the value stays until it can be |
//! | the node is deleted | creates it anew | [`Event::Deleted`] | [`Problem::Absent`]; the value stays |
//! | the node may not be read | an error | [`Event::Failed`], and again every ten seconds | [`Problem::Unreadable`]; the value stays |
//! | the session is lost | a fatal error | [`Event::SessionLost`], the last event | [`Problem::SessionLost`]; the value stays until the next session [follows](Typed::follow) it |
//! | the future or handle is dropped | see `Cancel safety` of each | its watch is taken back | the value stays |
//!
//! # Layout of the nodes
//!
//! ```text
//! /app
//! ├── motto                                                              the data and nothing else, for every client to read
//! └── _history_                                                          only with a history
//!     └── motto
//!         └── 00000003000000ff-0100001a2b3c0001-00000004                 what motto was
//! ```
//!
//! The data of a key is what its codec writes; Curator, kazoo and a shell read and write it as well.
//! An entry of the history is named by the transaction that had published what it keeps, by the session that replaced it
//! and by a number of that process; its data is that of the key, its creation the moment of the replacement.
//! Entries are made in the transaction that replaces the data, and the oldest go in the same; they survive the removal of
//! the key, and go with the node above it or when they are [purged](Publisher::purge_history).
//! No key may be named `_history_`, and subtrees leave such nodes out.
//! Parents are persistent nodes.
//!
//! # Observing
//!
//! Every operation has the spans of `zk-core`; looks that are taken again and values that are not put in force are told as
//! `tracing` events at the level of debugging.
//! The data is in no span and no event, except where the message of a codec quotes the wrong piece.
//!
//! # What it does not do
//!
//! - A document is one node: it is not split over several when it is too large.
//! - It does not encrypt.
//! - A condition on what is replaced is one on its version, as servers know no other: see [`Expected::Revision`].
//! - File and environment of [`Layers`] are read once.
//!
//! # Features
//!
//! - `json`, `toml`, `gzip`: the codecs of `zk-core`
//! - `layers`: [`Layers`] and [`Subtree::deserialize`], through the crate `config`
//!
//! All are off by default.

mod error;
mod history;
#[cfg(feature = "layers")]
mod layers;
mod life;
mod listener;
mod outcome;
mod plan;
mod problem;
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
pub use problem::Problem;
pub use publisher::Change;
pub use publisher::Publish;
pub use publisher::PublishOptions;
pub use publisher::PublishSeveral;
pub use publisher::Published;
pub use publisher::Publisher;
pub use subtree::Subtree;
pub use typed::Current;
pub use typed::Following;
pub use typed::Typed;
pub use typed::TypedBuilder;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
