//! Queues on ZooKeeper that lose no item when replies are lost and processes die.
//!
//! A [`Queue`] is ZooKeeper's recipe: one of many consumers takes an item out, and then processes it.
//! A [`WorkQueue`] keeps an item until a consumer has acknowledged it, and delivers it again if that consumer dies, or
//! takes longer than its [time to run](WorkOptions::with_time_to_run), which [`Claim::touch`] restarts.
//! Both have batches, streams, bounds, and as many items as the servers have memory for. With [`Layout::Native`], which a
//! work queue has by default, they also have priorities and delays.
//! Other layouts share a path with queues of Curator and kazoo: see [`Layout`] for a `Queue`, and [`WorkLayout`] for a
//! `WorkQueue`.
//!
//! Do not use it for many or large items: each item is a node in the memory of every server, each change is written to
//! every disk, and an ensemble makes a few thousand changes per second in total.
//! It is for a small number of tasks that must not be lost, where there is a ZooKeeper already and no message broker.
//!
//! ```no_run
//! # async fn send(_: &str) -> Result<(), std::io::Error> { Ok(()) }
//! # async fn demo(session: zk_core::Session, stop: tokio::sync::oneshot::Receiver<()>) -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use zk_core::codec::Text;
//! use zk_queue::{WorkQueue, WorkerOptions};
//!
//! let letters = WorkQueue::new(&session, "/mail/outgoing", Text)?;
//! letters.offer(&"to anna: hello".to_owned()).delay(Duration::from_secs(5)).await?;
//!
//! let options = WorkerOptions::default().with_concurrency(8);
//! let stopped = async { drop(stop.await) };
//! letters.work_until(stopped, &options, async |letter| send(letter.item()).await).await?;
//! # Ok(())
//! # }
//! ```
//!
//! The worker delivers a failed item again after a delay that grows and [varies](WorkerOptions::with_jitter).
//! Without a worker, [`WorkQueue::claim`] returns a claim, [`WorkQueue::claim_batch`] several, which
//! [`Claim::acknowledge_all`] acknowledges together, and [`WorkQueue::into_stream`] one after the other.
//!
//! Unless stated otherwise, a function returns a fatal error ([`ErrorClass::Fatal`](zk_core::ErrorClass::Fatal)) once
//! the session is lost.
//!
//! # Guarantees
//!
//! 1. An offer that succeeded is in the queue exactly once. An offer that failed is not in the queue, or its error is
//!    [`OfferError::Unknown`]; then it is in the queue at most once.
//! 2. An item of a [`Queue`] is taken by one consumer.
//!    The call that takes it returns it; if the outcome is unknown, [`TakeError::Unknown`] contains the item.
//! 3. A call that takes items loses none when it is dropped, at any await: an item that is taken for a dropped call is
//!    put back in the background, and [`Session::close`](zk_core::Session::close) waits for that.
//!    It returns to its old place if the queue's node is still the same or, for an item of a segment, if no segment was
//!    started or removed since.
//!    Otherwise it goes to the end of its priority. So does an item that shared a node of Curator's with others, an
//!    item whose node was written by another client, and an item that is too large for a request with its full name.
//! 4. An item of a [`WorkQueue`] is delivered until it is acknowledged, rejected too often, or buried, or until it is
//!    found to be stuck, see 6. It is not
//!    delivered after its acknowledgement succeeded, nor to another consumer while its claim is
//!    [valid](Claim::is_valid). This holds under the assumptions of [`SessionLease`](zk_core::SessionLease), and as
//!    long as no client deletes the nodes of others.
//! 5. Only the holder of a claim can settle it: a consumer whose claim was lost cannot acknowledge an item that another
//!    consumer has since.
//!    An attempt to settle it that the servers refuse returns the claim, in [`NotSettled`], for another one.
//!    Changes made [with an acknowledgement](Claim::acknowledge_with) are applied exactly once for each item.
//! 6. An item that the codec cannot decode is never deleted. A queue skips it. A work queue leaves it to other
//!    consumers, and moves it to the dead letters once that has used all its deliveries.
//!    An item whose node has children, which a client that may create nodes below it can have made, can be neither
//!    deleted nor moved to the dead letters. A work queue may deliver it, and no settlement succeeds. Each consumer skips
//!    it after that, logs one warning, and counts it as [stuck](WorkCounts::stuck). It stays until an administrator
//!    deletes it.
//! 7. If one producer offers items of one priority one after the other, and the only consumer of a [`Queue`] takes them
//!    one after the other, they keep their order, also across segments.
//!    With several consumers, one that was refused twice takes only a part of the items for a while, so that every consumer
//!    gets some. An item that is cancelled before it is taken counts as a refusal, too.
//!
//! Not guaranteed:
//!
//! - the order of concurrent offers;
//! - any order among several consumers, or in a work queue after an item was delivered again;
//! - that an item of a [`Queue`] is processed if its process dies after taking it;
//! - that an item is put back if the session of its consumer ends at that moment, or the servers refuse to add it;
//! - anything against a process that deletes the nodes of others.
//!
//! # Cancel safety
//!
//! Every future can be dropped at any await. Unless its documentation says otherwise:
//!
//! - one that neither takes nor changes items leaves them as they are, and misses none;
//! - one that takes items puts all of them back, and one that claims items releases all claims, in the background: see
//!   [`Queue::poll`] and [`WorkQueue::claim`];
//! - one that settles a claim continues in the background once it was polled. Before that it drops the claim, and the
//!   item is delivered again.
//!
//! # Lost replies
//!
//! In ZooKeeper's recipe, a client cannot find out the outcome of a change whose reply was lost: a second create makes
//! a second item, and a second delete finds no node, which does not say who deleted it.
//! A unique name would show it, but other clients of the recipe accept no names but `qn-` with a number.
//!
//! Therefore each transaction that offers, takes, cancels, claims, acknowledges, delays, buries or redrives an item begins with
//! a write to an [*idempotency token*](zk_core::IdempotencyTokens). This is an ephemeral node of the session (named
//! `receipt`) that one transaction uses at a time, under the version that it is known to have.
//! If the reply is lost, the transaction is sent again. If the first attempt was committed, the second one is refused
//! because of the token's version, and that refusal replaces the lost reply.
//! The leader decides, so a lagging server cannot mislead, and a first attempt that arrives late is refused, too.
//! The other changes need no token, because it does no harm to make them twice or not at all: creating and removing
//! parent nodes, starting and removing segments (under the version of the control node), skipping numbers, and deleting
//! a claim, also for a rejection without a delay (under the version that the claim gave the item).
//!
//! # Names that repeat
//!
//! The servers delete a queue's node that is a container when it has been empty for a while, and a client may delete
//! any. Then the numbers restart, and another item may get the name and version of an item that a consumer has read.
//! A request can check versions and existence, but not the identity of a node.
//!
//! Therefore each transaction that takes, cancels or claims an item or ends a claim checks these preconditions, which were
//! read before the item was listed: a token that existed then still exists, and the *control node* (the tokens' parent)
//! and the queue's node still have the same versions.
//! The first consumer that finds items in a fresh node of the queue, which has version 0, writes both nodes with the
//! data that they have. So no two nodes of the queue have the same pair of versions.
//! For items of segments the token and the control node suffice, because a segment is started together with a change of
//! the control node, and removed under its version.
//!
//! This protects items of other clients of the recipe as well, if all consumers of this crate have this version or a
//! later one. The exceptions are:
//!
//! - [`Claim::txn`] and [`Delivery::txn`] check the claim's node and the item's version only. After the queue was
//!   deleted and created again, they succeed while any consumer has a claim of an item with that name and that number
//!   of deliveries. Use [`acknowledge_with`](Claim::acknowledge_with) for changes that must not happen then.
//! - A claim whose item is gone is deleted if it was created by the same transaction as ours, whatever happened to the
//!   queue.
//! - If the servers refuse to write the queue's node, a warning is logged, and the pair of versions does not
//!   distinguish the node from one that other clients create later.
//! - A client that writes to the queue's node, which none of the clients in [`Layout`] does, makes a fresh node look
//!   like one that a consumer has written. This does harm only if a consumer pauses while the node is deleted, created
//!   and written.
//!
//! # Ids of items
//!
//! An offer returns the [`ItemId`], which an application can store as text. [`Queue::cancel`] and
//! [`WorkQueue::cancel`] remove the item unless a consumer has it: exactly one of them gets it.
//! An id never denotes another item, although names repeat: it has the zxid of the transaction that created the item,
//! and the queue's node has to be older than that.
//!
//! ```no_run
//! # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use zk_core::codec::Text;
//! use zk_queue::{CancelOutcome, ItemId, WorkQueue};
//!
//! let reminders = WorkQueue::new(&session, "/mail/reminders", Text)?;
//! let hour = Duration::from_secs(3600);
//! let id = reminders.offer(&"pay".to_owned()).delay(hour).await?.ok_or("the reply was lost")?;
//! let stored = id.to_string();
//!
//! let id: ItemId = stored.parse()?;
//! match reminders.cancel(&id).await? {
//!     CancelOutcome::Removed => println!("no reminder is sent"),
//!     other => println!("too late: {other:?}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! With [`Layout::CuratorId`], each item also has an [id of the application](Offer::id), which several items may share;
//! [`Queue::cancel_with_id`] removes all of them, as Curator's `DistributedIdQueue` does.
//!
//! # Offers in a transaction
//!
//! [`Offer::commit_with`] makes other changes in the transaction of the offer, and [`Claim::acknowledge_with`] in that
//! of the acknowledgement. [`Offer::prepare`] is for transactions that something else commits: with an acknowledgement,
//! it moves work to another queue exactly once.
//! This is enough for deduplication, which the crate does not do by itself: it would have to
//! know for how long to remember what was offered, and to clean up.
//! Let the offer create a node for the key, and the acknowledgement delete it. Then an item is offered only once until
//! it was processed, whatever producers do at the same time and whichever reply is lost, and no node is left over:
//!
//! ```no_run
//! # async fn work(_: &str) -> Result<(), Box<dyn std::error::Error>> { Ok(()) }
//! # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
//! use zk_core::codec::Text;
//! use zk_queue::{OfferError, WorkQueue};
//!
//! let orders = WorkQueue::new(&session, "/shop/orders", Text)?;
//! session.create("/shop/offered", "").parents().or_set().await?;
//! let order = "order-4711".to_owned();
//! let key = format!("/shop/offered/{order}");
//! match orders.offer(&order).commit_with(|txn| txn.create(&key, "")).await {
//!     Ok(_) => println!("offered"),
//!     Err(OfferError::Refused(error)) if error.is_node_exists() => println!("offered before"),
//!     Err(error) => return Err(error.into()),
//! }
//!
//! let claim = orders.claim().await?;
//! work(claim.item()).await?;
//! let key = format!("/shop/offered/{}", claim.item());
//! claim.acknowledge_with(move |txn| txn.delete(&key)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! - To remember a key beyond that, delete its node later, or create it with a
//!   [time to live](zk_core::transport::CreateMode::Persistent) if the servers allow that.
//! - A dead letter keeps its key until it was processed. Delete the node of the key after
//!   [`discard`](WorkQueue::discard), and after [`cancel`](WorkQueue::cancel) has removed an item.
//! - If the key does not exist, its deletion is refused ([`SettleError::Refused`]), as for an item that was offered
//!   without one. Acknowledge the claim that [`NotSettled`] contains without the deletion then.
//!
//! # Failure behaviour
//!
//! | event | producer | consumer | holder of a claim |
//! |---|---|---|---|
//! | a reply is lost | no effect | no effect | no effect |
//! | no connection until the deadline | [`OfferError::Core`], or [`Unknown`](OfferError::Unknown) if the request was sent | [`TakeError::Core`], or [`Unknown`](TakeError::Unknown) with the item | a claim that lapses is no longer valid; [`SettleError`] |
//! | the session ends | the same, fatal | the same, fatal | [`ClaimLoss::SessionLost`]; the item is delivered again |
//! | the process dies | – | items that it has taken are lost; [`WorkQueue`]: they are delivered again when the session expires | the item is delivered again when the session expires |
//! | the consumer hangs | – | – | with a [time to run](WorkOptions::with_time_to_run), [`ClaimLoss::TimeToRunExpired`], and the item is delivered again; otherwise it keeps the item |
//! | the future is dropped | the item may be offered, once | items are put back, also if the reply arrives after the deadline; claims are released | continues in the background |
//! | the node of the queue is deleted | creates it again | the queue is empty | [`SettleError::Lost`] |
//! | the node has used 2^30 numbers | no effect: with [`Layout::Native`] offers continue in a segment | no effect | no effect |
//! | with another layout, whose clients see no segments, it has used nearly 2^31 | [`OfferError::Exhausted`] | no effect | – |
//! | a consumer of another client, whose session has expired, deletes an item ([`WorkLayout`]) | – | does not see it | [`ClaimLoss::ClaimDeleted`] and [`SettleError::Lost`]; both have processed it |
//! | a consumer of Curator's repeats the deletion of a claim that another one has by then ([`WorkLayout`]) | – | may claim the item | [`ClaimLoss::ClaimDeleted`] and [`SettleError::Lost`] |
//! | an item is too large to be claimed or put back in one request | [`OfferError::TooLarge`] | skips it, if another client offered it | – |
//!
//! # Nodes
//!
//! ```text
//! /mail/outgoing                     container     the node of a Queue: its data names the layout, "zk-queue recipe";
//!                                                  in the layouts of kazoo and Curator persistent,
//!                                                  unless it exists
//! ├── qn-0000000041                                an item, as in ZooKeeper's recipe
//! └── qn-0000000042
//! /mail/outgoing-receipts            container     the control node: its data names the active segment, if any
//! ├── _c_<uuid>-receipt              ephemeral     a token: one for each change of a process in flight
//! └── segments/0000000001/qn-…                     the items after the first 16,384
//!
//! /work                              container     a WorkQueue
//! ├── items                          container     "zk-queue native"
//! │   └── w-0-0-0-0000000042                       an item: priority, due time, earlier deliveries, number
//! ├── claims/0-w-0-0-0-0000000042    ephemeral     the claim of an item; its data describes the consumer
//! ├── dead/w-0-0-16-0000000040-1c8                 a dead letter, and in its child `note` the reason
//! └── receipts                                     the control node, as above
//!
//! /work                              container     a WorkQueue with WorkLayout::KazooLocking
//! ├── entries                                      "zk-queue kazoo"
//! │   └── entry-100-0000000042                     an item: priority, number
//! ├── taken/entry-100-0000000042     ephemeral     its claim, of ours or of kazoo's LockingQueue
//! ├── dead, receipts                               as above
//!
//! /work                                            a WorkQueue with WorkLayout::Curator, "zk-queue curator"
//! ├── queue-0000000042                             an item
//! /work-dead, /work-receipts                       as above
//! /locks                                           the lock path
//! └── queue-0000000042               ephemeral     its claim, of ours or of Curator's DistributedQueue
//! ```
//!
//! An item's data is the output of the codec, in Curator's frame if the layout has one. In a work queue, the version of
//! an item's node counts its deliveries.
//! The queue's own node keeps its data; its version becomes 1.
//! [`Layout`] lists the other clients that can share a path.
//! They see the items of the queue's own node, and not those of segments.
//!
//! A list of children has to fit into one reply.
//! When the node of a queue has 16,384 items, or with [`Layout::Native`] has used half of its numbers, offers go to a
//! segment, and when that has received as many, to the next one.
//! Consumers take the segments in their order, and remove empty ones.
//! Each offer checks that its segment is still the active one, so the order is kept.
//!
//! The rights that a session needs, and what each node permits, are in `docs/security.md` of the repository.
//!
//! # Time
//!
//! Delays and ages use the leader's clock, which every reply to a change reports; the clocks of clients do not matter.
//! A delay is never shorter than asked for. It is longer by the duration of the last change, or of a request for the
//! time if that change took more than a quarter of a second.
//! When the leader changes, due times shift by the difference between the two leaders' clocks.
//!
//! # Observing
//!
//! The crate logs one warning with `tracing` for each foreign child, skipped item and dead letter. It logs at the level
//! `debug` when an item is put back or a lost reply is found out. The operations have the spans of `zk-core`.
//! [`WorkQueue::counts`] (and [`Queue::counts`]), [`Queue::len`] and [`Queue::oldest_age`] are for dashboards;
//! [`WorkQueue::claims`] lists the consumers and their items, and [`WorkQueue::dead_letter_page`] the dead letters.
//! [`WorkQueue::redrive_up_to`] offers those again, and [`WorkQueue::discard_older_than`] deletes old ones.
//!
//! # Several processes
//!
//! All processes have to open a queue with the same [`Layout`]. The process that creates the queue's node writes the
//! layout into its data, and [`Queue::check_layout`] and [`WorkQueue::check_layout`] return an error if a handle has
//! another one. Without that call, a consumer logs a warning for each item of another layout, with that layout, and skips
//! it; but the names of [`Layout::CuratorDelay`] are also names of [`Layout::CuratorId`], and are delivered before they
//! are due.
//! Other clients and builds before this one ignore the data and write none; then the names of the items show the layout.
//!
//! The other options may differ, and are not stored. Each producer applies its own capacity and segment size, and each
//! consumer its own number of deliveries and age of lists; for an item of a work queue it is that of the consumer which
//! is about to deliver it. So they can be changed one process after the other.
//!
//! # What it does not do
//!
//! - No exactly-once processing: a consumer may die after its work and before its acknowledgement. Changes in ZooKeeper
//!   can be made [with the acknowledgement](Claim::acknowledge_with).
//! - No topics, no consumer groups, no replay.
//! - No fair wake-up: every change of the queue wakes all waiting consumers, and each process lists the queue. With
//!   more than some tens of processes that wait most of the time, let one process take items for many tasks.
//!
//! # Features
//!
//! Off by default:
//!
//! - `metrics`: the age of claimed items, durations of deliveries and counts for the facade `metrics`;
//!   `describe_metrics` lists them.
//!
//! The codecs of `zk-core` have features of their own.

mod batch_limits;
mod codec_panic;
mod contention;
mod curator_frame;
mod deadline;
mod detached;
mod deterministic_draw;
mod error;
mod inspect;
mod item_id;
mod layout;
mod leader_clock;
mod measure;
#[cfg(feature = "metrics")]
mod metrics;
mod mutex;
mod offer;
mod options;
mod paths;
mod preconditions;
mod prepared_offer;
mod queue;
mod ready_items;
mod store;
mod work_layout;
mod work_queue;

pub use error::{
    CancelError, DeadLetterBatchError, DeadLetterError, LayoutError, OfferAllError, OfferError,
    PathError, SettleError, TakeError, UnknownTake,
};
pub use inspect::{Inspector, QueueSnapshot};
pub use item_id::{ItemId, ParseItemIdError};
pub use layout::Layout;
#[cfg(feature = "metrics")]
pub use metrics::describe_metrics;
pub use offer::{Offer, OfferAll, OfferFuture};
pub use options::{QueueOptions, WorkOptions, WorkerOptions};
pub use prepared_offer::PreparedOffer;
pub use queue::{Drained, Queue, QueueCounts};
pub use store::{CancelOutcome, CancelledItems};
pub use work_layout::WorkLayout;
pub use work_queue::{
    Claim, ClaimInfo, ClaimLoss, DeadLetter, Delivery, NotSettled, WorkCounts, WorkQueue, WorkStats,
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
