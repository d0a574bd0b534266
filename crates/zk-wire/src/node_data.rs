//! The data of a node.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use bytes::Bytes;

/// The data of a node. Cloning is cheap. Its debug output contains only the length.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct NodeData(Bytes);

impl NodeData {
    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes as those of the crate `bytes`, without a copy.
    pub fn into_inner(self) -> Bytes {
        self.0
    }
}

impl From<Bytes> for NodeData {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

impl From<Vec<u8>> for NodeData {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl From<String> for NodeData {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&[u8]> for NodeData {
    fn from(bytes: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(bytes))
    }
}

impl fmt::Debug for NodeData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}
