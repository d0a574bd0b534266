//! Hosts from the SRV records of a name.

use std::net::SocketAddr;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;

use super::{HostProvider, HostsError, HostsFuture};
use crate::session::Host;

/// The targets of the SRV records of a name, for example `_zookeeper._tcp.example.org`.
///
/// Each record is a host. Priorities and weights (RFC 2782) make no difference: the hosts of any provider are dialled in a
/// random order, so that the clients of an ensemble spread over all its servers, and any order of the records would hold
/// for the first dial only, because a session moves on to the next host after each loss. Leave out the records of servers
/// that these clients are not to use.
///
/// The records are looked up anew each time, without a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SrvHosts {
    name: String,
    name_servers: Vec<SocketAddr>,
    refresh: Option<Duration>,
}

impl SrvHosts {
    /// The targets of the SRV records of `name`, as the system's name servers know them.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            name_servers: Vec::new(),
            refresh: None,
        }
    }

    /// Asks these name servers over UDP instead of the system's.
    #[must_use]
    pub fn with_name_servers(mut self, servers: Vec<SocketAddr>) -> Self {
        self.name_servers = servers;
        self
    }

    /// Looks the records up again at this interval; by default only when no host can be reached.
    #[must_use]
    pub const fn with_refresh_interval(mut self, interval: Duration) -> Self {
        self.refresh = Some(interval);
        self
    }

    fn resolver(&self) -> Result<TokioResolver, HostsError> {
        if self.name_servers.is_empty() {
            return Ok(TokioResolver::builder_tokio()?.build()?);
        }
        let servers = self.name_servers.iter().map(|address| {
            let mut connection = ConnectionConfig::udp();
            connection.port = address.port();
            NameServerConfig::new(address.ip(), true, vec![connection])
        });
        let config = ResolverConfig::from_name_servers(servers.collect());
        let runtime = TokioRuntimeProvider::default();
        Ok(TokioResolver::builder_with_config(config, runtime).build()?)
    }
}

impl HostProvider for SrvHosts {
    fn hosts(&self) -> HostsFuture<'_> {
        Box::pin(async {
            let found = self.resolver()?.srv_lookup(self.name.as_str()).await?;
            let host = |record: &RData| match record {
                // A lone dot for a target means that there is no such service.
                RData::SRV(record) if !record.target.is_root() => Some(Host {
                    name: record.target.to_ascii().trim_end_matches('.').to_owned(),
                    port: record.port,
                }),
                _ => None,
            };
            let answers = found.answers().iter();
            Ok(answers.filter_map(|answer| host(&answer.data)).collect())
        })
    }

    fn refresh_interval(&self) -> Option<Duration> {
        self.refresh
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UdpSocket;

    use super::*;

    /// Appends a name in the encoding of DNS.
    fn put_name(to: &mut Vec<u8>, name: &str) {
        for label in name.split('.').filter(|label| !label.is_empty()) {
            to.push(u8::try_from(label.len()).unwrap());
            to.extend(label.as_bytes());
        }
        to.push(0);
    }

    /// Answers one question with these records, priority 0 and weight 0; with "no such name" if there are none.
    async fn answer(socket: &UdpSocket, records: &[(&str, u16)]) {
        let mut query = [0; 512];
        let (len, client) = socket.recv_from(&mut query).await.unwrap();
        // The question ends with the type and the class, behind the empty label.
        let name_len = query[12..len].iter().position(|byte| *byte == 0).unwrap() + 1;
        let question = &query[12..12 + name_len + 4];
        assert_eq!(
            question[name_len..],
            [0, 33, 0, 1],
            "a question for SRV records"
        );
        let mut reply = query[..2].to_vec();
        let code = if records.is_empty() { 3 } else { 0 };
        reply.extend([0x85, 0x80 | code, 0, 1]);
        reply.extend(u16::try_from(records.len()).unwrap().to_be_bytes());
        reply.extend([0; 4]);
        reply.extend(question);
        for (target, port) in records {
            // The name of the question, SRV, IN, a minute to live.
            reply.extend([0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 60]);
            let mut data = vec![0; 4];
            data.extend(port.to_be_bytes());
            put_name(&mut data, target);
            reply.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
            reply.extend(data);
        }
        socket.send_to(&reply, client).await.unwrap();
    }

    async fn looked_up(records: &[(&str, u16)]) -> Result<Vec<Host>, HostsError> {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).await.unwrap();
        let servers = vec![socket.local_addr().unwrap()];
        let provider = SrvHosts::new("_zookeeper._tcp.example.org.").with_name_servers(servers);
        let server = async {
            loop {
                answer(&socket, records).await;
            }
        };
        tokio::select! {
            hosts = provider.hosts() => hosts,
            () = server => unreachable!("the server does not end"),
            () = deadline() => panic!("no answer within {DEADLINE:?}"),
        }
    }

    async fn deadline() {
        let never = std::future::pending::<()>();
        drop(tokio::time::timeout(DEADLINE, never).await);
    }

    const DEADLINE: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn each_record_is_a_host() {
        let mut hosts = looked_up(&[("zk1.example.org", 2181), ("zk2.example.org", 2182)])
            .await
            .unwrap();
        hosts.sort();
        let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["zk1.example.org:2181", "zk2.example.org:2182"]);
        let none = looked_up(&[("", 0)]).await.unwrap();
        assert_eq!(none, [], "a lone dot means that there is no service");
    }

    #[tokio::test]
    async fn a_name_without_records_is_an_error() {
        let error = looked_up(&[]).await.unwrap_err();
        assert!(
            error.to_string().contains("_zookeeper._tcp.example.org"),
            "{error}"
        );
    }
}
