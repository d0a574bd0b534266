//! Service discovery on ZooKeeper: instances that register, and providers that are followed and picked.
//!
//! A [`Registry`] puts an [`Instance`] of a service into a node that goes with its session, in the layout of Curator's
//! service discovery or of Dubbo, so that Java services and ours find each other.
//! [`Providers`] have all instances of a service in memory, kept up to date by [`zk_cache`], and pick one.
//!
//! Use it where ZooKeeper runs already and instances come and go in seconds.
//! It tells who is registered, not who is well: an instance that hangs stays registered, and one that died is found until its
//! session has expired, so [report](Providers::report_failure) what fails.
//! Do not decide with it who may do something; that takes a lock or an election.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_core::Session;
//! use zk_discovery::{Instance, Registry, RoundRobin};
//!
//! let session = Session::builder("zk1:2181,zk2:2181,zk3:2181").connect().await?;
//! let registry = Registry::new(&session, "/services")?;
//! let orders = Instance::builder("orders", "eu-west".to_owned()).address("10.0.0.7").port(8080);
//! let registration = registry.register(orders.build()?).await?;
//!
//! let providers = registry.providers::<String>("orders")?;
//! providers.synchronized().await?;
//! let turn = RoundRobin::anywhere();
//! let picked = providers.pick(&turn)?;
//! println!("{:?}:{:?} in {}", picked.address(), picked.port(), picked.payload());
//! registration.unregister().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! 1. An instance is registered once, whichever answer is lost, and a call that is dropped, wherever, leaves no node.
//! 2. A connection that breaks and comes back changes no node: nobody sees an instance flap.
//! 3. An update writes the node in place, under its version, on top of what others have written there. A write whose answer
//!    was lost is not repeated before another look at the node.
//! 4. What is removed is the node of the registration, never one that took its place. What is updated is so, too, but for
//!    one case that ZooKeeper does not tell apart: the node is replaced between the look and the write, and was written as
//!    often, see [`Registration::update`].
//! 5. Registering never overwrites a node of another live session, see [`WhenTaken`]; one of an
//!    [earlier session of the same process](Registry::succeeding) is removed by its transaction. Updating does so in the case
//!    of the fourth guarantee only.
//! 6. A registration [says](Registration::lost) when it is gone. It is put again only by who asks for that:
//!    [`Registry::keep_registered`] while the session lives, [`supervise`](zk_core::SessionBuilder::supervise) beyond.
//! 7. After each [`InstanceChange::Synchronized`] the list has what the server had when the connection was made, or later, unless
//!    there is a [`InstanceList::gap`]: then it cannot be had as a whole, and if nothing is there that is [`PickError::Incomplete`].
//!    InstanceChanges played over a list lead to the next one; a slow consumer is told the difference, and holds up nobody.
//! 8. An entry that is no instance is [quarantined](Quarantined), told once with its path and the reason, and harms no other;
//!    when it is mended it is an instance.
//! 9. A list that was not read yet is never picked from, and one that may be out of date as [`WhenStale`] says: by default
//!    what was known last is picked from, and [marked](Picked::is_stale), however long the ensemble is away. The next
//!    session [takes over](Providers::follow).
//! 10. Everything ends with its session, or with its last handle, and leaves no watch and no task behind.
//!
//! Not guaranteed: that a picked instance lives; that two processes know of a change at the same moment; that each change is
//! told by itself.
//!
//! # Failure behaviour
//!
//! | event | who has registered sees | who follows sees |
//! |---|---|---|
//! | the connection breaks | nothing | [`InstanceChange::Stale`], picks as [`WhenStale`] says; back again the difference and [`InstanceChange::Synchronized`] |
//! | the session is lost | [`RegistrationLoss::SessionLost`] | [`InstanceChange::Ended`], picks as [`WhenStale`] says; let the next one [`follow`](Providers::follow) |
//! | the process is killed | | [`InstanceChange::Removed`] within its session timeout, and some |
//! | somebody removes the node | [`RegistrationLoss::Deleted`] | [`InstanceChange::Removed`] |
//! | somebody writes the node | nothing; the next update begins with it | [`InstanceChange::Updated`], or [`InstanceChange::Quarantined`] |
//! | the node is another session's | [`RegisterError::Taken`], after a wait; [`keep_registered`](Registry::keep_registered) goes on waiting | |
//! | there is no instance | | [`PickError::Empty`] at once; [`Providers::pick_timeout`] waits |
//! | an instance fails again and again | | it is set aside for a time, see [`FailureRules`] |
//! | all are set aside, or more than [may be](FailureRules::with_max_ejected) | | as [`WhenAllEjected`] says |
//! | the list may not be read, or is too long | | [`InstanceChange::Incomplete`], [`InstanceList::gap`], [`PickError::Incomplete`] |
//!
//! # Layout
//!
//! ```text
//! /services                       the base
//! └── orders                      a service; a container node, where servers have these
//!     ├── orders-1                an instance, ephemeral, named by its id; JSON
//!     └── orders-2
//! ```
//!
//! That is Curator's, and [`Curator`] says what stands in the JSON and what of it Java understands.
//! With [`Dubbo`] it is `/dubbo/<interface>/providers/<encoded URL>`, and with a [`Layout`] and a [`Format`] of one's own, or a [`ReadFormat`] to follow only, it is
//! that.
//!
//! # Picking
//!
//! | strategy | picks |
//! |---|---|
//! | [`RoundRobin`] | one after the other |
//! | [`Random`] | any |
//! | [`LeastUsed`] | the one that this process uses least; a [`Picked`] is a use |
//! | [`ConsistentHash`] | the same for the same key; when an instance comes or goes, only its share of the keys moves |
//! | a [`Strategy`] of one's own | by the payload, for example by a weight |
//!
//! # Observing
//!
//! `tracing` events of the level warn say that an entry is quarantined, that a node of ours was removed by somebody, and that
//! an instance that is to be kept registered is not yet or not any more.
//! Neither these nor any debug output have payloads in them, nor the user and the parameters of a URL that is the name of a
//! node; the messages of errors may quote both.
//!
//! # What it does not do
//!
//! It checks nobody's health, and does not tell other processes who failed.
//!
//! # Features
//!
//! None.

mod changes;
mod clock;
mod conflict_policy;
mod curator;
mod decoder;
mod dubbo;
mod error;
mod follow;
mod instance;
mod instance_list;
mod keep_registered;
mod layout;
mod outlier_ejection;
mod pick;
mod provider;
mod redact;
mod registration;
mod registry;
mod staleness_policy;
mod update;
mod uri;
mod write_outcome;

pub use changes::InstanceChanges;
pub use conflict_policy::WhenTaken;
pub use curator::Curator;
pub use dubbo::Dubbo;
pub use dubbo::DubboProvider;
pub use error::RegisterError;
pub use error::UpdateError;
pub use instance::BuildError;
pub use instance::Instance;
pub use instance::InstanceBuilder;
pub use instance::ServiceType;
pub use instance_list::InstanceChange;
pub use instance_list::InstanceList;
pub use instance_list::Quarantined;
pub use layout::BadEntry;
pub use layout::Entry;
pub use layout::Format;
pub use layout::Layout;
pub use layout::ReadFormat;
pub use outlier_ejection::FailureRules;
pub use pick::Candidate;
pub use pick::ConsistentHash;
pub use pick::LeastUsed;
pub use pick::Random;
pub use pick::RoundRobin;
pub use pick::Strategy;
pub use provider::Picked;
pub use provider::ProviderOptions;
pub use provider::Providers;
pub use registration::Registration;
pub use registration::RegistrationLoss;
pub use registry::Registry;
pub use staleness_policy::PickError;
pub use staleness_policy::WhenAllEjected;
pub use staleness_policy::WhenStale;
pub use uri::ParseUriSpecError;
pub use uri::UriSpec;
pub use zk_cache::CacheEnd;
pub use zk_cache::CacheState;
pub use zk_cache::PartialRead;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
