//! Ids that never repeat, from ZooKeeper or with its help.
//!
//! | | [`Snowflakes`] | [`BlockIds`] | [`SequenceIds`] |
//! |---|---|---|---|
//! | an id is | time, worker number, sequence, in 63 bits | a number from 1 on, 63 bits | a number from 0 on, 31 bits |
//! | order | by time, to about a millisecond and the clocks' difference | of each process alone | of all processes |
//! | gaps | always | when a process ends | when a call is given up |
//! | costs | a compare-and-swap, and a write every few seconds | a read and a write for each block | a round trip and two writes |
//! | without ZooKeeper it goes on | until the session is in doubt | until the blocks are used up | not at all |
//!
//! [`WorkerIds`] are small numbers for processes, each one process's at a time; a [`Generator`] makes snowflakes for a worker
//! number that you see to yourself.
//! [Choosing an id](choosing_an_id) compares them with what needs no ZooKeeper.
//!
//! Do not use them where an id must not be guessed, or must not tell when and where it was made;
//! nor where nothing is coordinated and 128 bits are welcome: that is what UUIDs are for.
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
//! 1. No snowflake of one path is given out twice, whatever clocks, sessions, networks and processes do, as long as nobody
//!    deletes or sets back its [marks](#layout-of-the-nodes).
//!    The time that goes into ids is reserved in ZooKeeper before it is used, and whoever has a worker number next begins
//!    behind it; that does not depend on any clock, nor on a process noticing in time that it lost its number.
//! 2. Snowflakes of one generator rise, and none has a time that its clock has not reached.
//! 3. A generator gives out nothing once its worker number may be another process's, as [`Trusted`](zk_core::Trusted)
//!    tells: each call compares the monotonic clock with the end of the proof, and it ends 20 ms early.
//!    That depends on no task and no runtime.
//!    A thread that was stopped within a call may get one id, or one [`Run`], when it goes on: unique nonetheless, by 1.
//! 4. No number of one counter is given out twice by [`BlockIds`], whatever becomes of requests and replies, as long as
//!    nobody sets the counter back; a handle that notices refuses to go on.
//! 5. Numbers of [`SequenceIds`] rise in the order of the calls over all processes, as long as nobody deletes the node.
//!    Near the end of their 31 bits they are refused, and not given out twice as the servers would.
//! 6. A worker number is one process's at a time while it is [trusted](WorkerId::is_trusted), as long as nobody deletes the
//!    node of another one.
//! 7. Whatever is dropped, wherever, leaves no node that others would have to wait for: the session removes it in the
//!    background, also one whose creation was in doubt, and its end removes it for certain.
//!
//! Not guaranteed: that ids have no gaps; that the larger of two snowflakes is the later one, when they are of two
//! processes whose clocks differ or less than ten milliseconds apart; anything against a process that writes what is not
//! true into these nodes.
//!
//! # Failure behaviour
//!
//! | event | snowflakes | blocks | sequences |
//! |---|---|---|---|
//! | the connection breaks | go on for as long as the session is trusted and time is reserved; then [`NextError::Untrusted`] | go on until the blocks are used up, then wait | wait, then an error |
//! | the reply to a write is lost | nothing | the block is given up and the next one taken | found by its name |
//! | the session expires or is closed | [`NextError::Lost`] | go on until the blocks are used up, then a fatal error | a fatal error |
//! | the clock goes back | wait until it is where it was; [`NextError::ClockBehind`] after the [patience](Snowflakes::with_patience), at once if that would be too short | – | – |
//! | the clock goes forwards | follow it, once that time is reserved; when it goes back again, see above | – | – |
//! | the clock is [far ahead](Snowflakes::with_max_clock_ahead) of the servers' | [`ClaimError::ClockAhead`], and no mark is written; a generator that runs uses up what is reserved, then [`NextError::Unreserved`] | – | – |
//! | a mark is far in the future | another free number is taken, if there is one | – | – |
//! | the process dies | the next one with the number waits until what was reserved is over, at most the session timeout; it can have the number only after that | up to two blocks are lost | – |
//! | ids are asked for too fast | wait for the next millisecond | wait for the next block | – |
//! | all is used up | [`NextError::TimeExhausted`] | [`BlockError::Exhausted`] | [`SequenceError::SequenceExhausted`] |
//! | somebody deletes a worker's node | [`NextError::Lost`] within about a round trip | – | – |
//! | another layout is used on the path | [`ClaimError::OtherUse`] | – | – |
//!
//! # Layout of the nodes
//!
//! ```text
//! /ids/orders                "zk-id snowflakes of 41/10/12 bits since 1288834974657 ms"
//! ├── worker-00007           ephemeral: who has the number; a unique text, and the description behind a line break
//! ├── mark-00007             "1800000012345 0x1000…-0": up to which Unix millisecond ids may have been given out, and by whom
//! └── mark-00008
//! /ids/invoices              the counter, 8 bytes, highest first: the largest number that was taken
//! └── after-00000001000001f3 one for each 4,294,967,295 blocks
//! /ids/tickets               no data; ephemeral children that come and go
//! ```
//!
//! All but the workers' are persistent. Never delete a mark: to retire a path, stop its processes and delete it whole, and do
//! not use it again before its last reservation is over.
//!
//! A counter is that of Apache Curator's `DistributedAtomicLong`; Java processes that take the `postValue()` of its
//! `increment()` as an id share it. The `SharedCount` of Curator, of four bytes, is refused.
//!
//! # Observing
//!
//! The operations on nodes have the spans of [`zk_core`]; a reservation that cannot be extended and a node that cannot be
//! watched are warned of.
//! [`WorkerIds::holders`] lists who has which number.
//!
//! # What it does not do
//!
//! A clock that is ahead by less than the [tolerance](Snowflakes::with_max_clock_ahead), a minute by default, is believed:
//! ids get that time, and so does the mark, so that the next process with the worker number waits for as long.
//! Run with synchronised clocks, on the servers as well.
//!
//! # Features
//!
//! - `serde`: [`Id`] is written and read by serde, by default as decimal digits in formats that people can read.

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
mod layout;
mod path_schema;
mod sequence;
mod server_time;
mod snowflake;
mod worker;
mod worker_slots;

pub use block::BlockError;
pub use block::BlockIds;
pub use clock::Clock;
pub use clock::SystemClock;
pub use error::ClaimError;
pub use error::Loss;
pub use error::NextError;
pub use generator::Generator;
pub use id::Id;
pub use id::ParseIdError;
#[cfg(feature = "serde")]
pub use id::as_base62;
#[cfg(feature = "serde")]
pub use id::as_crockford;
#[cfg(feature = "serde")]
pub use id::as_number;
pub use id_range::Run;
pub use layout::Layout;
pub use layout::Parts;
pub use sequence::SequenceError;
pub use sequence::SequenceIds;
pub use snowflake::Snowflake;
pub use snowflake::Snowflakes;
pub use worker::WorkerId;
pub use worker::WorkerIds;

#[doc = include_str!("../docs/choosing-an-id.md")]
pub mod choosing_an_id {}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
