//! Connect strings: a list of servers and an optional chroot.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::str::FromStr;

use crate::path::{NodePath, ParsePathError};

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
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{server}")?;
        }
        if self.chroot.is_root() {
            return Ok(());
        }
        write!(f, "{}", self.chroot)
    }
}

impl FromStr for ConnectString {
    type Err = ParseConnectStringError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed: zk_wire::ConnectString = text.parse().map_err(Problem::Syntax)?;
        let chroot = parsed.chroot.to_string();
        Ok(Self {
            servers: parsed.hosts.into_iter().map(ServerAddress).collect(),
            chroot: NodePath::parse(&chroot).map_err(Problem::Chroot)?,
        })
    }
}

/// One server's host and client port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerAddress(pub(crate) zk_wire::Host);

impl ServerAddress {
    /// Returns the host name or address; an IPv6 address is without brackets.
    pub fn host(&self) -> &str {
        &self.0.name
    }

    /// Returns the port for clients.
    pub fn port(&self) -> u16 {
        self.0.port
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text is not a connect string.
///
/// The message quotes the part that is wrong and says what would be right. It never contains a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseConnectStringError(#[from] Problem);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("{0}")]
    Syntax(zk_wire::ParseConnectStringError),
    #[error("the connect string has a chroot that is no path: {0}")]
    Chroot(ParsePathError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_ports_and_chroot_are_read() {
        for (text, canonical) in [
            ("h", "h:2181"),
            ("h:65535/", "h:65535"),
            (" h1:2181 , h2/app ", "h1:2181,h2:2181/app"),
            ("[fe80::1]:2182/a/b", "[fe80::1]:2182/a/b"),
        ] {
            let parsed: ConnectString = text.parse().unwrap();
            assert_eq!(parsed.to_string(), canonical);
            assert_eq!(canonical.parse(), Ok(parsed));
        }
    }

    #[test]
    fn refusals_name_the_part_and_the_rule() {
        for (text, message) in [
            (
                "a:1,,b",
                "host 2 of the connect string, \"\": a host is missing; write host or host:port between the commas",
            ),
            ("a/x/", "the chroot \"/x/\" ends in a '/'; leave that out"),
            (
                "a/\u{fff1}",
                "the connect string has a chroot that is no path: path \"/\\u{fff1}\" has the character U+FFF1 at byte 1, which ZooKeeper does not allow in names; leave out control, private-use and supplementary characters",
            ),
        ] {
            let error = text.parse::<ConnectString>().expect_err("must be refused");
            assert_eq!(error.to_string(), message);
        }
    }
}
