//! Decides whether a [history](crate) is correct.
//!
//! A checker is a pure function of a history. It reports no false violations: what the history does not prove counts in
//! favour of the clients. Operations that this version does not know are ignored and counted: a history that has some,
//! from another version of this crate, may show violations that they would explain.
//!
//! ```
//! use zk_history::check::FencedMutex;
//! use zk_history::History;
//!
//! let history = History::parse([("history.jsonl", r#"
//! {"type":"begin","proc":"a","t_mono_ns":0,"version":1}
//! {"type":"invoke","proc":"a","task":"1","t_mono_ns":10,"id":1,"op":"acquire","path":"/locks/x"}
//! {"type":"return","proc":"a","t_mono_ns":20,"id":1,"outcome":"ok","token":7}
//! {"type":"invoke","proc":"a","task":"2","t_mono_ns":30,"id":2,"op":"acquire","path":"/locks/x"}
//! {"type":"return","proc":"a","t_mono_ns":40,"id":2,"outcome":"ok","token":9}
//! {"type":"invoke","proc":"a","task":"1","t_mono_ns":50,"id":3,"op":"release","path":"/locks/x"}
//! {"type":"return","proc":"a","t_mono_ns":60,"id":3,"outcome":"ok"}
//! "#)])?;
//! let verdict = FencedMutex::default().check(&history);
//! assert_eq!(verdict.violations[0].rule, "overlap");
//! assert_eq!(
//!     verdict.violations[0].sentence,
//!     "a/2 (token 9) was granted /locks/x while a/1 (token 7) still relied on it: both did for 10 ns"
//! );
//! # Ok::<(), zk_history::ParseError>(())
//! ```
//!
//! | checker | name | judges |
//! |---|---|---|
//! | [`FencedMutex`] | `fenced-mutex` | one holder at a time, tokens increase |
//! | [`ReadWriteLock`] | `read-write-lock` | readers share, a writer is alone |
//! | [`Semaphore`] | `semaphore` | never more permits granted than available |
//! | [`Linearizable`] | `linearizable` | one holder at a time, tokens increase; by a search, without the rules for releases |
//! | [`FencedRegister`] | `fenced-register` | a resource accepts no lower token |
//! | [`TotalQueue`] | `total-queue` | nothing lost, made up or delivered too often |
//! | [`Counter`] | `counter` | no update lost or applied twice |
//! | [`Liveness`] | `progress` | enough operations succeed, none waits too long |
//!
//! All but `linearizable` are O(n log n); releases that do not say of which grant may make it O(n²).
//!
//! A verdict is *valid*, *violated*, or *cannot judge*: a history without operations to judge is never
//! valid. If the servers' logs are available, [`ServerLogs`] adds a verdict on the servers: *rolled back* means that they
//! lost acknowledged writes, which may have caused other violations.

mod checker;
mod counter;
mod fenced_register;
mod hold_intervals;
mod linearizable;
mod liveness;
mod locks;
mod mutex;
mod queue;
mod read_write;
mod report;
mod semaphore;
mod server_logs;
mod timeline;
mod verdict;

pub use checker::{Checker, NAMES, ParseCheckerError};
pub use counter::Counter;
pub use fenced_register::FencedRegister;
pub use linearizable::Linearizable;
pub use liveness::Liveness;
pub use mutex::FencedMutex;
pub use queue::{Delivery, TotalQueue};
pub use read_write::ReadWriteLock;
pub use report::{Report, judge};
pub use semaphore::Semaphore;
pub use server_logs::ServerLogs;
pub use verdict::{Evidence, Judgement, LISTED, Span, Verdict, Violation};

#[cfg(test)]
mod history_builder;
