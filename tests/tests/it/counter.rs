//! Counters and shared values: with Curator's and kazoo's on one path, at the end of the versions, and of many processes
//! under faults.

mod faults;
mod interop;
mod versions;
