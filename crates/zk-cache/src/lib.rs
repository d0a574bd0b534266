//! ZooKeeper nodes and trees in memory: read without a round trip, told of every difference.
//!
//! A [`TreeCache`] has a node and everything below it, a [`ChildrenCache`] a node's children, a [`NodeCache`] one node.
//! A read of them takes no lock and asks nobody; what changes on the servers is in them some milliseconds later, and is
//! told as [`Event`]s.
//!
//! Do not use a cache to decide who may do something, where a read may be as old as the network lets it be: that takes a
//! lock, an election, or a write under a version.
//! Do not keep more in it than fits into the memory of each process that has one.
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
//! A cache is started in the background, and is usable at once, with what it has.
//!
//! | who wants | does |
//! |---|---|
//! | what is there by and by, and a word when that is all | [`events`](TreeCache::events): [`Event::Synchronized`] is the word |
//! | everything before going on | waits for [`synchronized`](TreeCache::synchronized) |
//! | that, and only what happens afterwards | [`events_since`](TreeCache::events_since) its answer |
//!
//! # Guarantees
//!
//! 1. After each [`Event::Synchronized`] the cache has what the server had when the connection was made, or later, and
//!    goes on to have what the server tells.
//! 2. Events played over the snapshot before them give the snapshot after them. Those of one node are in order: its
//!    `mzxid` grows, nothing is told twice, and nothing is told of a node that was not told to be there.
//! 3. After a break of the connection exactly the difference is told, before [`Event::Synchronized`]. A node that was
//!    deleted and made anew meanwhile is a [`Deleted`](Event::Deleted) and a [`Created`](Event::Created): what counts is
//!    the transaction that made it, never its version, which begins anew.
//! 4. A [`Snapshot`] never changes, and each node in it has its parent in it.
//!    Who is told of an event finds it in the cache's snapshot.
//! 5. A consumer that is slow holds up nobody. What is kept for it is bounded, in rounds and in bytes, and when it is too
//!    far behind it is told the difference, so that nothing is lost but what was undone meanwhile.
//! 6. A load is made of many reads at once, of which a bounded number is on its way, fewer when answers queue up on a slow
//!    link: other users of the session wait for so many at most. No read has a deadline of its own: a load goes on for as
//!    long as the link lives.
//! 7. A cache ends with its session, or with its last handle, and says so; it leaves no watch and no task behind.
//!
//! Not guaranteed: that each change is told by itself, since a node that changes again before it was read is told once,
//! with its newest data; any order among events of different nodes: when a subtree was made anew, its parts may come in any; that a snapshot is the state of the ensemble at one moment: changes of one transaction may come one by one.
//!
//! # Failure behaviour
//!
//! | event | what the user sees |
//! |---|---|
//! | the connection breaks | [`Event::Stale`], [`State::Stale`], and everything as it was; back again, the difference and [`Event::Synchronized`] |
//! | the session moves to a server that lags | nothing: it is made to catch up first |
//! | the session is lost | [`Event::Ended`] with [`End::SessionLost`], the last event; the snapshot stays, and another cache [goes on](TreeCache::resume) from it |
//! | the process is paused past the end of its session | the same, once it goes on |
//! | the root does not exist, goes, or comes again | an empty cache that is synchronised; [`Event::Deleted`]; [`Event::Created`] |
//! | a node may not be read | [`Event::Incomplete`] with [`Gap::Node`] or [`Gap::Children`]; the rest is cached |
//! | a node has more children than are to be listed | [`Event::Incomplete`] with [`Gap::TooManyChildren`]; the rest is cached |
//! | the session has no room for another watch | [`Event::Ended`] with [`End::Refused`] |
//! | the server is cut off from the quorum, and the session [allows that](zk_core::SessionBuilder::allow_read_only) | what the server has is told, and never [`Event::Synchronized`]: it may be out of date |
//! | there is no connection at the start | [`State::Loading`], until there is one |
//! | more happens than the session's subscription keeps | [`Event::Stale`], the difference, [`Event::Synchronized`] |
//!
//! # How it works
//!
//! A recursive persistent watch on the root tells which nodes change, on servers before 3.6 one-shot watches, see
//! [`Session::subscribe`](zk_core::Session::subscribe). A notice is only a reason to read: what a node is, an answer tells.
//! Servers replay nothing for persistent watches after a break (ZOOKEEPER-4698).
//! So the watch is set again first, then the server is made to catch up (`sync`), then every known node is looked at: a
//! node whose `pzxid` is as it was need not be listed, and one whose `czxid` and `mzxid` are as they were need not be read.
//!
//! # Nodes written
//!
//! None.
//!
//! # Observing
//!
//! `tracing` events of the level debug say that a cache is synchronised, stale or ended, and of the level warn that it is
//! incomplete. Data is in no log, error or debug output.
//!
//! # What it does not do
//!
//! It does not tell of changed access rules, for which servers have no watch.
//! It does not carry a cache over to the next session by itself: see [`TreeCache::resume`], and the example `follow`.
//!
//! # Features
//!
//! None.

mod cache;
mod children_cache;
mod event;
mod event_log;
mod events;
mod node;
mod node_cache;
mod node_store;
mod options;
mod read_window;
mod reducer;
mod scope;
mod shared_state;
mod snapshot;
mod sync_task;
mod tree_cache;

pub use children_cache::ChildrenCache;
pub use event::End;
pub use event::Event;
pub use event::Gap;
pub use events::Events;
pub use node::Node;
pub use node_cache::NodeCache;
pub use options::CacheOptions;
pub use options::Content;
pub use options::Select;
pub use snapshot::Snapshot;
pub use snapshot::State;
pub use tree_cache::TreeCache;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
