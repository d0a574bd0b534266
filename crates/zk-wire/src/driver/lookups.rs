//! Background work for the session: looks up hosts, and asks servers four-letter words.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::{Connector, probe};
use crate::host_provider::HostProvider;
use crate::session::{Host, Probe, Session};
use crate::shared::Shared;

/// What the session wants to know now.
pub(super) struct Wanted {
    probes: Vec<Probe>,
    hosts: bool,
}

impl Wanted {
    pub(super) fn by(session: &mut Session, now: Duration) -> Self {
        Self {
            probes: std::iter::from_fn(|| session.poll_probe()).collect(),
            hosts: session.poll_hosts(now),
        }
    }
}

/// The tasks that find it out. They end with the task that owns this.
pub(super) struct Lookups {
    tasks: JoinSet<()>,
    provider: Option<Arc<dyn HostProvider>>,
    connector: Connector,
}

impl Lookups {
    pub(super) fn new(provider: Option<Arc<dyn HostProvider>>, connector: Connector) -> Self {
        Self {
            tasks: JoinSet::new(),
            provider,
            connector,
        }
    }

    /// Starts to find out what the session wants to know. The session must not be locked: a runtime that ends drops the
    /// tasks at once, which report to it.
    pub(super) fn start(&mut self, shared: &Arc<Shared>, wanted: Wanted) {
        while self.tasks.try_join_next().is_some() {}
        for probe in wanted.probes {
            let (shared, connector) = (Arc::clone(shared), self.connector.clone());
            self.tasks.spawn(async move {
                let answer = probe::ask(&probe, &connector).await;
                let now = shared.now();
                shared.lock().session.probed(&probe, answer.as_deref(), now);
                shared.wake_driver.notify_one();
            });
        }
        if let Some(provider) = &self.provider
            && wanted.hosts
        {
            let provider = Arc::clone(provider);
            let report = HostsReport {
                shared: Arc::clone(shared),
                hosts: Err("the lookup panicked".to_owned()),
            };
            self.tasks.spawn(report.look_up(provider));
        }
    }
}

/// The hosts that were looked up. The session hears of them when this is dropped, also if the provider panics.
struct HostsReport {
    shared: Arc<Shared>,
    hosts: Result<Vec<Host>, String>,
}

impl HostsReport {
    async fn look_up(mut self, provider: Arc<dyn HostProvider>) {
        let hosts = tokio::time::timeout(LONGEST_LOOKUP, provider.hosts()).await;
        self.hosts = match hosts {
            Ok(hosts) => hosts.map_err(|error| error.to_string()),
            Err(_) => Err(format!("the lookup took longer than {LONGEST_LOOKUP:?}")),
        };
    }
}

impl Drop for HostsReport {
    fn drop(&mut self) {
        let now = self.shared.now();
        let mut inner = self.shared.lock();
        match &mut self.hosts {
            Ok(hosts) => inner.session.hosts_found(std::mem::take(hosts), now),
            Err(why) => inner.session.hosts_not_found(why, now),
        }
        drop(inner);
        self.shared.wake_driver.notify_one();
    }
}

const LONGEST_LOOKUP: Duration = Duration::from_secs(10);
