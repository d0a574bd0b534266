//! Where the hosts of an ensemble come from.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::session::Host;

#[cfg(feature = "srv")]
mod srv;

#[cfg(feature = "srv")]
pub use srv::SrvHosts;

/// Returns the hosts of an ensemble, which may change.
///
/// A client asks before its first dial, when a connection ends, after each round of all servers without success, and at
/// the [interval](Self::refresh_interval), and looks up the addresses of each host. If the answer is an error, an empty
/// list, or later than 10 seconds, it keeps the list that it has. A connection to a server that is not in a new list stays
/// until it is lost.
pub trait HostProvider: Send + Sync + 'static {
    /// Returns the hosts. It is not called again before the future is finished or dropped.
    ///
    /// # Cancel safety
    ///
    /// The future must be cancel safe: it is dropped with the session, and when it is too late.
    fn hosts(&self) -> HostsFuture<'_>;

    /// Returns after which time a list is to be replaced although it serves; `None`, the default, for never.
    fn refresh_interval(&self) -> Option<Duration> {
        None
    }
}

/// The answer of a [`HostProvider`].
pub type HostsFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<Host>, HostsError>> + Send + 'a>>;

/// Why a [`HostProvider`] has no hosts.
pub type HostsError = Box<dyn Error + Send + Sync>;

/// A list that does not change.
impl HostProvider for Vec<Host> {
    fn hosts(&self) -> HostsFuture<'_> {
        Box::pin(async { Ok(self.clone()) })
    }
}

/// A provider that several clients ask.
impl<P: HostProvider + ?Sized> HostProvider for Arc<P> {
    fn hosts(&self) -> HostsFuture<'_> {
        P::hosts(self)
    }

    fn refresh_interval(&self) -> Option<Duration> {
        P::refresh_interval(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_list_is_its_own_provider() {
        let list = vec![Host {
            name: "zk1".to_owned(),
            port: 2181,
        }];
        assert_eq!(list.hosts().await.unwrap(), list);
        assert_eq!(list.refresh_interval(), None);
    }
}
