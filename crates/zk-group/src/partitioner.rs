//! Shares a set of items among the members of a group, no item owned twice.
//!
//! Each member runs a [`Partitioner`] with the same items: shards, queues, tenants. Each item is allocated to one member,
//! which acquires its lock and then owns it; when members come or go, the items are allocated anew, and an item moves when
//! its owner has released it. Use it for work that is spread over all processes, where one process at a time handles each
//! item. For one task, use leader election.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! # async fn serve(_: &str, _: zk_lock::FencingToken, _: impl Future<Output = ()>) {}
//! use zk_core::{RetryPolicy, Session};
//! use zk_group::partitioner::Partitioner;
//!
//! let sessions = Session::builder("zk1,zk2,zk3").sessions(RetryPolicy::default());
//! let shards = (0..64).map(|shard| format!("shard-{shard}"));
//! let partitioner = Partitioner::start(&sessions, "/indexer", "host-7", shards)?;
//! while let Some(shard) = partitioner.next().await {
//!     tokio::spawn(async move {
//!         tokio::select! {
//!             biased;
//!             loss = shard.lost() => return eprintln!("{}: {loss}", shard.item()),
//!             // It returns when a release is requested, and it has finished what is under way.
//!             () = serve(shard.item(), shard.fencing_token(), shard.release_requested()) => {}
//!         }
//!         // If it is still allocated to this member, `next` returns it again.
//!         if let Err(error) = shard.release().await {
//!             eprintln!("{error}");
//!         }
//!     });
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! 1. No two valid [`ItemGuard`]s of one item exist at the same moment. That rests on the [lock](zk_lock#guarantees) of the
//!    item alone, with its assumptions, and not on what members know of each other: members that see different groups, have
//!    different items, or have the same id may wait for each other, and never own an item together.
//! 2. Fencing tokens of successive owners of an item increase.
//! 3. Once members and items have settled, and all members have the same items and the same [`Allocation`], can read each
//!    other's nodes, and have released what they were asked for and dropped what they lost, each item is owned by one member,
//!    and the numbers of two members' items differ by at most one.
//! 4. An item whose owner does not change is not released.
//! 5. A partitioner has at most one [`ItemGuard`] of an item, also after the loss of a session: the item is not returned again
//!    before the guard is dropped.
//! 6. A dropped guard releases its item, and a dropped partitioner leaves the group, even if a reply was lost.
//!
//! Not guaranteed: that each item is owned at any moment: not while it is handed over, while the group settles, or while the
//! servers wait for the session of a dead owner; that an owner stops when it loses an item, see
//! [what a lock guarantees](zk_lock#guarantees); that an item moves if its owner does not release it.
//!
//! # Failure behaviour
//!
//! | event | the owner of an item | other members |
//! |---|---|---|
//! | a member joins or leaves | after the [settle time](PartitionerOptions::with_settle_time), [`release_requested`](ItemGuard::release_requested) resolves for the items that move | wait for the locks of their new items, and own them as soon as they are released |
//! | the application does not release an item | stays the owner | the new owner waits |
//! | the reply to a request is lost | not affected | not affected |
//! | the connection breaks | keeps its items; if it is not back in time, [`lost`](zk_lock::HeldLock::lost) resolves. Nothing is allocated anew until it is back, and the group has settled again | not affected |
//! | the session is lost | its items are [lost](zk_lock::HeldLock::lost); it joins with the next session of [`Sessions`](zk_core::Sessions), and acquires its items again as they are dropped. With one session it ends: [`next`](Partitioner::next) returns `None` | if it is not back within the settle time, they own its items |
//! | the process stops for longer than its session lives | the same when it goes on | the same |
//! | another client deletes the node of the member | joins again at once, and keeps its items | nothing, within the settle time |
//! | another client deletes the node of a lock | [`lost`](zk_lock::HeldLock::lost) resolves; acquires the item again when it is dropped | not affected |
//! | members join and leave without end | items are allocated anew once in ten settle times | the same |
//! | there are more members than items | some have none, and wait for changes | |
//! | the rights are missing | [`problem`](Partitioner::problem) reports it, and it tries again | nothing |
//! | the members cannot be read | [`problem`](Partitioner::problem) reports it. If it cannot read its own node, it takes nothing; that is reported after the settle time | wait for a member that takes nothing |
//! | a member joins whose node it cannot read, on servers with the fix of CVE-2024-23944 | nothing is reported: it counts too few members, and waits for the locks of items that others own | not affected |
//! | the session has no room for the watch of the group | [`next`](Partitioner::next) returns `None`, and [`problem`](Partitioner::problem) reports it | wait until it is dropped |
//! | the future of a call is dropped | nothing, or the release goes on | |
//! | its server lags | sees changes late, and waits for locks meanwhile | wait for its items |
//!
//! # Cost
//!
//! A member is an ephemeral node and a view of the group. An item costs its owner one round trip to acquire and one to
//! release, a node, and what a [`FairLock`](zk_lock::FairLock) costs its holder; an item that is waited for costs two
//! watches. Items of one member are acquired concurrently. Without changes a member reads its own node once a
//! session timeout, and sends the proofs of a [`SessionLease`](zk_core::SessionLease), one for all items of a session.
//!
//! # Layout of the nodes
//!
//! ```text
//! /indexer                                             persistent, unless they exist, as the two below and those of the items
//! ├── party
//! │   ├── 0123456789abcdef0123456789abcdef-host-7      ephemeral: 0
//! │   └── 89abcdef0123456789abcdef01234567-host-8
//! └── locks
//!     ├── shard-0
//!     │   └── _c_0d8e3dcc-…-__lock__0000000003         ephemeral, owns the item
//!     └── shard-1
//!         ├── _c_9b0a2f1e-…-__lock__0000000007         ephemeral, owns the item, and is to release it
//!         └── _c_51c7d0aa-…-__lock__0000000008         waits for it
//! ```
//!
//! That is the layout of kazoo's `SetPartitioner`: the party is a [`KazooShallowParty`](crate::Layout::KazooShallowParty),
//! and the locks have the layout [`kazoo`](zk_lock::Layout::kazoo). Members of both clients can share one set, with
//! [`Allocation::Kazoo`], equal items, which are text, and an id of its own for each member of kazoo. kazoo uses
//! none of its items before it has the locks of all, releases all of them at each change, and stops for good when its session
//! is lost. The node of an item's lock stays when the item is no longer in the set, as kazoo's does.

mod allocation;
mod debounce;
mod error;
mod item_guard;
mod options;
mod task;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;
use zk_core::{IntoNodePath, NodePath, PersistentNodeError, SessionSource};

pub use self::allocation::Allocation;
pub use self::error::{InvalidItem, PartitionerProblem, StartError};
pub use self::item_guard::ItemGuard;
pub use self::options::PartitionerOptions;
use self::task::{Items, PartitionTask, PartitionerState, take};
use crate::layout::Layout;
use crate::membership::Membership;

/// Makes this process a member that gets its share of the items; see [the module](self).
///
/// # Dropping
///
/// The member leaves the group in the background and acquires nothing more; see [`leave`](Self::leave). The guards of its
/// items stay valid, and [`release_requested`](ItemGuard::release_requested) resolves for all of them.
pub struct Partitioner {
    membership: Membership,
    locks: NodePath,
    items: watch::Sender<Items>,
    state: Arc<watch::Sender<PartitionerState>>,
}

impl Partitioner {
    /// Starts to share `items` in the group at `path`, in the background, with default options. Missing nodes are created.
    ///
    /// The id should be the same after a restart, and that of no other member. An item is the name of a node: the same text
    /// for all members.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path, or the id or an item cannot be in the name of a node. All else is reported by
    /// [`problem`](Self::problem).
    pub fn start(
        sessions: impl Into<SessionSource>,
        path: impl IntoNodePath,
        id: &str,
        items: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, StartError> {
        Self::start_with(sessions, path, id, items, PartitionerOptions::default())
    }

    /// Starts to share `items` in the group at `path`, in the background.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start).
    pub fn start_with(
        sessions: impl Into<SessionSource>,
        path: impl IntoNodePath,
        id: &str,
        items: impl IntoIterator<Item = impl Into<String>>,
        options: PartitionerOptions,
    ) -> Result<Self, StartError> {
        let sessions = sessions.into();
        let path = path.into_node_path()?;
        let locks = path.join("locks")?;
        let items = watch::Sender::new(with_locks(&locks, items)?);
        let party = path.join("party")?;
        let membership =
            Membership::join_with(&sessions, party, id, "", Layout::KazooShallowParty)?;
        let state = Arc::new(watch::Sender::new(PartitionerState::default()));
        let task = PartitionTask {
            name: membership.node_name().to_owned(),
            own: membership.node_state(),
            changes: membership.group().changes(),
            items: items.subscribe(),
            options,
            state: Arc::clone(&state),
            wanted: BTreeMap::new(),
            item_tasks: JoinSet::new(),
            sessions: sessions.clone(),
        };
        // It ends when the sender of the items is dropped.
        drop(sessions.spawn(task.run()));
        Ok(Self {
            membership,
            locks,
            items,
            state,
        })
    }

    /// Waits until this member owns another item, and returns it.
    ///
    /// `None` if there will be no further session, or the view of the group has ended, for example because the session has
    /// no room for its watch. Drop the partitioner then: until that, others count it as a member.
    ///
    /// An item that is to be released, or is lost, before it is returned here, is released and not returned. Several tasks may
    /// wait; each item is returned to one of them.
    ///
    /// # Session loss
    ///
    /// It waits for the next session. `None` if there is none.
    pub async fn next(&self) -> Option<ItemGuard> {
        let mut changes = self.state.subscribe();
        loop {
            if changes.borrow_and_update().is_ended {
                return None;
            }
            let first = |ready: &mut BTreeMap<_, _>| ready.pop_first().map(|(_, guard)| guard);
            if let Some(guard) = take(&self.state, first) {
                // Its task takes it back then, but may not have run since.
                if guard.is_valid() && !guard.is_release_requested() {
                    return Some(guard);
                }
                continue;
            }
            // Never an error: `self` owns the sender.
            drop(changes.changed().await);
        }
    }

    /// Changes the items. It has an effect when it has settled, as a change of the members has.
    ///
    /// Change them for all members. An item that only some members have is owned by one of these, or by none.
    ///
    /// # Errors
    ///
    /// If an item cannot be the name of a node. Nothing is changed.
    pub fn set_items(
        &self,
        items: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<(), InvalidItem> {
        let items = with_locks(&self.locks, items)?;
        self.items.send_if_modified(|old| {
            let is_changed = *old != items;
            *old = items;
            is_changed
        });
        Ok(())
    }

    /// Returns the items that are allocated to this member as of the last allocation, in order. It owns them, or waits until
    /// other members have released them.
    pub fn share(&self) -> Vec<String> {
        self.state.borrow().share.iter().cloned().collect()
    }

    /// Returns this process as a member of the group, with the view of all members. Their names order members with equal
    /// ids.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Returns why this process is not a member, gets no items, or does not own an item that is allocated to it; `None` if
    /// nothing has failed, or what failed was done since.
    pub fn problem(&self) -> Option<PartitionerProblem> {
        let membership = || {
            let problem = self.membership.problem();
            problem.map(PartitionerProblem::Membership)
        };
        let group = self.membership.group();
        let ended = || group.end().map(PartitionerProblem::Ended);
        let view = || {
            let (path, reason) = group.partial_read()?;
            Some(PartitionerProblem::View { path, reason })
        };
        let item = || {
            let state = self.state.borrow();
            let (item, error) = state.problems.first_key_value()?;
            Some(PartitionerProblem::Item {
                item: item.clone(),
                error: error.clone(),
            })
        };
        let unseen = || {
            let path = self.state.borrow().unseen.clone()?;
            Some(PartitionerProblem::Unseen { path })
        };
        let problem = membership().or_else(ended).or_else(view);
        problem.or_else(unseen).or_else(item)
    }

    /// Leaves the group, and waits until that is done. Nothing more is acquired.
    ///
    /// The guards of its items stay valid, and [`release_requested`](ItemGuard::release_requested) resolves for all of them:
    /// the other members wait until they are released.
    ///
    /// # Errors
    ///
    /// Those of [`Membership::leave`].
    ///
    /// # Session loss
    ///
    /// It waits for the next session, or returns at once if there is none.
    pub async fn leave(self) -> Result<(), PersistentNodeError> {
        let Self {
            membership,
            items,
            state,
            ..
        } = self;
        // Ends the task, and releases what was not taken.
        drop((items, state));
        membership.leave().await
    }
}

impl fmt::Debug for Partitioner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partitioner")
            .field("membership", &self.membership)
            .field("share", &self.share())
            .field("problem", &self.problem())
            .finish_non_exhaustive()
    }
}

/// Adds the paths of their locks to items.
fn with_locks(
    locks: &NodePath,
    items: impl IntoIterator<Item = impl Into<String>>,
) -> Result<Items, InvalidItem> {
    let items = items.into_iter().map(|item| {
        let item = item.into();
        match locks.join(&item) {
            Ok(lock) if !item.is_empty() && !item.contains('/') => Ok((item, lock)),
            _ => Err(InvalidItem { item }),
        }
    });
    items.collect()
}
