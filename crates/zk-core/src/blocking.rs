//! Waits for futures on threads without a runtime: those of this crate and of all recipe crates.
//!
//! [`block_on`] stands where the documentation has `.await`, so there is no second set of types and functions:
//!
//! ```no_run
//! use zk_core::Session;
//! use zk_core::blocking::block_on;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let session = block_on(Session::builder("zk1:2181,zk2:2181,zk3:2181").connect())?;
//!     block_on(session.create("/app/config", "first").parents())?;
//!     let workers: Vec<_> = (0..4)
//!         .map(|_| {
//!             let session = session.clone();
//!             std::thread::spawn(move || block_on(session.get("/app/config")))
//!         })
//!         .collect();
//!     for worker in workers {
//!         let (data, _) = worker.join().expect("a worker does not panic")?;
//!         assert_eq!(data, "first");
//!     }
//!     block_on(session.close())?;
//!     Ok(())
//! }
//! ```
//!
//! A lock is acquired with `block_on(lock.acquire())?`, released with `block_on(guard.release())?` or by a drop, and
//! `guard.is_valid()` needs no runtime. A thread waits for the next element of a subscription, tracker or cache with
//! `block_on(….next())`.
//!
//! # Time limits
//!
//! Operations, and what has a function for it such as `acquire_timeout`, have a limit of their own and say in their
//! result what became of the call. [`block_on_timeout`] limits any other wait.
//!
//! # Losses
//!
//! No thread is interrupted when a session or a lock is lost. A thread that holds something checks it between its
//! steps, with [`SessionLease::is_valid`](crate::SessionLease::is_valid) or the `is_valid` of a guard. Another thread
//! can wait for the loss: the future `guard.lost()` does not borrow the guard, and also resolves when it is released.
//!
//! Whatever waits for a lost session returns its fatal error. An application that goes on with the next session does so
//! in a loop:
//!
//! ```no_run
//! use zk_core::{Error, RetryPolicy, Session};
//! use zk_core::blocking::block_on;
//!
//! # fn work(_: &Session) -> Result<(), Error> { Ok(()) }
//! # fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! let sessions =
//!     block_on(async { Session::builder("127.0.0.1:2181").sessions(RetryPolicy::default()) });
//! loop {
//!     let session = block_on(sessions.session())?;
//!     match work(&session) {
//!         Err(error) if error.is_fatal() => continue,
//!         result => break result?,
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `sessions` is no future: it is one of the few functions that must be called in a runtime, and therefore in an `async`
//! block here.
//!
//! # The runtime
//!
//! The first call in a process starts one Tokio runtime with two threads, named `zk-core-blocking`. It opens
//! connections, sends pings and completes what was dropped; the futures themselves run on the threads that wait for
//! them. A value may be dropped on any thread.
//! Functions that a listener calls run on these threads as well: they must not block. Use
//! [`Subscription::for_each_blocking`](crate::Subscription::for_each_blocking) for those that do.
//!
//! The runtime is never shut down, and does not keep the process alive. When `main` returns, open sessions end like
//! those of a process that died: the ensemble keeps their ephemeral nodes, and with them locks, for the session timeout.
//! [`Session::close`](crate::Session::close) ends a session at once, after the releases of dropped guards.
//!
//! A child process after a `fork` does not have these threads, and its calls wait for ever. Fork before the first call,
//! and open sessions in the child.
//!
//! A session that was connected on another runtime stays there, also for calls through this module: if nothing drives
//! that runtime, operations fail at their time limit, and waits without one never end.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::deadline::Deadline;

/// Waits for a future, such as an operation or an acquire, and returns its output.
///
/// The future runs on this thread, within the [runtime of the process](self#the-runtime).
///
/// # Panics
///
/// In a task of a Tokio runtime, because a blocked task stops other tasks of its thread, perhaps those that this call
/// waits for; await the future there. The same holds within another `block_on`, for example in a function that
/// [`Session::update`](crate::Session::update) calls.
/// On the threads of Tokio's `spawn_blocking`, and therefore in
/// [`Subscription::for_each_blocking`](crate::Subscription::for_each_blocking), it does not panic.
///
/// If the operating system refuses to start the threads of the runtime.
#[track_caller]
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    runtime().block_on(future.into_future())
}

/// Waits for a future for at most `limit`. Returns `None`, and drops the future, if it is not ready by then.
///
/// What a dropped future leaves is documented with it or with its crate, under `Cancel safety`.
///
/// # Panics
///
/// Like [`block_on`].
#[track_caller]
pub fn block_on_timeout<F: IntoFuture>(limit: Duration, future: F) -> Option<F::Output> {
    let deadline = Deadline::after(limit);
    runtime().block_on(deadline.bound(future.into_future()))
}

/// Returns the runtime of the process, which the first call starts.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("zk-core-blocking")
            .enable_all()
            .build()
            .expect("the operating system starts two threads")
    })
}
