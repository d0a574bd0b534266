//! What proves an identity to the servers.

use crate::transport::Bytes;

/// What proves an identity to the servers. Its debug output contains the scheme and a length only.
#[derive(Debug, Clone)]
pub(crate) struct Credentials {
    pub(crate) scheme: String,
    pub(crate) data: Bytes,
}

impl Credentials {
    pub(crate) fn new(scheme: impl Into<String>, data: impl Into<Vec<u8>>) -> Self {
        Self {
            scheme: scheme.into(),
            data: Bytes::from(data.into()),
        }
    }

    /// Returns those of the scheme `digest`.
    pub(crate) fn digest(user: &str, password: &str) -> Self {
        Self::new("digest", format!("{user}:{password}"))
    }
}
