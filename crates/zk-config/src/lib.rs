//! Configuration in ZooKeeper: published safely, followed as typed values.
//!
//! Many processes share a configuration that changes while they run.
//! A [`Publisher`] writes it to nodes and reports the outcome of each write. A [`Listener`] reports the changes of a
//! key. A [`Typed`] value is read without a round trip, follows every change, and keeps the last good value whatever is
//! published or breaks.
//!
//! Do not use it for values larger than about half a megabyte (half of
//! [`max_buffer`](zk_core::SessionBuilder::max_buffer)), or for values that change many times per second: use a
//! database. Do not use it for secrets without ACLs, because every client of the ensemble can read a node with an open
//! ACL. A [file](TypedBuilder::with_file) with the value contains the secret as well.
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
//! With the features `json` and `toml`, the codecs [`Json`](zk_core::codec::Json) and [`Toml`](zk_core::codec::Toml)
//! encode and decode any type that serde supports.
//!
//! A [`Typed`] value can also:
//!
//! - start without servers, from a [file](TypedBuilder::with_file) with the last good value
//! - report [which keys](Subtree::changes_since) of a subtree a change added, replaced or removed
//! - merge a file, the environment and ZooKeeper ([`Layers`]), and the nodes of an application's
//!   [profiles](Layers::around_profiles) as Spring Cloud Zookeeper lays them out
//!
//! # Guarantees
//!
//! 1. A publisher never overwrites a value that it has not read: every write is conditional on the version that was
//!    read before. The one exception is a node that is deleted, created again and written equally often between that read
//!    and the write: servers compare the version alone.
//!    A condition ([`Expected`]) fails only after the server has caught up with the leader.
//! 2. Keys that are published together change in one transaction: all or none.
//! 3. A publication whose reply was lost is never repeated blindly. The publisher finds out whether it was carried out,
//!    or returns [`PublishError::OutcomeUnknown`]. With a [history](PublishOptions::with_history) that is rare.
//! 4. A listener always receives the last state, whatever it missed. A node that was deleted and created again in
//!    between is reported as both. Revisions only grow.
//! 5. A [`Typed`] value is always a published, decoded and validated one, or the default. It never goes back to an
//!    older value, also if the next session is on a lagging server. If the ensemble is set up anew, the value is that of
//!    the new one as soon as a session has read it there.
//! 6. A [subtree](Typed::subtree) is read as of one moment: a transaction over several of its keys is visible as a
//!    whole or not at all.
//! 7. A [rollback](Publisher::roll_back) restores a revision only if the servers prove that the key had it, and never with
//!    another ACL than the key had last, unless it is asked to: what others put into a history is not published.
//! 8. User code runs on tasks of its own or on the caller's: a callback that waits delays nothing else.
//!
//! Not guaranteed:
//!
//! - That every value is seen. A value that is replaced before it is read is skipped.
//! - That two processes see a change at the same moment.
//! - That only publishers change the data. Other clients can write any data.
//!
//! # Session loss
//!
//! Unless stated otherwise, a publisher's calls return a fatal error after a session loss. A [`Typed`] value keeps waiting:
//! another session may follow.
//!
//! # Cancel safety
//!
//! Every future can be dropped at any await. Unless its documentation says otherwise, nothing has happened then, and no
//! value or event is lost.
//!
//! # Failure behaviour
//!
//! | event | publisher | listener | typed value |
//! |---|---|---|---|
//! | the connection breaks | waits for the reconnect, and finds out the outcome of the request | nothing; the difference after the reconnect | [`Problem::Stale`] until the reconnect; the value stays |
//! | the reply is lost, and the nodes do not show the outcome | [`PublishError::OutcomeUnknown`] | – | – |
//! | another client writes first | repeats, or [`PublishError::Conflict`] if something was expected | – | – |
//! | the data does not match the format or the type | – | [`Event::Invalid`] with path, format and position | [`Problem::Invalid`]; the value stays |
//! | the validation refuses the value | – | – | [`Problem::Rejected`]; the value stays |
//! | the value is larger than servers accept | [`PublishError::is_too_large`], nothing is sent | – | – |
//! | a subtree changes faster than it can be read | – | – | [`Problem::Contended`]; the value stays until the subtree can be read |
//! | the server is cut off from the quorum, and the session [allows that](zk_core::SessionBuilder::allow_read_only) | waits for the quorum, and an error after the timeout | nothing: such a server may have old values | the problem and the value stay |
//! | the node is deleted | creates it again | [`Event::Deleted`] | [`Problem::Absent`]; the value stays |
//! | the session may not read the node | an error | [`Event::Failed`], again every ten seconds | [`Problem::Unreadable`]; the value stays |
//! | no server answers at the start | – | – | [`Problem::NotRead`], and the value of the [file](TypedBuilder::with_file), if there is one |
//! | the file is damaged, of something else, or cannot be written | – | – | [`Typed::file_problem`]; the file is not used |
//! | the session is lost | a fatal error | [`Event::SessionLost`], the last event | [`Problem::SessionLost`]; the value stays; if the application's [sessions](Typed::follow) follow it, until the next one has read it |
//! | the future or handle is dropped | see [Cancel safety](#cancel-safety) | the watch is removed | the value stays |
//!
//! # Layout of the nodes
//!
//! ```text
//! /app
//! ├── motto                                              the data and nothing else, readable by every client
//! └── _history_                                          only with a history
//!     └── motto
//!         └── 00000003000000ff-0100001a2b3c0001-00000004 a replaced revision of motto
//! ```
//!
//! The data of a key is the output of its codec. Curator, kazoo and a shell can read and write it as well.
//! The name of a history entry contains the transaction that published the revision, the session that replaced it, and
//! a number of that process. Its data is that of the revision, and its creation time is the time of the replacement.
//! The transaction that replaces the data creates the entry and deletes the oldest ones. Entries survive the removal of
//! the key. They are deleted with the node above it, or when they are [purged](Publisher::purge_history).
//! The transaction that removes a key also writes the directory of its history, with the data it has, which proves when
//! the key was removed.
//! That directory and its entries have the ACL of the key. A publication sets it again if it differs, and fails if it
//! may not. `_history_` has the ACL of the session; if that is open to all, it has that of the node above.
//! Who may write a key must therefore be permitted to create children of it to publish with a history, and to delete
//! them once the history is full.
//! No key may be named `_history_`, and subtrees leave such nodes out.
//! Parents are persistent nodes.
//!
//! The rights that a session needs, and what each node permits, are in `docs/security.md` of the repository.
//!
//! # Observing
//!
//! A problem with the file of a value is a `tracing` event at level warn.
//! Every operation has the spans of `zk-core`. Repeated reads and values with a problem are `tracing` events at level
//! debug. No span and no event contains data, except a fragment that the error message of a codec quotes.
//!
//! Keys are followed with `zk-cache`, which logs as well, and reports with its feature `metrics` for how long a key may be
//! out of date. There are no other metrics: whether a value has a problem is in its events.
//!
//! # How values are followed
//!
//! A listener and each session that follows a value have a cache of the key or subtree, see [`zk_cache`].
//! A cache receives the changes of one transaction one by one. For a subtree, the stats of all nodes are therefore read
//! after each change, 64 small nodes with one request: if no node and no list of children differs from the cached one,
//! the cached nodes were together at the moment before that. If some differ, the check is repeated with the next
//! contents of the cache.
//!
//! # What it does not do
//!
//! - It does not split a document over several nodes when it is too large.
//! - It does not encrypt.
//! - It cannot make a write conditional on a revision, only on a version, because servers have no such condition: see
//!   [`Expected::Revision`].
//! - It reads the file and the environment of [`Layers`] only once.
//!
//! # Features
//!
//! - `json`, `toml`, `gzip`: the codecs of `zk-core`
//! - `layers`: [`Layers`], [`Profiles`] and [`Subtree::deserialize`], through the crate `config`
//!
//! All are off by default.

mod error;
mod history;
mod history_check;
mod history_read;
#[cfg(feature = "layers")]
mod layers;
mod listener;
mod node_watcher;
mod options;
mod outcome;
mod plan;
mod problem;
mod publication;
mod published;
mod publisher;
mod snapshot_check;
mod subtree;
mod typed;
mod value_file;

pub use error::PublishError;
pub use history_read::HistoryEntry;
#[cfg(feature = "layers")]
pub use layers::LayerError;
#[cfg(feature = "layers")]
pub use layers::Layers;
#[cfg(feature = "layers")]
pub use layers::Profiles;
pub use listener::{Event, Events, ListenMode, Listener, Value, ValueDelivery};
pub use options::PublishOptions;
pub use plan::Expected;
pub use problem::Problem;
pub use published::{KeyChange, Published};
pub use publisher::{Publish, PublishTransaction, Publisher};
pub use subtree::Subtree;
pub use typed::{Current, FollowHandle, Typed, TypedBuilder};
pub use value_file::FileProblem;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
