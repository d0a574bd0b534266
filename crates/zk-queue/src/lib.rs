//! Queues on ZooKeeper that lose nothing when answers are lost and processes die.
//!
//! A [`Queue`] is ZooKeeper's recipe: an item is taken out and then processed, by one of many consumers.
//! A [`WorkQueue`] keeps an item until whoever processes it has acknowledged it, and delivers it again when that one dies.
//! Both have batches, bounds, and as many items as the servers have memory for; with [`Layout::Native`], which a work
//! queue always has, also priorities and delays.
//!
//! Do not use it for many items or large ones: every item is a node in the memory of every server, every change is
//! written to every disk, and a few thousand changes a second are what an ensemble makes in all.
//! It is for tasks that are few and must not be lost, where there is a ZooKeeper already and no message broker.
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
//! # Guarantees
//!
//! 1. An offer that was answered is in the queue, once; one that failed is not, or the error says that nobody knows
//!    ([`OfferError::Unknown`]), and then it is there once or not at all.
//! 2. An item of a [`Queue`] is taken by one consumer.
//!    A call that takes it answers it, or says that nobody knows whether it was taken and hands it out all the same
//!    ([`TakeError::Undecided`]).
//! 3. A call that takes items loses none when it is dropped, at whichever await: what is taken for nobody is put back, in
//!    the background, as soon as it is known to be taken, and [`Session::close`](zk_core::Session::close) waits for that.
//!    It comes to its old place if that is still there: the queue's own node is the same one, or, for an item of a
//!    segment, no segment was begun or given up meanwhile.
//!    It comes to the end of its priority otherwise, and also if it was one of several items in a node of Curator's, if
//!    somebody had written to its node, or if the request that names its place has no room for it.
//! 4. An item of a [`WorkQueue`] is delivered until it is acknowledged, rejected too often or buried; never after its
//!    acknowledgement was answered, and to nobody else while its claim is [trusted](Claim::is_trusted), within the
//!    assumptions that [`Trusted`](zk_core::Trusted) lists and as long as nobody deletes the nodes of others.
//! 5. Only whoever has the claim can settle it: a consumer whose claim was lost cannot acknowledge the item that another
//!    one has by then.
//!    What is changed [with an acknowledgement](Claim::acknowledge_with) is changed once for each item.
//! 6. An item that the codec does not take is never deleted: a queue passes over it, a work queue leaves it to other
//!    consumers and puts it to the dead letters once that has counted as so many deliveries as it may have.
//! 7. Items of one priority that one producer offered one after the other are taken in that order by the only consumer of
//!    a [`Queue`] that takes them one after the other, also across segments.
//!    With several consumers, one to whom others were faster twice goes on somewhere behind the first items, so that none
//!    is left without any.
//!
//! Not guaranteed: the order of offers that are in flight at the same time; any order among several consumers, or in a
//! work queue once an item was delivered again; that a process which dies between taking an item of a [`Queue`] and
//! processing it does the latter; that an item is put back whose taker's session ends at that moment, or where the servers
//! refuse to have it; anything against a process that deletes the nodes of others.
//!
//! # Lost answers
//!
//! ZooKeeper's recipe cannot tell what became of a change whose answer was lost: the next create makes a second item, the
//! next delete finds no node, and whether the item was ours nobody knows.
//! A unique name would tell, but other clients of the recipe take no other names than `qn-` with a number.
//!
//! So whatever offers an item, takes, claims, acknowledges, delays, buries or revives one is a transaction that begins
//! with a write to a *receipt*, an ephemeral node of this session that is used by one transaction at a time, under the
//! version that it has.
//! When the answer is lost, the transaction is sent again: if it was carried out before, it is refused for the sake of the
//! receipt, and that refusal is the lost answer.
//! The leader judges it, so that no server that lags can mislead, and a first try that arrives late is refused as well.
//! The other changes have none, because they do no harm when they are made twice or not at all: the nodes that hold the
//! others are made and removed, segments are begun and given up under the version of the receipts' parent, numbers are
//! passed over, and a claim is taken away, also by a rejection without a delay, under the version that it gave the item.
//!
//! # Names that come again
//!
//! When everything is taken and the servers reap the node of the queue, or somebody deletes it, the numbers begin anew,
//! and another item may have the name and the version of one that a consumer has read.
//! No request can be bound to what a node is, only to versions and to what is there.
//!
//! So whatever takes an item, claims one or ends a claim is carried out only under the version of the receipts' parent
//! and that of the queue's node, as they were before the item was read, and while a receipt is there that was there
//! then.
//! The first consumer that finds a new node of the queue with items in it writes to both, the data that they have
//! already: no two of those nodes have the same pair of versions.
//! Items of segments are bound to the receipts' parent alone, since segments come and go only under other versions of it.
//! That holds for items of other clients of the recipe as well, if all consumers that are of this crate are of this
//! version or a later one, and with these exceptions:
//!
//! - [`Claim::txn`] and [`Delivery::txn`] are bound to the claim's node and the item's version only: after somebody has
//!   deleted the queue and made it again, they succeed while anybody has a claim of an item of that name that was
//!   delivered as often. What must not happen then goes [with the acknowledgement](Claim::acknowledge_with);
//! - a claim whose item is gone is deleted if it was made by the same transaction as ours, whatever became of the queue;
//! - where the servers refuse to write the node of the queue, which is warned of, the pair says nothing of a node that others
//!   make again;
//! - whoever else writes to the node of the queue, and none of the clients that [`Layout`] names does, makes it look like
//!   one that was marked: then a consumer would have to stand still while it is deleted, made and written to again.
//!
//! # Failure behaviour
//!
//! | event | who offers | who takes | who has a claim |
//! |---|---|---|---|
//! | an answer is lost | nothing | nothing | nothing |
//! | no connection until the deadline | [`OfferError::Core`], or [`Unknown`](OfferError::Unknown) if it had been sent | [`TakeError::Core`], or [`Undecided`](TakeError::Undecided) with the item | a claim that lapses is no longer trusted; [`SettleError`] |
//! | the session ends | the same, fatal | the same, fatal | [`Loss::SessionLost`]; the item is delivered again |
//! | the process dies | – | what it had taken is gone; [`WorkQueue`]: it is delivered again when the session expires | it is delivered again when the session expires |
//! | the future is dropped | the item may be offered, once | items are put back, also when the answer comes after the deadline; claims are released | goes on in the background |
//! | the node of the queue is reaped, or deleted | it is made anew | the queue is empty | [`SettleError::Lost`] |
//! | the node has given 2^30 numbers | nothing: with [`Layout::Native`] offers go on in a segment | nothing | nothing |
//! | with another layout, whose clients see no segments, it has nearly given 2^31 | [`OfferError::Exhausted`] | nothing | – |
//! | an item leaves no room in a request for what claims it or puts it back | [`OfferError::TooLarge`] | it is passed over, if it is of another client | – |
//!
//! # Nodes
//!
//! ```text
//! /mail/outgoing                     container     a Queue
//! ├── qn-0000000041                                an item, as ZooKeeper's recipe has it
//! └── qn-0000000042
//! /mail/outgoing-receipts            container     its data names the segment that offers go to, if there is one
//! ├── _c_<uuid>-receipt              ephemeral     one for each change in flight of a process
//! └── segments/0000000001/qn-…                     the items after the first 16,384
//!
//! /work                              container     a WorkQueue
//! ├── items/w-0-0-0-0000000042                     an item: priority, due time, earlier deliveries, number
//! ├── claims/0-w-0-0-0-0000000042    ephemeral     who processes it
//! ├── dead/w-0-0-16-0000000040-1c8                 a dead letter, and in its child `note` the reason
//! └── receipts                                     as above
//! ```
//!
//! The data of an item is what the codec makes of it and nothing else, but for Curator's frame; the version of its node
//! counts its deliveries.
//! The data of the queue's own node stays as it is, its version becomes 1.
//! [`Layout`] says which other clients can share a path.
//! They see the items of the queue's own node, and not those of segments.
//!
//! A list of children has to fit into one answer.
//! When the node of a queue has 16,384 items, or with [`Layout::Native`] has given half of the numbers that it can give,
//! the next ones go to a segment, and when that has had as many, to the next one.
//! Consumers take them in that order and remove what is empty.
//! Every offer is carried out only if the segment it goes to is still the last one, so that the order is kept.
//!
//! # Time
//!
//! Delays and ages go by the leader's clock, of which every change tells; the clocks of clients do not matter.
//! A delay is never shorter than it was asked for, and longer by what the last change took, or one that asks for the time
//! if that was more than a quarter of a second.
//! A new leader whose clock differs moves what is due by as much.
//!
//! # Observing
//!
//! Children that are no items, items that are passed over and dead letters are warned of with `tracing`, each once; what
//! is put back, found again or taken over is told at the level `debug`. The operations below have the spans of `zk-core`.
//! [`Queue::len`] and [`Queue::oldest_age`] are for dashboards, [`WorkQueue::claims`] tells who does what.
//!
//! # What it does not do
//!
//! - No exactly-once processing: a consumer may die after its work and before its acknowledgement. What it changes in
//!   ZooKeeper can go [with the acknowledgement](Claim::acknowledge_with).
//! - No topics, no groups of consumers, no replay.
//! - Every consumer that waits is woken by every change of the queue, and lists it; the recipe has no place in line for
//!   consumers. With more than some tens of them that wait most of the time, let one process fetch for many tasks.
//!
//! # Features
//!
//! None; the codecs of `zk-core` have some.

mod batch_limits;
mod curator_frame;
mod deadline;
mod detached;
mod error;
mod idempotency;
mod layout;
mod leader_clock;
mod offer;
mod options;
mod paths;
mod preconditions;
mod queue;
mod ready_items;
mod store;
mod work_queue;

pub use error::DeadLetterError;
pub use error::OfferAllError;
pub use error::OfferError;
pub use error::PathError;
pub use error::SettleError;
pub use error::TakeError;
pub use error::Undecided;
pub use layout::Layout;
pub use offer::Offer;
pub use offer::OfferAll;
pub use offer::OfferFuture;
pub use options::QueueOptions;
pub use options::WorkOptions;
pub use options::WorkerOptions;
pub use queue::Drained;
pub use queue::Queue;
pub use work_queue::Claim;
pub use work_queue::ClaimInfo;
pub use work_queue::DeadLetter;
pub use work_queue::Delivery;
pub use work_queue::Loss;
pub use work_queue::Tally;
pub use work_queue::WorkQueue;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
