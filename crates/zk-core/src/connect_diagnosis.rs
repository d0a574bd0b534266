//! Finds out why no server granted a session.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zk_wire::Host;

use crate::deadline::Deadline;
use crate::join_all::join_all;

/// No server granted a session in time. Lists every server that was tried, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectDiagnosis {
    waited: Duration,
    servers: Vec<Tried>,
}

/// A server that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tried {
    server: Host,
    /// The address, if the server was named otherwise.
    address: Option<SocketAddr>,
    finding: Finding,
}

impl ConnectDiagnosis {
    /// Returns every server that was tried, with a description of the reason. A name with several addresses is there once
    /// for each, and the description begins with the address.
    pub fn servers(&self) -> impl Iterator<Item = (&Host, String)> {
        let described = |tried: &Tried| match tried.address {
            Some(address) => format!("({address}) {}", tried.finding),
            None => tried.finding.to_string(),
        };
        let servers = self.servers.iter();
        servers.map(move |tried| (&tried.server, described(tried)))
    }
}

impl fmt::Display for ConnectDiagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no server granted a session within {:?}: ", self.waited)?;
        for (at, (server, finding)) in self.servers().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{server} {finding}")?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Finding {
    NotResolved(String),
    Refused,
    TimedOut,
    Io(String),
    Silent,
    NotServing,
    /// It closed the connection without a reply.
    Closed,
    Foreign,
    Serving,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotResolved(why) => write!(f, "is not a known host ({why})"),
            Self::Refused => f.write_str("refused the connection (nothing listens there)"),
            Self::TimedOut => f.write_str("did not take the connection in time"),
            Self::Io(why) => write!(f, "failed ({why})"),
            Self::Silent => {
                f.write_str("accepted the connection but does not reply (hung or paused?)")
            }
            Self::NotServing => f.write_str("runs but does not serve (no quorum?)"),
            Self::Closed => f.write_str(
                "closed the connection at once (more connections from this address than its maxClientCnxns, by default \
                 60? no quorum?)",
            ),
            Self::Foreign => f.write_str("does not reply as ZooKeeper does (another service?)"),
            Self::Serving => f.write_str("serves, but granted no session in time"),
        }
    }
}

/// Checks all servers concurrently, for at most `allowed`.
pub(crate) async fn diagnose(
    servers: &[Host],
    waited: Duration,
    allowed: Duration,
) -> ConnectDiagnosis {
    let deadline = Deadline::after(allowed);
    let tried = join_all(servers.iter().map(|server| check_all(server, deadline))).await;
    ConnectDiagnosis {
        waited,
        servers: tried.into_iter().flatten().collect(),
    }
}

/// Checks each address of a server, all at once.
async fn check_all(server: &Host, deadline: Deadline) -> Vec<Tried> {
    let tried = |address, finding| Tried {
        server: server.clone(),
        address,
        finding,
    };
    let found = tokio::net::lookup_host((server.name.as_str(), server.port));
    let addresses = match deadline.bound(found).await {
        Some(Ok(addresses)) => addresses.collect::<Vec<_>>(),
        Some(Err(error)) => return vec![tried(None, Finding::NotResolved(error.to_string()))],
        None => {
            let why = "no reply from the name service".to_owned();
            return vec![tried(None, Finding::NotResolved(why))];
        }
    };
    let findings = addresses.iter().map(|address| check(*address, deadline));
    let findings = join_all(findings).await;
    let is_name = server.name.parse::<IpAddr>().is_err();
    let found = addresses.into_iter().zip(findings);
    let found = found.map(|(address, finding)| tried(is_name.then_some(address), finding));
    found.collect()
}

async fn check(address: SocketAddr, deadline: Deadline) -> Finding {
    match deadline.bound(TcpStream::connect(address)).await {
        None => Finding::TimedOut,
        Some(Err(error)) => match error.kind() {
            io::ErrorKind::ConnectionRefused => Finding::Refused,
            io::ErrorKind::TimedOut => Finding::TimedOut,
            // It was accepted, and closed before this was noticed.
            io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted => Finding::Closed,
            _ => Finding::Io(error.to_string()),
        },
        Some(Ok(stream)) => match deadline.bound(ask(stream)).await {
            None => Finding::Silent,
            Some(Err(_)) => Finding::Closed,
            Some(Ok(reply)) => judge(&reply),
        },
    }
}

/// Sends `srvr`, the only four-letter word that servers answer by default.
async fn ask(mut stream: TcpStream) -> io::Result<Vec<u8>> {
    stream.write_all(b"srvr").await?;
    let mut reply = Vec::new();
    stream.take(MOST_REPLY).read_to_end(&mut reply).await?;
    Ok(reply)
}

fn judge(reply: &[u8]) -> Finding {
    let reply = String::from_utf8_lossy(reply);
    if reply.contains("not currently serving requests") {
        Finding::NotServing
    } else if reply.contains("Zookeeper version:") || reply.contains("not in the whitelist") {
        Finding::Serving
    } else if reply.is_empty() {
        Finding::Closed
    } else {
        Finding::Foreign
    }
}

const MOST_REPLY: u64 = 4096;

#[cfg(test)]
mod tests;
