//! Defines the error for what this machine cannot do.

/// The error for a fault or container that is not possible on this machine.
#[derive(Debug, thiserror::Error)]
#[error("{fault} is not possible here: {reason}")]
#[non_exhaustive]
pub struct Unavailable {
    /// The fault, such as "a clock that jumps".
    pub fault: &'static str,
    /// The missing requirement and the remedy.
    pub reason: String,
}
