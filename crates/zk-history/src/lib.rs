//! Histories: what the processes of a test did, and when, for [checkers](crate::check) to judge.
//!
//! A [`Recorder`] writes, [`History`] reads, and a [`Run`] keeps a directory with all of it together, if something is
//! wrong:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_history::check::FencedMutex;
//! use zk_history::{Answer, Op, Run};
//!
//! let run = Run::seeded("lock")?.judged_by(FencedMutex::default())?;
//! let recorder = run.recorder("worker-1")?;
//!
//! let pending = recorder.invoke(Op::acquire("/locks/a"));
//! // let guard = lock.acquire().await?;           an early return is recorded as unknown
//! let held = pending.granted(Answer::token(7)); // guard.fencing_token()
//! // … what the lock protects …
//! let pending = held.release();
//! // guard.release().await?;
//! pending.ok(());
//!
//! run.finish()?; // or says who did what, where it is kept, and how to judge and to run it again
//! # Ok(())
//! # }
//! ```
//!
//! The program `zk-check` (in this workspace `cargo xtask check`) judges a kept run again, and any other history.
//!
//! A checker says nothing of what was not recorded: that nodes are left behind, or that a server was never asked.
//!
//! # Format
//!
//! A history is one or several files, `history*.jsonl`, with a JSON object in each line.
//! Every line has `type`, `proc` (the name of the process) and `t_mono_ns` (nanoseconds of the host's
//! `CLOCK_MONOTONIC`, the same clock for all processes of a host).
//!
//! ```text
//! {"type":"begin","proc":"a","t_mono_ns":100,"version":1,"pid":4711}
//! {"type":"invoke","proc":"a","task":"3","t_mono_ns":200,"id":1,"op":"acquire","path":"/locks/x"}
//! {"type":"return","proc":"a","t_mono_ns":300,"id":1,"outcome":"ok","token":4294967299,"sequence":0}
//! {"type":"until","proc":"a","t_mono_ns":450,"id":1,"until":400,"reason":"the session is over"}
//! {"type":"fault","proc":"a","t_mono_ns":600,"id":3,"phase":"begin","name":"pause","target":"b"}
//! {"type":"fault","proc":"a","t_mono_ns":700,"id":3,"phase":"end"}
//! {"type":"end","proc":"a","t_mono_ns":800}
//! ```
//!
//! | type | says | its fields |
//! |---|---|---|
//! | `begin` | a process begins to record; its first line in the file | `version` of the format, `pid` |
//! | `invoke` | an operation begins; the moment is before it did anything | `id`, unique within the process; `op` and its arguments; `task`, if several tasks of the process act on their own |
//! | `return` | it has ended; the moment is after all it did | `id`; `outcome`: `ok`, `failed` (certainly no effect) or `unknown`; `reason`; the answer |
//! | `until` | the holder of the grant `id` relied on it until then | `id`, `until`, `reason`; a later line replaces an earlier one |
//! | `fault` | a fault begins or ends | `id`, `phase`: `begin` or `end`; with `begin` also `name` and `target` |
//! | `end` | the process ended in order; `kill -9` leaves none | |
//!
//! | op | arguments | answer |
//! |---|---|---|
//! | `acquire` | `path`; `mode`: `exclusive` (default) or `shared`; `permits` (1) | `token`, `sequence`, `value` (the name of what was granted) |
//! | `release` | `path`; `of`: the id of the acquire (the task's last grant) | |
//! | `set_permits` | `path`, `permits` | |
//! | `read` | `path` | `value`, `version` |
//! | `write` | `path`, `value`, `token` | `version` |
//! | `cas` | `path`, `from`, `to` | `version` |
//! | `offer` | `path`, `item`, `priority` (0) | |
//! | `take`, `drain` | `path` | `items` |
//! | `ack` | `path`, `item` | |
//! | `increment` | `path`, `by` | `value` |
//!
//! Values and items are whole numbers or texts.
//! A reader ignores fields, operations and types of lines that it does not know, and refuses a `version` that it does
//! not know.
//! An operation without a `return` is unknown.
//! A part of a line that a killed process left is reported and left out.
//!
//! # Features
//!
//! - `cli`: what the `zk-check` program needs.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub mod check;

mod answer;
mod call;
mod clock;
mod files;
mod line;
mod op;
mod parse;
mod pending;
mod recorder;
mod run;

pub use answer::{Answer, Outcome};
pub use call::{Call, Client, Fault, History, Place, Process};
pub use clock::now;
pub use files::ReadError;
pub use line::FORMAT_VERSION;
pub use op::{Mode, Op, Value};
pub use parse::ParseError;
pub use pending::{Held, Pending};
pub use recorder::{FaultGuard, Recorder};
pub use run::{Description, DescriptionError, Run, RunError};
