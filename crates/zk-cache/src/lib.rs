//! ZooKeeper nodes and trees in memory: reads without a round trip, and an event for every difference.
//!
//! A [`TreeCache`] holds a node and everything below it, a [`ChildrenCache`] the children of a node, a [`NodeCache`]
//! one node. A read takes no lock and sends no request. Changes on the servers reach the cache some milliseconds later
//! and are reported as [`Event`]s.
//!
//! Do not use a cache to decide who may do something: a read is as old as the network allows. Such decisions need a
//! lock, an election, or a write conditional on a version.
//! Do not cache more than fits into the memory of each process that has the cache.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_cache::{Event, TreeCache};
//! use zk_core::Session;
//!
//! let session = Session::builder("zk1:2181,zk2:2181,zk3:2181").connect().await?;
//! let cache = TreeCache::start(&session, "/app")?;
//! let mut events = cache.events();
//! while let Some(event) = events.next().await {
//!     match event {
//!         Event::Created(node) | Event::Changed { new: node, .. } => println!("{node:?}"),
//!         Event::Deleted(node) => println!("{} is gone", node.path()),
//!         Event::Synchronized { .. } => println!("{} nodes", cache.snapshot().len()),
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Three ways to start
//!
//! A cache starts in the background. It can be read at once, and returns what it has loaded so far.
//!
//! | to get | call |
//! |---|---|
//! | the nodes as they are loaded, and a notification when the load is complete | [`events`](TreeCache::events): [`Event::Synchronized`] ends the load |
//! | the complete contents before going on | [`synchronized`](TreeCache::synchronized) |
//! | the complete contents, and then only later changes | [`events_since`](TreeCache::events_since) with the snapshot that `synchronized` returned |
//!
//! # Reading and waiting
//!
//! A [`Snapshot`] is read by path, as a text or a [`NodePath`](zk_core::NodePath): [`get`](Snapshot::get),
//! [`children`](Snapshot::children), and [`subtree`](Snapshot::subtree) for a node and all below it.
//! [`wait_for`](TreeCache::wait_for) waits for the first snapshot that satisfies a condition; the present one is the first
//! candidate.
//!
//! A [`DecodedCache`] has the nodes as values of a type: each is decoded once after each change, and a node that cannot be
//! decoded is reported and keeps its last good value.
//! With [`Content::NamesOnly`] a [`ChildrenCache`] keeps the names of the children and reads none of them.
//!
//! # Guarantees
//!
//! 1. After each [`Event::Synchronized`] the cache has what the server had when the connection was made, or newer, and
//!    applies every change that the server reports.
//! 2. Events applied to the snapshot before them give the snapshot after them. The events of one node are in order: its
//!    `mzxid` grows, no change is reported twice, and a node is reported as created before anything else.
//! 3. After a connection loss the cache reports exactly the difference, before [`Event::Synchronized`]. A node that was
//!    deleted and created again in between is reported as [`Deleted`](Event::Deleted) and [`Created`](Event::Created):
//!    the cache compares the transaction that created the node, never its version, which restarts. Only with
//!    [`Content::NamesOnly`] that transaction is unknown.
//! 4. A [`Snapshot`] never changes, and contains the parent of each of its nodes.
//!    An event is published after the snapshot that contains it.
//! 5. A slow consumer blocks neither the cache nor other consumers. The events kept for it are bounded, in batches and
//!    in bytes. A consumer that falls behind these bounds receives the difference instead, and misses only what was
//!    undone in between.
//! 6. A load reads up to 64 nodes with one request (with [`Content::StatOnly`] one node), and pipelines its requests, with
//!    a bounded number of reads in flight, and with fewer when replies queue up on a slow link. Other users of the session
//!    wait for at most that many reads. No read has a deadline of its own: a load goes on for as long as the connection
//!    lives.
//! 7. A cache ends with its session or with its last handle, and reports why. It leaves no watch and no task behind.
//!
//! Not guaranteed:
//!
//! - An event for each change. A node that changes again before it is read is reported once, with its newest data.
//! - An order among events of different nodes. The nodes of a subtree that was created again may be reported in any
//!   order.
//! - That a snapshot is the state of the ensemble at one moment. The changes of one transaction may arrive one by one.
//!
//! # Session loss
//!
//! A cache that was started with a [`Session`](zk_core::Session) ends with it: every function and event stream reports
//! [`CacheEnd::SessionLost`].
//!
//! A cache that was started with the application's [`Sessions`](zk_core::Sessions) goes on with the next session.
//! Meanwhile it is [stale](CacheState::Stale) and can be read; then it reports the exact difference, and
//! [`Event::Synchronized`], as after a connection loss. It ends when there will be no further session, or when the first
//! session has no room for its watch. If a later one has no room, the cache stays stale and keeps trying.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_cache::TreeCache;
//! use zk_core::{RetryPolicy, Session};
//!
//! let sessions = Session::builder("zk1,zk2,zk3").sessions(RetryPolicy::default());
//! let cache = TreeCache::start(&sessions, "/app")?;
//! # Ok(())
//! # }
//! ```
//!
//! # Cancel safety
//!
//! Every future can be dropped at any await: nothing has happened then, and no event is lost.
//!
//! # Failure behaviour
//!
//! | event | what the user sees |
//! |---|---|
//! | the connection breaks | [`Event::Stale`], [`CacheState::Stale`] and the unchanged contents; after the reconnect the difference and [`Event::Synchronized`] |
//! | the session moves to a lagging server | nothing: the server catches up before it is read |
//! | the session is lost; the cache has [`Sessions`](zk_core::Sessions) | as when the connection breaks |
//! | the session is lost; the cache has one session | [`Event::Ended`] with [`CacheEnd::SessionLost`], the last event; the snapshot stays, and a cache on another session can [resume](TreeCache::resume) from it |
//! | the process is paused for longer than its session lives | as when the session is lost, when it runs again |
//! | the root does not exist, is deleted, or is created again | an empty cache that is synchronised; [`Event::Deleted`]; [`Event::Created`] |
//! | the session may not read a node | [`Event::Incomplete`] with [`PartialRead::Node`] or [`PartialRead::Children`]; the rest is cached |
//! | a node, or the names of its children, are more than the session reads with one reply | [`Event::Incomplete`] with [`PartialRead::Node`] or [`PartialRead::ChildrenTooLarge`]; the rest is cached |
//! | a node has more children than the limit | [`Event::Incomplete`] with [`PartialRead::TooManyChildren`]; the rest is cached |
//! | the cache has more nodes or bytes than the [limits](CacheOptions::with_max_nodes) | [`Event::Incomplete`] with [`PartialRead::TooManyNodes`] or [`PartialRead::TooManyBytes`] for each node of which something is left out; the rest is cached and up to date |
//! | the session has no room for another watch | [`Event::Ended`] with [`CacheEnd::Refused`]; if a session before had the watch, [`CacheState::Stale`] until there is room |
//! | the server is cut off from the quorum, and the session [allows that](zk_core::SessionBuilder::allow_read_only) | the contents of that server, and never [`Event::Synchronized`]: they may be out of date |
//! | there is no connection at the start | [`CacheState::Loading`] until there is one |
//! | the session's subscription overflows | [`Event::Stale`], the difference, [`Event::Synchronized`] |
//!
//! # How it works
//!
//! A recursive persistent watch on the root reports which nodes change; servers before 3.6 have one-shot watches only,
//! see [`Session::subscribe`](zk_core::Session::subscribe). A notification only triggers a read, and the reply is what
//! the cache applies.
//! Servers replay nothing for persistent watches after a connection loss (ZOOKEEPER-4698).
//! The cache therefore sets the watch again, makes the server catch up (`sync`), and then checks every known node. It
//! lists a node again only if its `pzxid` has changed, and stores it again only if its stat or data has.
//!
//! Servers since 3.6 read 64 nodes with one request, a multi-read. They have no such request for stats: so the check of a
//! small node, of up to 4 KiB, reads its data, and larger nodes are checked alone, by their stats. What is known of the
//! nodes bounds a reply to 256 KiB. If so many nodes have grown that it exceeds what the session reads, 16 MiB by default,
//! the cache goes on with half as many nodes in a request.
//! A server executes a multi-read node by node and sends one reply at the end, so that a node in it may have changed by
//! then. The server reports that change, and the cache reads such a node again. It may handle the notification after the
//! reply: until then [`synced_at`](Snapshot::synced_at) may be newer than a change that is still to be read, as with
//! single reads.
//!
//! # Nodes written
//!
//! None.
//!
//! The rights that a session needs are in `docs/security.md` of the repository.
//!
//! # Observing
//!
//! A cache logs with `tracing`: at level debug that it is synchronised, stale or ended, and at level warn that it is
//! incomplete (once for the limits of the whole cache, until the connection breaks), that a session refuses its watch, and that a node cannot be decoded. No log or debug output contains data.
//! Of the errors only a `DecodeError` may quote data.
//!
//! # What it does not do
//!
//! It does not report changed ACLs, because servers have no watch for them.
//!
//! # Features
//!
//! Off by default:
//!
//! - `metrics`: states of caches, their nodes and how long they are stale, for the facade `metrics`;
//!   `describe_metrics` lists them.

mod cache;
mod child_list;
mod children_cache;
mod decoded_cache;
mod event;
mod event_log;
mod events;
#[cfg(feature = "metrics")]
mod metrics;
mod node;
mod node_cache;
mod node_reader;
mod node_store;
mod options;
mod path_map;
mod publication_count;
mod read_batch;
mod read_window;
mod reducer;
mod scope;
mod shared_state;
mod snapshot;
mod sync_task;
mod tree_cache;

pub use children_cache::ChildrenCache;
pub use decoded_cache::{DecodedCache, DecodedSnapshot};
pub use event::{CacheEnd, Event, PartialRead};
pub use events::Events;
#[cfg(feature = "metrics")]
pub use metrics::describe_metrics;
pub use node::Node;
pub use node_cache::NodeCache;
pub use node_reader::NodeReader;
pub use options::{CacheOptions, Content, Select};
pub use snapshot::{CacheState, Snapshot};
pub use tree_cache::TreeCache;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
