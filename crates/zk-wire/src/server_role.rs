//! Finds out whether the server of a connection leads its ensemble.
//!
//! The protocol does not say it, but `srvr` does, which goes to an address and not over the connection. Behind a load
//! balancer another server may reply. So the address must be one that the configuration of the ensemble names.

use std::net::{IpAddr, SocketAddr};

use crate::client::Client;
use crate::driver::ask_server;
use crate::proto::{Reply, Request};

/// What a server does in its ensemble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "ensembles have no other servers")]
pub enum ServerRole {
    /// It leads.
    Leader,
    /// It follows the leader and votes.
    Follower,
    /// It follows the leader and does not vote.
    Observer,
}

impl ServerRole {
    fn from_srvr(reply: &str) -> Option<Self> {
        let mode = reply.lines().find_map(|line| line.strip_prefix("Mode: "))?;
        Some(match mode.trim() {
            "leader" => Self::Leader,
            "follower" => Self::Follower,
            "observer" => Self::Observer,
            _ => return None,
        })
    }
}

impl Client {
    /// Finds out the role of the server that the session is connected to, and returns it with the number of the
    /// connection. A server closes its connections before it takes another role (`QuorumPeer.run` shuts down the server
    /// of the old one), so the result holds as long as this connection.
    ///
    /// Returns `None` if the role is unknown: there is no connection, or another one by now; no ensemble, or one before
    /// 3.5; the server does not reply to `srvr` in time; or the address of the connection may be that of a load
    /// balancer. It is a server's own if the configuration of the ensemble names it: with the port for clients (as
    /// dynamic configurations do) or, unless it is a loopback address, without any.
    ///
    /// # Cost
    ///
    /// A request, and a connection to the same address. Names in the configuration are resolved.
    pub async fn server_role(&self) -> Option<(ServerRole, u64)> {
        let (server, epoch) = self.server()?;
        let reply = ask_server(self.connector(), &server).await?;
        let role = ServerRole::from_srvr(&reply)?;
        // The reply to this comes over the connection: the server had not closed it when it replied to `srvr`.
        let config = self.request(&Request::GetConfig { watch: false }).await;
        let config = config.ok().filter(|answer| answer.epoch == epoch)?;
        let Reply::Data { data, .. } = config.reply else {
            return None;
        };
        let is_own = names(&String::from_utf8_lossy(data.as_slice()), server.address).await;
        is_own.then_some((role, epoch))
    }
}

/// Returns whether a configuration names an address as that of a server.
async fn names(config: &str, address: SocketAddr) -> bool {
    for named in config.lines().flat_map(addresses) {
        if named.port.is_some_and(|port| port != address.port())
            || (named.port.is_none() && address.ip().is_loopback())
        {
            continue;
        }
        let found = match named.host.parse::<IpAddr>() {
            Ok(ip) => ip == address.ip(),
            Err(_) => tokio::net::lookup_host((named.host, 0))
                .await
                .is_ok_and(|mut found| found.any(|found| found.ip() == address.ip())),
        };
        if found {
            return true;
        }
    }
    false
}

/// An address of a server in a configuration.
#[derive(Debug, PartialEq, Eq)]
struct NamedAddress<'a> {
    host: &'a str,
    /// The port for clients, if the configuration names it.
    port: Option<u16>,
}

/// Returns the addresses in a line `server.<id>=<host>:<port>:<port>|...:<role>;<host>:<port>`. Those before the
/// semicolon are for other servers, the one behind it is for clients and may lack the host.
fn addresses(line: &str) -> Vec<NamedAddress<'_>> {
    let Some((key, value)) = line.split_once('=') else {
        return Vec::new();
    };
    if !key.starts_with("server.") {
        return Vec::new();
    }
    let (servers, clients) = match value.trim().split_once(';') {
        Some((servers, clients)) => (servers, Some(clients)),
        None => (value.trim(), None),
    };
    let port = |text: &str| text.rsplit(':').next()?.parse().ok();
    let client_port = clients.and_then(port);
    if clients.is_some() && client_port.is_none() {
        return Vec::new();
    }
    let client_host = clients
        .and_then(host)
        .filter(|host| !host.parse().is_ok_and(|ip: IpAddr| ip.is_unspecified()));
    let hosts = match client_host {
        Some(host) => vec![host],
        None => servers.split('|').filter_map(host).collect(),
    };
    let of = |host| NamedAddress {
        host,
        port: client_port,
    };
    hosts.into_iter().map(of).collect()
}

/// Returns the host before the first port; `None` if there is only a port.
fn host(address: &str) -> Option<&str> {
    if let Some(bracketed) = address.strip_prefix('[') {
        return Some(bracketed.split_once(']')?.0);
    }
    Some(address.split_once(':')?.0).filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(host: &str, port: Option<u16>) -> NamedAddress<'_> {
        NamedAddress { host, port }
    }

    #[test]
    fn the_addresses_of_servers_are_read_from_a_configuration() {
        for (line, expected) in [
            (
                "server.1=zk1:2888:3888:participant",
                vec![named("zk1", None)],
            ),
            ("server.1=zk1:2888:3888", vec![named("zk1", None)]),
            (
                "server.2=10.0.0.2:2888:3888:observer;0.0.0.0:2181",
                vec![named("10.0.0.2", Some(2181))],
            ),
            (
                "server.2=zk2:1:2:participant;2181",
                vec![named("zk2", Some(2181))],
            ),
            (
                "server.3=in:1:2:participant;out:2182",
                vec![named("out", Some(2182))],
            ),
            (
                "server.4=a:1:2|b:1:2:participant;2181",
                vec![named("a", Some(2181)), named("b", Some(2181))],
            ),
            (
                "server.5=[::1]:1:2:participant;[fd00::5]:2181",
                vec![named("fd00::5", Some(2181))],
            ),
            (
                "server.5=[fd00::5]:1:2:participant;[::]:2181",
                vec![named("fd00::5", Some(2181))],
            ),
            ("server.6=zk6:1:2:participant;what", vec![]),
            ("version=100000000", vec![]),
            ("group.1=zk1:2888:3888", vec![]),
            ("server.1=", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(addresses(line), expected, "{line}");
        }
    }

    #[tokio::test]
    async fn an_address_that_may_be_a_load_balancers_is_no_servers() {
        let static_config = "server.1=10.0.0.1:2888:3888:participant\nversion=0";
        let loopback = "server.1=127.0.0.1:1:2:participant\nversion=0";
        let dynamic = "server.1=10.0.0.1:1:2:participant;2181\nserver.2=localhost:1:2:participant;127.0.0.1:2182";
        for (config, address, expected) in [
            (static_config, "10.0.0.1:2181", true),
            (static_config, "10.0.0.1:9999", true),
            (static_config, "10.0.0.2:2181", false),
            (loopback, "127.0.0.1:2181", false),
            (dynamic, "10.0.0.1:2181", true),
            (dynamic, "10.0.0.1:2182", false),
            (dynamic, "127.0.0.1:2182", true),
            (dynamic, "127.0.0.1:2181", false),
            ("", "10.0.0.1:2181", false),
        ] {
            let found = names(config, address.parse().unwrap()).await;
            assert_eq!(found, expected, "{config}, {address}");
        }
    }

    #[test]
    fn the_role_is_the_mode_in_the_reply() {
        let reply =
            |mode| format!("Zookeeper version: 3.9.6\nZxid: 0x1\nMode: {mode}\nNode count: 5\n");
        for (mode, role) in [
            ("leader", Some(ServerRole::Leader)),
            ("follower", Some(ServerRole::Follower)),
            ("observer", Some(ServerRole::Observer)),
            ("standalone", None),
            ("read-only", None),
        ] {
            assert_eq!(ServerRole::from_srvr(&reply(mode)), role, "{mode}");
        }
        let starting = "This ZooKeeper instance is not currently serving requests";
        assert_eq!(ServerRole::from_srvr(starting), None);
        assert_eq!(ServerRole::from_srvr("srvr is not in the whitelist"), None);
    }
}
