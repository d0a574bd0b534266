//! Ids that never repeat, issued by ZooKeeper or with its help.
//!
//! | | [`Snowflakes`] | [`BlockIds`] | [`SequenceIds`] | [`ZxidIds`] |
//! |---|---|---|---|---|
//! | an id is | time, worker number and sequence number, in 63 bits | a number from 1 on, of 63 bits | a number from 0 on, of 31 bits | the number of a transaction, of 63 bits |
//! | order | by time, to about a millisecond and the difference of the clocks | within each process | over all processes | over all processes |
//! | gaps | always | when a process ends | when a call fails or is dropped | always |
//! | cost | a compare-and-swap, and a write every few seconds | a read and a write for each block | a round trip and two writes | a round trip and a write |
//! | without ZooKeeper | continues while the session lease is valid | continues until the blocks are used up | fails | fails |
//!
//! [`WorkerIds`] are small numbers, each held by one process at a time. A [`Generator`] issues snowflakes for a worker
//! number that you assign yourself.
//! A [`Layout`] chooses the bits, the epoch and the unit of time, such as those of Twitter, Instagram or Sonyflake.
//! It decodes ids into their [parts](Layout::parts), and [composes](Layout::compose) ids, for searches by time.
//! Threads without a runtime call [`Generator::next_blocking`], and wait for everything else with
//! `zk_core::blocking::block_on`, behind the feature `blocking` of `zk_core`.
//! [Choosing an id](choosing_an_id) compares these ids with others that need no ZooKeeper.
//!
//! Do not use them where an id must be unguessable, or must not reveal when and where it was issued.
//! If 128 bits are acceptable, UUIDs need no coordination.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_core::Session;
//! use zk_id::{Layout, Snowflakes};
//!
//! let session = Session::builder("zk1:2181,zk2:2181,zk3:2181").connect().await?;
//! let snowflakes = Snowflakes::new(&session, "/ids/orders", Layout::TWITTER)?;
//! let orders = snowflakes.claim().await?;
//! let id = orders.next().await?;
//! let parts = orders.layout().parts(id);
//! println!("{id}, in short {}, by worker {}", id.base62(), parts.worker);
//! orders.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! 1. No snowflake of one path is issued twice, whatever clocks, sessions, networks and processes do, as long as no
//!    client deletes or decreases the [marks](#layout-of-the-nodes).
//!    The time in ids is reserved in ZooKeeper before it is used, and the next holder of a worker number starts after
//!    the reservation. This depends neither on clocks, nor on a process noticing in time that it lost its number.
//! 2. The snowflakes of one generator rise, and none has a time that the generator's clock has not reached.
//! 3. A generator stops before another process can hold its worker number, under the assumptions of
//!    [`SessionLease`](zk_core::SessionLease): each call compares the monotonic clock with the end of the proof, less
//!    20 ms. This depends on no task and no runtime.
//!    A thread that was paused within a call may get one id, or one [`IdRange`], afterwards; by 1 it is still unique.
//! 4. [`BlockIds`] issue no number of a counter twice, even if requests and replies are lost, as long as no client
//!    decreases the counter. A handle that notices a decreased counter fails.
//! 5. The numbers of [`SequenceIds`] rise in the order of the calls over all processes, as long as no client deletes
//!    the node. Near the end of the 31 bits the calls fail; the servers would repeat numbers.
//!    The numbers of [`ZxidIds`] rise likewise, as long as the ensemble is not [restored](ZxidIds#restored-ensembles).
//! 6. A worker number is held by one process at a time while it is [valid](WorkerId::is_valid), as long as no
//!    client deletes the node of another one.
//! 7. A dropped future or handle leaves no node that other processes have to wait for. The session deletes the node in
//!    the background, even if the reply to its creation was lost, and the end of the session deletes it for certain.
//!
//! Not guaranteed: ids without gaps; that the larger of two snowflakes is the later one, if their processes have
//! different clocks or they are less than ten milliseconds apart; protection against a process that writes wrong data
//! to these nodes.
//!
//! # Cancel safety
//!
//! Every future can be dropped at any await. Unless its documentation says otherwise, an id that it would have returned
//! is skipped, as are those that it has taken before. A worker number that was claimed, or is claimed by a request that
//! was already sent, is released in the background, and a call that releases goes on there. Anything else only reads.
//!
//! # Failure behaviour
//!
//! Unless stated otherwise, a call fails with an error of the [class](zk_core::ErrorClass) *fatal* once the session is
//! lost. What it holds, such as a worker number, is released with the session.
//!
//! | event | snowflakes | blocks | sequences | zxids |
//! |---|---|---|---|---|
//! | the connection breaks | continue while the session lease is valid and time is reserved; then [`NextError::SessionLeaseExpired`] | continue until the blocks are used up, then wait | wait, then fail | wait, then fail |
//! | the reply to a write is lost | no effect | the block is skipped, and the next one is taken | the node is found by its name | the number is found by the data of the node, or skipped, and the next one is taken |
//! | the session expires or is closed | [`NextError::Lost`] | continue until the blocks are used up, then fail | fail | fail |
//! | the clock goes back | wait until it has caught up; [`NextError::ClockBehind`] after the [maximum wait](Snowflakes::with_max_wait), or at once if that is too short | – | – | – |
//! | the clock goes forwards | follow it, once that time is reserved; if it goes back again, see above | – | – | – |
//! | the clock is [too far ahead](Snowflakes::with_max_clock_ahead) of the servers' clock | [`ClaimError::ClockAhead`], and no mark is written; a running generator uses up its reserved time, then [`NextError::Unreserved`] | – | – | – |
//! | a mark is far in the future | another free number is claimed, if there is one | – | – | – |
//! | the process dies | the next holder of the number waits for the end of the reservation, at most the session timeout; it can claim the number only after that | up to two blocks are lost | – | – |
//! | ids are requested too fast | wait for the next [time unit](Layout::time_unit) | wait for the next block | – | – |
//! | all ids are issued | [`NextError::TimeExhausted`] | [`BlockError::Exhausted`] | [`SequenceError::SequenceExhausted`] | – |
//! | another client deletes a worker's node | [`NextError::Lost`] within about a round trip | – | – | – |
//! | the path is used with another layout, or for something else | [`ClaimError::SchemaMismatch`] | [`BlockError::NotACounter`] | – | [`ZxidError::SchemaMismatch`] |
//!
//! # Layout of the nodes
//!
//! ```text
//! /ids/orders                "zk-id snowflakes of 41/10/12 bits since 1288834974657 ms"
//! ├── worker-00007           ephemeral: the holder of number 7; a unique text, a line break, and the description
//! ├── mark-00007             "1800000012345 0x1000…-0": ids may be issued up to this Unix millisecond; the writer
//! └── mark-00008
//! /ids/invoices              the counter, 8 bytes, big-endian: the largest number that was taken
//! └── after-00000001000001f3 one for each 4,294,967,295 blocks
//! /ids/revisions             "zk-id zxids 0x1000…-7": the writer of the last zxid
//! /ids/tickets               no data; short-lived ephemeral children
//! ```
//!
//! All nodes are persistent, except those of workers and the children of sequences. Never delete a mark. To retire a
//! path, stop its processes, delete it recursively, and do not use it again before its last reservation is over.
//!
//! The first text has `, in units of 10 ms` at its end if the layout has that [time unit](Layout::time_unit), and
//! `, worker last` if it has its [worker last](Layout::with_worker_last). Builds without these settings refuse the path.
//!
//! A counter is that of Apache Curator's `DistributedAtomicLong`: Java processes that use the `postValue()` of its
//! `increment()` as an id can share it. Curator's `SharedCount`, of four bytes, is refused.
//!
//! The rights that a session needs, and what each node permits, are in `docs/security.md` of the repository.
//!
//! # Observing
//!
//! The operations on nodes have the spans of [`zk_core`]. A warning is logged if a reservation cannot be extended, or a
//! node cannot be watched.
//! [`WorkerIds::holders`] lists the holder of each number.
//!
//! The crate has no metrics: recording an id would cost more than issuing it. Reservations and blocks are operations of
//! the session, which `zk_core` measures with its feature `metrics`.
//!
//! # Limitations
//!
//! A clock that is ahead by less than the [limit](Snowflakes::with_max_clock_ahead), a minute by default, is accepted:
//! ids and the mark get that time, and the next holder of the worker number waits that long.
//! Synchronise the clocks, those of the servers included.
//!
//! # Features
//!
//! - `serde`: serializes an [`Id`], by default as decimal digits in human-readable formats.

mod abort_on_drop;
mod atomic_sequence;
mod block;
mod clock;
mod clock_policy;
mod coarse_clock;
mod error;
mod generator;
mod generator_state;
mod high_water_mark;
mod id;
mod id_range;
mod inspect;
mod layout;
mod path_schema;
mod sequence;
mod server_time;
mod snowflake;
mod worker;
mod worker_slots;
mod zxid;

pub use block::{BlockError, BlockIds};
pub use clock::{Clock, SystemClock};
pub use error::{ClaimError, NextError, WorkerLoss};
pub use generator::Generator;
#[cfg(feature = "serde")]
pub use id::as_base62;
#[cfg(feature = "serde")]
pub use id::as_crockford;
#[cfg(feature = "serde")]
pub use id::as_number;
pub use id::{Id, ParseIdError};
pub use id_range::IdRange;
pub use inspect::{IdsSnapshot, Inspector, Mark, WorkerHolder};
pub use layout::{ComposeError, Layout, Parts};
pub use sequence::{SequenceError, SequenceIds};
pub use snowflake::{Snowflake, Snowflakes};
pub use worker::{WorkerId, WorkerIds};
pub use zxid::{ZxidError, ZxidIds};

#[doc = include_str!("../docs/choosing-an-id.md")]
pub mod choosing_an_id {}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
