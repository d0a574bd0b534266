//! Records and reads histories: the operations of a test's processes with their times, which [checkers](crate::check) judge.
//!
//! A [`Recorder`] writes, [`History`] reads, and a [`Run`] keeps the files of a test in one directory if a check fails:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_history::check::FencedMutex;
//! use zk_history::{Op, ReturnValue, Run};
//!
//! let run = Run::seeded("lock")?.judged_by(FencedMutex::default())?;
//! let recorder = run.recorder("worker-1")?;
//!
//! let pending = recorder.invoke(Op::acquire("/locks/a"));
//! // let guard = lock.acquire().await?;           an early return is recorded as unknown
//! let held = pending.granted(ReturnValue::token(7)); // guard.fencing_token()
//! // … what the lock protects …
//! let pending = held.release();
//! // guard.release().await?;
//! pending.ok(());
//!
//! run.finish()?; // the error shows the violation, the directory, and how to check and to repeat the run
//! # Ok(())
//! # }
//! ```
//!
//! The program `zk-check` (in this workspace `cargo xtask check`) checks a kept run, or any other history, again.
//!
//! A checker sees only recorded operations: it does not find nodes that were left behind.
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
//! | type | meaning | fields |
//! |---|---|---|
//! | `begin` | a process begins to record; its first line in the file | `version` of the format, `pid` |
//! | `invoke` | an operation begins; the time is taken before it has any effect | `id`, unique within the process; `op` and its arguments; `task`, if several tasks of the process act independently |
//! | `return` | it ended; the time is taken after its last effect | `id`; `outcome`: `ok`, `failed` (certainly no effect) or `unknown`; `reason`; the return value |
//! | `until` | the holder of the grant `id` relied on it until this time | `id`, `until`, `reason`; a later line replaces an earlier one |
//! | `fault` | a fault begins or ends | `id`, `phase`: `begin` or `end`; with `begin` also `name` and `target` |
//! | `end` | the process ended normally; `kill -9` leaves none | |
//!
//! | op | arguments | return value |
//! |---|---|---|
//! | `acquire` | `path`; `mode`: `exclusive` (default) or `shared`; `permits` (1) | `token`, `sequence` |
//! | `release` | `path`; `of`: the id of the acquire (the task's last grant) | |
//! | `read` | `path` | `value` |
//! | `write` | `path`, `value`, `token` | |
//! | `offer` | `path`, `item` | |
//! | `take` | `path` | `items` |
//! | `ack` | `path`, `item` | |
//! | `increment` | `path`, `by` | `value` |
//!
//! Values and items are whole numbers or texts.
//! A reader ignores unknown fields, operations and types of lines, and refuses an unknown `version`.
//! The outcome of an operation without a `return` is unknown.
//! A partial line, which a killed process leaves, is reported and ignored.
//!
//! # Features
//!
//! - `cli`: what the `zk-check` program needs.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub mod check;

mod clock;
mod history;
mod history_file;
mod line;
mod op;
mod outcome;
mod parse;
mod pending;
mod read;
mod recorder;
mod run;

pub use clock::now;
pub use history::{Call, Client, Fault, History, Process, SourceLine};
pub use op::{Mode, Op, Value};
pub use outcome::{Outcome, ReturnValue};
pub use parse::ParseError;
pub use pending::{Held, Pending};
pub use read::ReadError;
pub use recorder::{FaultGuard, Recorder};
pub use run::{Description, DescriptionError, Run, RunError};
