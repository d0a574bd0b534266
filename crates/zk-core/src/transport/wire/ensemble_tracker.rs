//! Keeps a client's list of servers up to date with the dynamic configuration of the ensemble.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use zk_wire as wire;
use zk_wire::Host;

use crate::ensemble_config::EnsembleConfig;

/// The servers of the connect string, and those of the newest configuration. Clones share them.
///
/// As a [provider](wire::HostProvider) it returns both; the client asks before its first dial and when none of its
/// servers can be reached.
#[derive(Debug, Clone)]
pub(super) struct EnsembleTracker {
    connect_string: Arc<[Host]>,
    /// Empty until a configuration was read.
    configured: Arc<Mutex<Vec<Host>>>,
}

impl EnsembleTracker {
    pub(super) fn new(connect_string: &[Host]) -> Self {
        Self {
            connect_string: connect_string.into(),
            configured: Arc::default(),
        }
    }

    /// Reads the configuration, and again whenever it changes, and gives the client each new list of servers. Ends when the
    /// session does, or when a server refuses to show the configuration.
    pub(super) async fn follow(self, client: wire::Client) {
        let mut versions = Versions::default();
        while client.connected().await.is_ok() {
            let answer = client.request(&wire::Request::GetConfig { watch: true });
            let answer = match answer.await {
                Ok(answer) => answer,
                Err(wire::RequestError {
                    kind: wire::RequestErrorKind::Refused { code, .. },
                    ..
                }) => {
                    tracing::warn!(%code, "the ensemble does not show its configuration: its servers are not tracked");
                    return;
                }
                // Without a reply; the next connection brings another one.
                Err(_) => continue,
            };
            if let wire::Reply::Data { data, .. } = &answer.reply {
                self.apply(&client, &mut versions, &EnsembleConfig::new(data));
            }
            let Some(mut watch) = answer.watch else {
                return;
            };
            watch.next().await;
        }
    }

    fn apply(&self, client: &wire::Client, versions: &mut Versions, config: &EnsembleConfig) {
        let addresses = config.client_addresses();
        let hosts: Vec<Host> = addresses.into_iter().map(|address| address.0).collect();
        let news = if hosts.is_empty() {
            None
        } else {
            versions.observe(config.version())
        };
        let Some(news) = news else {
            tracing::debug!(
                config = config.text(),
                "nothing new for the list of servers"
            );
            return;
        };
        self.lock().clone_from(&hosts);
        if news == News::Changed {
            tracing::info!(?hosts, "the servers of the ensemble have changed");
            client.update_hosts(hosts);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Host>> {
        let configured = self.configured.lock();
        configured.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the configured servers, and then the others of the connect string.
    fn all(&self) -> Vec<Host> {
        let mut all = self.lock().clone();
        for host in &*self.connect_string {
            if !all.contains(host) {
                all.push(host.clone());
            }
        }
        all
    }
}

impl wire::HostProvider for EnsembleTracker {
    fn hosts(&self) -> wire::HostsFuture<'_> {
        Box::pin(std::future::ready(Ok(self.all())))
    }
}

/// The newest version of the configuration that was read.
#[derive(Debug, Default)]
struct Versions {
    newest: Option<i64>,
}

/// What a configuration is, compared with those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    First,
    Changed,
}

impl Versions {
    /// Records a version; `None` if it is not newer: a server that lags still shows an old configuration.
    fn observe(&mut self, version: Option<i64>) -> Option<News> {
        let version = version?;
        match self.newest {
            Some(newest) if version <= newest => None,
            newest => {
                self.newest = Some(version);
                Some(newest.map_or(News::First, |_| News::Changed))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> Host {
        Host {
            name: name.to_owned(),
            port: 2181,
        }
    }

    #[test]
    fn only_newer_configurations_count() {
        let mut versions = Versions::default();
        let seen = [None, Some(0), Some(0), Some(5), None, Some(3), Some(6)]
            .map(|version| versions.observe(version));
        let changed = Some(News::Changed);
        assert_eq!(
            seen,
            [None, Some(News::First), None, changed, None, None, changed]
        );
    }

    #[test]
    fn all_servers_are_those_of_both_sources_once() {
        let tracker = EnsembleTracker::new(&["a", "b"].map(host));
        assert_eq!(tracker.all(), ["a", "b"].map(host));
        *tracker.lock() = ["b", "c"].map(host).to_vec();
        assert_eq!(tracker.all(), ["b", "c", "a"].map(host));
    }
}
