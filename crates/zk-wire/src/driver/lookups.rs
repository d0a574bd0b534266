//! Background work for the session: looks up servers, and asks them four-letter words.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::{Connector, Resolver, probe};
use crate::host_provider::HostProvider;
use crate::session::{Host, Probe, Server};
use crate::shared::{Inner, Shared};

/// What the session wants to know now.
pub(super) struct Wanted {
    probes: Vec<Probe>,
    /// The number of the question, and whose addresses are looked up.
    servers: Option<(u64, HostSource)>,
}

/// Where the hosts come from whose addresses are looked up.
enum HostSource {
    Hosts(Vec<Host>),
    Provider(Arc<dyn HostProvider>),
}

impl Wanted {
    pub(super) fn by(inner: &mut Inner, now: Duration) -> Self {
        let question = inner.session.poll_lookup(now);
        Self {
            probes: std::iter::from_fn(|| inner.session.poll_probe()).collect(),
            servers: question.map(|question| {
                let source = match inner.replaced_hosts.take() {
                    Some(hosts) => HostSource::Hosts(hosts),
                    None => HostSource::Provider(Arc::clone(&inner.provider)),
                };
                (question, source)
            }),
        }
    }
}

/// The tasks that find it out. They end with the task that owns this.
pub(super) struct Lookups {
    tasks: JoinSet<()>,
    resolver: Resolver,
    connector: Connector,
}

impl Lookups {
    pub(super) fn new(resolver: Resolver, connector: Connector) -> Self {
        Self {
            tasks: JoinSet::new(),
            resolver,
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
        if let Some((question, source)) = wanted.servers {
            let report = ServersReport {
                shared: Arc::clone(shared),
                question,
                servers: Err("the lookup panicked".to_owned()),
            };
            self.tasks
                .spawn(report.look_up(source, self.resolver.clone()));
        }
    }
}

/// The servers that were looked up. The session hears of them when this is dropped, also if the provider panics.
struct ServersReport {
    shared: Arc<Shared>,
    question: u64,
    servers: Result<Vec<Server>, String>,
}

impl ServersReport {
    async fn look_up(mut self, source: HostSource, resolver: Resolver) {
        let hosts = match source {
            HostSource::Hosts(hosts) => Ok(hosts),
            HostSource::Provider(provider) => {
                let hosts = tokio::time::timeout(LONGEST_LOOKUP, provider.hosts()).await;
                match hosts {
                    Ok(hosts) => hosts.map_err(|error| error.to_string()),
                    Err(_) => Err(format!("the lookup took longer than {LONGEST_LOOKUP:?}")),
                }
            }
        };
        self.servers = match hosts {
            Ok(hosts) if hosts.is_empty() => Err("the list is empty".to_owned()),
            Ok(hosts) => resolver.servers(hosts).await,
            Err(why) => Err(why),
        };
    }
}

impl Drop for ServersReport {
    fn drop(&mut self) {
        let now = self.shared.now();
        let mut inner = self.shared.lock();
        let (session, question) = (&mut inner.session, self.question);
        match &mut self.servers {
            Ok(servers) => session.servers_found(question, std::mem::take(servers), now),
            Err(why) => session.servers_not_found(question, why, now),
        }
        drop(inner);
        self.shared.wake_driver.notify_one();
    }
}

const LONGEST_LOOKUP: Duration = Duration::from_secs(10);
