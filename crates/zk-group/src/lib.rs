//! Group membership on ZooKeeper: live processes, each with a payload, and a live view of them.
//!
//! A [`Membership`] makes this process a member of a group, joins again with each session, and has a [`Group`], the live
//! view of all members. A process that only watches has a `Group` alone.
//!
//! Do not use it to decide who may do something: a member does not know at once that its session is over, and two processes
//! may see different members. Use a lock or an election for such decisions, and the feature `partitioner` to share
//! work. For services with addresses, use service discovery.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_core::{RetryPolicy, Session};
//! use zk_group::Membership;
//!
//! let sessions = Session::builder("zk1,zk2,zk3").sessions(RetryPolicy::default());
//! let membership = Membership::join(&sessions, "/workers", "host-7", "4 cores")?;
//! let mut changes = membership.group().changes();
//! while let Some(members) = changes.next().await {
//!     println!("{:?}", members.ids().collect::<Vec<_>>());
//! }
//! membership.leave().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! 1. A membership never gives up while there is a session: it joins again after the loss of a session, after a deletion of
//!    its node or of the group, and after a refusal. What fails is reported by [`Membership::problem`] and
//!    [`Membership::ready`].
//! 2. A view shows what the servers have, and adds nothing. It shows the process itself when they have reported its node,
//!    and no longer once its session is known to be lost, although the servers may still have the node.
//! 3. In the layout of Curator, one member at a time has an id. The node of another session is not overwritten, within the
//!    [limits](zk_core::PersistentNode#limits) of ZooKeeper's versions. Two memberships of one session with one id should
//!    have different payloads.
//! 4. After each change the view shows, sooner or later, all members; [`Members::is_synchronized`] says when that is so. A
//!    member that left and joined again between two reports has left and joined.
//! 5. A dropped membership leaves the group, even if a reply was lost.
//!
//! Not guaranteed: that all processes see the same members at a time; that a member which is shown is alive: the servers
//! notice a death when the session has timed out; ids that differ, in the layouts of kazoo.
//!
//! # Cancel safety
//!
//! Every future can be dropped at any await. Unless its documentation says otherwise, nothing has happened then, and no
//! change and no item is missed. A call that leaves or releases goes on in the background.
//!
//! # Session loss
//!
//! Unless its documentation says otherwise, a call waits for the next session of [`Sessions`](zk_core::Sessions), and
//! returns an error if there will be none. An [`ItemGuard`](partitioner::ItemGuard) belongs to one session, and is lost
//! with it.
//!
//! # Failure behaviour
//!
//! | event | the process itself | other members |
//! |---|---|---|
//! | the reply to the create is lost | is a member once | see one member |
//! | the connection breaks | stays a member; its view [is not synchronised](Members::is_synchronized) until it is back | see nothing |
//! | the session is lost | is no member, until it has joined with the next session of [`Sessions`](zk_core::Sessions); a membership with one session ends | see it leave and join |
//! | the process stops for longer than its session lives | the same when it goes on; until then it does not know | see it leave |
//! | another client deletes the node, or the group | joins again at once | see it leave and join |
//! | another member has the id | [`PersistentNodeProblem::Taken`](zk_core::PersistentNodeProblem::Taken), and waits | see the other member |
//! | the rights are missing | [`PersistentNodeError::Refused`](zk_core::PersistentNodeError::Refused), and tries again | see nothing |
//! | the future of a call is dropped | a payload is still written, a leave goes on | |
//! | its server lags | sees changes late | |
//! | a group of 10,000 members | a view reads each node once, 64 with one request; a change costs each view a read, and a list if a member joins or leaves, and each process copies all members for each batch of changes | |
//!
//! # Layout of the nodes
//!
//! ```text
//! /workers           a container, unless it exists
//! ├── host-7         ephemeral: the payload
//! └── host-8
//! ```
//!
//! That is the [layout](Layout) of Curator's `GroupMember`. Those of kazoo's `Party` and `ShallowParty` are the others.
//! The names and payloads are those of the originals. Children that are not ephemeral are ignored. In the layouts of
//! kazoo the path is a persistent node, unless it exists.
//!
//! The rights that a session needs, and what each node permits, are in `docs/security.md` of the repository.
//!
//! # Observing
//!
//! The crate has no metrics: how many members a group has is the length of its view. The views are caches, whose states
//! `zk_cache` reports with its feature `metrics`.
//!
//! # Features
//!
//! Off by default:
//!
//! - `partitioner`: [`partitioner`], which shares a set of items among the members of a group. It brings `zk-lock`.

mod error;
mod group;
mod layout;
mod members;
mod membership;
#[cfg(feature = "partitioner")]
pub mod partitioner;

pub use error::{JoinError, SetPayloadError};
pub use group::{Group, MembersChanges};
pub use layout::Layout;
pub use members::{Member, MemberChange, Members};
pub use membership::Membership;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
