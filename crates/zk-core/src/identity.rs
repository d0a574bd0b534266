//! Who a session is to its servers.

/// An identity of a session, as its server knows it; returned by [`Session::whoami`](crate::Session::whoami).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Identity {
    /// How it was proved, for example `digest`, `sasl`, `x509`, or `ip` for the address of the client.
    pub scheme: String,
    /// The name, for example of the user; without a password or its digest.
    pub name: String,
}

impl Identity {
    /// Returns an identity, for a [`Transport`](crate::transport::Transport) to report.
    pub fn new(scheme: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            scheme: scheme.into(),
            name: name.into(),
        }
    }
}
