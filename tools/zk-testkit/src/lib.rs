//! What the tests of several crates share.
//!
//! - [`assert_impl!`] and [`assert_send_futures!`] are tables of types and futures that the compiler checks.
//! - [`impostor`] is a server that does not know the password of its user.
//! - [`servers`] is for tests on real servers.
//! - [`sim`] is for tests on a simulated ensemble.
//! - [`within`] waits with a limit; `zk_sim::wait` has what waits with the usual one.
//! - `metrics`, behind the feature of that name, records what a crate reports to the facade `metrics`.
//!
//! Anything here panics where a test is to fail.

#[doc(hidden)]
pub mod auto_traits;
pub mod impostor;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod servers;
pub mod sim;

mod wait;

pub use wait::within;
