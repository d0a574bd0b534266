//! Looks up the servers of an ensemble: all addresses of all its hosts.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::session::{Host, Server};

/// The addresses of a host, that are looked up.
type Addresses = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Looks up hosts, and keeps the last addresses of those whose lookup fails.
#[derive(Clone)]
pub(crate) struct Resolver {
    lookup: Arc<dyn Fn(Host) -> Addresses + Send + Sync>,
    known: Arc<Mutex<BTreeMap<Host, Vec<SocketAddr>>>>,
}

impl Resolver {
    /// One that looks up each host with a function.
    pub(crate) fn new(lookup: impl Fn(Host) -> Addresses + Send + Sync + 'static) -> Self {
        Self {
            lookup: Arc::new(lookup),
            known: Arc::default(),
        }
    }

    /// One that asks the operating system.
    pub(crate) fn system() -> Self {
        Self::new(|host| {
            Box::pin(async move {
                let found = tokio::net::lookup_host((host.name.as_str(), host.port)).await?;
                Ok(found.collect())
            })
        })
    }

    /// Returns the addresses of all hosts, all at once. Once one is found, the others have [`LATEST`] left; a host that
    /// is late or not found keeps the addresses that it had.
    ///
    /// Fails with the reasons if there is no address.
    pub(super) async fn servers(&self, hosts: Vec<Host>) -> Result<Vec<Server>, String> {
        let mut lookups = JoinSet::new();
        for host in &hosts {
            let (host, addresses) = (host.clone(), (self.lookup)(host.clone()));
            lookups.spawn(async move { (host, addresses.await) });
        }
        let mut deadline = Instant::now() + LONGEST_LOOKUP;
        let mut found = BTreeMap::new();
        let mut problems = Vec::new();
        while let Ok(Some(looked_up)) = tokio::time::timeout_at(deadline, lookups.join_next()).await
        {
            match looked_up {
                Ok((host, Ok(addresses))) if !addresses.is_empty() => {
                    deadline = deadline.min(Instant::now() + LATEST);
                    found.insert(host, addresses);
                }
                Ok((host, Ok(_))) => problems.push(format!("{host} has no address")),
                Ok((host, Err(error))) => problems.push(format!("{host}: {error}")),
                Err(error) => problems.push(error.to_string()),
            }
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(found);
        known.retain(|host, _| hosts.contains(host));
        let servers = known.iter().flat_map(|(host, addresses)| {
            let host = host.clone();
            addresses.iter().map(move |address| Server {
                host: host.clone(),
                address: *address,
            })
        });
        let servers: Vec<_> = servers.collect();
        match servers.is_empty() {
            true if problems.is_empty() => {
                Err(format!("no address was found within {LONGEST_LOOKUP:?}"))
            }
            true => Err(problems.join("; ")),
            false => Ok(servers),
        }
    }
}

const LONGEST_LOOKUP: Duration = Duration::from_secs(10);
/// How long the other hosts may take once the addresses of one are known.
const LATEST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn host(name: &str) -> Host {
        Host {
            name: name.to_owned(),
            port: 2181,
        }
    }

    async fn shown(resolver: &Resolver, names: &[&str]) -> Result<String, String> {
        let hosts = names.iter().map(|name| host(name)).collect();
        let servers = resolver.servers(hosts).await?;
        let shown: Vec<_> = servers.iter().map(Server::to_string).collect();
        Ok(shown.join(", "))
    }

    #[tokio::test]
    async fn the_system_knows_this_machine_and_addresses() {
        let resolver = Resolver::system();
        let local = resolver.servers(vec![host("localhost")]).await.unwrap();
        assert!(local.iter().all(|server| server.address.ip().is_loopback()));
        let literal = shown(&resolver, &["127.0.0.1"]).await;
        assert_eq!(literal.as_deref(), Ok("127.0.0.1:2181"));
        let missing = shown(&resolver, &["no-such-name.invalid"])
            .await
            .unwrap_err();
        assert!(
            missing.starts_with("no-such-name.invalid:2181: "),
            "{missing}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_is_late_or_not_found_keeps_its_addresses() {
        static IS_BROKEN: AtomicBool = AtomicBool::new(false);
        let resolver = Resolver::new(|host| {
            Box::pin(async move {
                let is_broken = IS_BROKEN.load(Ordering::Relaxed);
                let last = match host.name.as_str() {
                    "fails" if is_broken => return Err(io::Error::other("not found")),
                    "hangs" if is_broken => return std::future::pending().await,
                    "many" if is_broken => vec![4],
                    "many" => vec![1, 4],
                    "fails" => vec![2],
                    "never" => return std::future::pending().await,
                    _ => vec![3],
                };
                let addresses = last
                    .into_iter()
                    .map(|last| ([10, 0, 0, last], host.port).into());
                Ok(addresses.collect())
            })
        });
        let names = ["many", "fails", "hangs", "never"];
        let begin = Instant::now();
        let first = shown(&resolver, &names).await.unwrap();
        let kept = "fails:2181 (10.0.0.2:2181), hangs:2181 (10.0.0.3:2181)";
        let many = "many:2181 (10.0.0.1:2181), many:2181 (10.0.0.4:2181)";
        assert_eq!(first, format!("{kept}, {many}"));
        assert_eq!(begin.elapsed(), LATEST);
        IS_BROKEN.store(true, Ordering::Relaxed);
        let second = shown(&resolver, &names).await.unwrap();
        assert_eq!(
            second,
            format!("{kept}, many:2181 (10.0.0.4:2181)"),
            "one has left its name"
        );
        let only = shown(&resolver, &["many"]).await;
        assert_eq!(only.as_deref(), Ok("many:2181 (10.0.0.4:2181)"));
        let gone = shown(&resolver, &["fails"]).await.unwrap_err();
        assert_eq!(
            gone, "fails:2181: not found",
            "it was not in the list any more"
        );
        let never = shown(&resolver, &["never"]).await.unwrap_err();
        assert_eq!(never, "no address was found within 10s");
    }
}
