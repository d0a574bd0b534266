//! Queues: other clients on the same path, and many processes that are killed and paused.

mod interop;
mod numbers;
mod shared;
mod soak;
