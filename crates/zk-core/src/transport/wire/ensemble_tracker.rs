//! Keeps a client's list of servers up to date with the dynamic configuration of the ensemble.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use zk_wire as wire;
use zk_wire::Host;

use crate::ensemble_config::{EnsembleConfig, NewestServers, TrackedServers};

/// The servers of the connect string, and those of the newest configuration. Clones share them.
///
/// As a [provider](wire::HostProvider) it returns both; the client asks before its first dial and when none of its
/// servers can be reached.
#[derive(Debug, Clone)]
pub(super) struct EnsembleTracker {
    connect_string: Arc<[Host]>,
    configured: TrackedServers,
}

impl EnsembleTracker {
    pub(super) fn new(connect_string: &[Host], configured: &TrackedServers) -> Self {
        Self {
            connect_string: connect_string.into(),
            configured: configured.clone(),
        }
    }

    /// Reads the configuration, and again whenever it changes, and gives the client each new list of servers. Ends when the
    /// session does, or when a server refuses to show the configuration.
    pub(super) async fn follow(self, client: wire::Client) {
        let mut versions = Versions::default();
        let mut states = client.states();
        while client.connected().await.is_ok() {
            states.mark_unchanged();
            let request = wire::Request::GetConfig { watch: true };
            match client.request(&request).await {
                Ok(answer) => {
                    if let wire::Reply::Data { data, .. } = &answer.reply {
                        let config = EnsembleConfig::new(data.as_slice());
                        self.apply(&client, &mut versions, &config, answer.zxid);
                    }
                    let Some(mut watch) = answer.watch else {
                        return;
                    };
                    watch.next().await;
                }
                Err(error) if is_final(&error.kind) => {
                    tracing::warn!(%error, "the ensemble does not show its configuration: its servers are not tracked");
                    return;
                }
                Err(_) => {
                    // At the next connection, or on this one if there is none.
                    let _later = tokio::time::timeout(AGAIN_AFTER, states.changed()).await;
                }
            }
        }
    }

    fn apply(
        &self,
        client: &wire::Client,
        versions: &mut Versions,
        config: &EnsembleConfig,
        zxid: i64,
    ) {
        // It is the zxid of a transaction, and the server had seen no later one when it replied: with a higher version
        // one server could keep all later configurations from being newer.
        let version = config.version().filter(|version| *version <= zxid);
        let Some(change) = versions.observe(version) else {
            return;
        };
        let mut addresses = config.client_addresses();
        let filter = &self.configured.filter;
        addresses.retain(|server| {
            let is_used = filter.accepts(server, &self.connect_string);
            if !is_used {
                tracing::warn!(
                    %server,
                    "a server of the configuration is not used: it is in no domain of the connect string's names"
                );
            }
            is_used
        });
        if addresses.is_empty() {
            tracing::debug!(
                config = config.text(),
                "a configuration without the client address of each server, or without one that is used, is ignored"
            );
            return;
        }
        let hosts = addresses.clone();
        self.lock().update(version, addresses);
        if change == ConfigChange::Newer {
            tracing::info!(?hosts, "the servers of the ensemble have changed");
            client.update_hosts(hosts);
        }
    }

    fn lock(&self) -> MutexGuard<'_, NewestServers> {
        let configured = self.configured.newest.lock();
        configured.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the configured servers, and then the others of the connect string.
    fn all(&self) -> Vec<Host> {
        let mut all = self.lock().addresses().to_vec();
        for host in &*self.connect_string {
            if !all.contains(host) {
                all.push(host.clone());
            }
        }
        all
    }
}

/// Returns whether a server will never show its configuration: it has none, or does not permit it.
const fn is_final(error: &wire::RequestErrorKind) -> bool {
    matches!(
        error,
        wire::RequestErrorKind::Refused {
            code: wire::ErrorCode::NO_NODE | wire::ErrorCode::NO_AUTH,
            ..
        }
    )
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
enum ConfigChange {
    First,
    Newer,
}

impl Versions {
    /// Records a version; `None` if it is not newer: a server that lags still shows an old configuration.
    fn observe(&mut self, version: Option<i64>) -> Option<ConfigChange> {
        let version = version?;
        match self.newest {
            Some(newest) if version <= newest => None,
            newest => {
                self.newest = Some(version);
                Some(newest.map_or(ConfigChange::First, |_| ConfigChange::Newer))
            }
        }
    }
}

const AGAIN_AFTER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ensemble_config::ServerFilter;

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
        let newer = Some(ConfigChange::Newer);
        assert_eq!(
            seen,
            [
                None,
                Some(ConfigChange::First),
                None,
                newer,
                None,
                None,
                newer
            ]
        );
    }

    #[test]
    fn all_servers_are_those_of_both_sources_once() {
        let configured = TrackedServers {
            newest: Arc::default(),
            filter: ServerFilter::SameDomain,
        };
        let tracker = EnsembleTracker::new(&["a", "b"].map(host), &configured);
        assert_eq!(tracker.all(), ["a", "b"].map(host));
        let addresses = |names: [&str; 2]| names.map(host).to_vec();
        tracker.lock().update(Some(5), addresses(["b", "c"]));
        assert_eq!(tracker.all(), ["b", "c", "a"].map(host));
        let successor = EnsembleTracker::new(&[host("a")], &configured);
        assert_eq!(successor.all(), ["b", "c", "a"].map(host));
        // Its server lags.
        successor.lock().update(Some(3), addresses(["a", "b"]));
        assert_eq!(successor.all(), ["b", "c", "a"].map(host));
        // The files of the servers were changed, without a reconfiguration.
        successor.lock().update(Some(5), addresses(["c", "d"]));
        assert_eq!(successor.all(), ["c", "d", "a"].map(host));
    }
}
