//! Connect strings: a list of servers and an optional chroot.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::str::FromStr;

use crate::path::NodePath;
use crate::path::ParsePathError;

/// The servers of an ensemble and an optional chroot, as in `host1:2181,host2,[::1]:2182/app`.
///
/// The default port is 2181.
/// Spaces around a server are ignored.
///
/// ```
/// use zk_core::ConnectString;
///
/// let connect: ConnectString = "zk1, zk2:2182,[::1]/app".parse()?;
/// assert_eq!(connect.to_string(), "zk1:2181,zk2:2182,[::1]:2181/app");
/// assert_eq!(connect.chroot().as_str(), "/app");
/// # Ok::<(), zk_core::ParseConnectStringError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectString {
    servers: Vec<ServerAddress>,
    chroot: NodePath,
}

impl ConnectString {
    /// Returns the servers in the given order. There is at least one.
    pub fn servers(&self) -> &[ServerAddress] {
        &self.servers
    }

    /// Returns the chroot, to which all paths are relative. The default is the root.
    pub fn chroot(&self) -> &NodePath {
        &self.chroot
    }
}

impl fmt::Display for ConnectString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, server) in self.servers.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            write!(f, "{server}")?;
        }
        if self.chroot.is_root() {
            Ok(())
        } else {
            write!(f, "{}", self.chroot)
        }
    }
}

impl FromStr for ConnectString {
    type Err = ParseConnectStringError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let trimmed = text.trim();
        let refuse = |problem| {
            Err(ParseConnectStringError {
                text: text.to_owned(),
                problem,
            })
        };
        if trimmed.is_empty() {
            return refuse(Problem::Empty);
        }
        if has_credentials(trimmed) {
            // The string may contain a password, so the error must not contain the string.
            return Err(ParseConnectStringError {
                text: String::new(),
                problem: Problem::Credentials,
            });
        }
        if let Some(scheme) = ["tcp://", "tcp+tls://", "zk://", "http://", "https://"]
            .into_iter()
            .find(|scheme| {
                trimmed
                    .split(',')
                    .any(|part| part.trim().starts_with(scheme))
            })
        {
            return refuse(Problem::Scheme(scheme));
        }
        let (hosts, chroot) = match trimmed.find('/') {
            None => (trimmed, NodePath::root()),
            Some(at) => match NodePath::parse(&trimmed[at..]) {
                Ok(chroot) if chroot.as_str().contains(',') => {
                    return refuse(Problem::ServerAfterChroot);
                }
                Ok(chroot) => (&trimmed[..at], chroot),
                Err(source) => return refuse(Problem::Chroot(source)),
            },
        };
        let mut servers = Vec::new();
        for (at, part) in hosts.split(',').enumerate() {
            match parse_server(part.trim()) {
                Ok(server) => servers.push(server),
                Err(rule) => {
                    return refuse(Problem::Server {
                        number: at + 1,
                        part: part.trim().to_owned(),
                        rule,
                    });
                }
            }
        }
        Ok(Self { servers, chroot })
    }
}

/// One server's host and client port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerAddress {
    host: String,
    port: u16,
}

impl ServerAddress {
    /// Returns the host name or address; an IPv6 address is without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port for clients.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

/// A text is not a connect string.
///
/// The message quotes the part that is wrong and says what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseConnectStringError {
    text: String,
    problem: Problem,
}

impl fmt::Display for ParseConnectStringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        match &self.problem {
            Problem::Empty => {
                f.write_str("connect string is empty; write host:port,host:port/chroot")
            }
            Problem::Credentials => f.write_str(
                "connect string has a '@' in it; write host:port alone and give the credentials to the session",
            ),
            Problem::Scheme(scheme) => {
                write!(
                    f,
                    "connect string {text:?} has {scheme:?} in it; write host:port alone"
                )
            }
            Problem::ServerAfterChroot => {
                write!(
                    f,
                    "connect string {text:?} has a ',' after its chroot; write the chroot once, at the end"
                )
            }
            Problem::Chroot(source) => {
                write!(f, "connect string {text:?} has a bad chroot: {source}")
            }
            Problem::Server { number, part, rule } => {
                write!(
                    f,
                    "connect string {text:?}, server {number} ({part:?}): {rule}"
                )
            }
        }
    }
}

impl std::error::Error for ParseConnectStringError {}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    Empty,
    Credentials,
    Scheme(&'static str),
    ServerAfterChroot,
    Chroot(ParsePathError),
    Server {
        number: usize,
        part: String,
        rule: &'static str,
    },
}

/// Returns whether the part before the chroot contains a `@`.
///
/// The chroot begins at the first `/` that is not part of a scheme.
fn has_credentials(text: &str) -> bool {
    let text = text.replace("://", " ");
    let hosts = text
        .split_once('/')
        .map_or(text.as_str(), |(hosts, _)| hosts);
    hosts.contains('@')
}

fn parse_server(part: &str) -> Result<ServerAddress, &'static str> {
    if part.is_empty() {
        return Err("a server is missing; write host or host:port between the commas");
    }
    let (host, port) = if let Some(rest) = part.strip_prefix('[') {
        let (host, rest) = rest
            .split_once(']')
            .ok_or("the '[' is not closed; write [address]:port")?;
        if host.parse::<std::net::Ipv6Addr>().is_err() {
            return Err("not an IPv6 address between the brackets");
        }
        match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if rest.is_empty() => (host, None),
            None => return Err("after ']' comes ':' and the port, or nothing"),
        }
    } else {
        match part.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err("an IPv6 address must be in brackets; write [address]:port");
            }
            Some((host, port)) => (host, Some(port)),
            None => (part, None),
        }
    };
    if host.is_empty() {
        return Err("the host is missing before the ':'");
    }
    if !host
        .chars()
        .all(|character| character.is_alphanumeric() || "-._:".contains(character))
    {
        return Err("not a host name; letters, digits, '-', '_' and '.' are");
    }
    let port = port.map_or(Ok(DEFAULT_PORT), parse_port)?;
    Ok(ServerAddress {
        host: host.to_owned(),
        port,
    })
}

fn parse_port(port: &str) -> Result<u16, &'static str> {
    const RULE: &str = "a port is a number from 1 to 65535";
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(RULE);
    }
    port.parse().ok().filter(|&port| port != 0).ok_or(RULE)
}

const DEFAULT_PORT: u16 = 2181;

#[cfg(test)]
mod tests;
