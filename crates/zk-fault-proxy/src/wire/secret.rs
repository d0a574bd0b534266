//! Bytes that no debug output contains.

use std::fmt;

/// A password, or credentials. Its debug output has the length alone.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it only hides the bytes")]
pub struct Secret(pub Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}
