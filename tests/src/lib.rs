//! Shared code of the tests across crates and of the benchmarks; the tests are in `tests/it`.

pub mod contention;
#[cfg(any(doc, doctest))]
pub mod guides;
pub mod melee;
pub mod orphan;
pub mod peers;

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
