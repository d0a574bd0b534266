//! Where the hosts of an ensemble come from.

use std::collections::BTreeSet;
use std::error::Error;
use std::pin::Pin;
use std::time::Duration;

use crate::session::Host;

#[cfg(feature = "srv")]
mod srv;

#[cfg(feature = "srv")]
pub use srv::SrvHosts;

/// Returns the hosts of an ensemble, which may change.
///
/// A client asks before its first dial, after each round of all hosts without success, and at the
/// [interval](Self::refresh_interval). If the answer is an error, an empty list, or later than 10 seconds, it keeps the
/// list that it has. A connection to a host that is not in a new list stays until it is lost.
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

/// All addresses of a name, each as a host of its own: for a name that stands for the whole ensemble.
///
/// The addresses are looked up by the operating system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsHosts {
    name: String,
    port: u16,
    refresh: Option<Duration>,
}

impl DnsHosts {
    /// The servers at the addresses of `name`, which share a port.
    pub fn new(name: impl Into<String>, port: u16) -> Self {
        Self {
            name: name.into(),
            port,
            refresh: None,
        }
    }

    /// Looks the name up again at this interval; by default only when no host can be reached.
    #[must_use]
    pub const fn with_refresh_interval(mut self, interval: Duration) -> Self {
        self.refresh = Some(interval);
        self
    }
}

impl HostProvider for DnsHosts {
    fn hosts(&self) -> HostsFuture<'_> {
        Box::pin(async {
            let addresses = tokio::net::lookup_host((self.name.as_str(), self.port)).await?;
            // A name has an address several times if the system lists it so.
            let addresses: BTreeSet<_> = addresses.map(|address| address.ip()).collect();
            let host = |address: std::net::IpAddr| Host {
                name: address.to_string(),
                port: self.port,
            };
            Ok(addresses.into_iter().map(host).collect())
        })
    }

    fn refresh_interval(&self) -> Option<Duration> {
        self.refresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_address_of_a_name_is_a_host() {
        let hosts = DnsHosts::new("localhost", 2181).hosts().await.unwrap();
        assert!(!hosts.is_empty());
        for host in &hosts {
            let address: std::net::IpAddr = host.name.parse().unwrap();
            assert!(address.is_loopback() && host.port == 2181, "{host}");
        }
        let distinct: BTreeSet<_> = hosts.iter().collect();
        assert_eq!(distinct.len(), hosts.len());
        let missing = DnsHosts::new("no-such-name.invalid", 2181);
        assert!(missing.hosts().await.is_err());
    }

    #[tokio::test]
    async fn a_list_is_its_own_provider_and_names_can_be_looked_up_again() {
        let list = vec![Host {
            name: "zk1".to_owned(),
            port: 2181,
        }];
        assert_eq!(list.hosts().await.unwrap(), list);
        assert_eq!(list.refresh_interval(), None);
        let minute = Duration::from_mins(1);
        let names = DnsHosts::new("localhost", 2181);
        assert_eq!(names.refresh_interval(), None);
        let names = names.with_refresh_interval(minute);
        assert_eq!(names.refresh_interval(), Some(minute));
    }
}
