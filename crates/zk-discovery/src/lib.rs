//! Service discovery on ZooKeeper: register instances of a service, follow them, and pick one.
//!
//! A [`Registry`] writes an [`Instance`] into an ephemeral node, in the layout of Curator's service discovery, of Dubbo
//! or of serversets, so that Java services and Rust services find each other.
//! A [static](ServiceType::Static) instance has a persistent node, and stays until it is unregistered.
//! [`Providers`] hold all instances of a service in memory, keep them up to date with [`zk_cache`], and pick one.
//! [`ServiceNames`] follow the names of all services. [`Registry::query`] and [`Registry::services`] read once.
//!
//! Use it where ZooKeeper already runs and instances come and go within seconds.
//! It reports which instances are registered, not which are healthy: an instance that hangs stays registered, and an
//! instance that died is found until its session has expired. [Report](Providers::report_failure) failures.
//! Do not use it to decide who may do something; use a lock or an election.
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
//! 1. An instance is registered once, whichever reply is lost. A call that is dropped at any point leaves no node, unless
//!    the instance is static or permanent.
//! 2. A connection that breaks and is restored changes no node: consumers do not see an instance flap.
//! 3. An update writes the node in place, conditional on its version, and keeps what others wrote there. A write whose
//!    reply was lost is not repeated before the node is read again.
//! 4. Unregistering removes only the node of the registration, never one that replaced it. Updating writes only that
//!    node too, with one exception that ZooKeeper cannot distinguish: the node is replaced between the read and the
//!    write, and the new node has the same version; see [`Registration::update`].
//! 5. Registering never overwrites a node of another live session, see [`WhenTaken`]. A node of an
//!    [earlier session of the same process](Registry::succeeding) is deleted, identified by the transaction that
//!    created it. Updating overwrites another session's node only in the exception of guarantee 4.
//! 6. A registration [reports](Registration::lost) its loss. It is not renewed automatically; use
//!    [`Registry::keep_registered`] within a session and [`Sessions::keep`](zk_core::Sessions::keep) across sessions.
//! 7. After each [`InstanceChange::Synchronized`] the list contains what the server had when the connection was made,
//!    or later, unless there is an [`InstanceList::gap`]: then the list is incomplete, and a pick that finds no
//!    instance returns [`PickError::Incomplete`]. Applying the changes to a list yields the next list. A slow consumer
//!    receives the difference and does not block others.
//! 8. An entry that is not a valid instance is [quarantined](Quarantined): it is reported once, with its path and the
//!    reason, and does not affect other entries. It becomes an instance once it is corrected.
//! 9. A list that was never read is never picked from. A list that may be out of date is used according to
//!    [`WhenStale`]:
//!    by default the last known instances are picked and [marked](Picked::is_stale), however long the ensemble is
//!    unavailable. The application's [sessions](Providers::follow) take over one after the other.
//! 10. The node of a static or permanent instance is removed by [`Registration::unregister`] alone, not by a drop and not
//!     with the session. Registering the same instance again finds it.
//! 11. Everything else ends with its session, or the last one of its sessions, or with its last handle, and leaves no watch
//!     and no task behind.
//!
//! Not guaranteed: that a picked instance is alive; that two processes see a change at the same moment; that each
//! change is reported separately.
//!
//! # Cancel safety
//!
//! Every future can be dropped at any await. Unless its documentation says otherwise, nothing has happened then, and no
//! change is lost.
//!
//! # Session loss
//!
//! Unless its documentation says otherwise, a call fails with an error of the [class](zk_core::ErrorClass) *fatal* once
//! the session is lost, and a stream of changes reports the end, then returns `None`.
//!
//! # Failure behaviour
//!
//! | event | the registering process sees | the following process sees |
//! |---|---|---|
//! | the connection breaks | nothing | [`InstanceChange::Stale`], picks as [`WhenStale`] says; after reconnecting the difference and [`InstanceChange::Synchronized`] |
//! | the session is lost | [`RegistrationLoss::SessionLost`] | [`InstanceChange::Ended`], picks as [`WhenStale`] says; if the application's [sessions](Providers::follow) are followed, as when the connection breaks, until the next one |
//! | the process is killed | | [`InstanceChange::Removed`] shortly after its session timeout; nothing if the instance is static or permanent |
//! | the node is deleted by another client | [`RegistrationLoss::Deleted`] | [`InstanceChange::Removed`] |
//! | the node is written by another client | nothing; the next update starts from that data | [`InstanceChange::Updated`], or [`InstanceChange::Quarantined`] |
//! | the node belongs to another session | [`RegisterError::Taken`], after a wait; [`keep_registered`](Registry::keep_registered) keeps waiting | |
//! | this registry has registered the node already | [`RegisterError::AlreadyRegistered`] | |
//! | there is no instance | | [`PickError::Empty`] at once; [`Providers::pick_timeout`] waits |
//! | an instance fails repeatedly | | the instance is ejected for a time, see [`FailureRules`] |
//! | all are ejected, or more than [the limit](FailureRules::with_max_ejected) | | as [`WhenAllEjected`] says |
//! | the list is not readable, or too long | | [`InstanceChange::Incomplete`], [`InstanceList::gap`], [`PickError::Incomplete`] |
//!
//! # Layout
//!
//! ```text
//! /services                       the base
//! └── orders                      a service; a container node, if servers support them
//!     ├── orders-1                an instance: ephemeral, named by its id; JSON
//!     └── orders-2
//! ```
//!
//! This is Curator's layout; [`Curator`] documents the JSON and what of it Java understands.
//! With [`Dubbo`] the path is `/dubbo/<interface>/providers/<encoded URL>`, with [`Serverset`], the layout of Finagle
//! and Aurora, `<base>/<service>/member_<number>`; the nodes above are persistent in these two.
//! Implement [`Layout`] and [`Format`] for another layout, or [`ReadFormat`] alone to follow without registering.
//!
//! The rights that a session needs, and what each node permits, are in `docs/security.md` of the repository.
//!
//! # Picking
//!
//! | strategy | picks |
//! |---|---|
//! | [`RoundRobin`] | one instance after the other |
//! | [`Random`] | a random instance |
//! | [`LeastUsed`] | the instance that this process uses least; each [`Picked`] counts as a use |
//! | [`ConsistentHash`] | the same instance for the same key; when an instance comes or goes, only its share of the keys moves |
//! | [`Weighted`] | a random instance, in proportion to a weight, which is a function of the instance |
//! | [`PreferZone`] | an instance of the caller's zone with another strategy, and any if the zone has none or too few |
//! | your own [`Strategy`] | by the instance and its payload |
//!
//! Each strategy chooses from the enabled instances that are not ejected, or from all enabled ones while too many are
//! ejected, see [`FailureRules::with_max_ejected`].
//!
//! # Observing
//!
//! `tracing` events of level warn report a quarantined entry, a registered node that another client removed, and an
//! instance that [`keep_registered`](Registry::keep_registered) has to register again or could not register yet.
//! These events and all debug output omit payloads, and the user and parameters of a URL in a node name.
//! Error messages may quote both.
//!
//! The crate has no metrics: an application measures its calls to instances itself, by names that mean something there.
//! The lists are caches, whose states `zk_cache` reports with its feature `metrics`.
//!
//! # What it does not do
//!
//! It runs no health checks, and does not share failures between processes.
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
mod query;
mod redact;
mod registration;
mod registry;
mod reserved_paths;
mod serverset;
mod service_names;
mod shared_list;
mod stable_hash;
mod staleness_policy;
mod update;
mod uri;

pub use changes::InstanceChanges;
pub use conflict_policy::WhenTaken;
pub use curator::Curator;
pub use dubbo::{Dubbo, DubboProvider};
pub use error::{RegisterError, UpdateError};
pub use instance::{BuildError, Instance, InstanceBuilder, ServiceType};
pub use instance_list::{InstanceChange, InstanceList, Quarantined};
pub use layout::{BadEntry, Entry, Format, Layout, ReadFormat};
pub use outlier_ejection::FailureRules;
pub use pick::prefer_zone::PreferZone;
pub use pick::weighted::Weighted;
pub use pick::{
    Candidate, Candidates, ConsistentHash, LeastUsed, ListId, Random, RoundRobin, Strategy,
};
pub use provider::{Picked, ProviderOptions, Providers};
pub use query::QueryError;
pub use registration::{Registration, RegistrationLoss};
pub use registry::Registry;
pub use serverset::{MemberStatus, Serverset, ServersetMember};
pub use service_names::{ServiceNameChange, ServiceNameChanges, ServiceNames};
pub use staleness_policy::{PickError, WhenAllEjected, WhenStale};
pub use uri::{ParseUriSpecError, UriSpec};
pub use zk_cache::{CacheEnd, CacheState, PartialRead};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
