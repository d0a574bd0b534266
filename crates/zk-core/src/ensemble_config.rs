//! The dynamic configuration of an ensemble.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use zk_wire::{ConnectString, Host};

/// The newest configuration that an application's sessions have seen, and which of its servers are used.
#[derive(Debug, Clone)]
pub(crate) struct TrackedServers {
    pub(crate) newest: Arc<Mutex<NewestServers>>,
    pub(crate) filter: ServerFilter,
}

/// Which servers of a configuration are used: the server that sends one chooses them, and they are sent the credentials.
#[derive(Clone)]
pub(crate) enum ServerFilter {
    /// Those whose names are in the domain of a name of the connect string, and those of the connect string itself.
    SameDomain,
    /// Those that the application names.
    Application(Arc<dyn Fn(&Host) -> bool + Send + Sync>),
}

impl ServerFilter {
    /// Returns whether a server is used beside those of the connect string.
    pub(crate) fn accepts(&self, server: &Host, connect_string: &[Host]) -> bool {
        match self {
            Self::SameDomain => connect_string
                .iter()
                .any(|known| known == server || is_same_domain(&known.name, &server.name)),
            Self::Application(accepts) => accepts(server),
        }
    }
}

impl fmt::Debug for ServerFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SameDomain => "SameDomain",
            Self::Application(_) => "Application",
        })
    }
}

/// Returns whether two names of hosts differ in their first part only. Addresses, and names without a domain, have none.
fn is_same_domain(one: &str, other: &str) -> bool {
    let domain = |name: &str| -> Option<String> {
        let name = name.trim_end_matches('.');
        let is_address = name.contains(':') || name.parse::<IpAddr>().is_ok();
        let (_, domain) = name.split_once('.').filter(|_| !is_address)?;
        // `zk1.com` and `evil.com` have no domain in common that somebody owns.
        domain.contains('.').then(|| domain.to_ascii_lowercase())
    };
    domain(one).is_some_and(|one| Some(one) == domain(other))
}

/// The servers of a configuration, with its version; empty without one.
#[derive(Debug, Default)]
pub(crate) struct NewestServers {
    version: Option<i64>,
    addresses: Vec<Host>,
}

impl NewestServers {
    /// Replaces the servers unless they are of an older version: a server lags.
    ///
    /// Those of the same version may differ: until the first reconfiguration it is 0, whatever the servers' files say.
    pub(crate) fn update(&mut self, version: Option<i64>, addresses: Vec<Host>) {
        if version >= self.version {
            *self = Self { version, addresses };
        }
    }

    pub(crate) fn addresses(&self) -> &[Host] {
        &self.addresses
    }
}

/// The dynamic configuration of an ensemble; returned by [`Session::config`](crate::Session::config).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnsembleConfig {
    text: String,
}

impl EnsembleConfig {
    pub(crate) fn new(data: &[u8]) -> Self {
        Self {
            text: String::from_utf8_lossy(data).into_owned(),
        }
    }

    /// Returns the configuration as servers write it: a line `server.<id>=<addresses>` for each server, and
    /// `version=<version>`. A single server without a quorum configuration has none, and the text is empty.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the zxid of the transaction that made this configuration; 0 if it is still that of the servers' files,
    /// `None` if the text contains no version.
    pub fn version(&self) -> Option<i64> {
        let mut lines = self.text.lines();
        let version = lines.find_map(|line| line.strip_prefix("version="))?;
        i64::from_str_radix(version.trim(), 16).ok()
    }

    /// Returns where clients connect to the servers, participants and observers, in the order of the text.
    ///
    /// Empty unless the text has the client address of every server. Servers whose client port is in `zoo.cfg` alone
    /// leave it out, and each of them adds its own: such a text would seem to be an ensemble of one server.
    /// A server that listens on all its addresses is reached at the one that the other servers use.
    /// These are the ports without encryption.
    ///
    /// The format is that of [`zookeeperReconfig`](https://zookeeper.apache.org/doc/r3.9.3/zookeeperReconfig.html).
    pub fn client_addresses(&self) -> Vec<Host> {
        let lines = self.text.lines().filter(|line| line.starts_with("server."));
        let addresses = lines.map(|line| client_address(line.trim()));
        addresses.collect::<Option<_>>().unwrap_or_default()
    }
}

/// Parses `server.<id>=<host>:<port>:<port>[|…][:<role>];[<client host>:]<client port>`.
fn client_address(line: &str) -> Option<Host> {
    let (peers, clients) = line.split_once('=')?.1.split_once(';')?;
    // Newer servers may append the address of their encrypted port.
    let client = clients.split([';', '|']).next()?.trim();
    let (host, port) = client.rsplit_once(':').unwrap_or((PEERS_HOST, client));
    port.parse::<u16>().ok().filter(|port| *port != 0)?;
    let address = if LISTENS_EVERYWHERE.contains(&host) {
        format!("{}:{port}", peer_host(peers.trim())?)
    } else {
        client.to_owned()
    };
    let parsed: ConnectString = address.parse().ok()?;
    match &parsed.hosts[..] {
        [address] if parsed.chroot.is_root() => Some(address.clone()),
        _ => None,
    }
}

/// Returns the host, an IPv6 address with its brackets, of `<host>:<port>:<port>…`.
fn peer_host(peers: &str) -> Option<&str> {
    let end = match peers.strip_prefix('[') {
        Some(_) => peers.find(']')? + 1,
        None => peers.find(':')?,
    };
    peers.get(..end).filter(|host| !host.is_empty())
}

/// Instead of a host: the one that the other servers use.
const PEERS_HOST: &str = "";
const LISTENS_EVERYWHERE: [&str; 4] = [PEERS_HOST, "0.0.0.0", "[::]", "[0:0:0:0:0:0:0:0]"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_hexadecimal_number_in_its_line() {
        let two =
            "server.1=h:1:2:participant;0.0.0.0:3\nserver.2=h:4:5:observer;6\nversion=1a0000000f";
        for (text, version) in [
            (two, Some(0x1a_0000_000f)),
            ("server.1=h\nversion=0\n", Some(0)),
            ("version=10\r\n", Some(16)),
            ("", None),
            ("server.1=h", None),
            ("server.1=version=7", None),
            ("version=", None),
            ("version=xyz", None),
        ] {
            let config = EnsembleConfig::new(text.as_bytes());
            assert_eq!(config.version(), version, "{text}");
            assert_eq!(config.text(), text);
        }
        assert_eq!(EnsembleConfig::new(b"\xff\nversion=2").version(), Some(2));
    }

    #[test]
    fn hosts_of_another_domain_are_not_used() {
        let filter = ServerFilter::SameDomain;
        let accepts = |known: &str, server: &str| {
            let host = |name: &str| Host {
                name: name.to_owned(),
                port: 2181,
            };
            filter.accepts(&host(server), &[host(known)])
        };
        for (known, server) in [
            ("zk1.prod.example.org", "zk4.prod.example.org"),
            ("zk1.prod.example.org", "ZK4.Prod.Example.Org."),
            ("10.0.0.1", "10.0.0.1"),
            ("zk1", "zk1"),
            ("fe80::1", "fe80::1"),
        ] {
            assert!(accepts(known, server), "{known} {server}");
        }
        for (known, server) in [
            ("zk1.prod.example.org", "zk4.test.example.org"),
            ("zk1.prod.example.org", "prod.example.org"),
            ("zk1.prod.example.org", "zk1.prod.example.org.evil.org"),
            ("zk1.prod.example.org", "127.0.0.1"),
            ("zk1.com", "evil.com"),
            ("10.0.0.1", "10.0.0.2"),
            ("fe80::1.2.3.4", "fe81::1.2.3.4"),
            ("zk1", "zk2"),
            ("localhost", "evil"),
        ] {
            assert!(!accepts(known, server), "{known} {server}");
        }
        let other_port = Host {
            name: "127.0.0.1".to_owned(),
            port: 24200,
        };
        let known = Host {
            name: "127.0.0.1".to_owned(),
            port: 2181,
        };
        assert!(!filter.accepts(&other_port, &[known]));
        let chosen = ServerFilter::Application(Arc::new(|server: &Host| server.port == 2181));
        let any = Host {
            name: "evil".to_owned(),
            port: 2181,
        };
        assert!(chosen.accepts(&any, &[]));
    }

    fn addresses(text: &str) -> Vec<String> {
        let addresses = EnsembleConfig::new(text.as_bytes()).client_addresses();
        addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn clients_reach_a_server_where_it_listens_for_them() {
        for (line, address) in [
            ("server.1=h:2888:3888:participant;c:2181", "c:2181"),
            ("server.1=h:2888:3888:observer;2181", "h:2181"),
            ("server.1=h:2888:3888;0.0.0.0:2182", "h:2182"),
            ("server.1=h:1:2|g:1:2:participant;0.0.0.0:3", "h:3"),
            ("server.1=h:1:2:participant;c:3;c:4", "c:3"),
            ("server.1=[fe80::1]:1:2:participant;[::]:3", "[fe80::1]:3"),
            (
                "server.1=[fe80::1]:1:2:participant;[0:0:0:0:0:0:0:0]:3",
                "[fe80::1]:3",
            ),
            (
                "server.1=10.0.0.1:1:2:participant;[fe80::2]:3",
                "[fe80::2]:3",
            ),
            ("server.1=h:1:2:participant;c:3\r", "c:3"),
        ] {
            assert_eq!(addresses(line), [address], "{line}");
        }
        let two = "server.1=a:1:2;3\ngroup.1=1:2\nserver.2=b:1:2;3\nweight.1=1\nversion=1";
        assert_eq!(addresses(two), ["a:3", "b:3"]);
    }

    #[test]
    fn a_server_without_a_usable_client_port_leaves_none() {
        for line in [
            "server.2=b:1:2",
            "server.2=b:1:2:participant",
            "server.2=b:1:2;",
            "server.2=b:1:2;0",
            "server.2=b:1:2;c:0",
            "server.2=b:1:2;65536",
            "server.2=b:1:2;c:x",
            "server.2=:1:2;3",
            "server.2=[b:1:2;3",
            "server.2=;3",
            "server.2",
            "server.2=b:1:2;c,d:3",
            "server.2=b:1:2;c/d:3",
        ] {
            let text = format!("server.1=a:1:2;3\n{line}\nversion=1");
            assert!(addresses(&text).is_empty(), "{text}");
        }
        assert!(addresses("").is_empty());
    }
}
