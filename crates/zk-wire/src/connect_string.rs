//! Connect strings: a list of hosts and an optional chroot.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::path::{NodePath, ParsePathError};
use crate::session::Host;

/// The hosts of an ensemble and an optional chroot, as in `zk1:2181,zk2,[::1]:2182/app`.
///
/// The default port is 2181. Spaces around a host are ignored. A link-local address has its zone behind a `%`, as in
/// `[fe80::1%eth0]:2181`.
///
/// ```
/// use zk_wire::ConnectString;
///
/// let servers: ConnectString = "zk1, zk2:2182,[::1]/app".parse()?;
/// assert_eq!(servers.to_string(), "zk1:2181,zk2:2182,[::1]:2181/app");
/// assert_eq!(servers.chroot.to_string(), "/app");
/// # Ok::<(), zk_wire::ParseConnectStringError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the format has these parts")]
pub struct ConnectString {
    /// The hosts in the given order, at least one. An IPv6 address is without its brackets.
    pub hosts: Vec<Host>,
    /// The node that all paths are relative to.
    pub chroot: NodePath,
}

/// A text is not a connect string. The message quotes the part that is wrong and says what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseConnectStringError {
    /// There is nothing in it.
    #[error("the connect string is empty; write host:port,host:port/chroot")]
    Empty,
    /// It has a `@` before the chroot. The message does not quote it, because it may contain a password.
    #[error(
        "the connect string has a '@' in it; write host:port alone, and the credentials into the Config"
    )]
    Credentials,
    /// It has a scheme, as a URL.
    #[error("the connect string has {scheme:?} in it; write host:port alone")]
    Scheme {
        /// The scheme, with what is behind it.
        scheme: String,
    },
    /// A host follows the chroot.
    #[error("the connect string has a ',' after its chroot; write the chroot once, at the end")]
    HostAfterChroot,
    /// The chroot is not a path.
    #[error("the connect string has a chroot that is no path: {0}")]
    Chroot(ParsePathError),
    /// A host is not one.
    #[error("host {number} of the connect string, {text:?}: {rule}")]
    Host {
        /// Which one, counted from one.
        number: usize,
        /// What is there.
        text: String,
        /// What would be right.
        rule: &'static str,
    },
}

impl FromStr for ConnectString {
    type Err = ParseConnectStringError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if text.is_empty() {
            return Err(ParseConnectStringError::Empty);
        }
        // The chroot begins at the first `/` that is not part of a scheme.
        let without_schemes = text.replace("://", ":");
        if without_schemes
            .split('/')
            .next()
            .is_some_and(|hosts| hosts.contains('@'))
        {
            return Err(ParseConnectStringError::Credentials);
        }
        if let Some((before, _)) = text.split_once("://") {
            let scheme = before.rsplit([',', ' ']).next().unwrap_or(before);
            let scheme = format!("{scheme}://");
            return Err(ParseConnectStringError::Scheme { scheme });
        }
        let (hosts, chroot) = match text.find('/') {
            None => (text, NodePath::root()),
            Some(at) if text[at..].contains(',') => {
                return Err(ParseConnectStringError::HostAfterChroot);
            }
            Some(at) => {
                let chroot = NodePath::parse(&text[at..]);
                let chroot = chroot.map_err(ParseConnectStringError::Chroot)?;
                (&text[..at], chroot)
            }
        };
        let parse = |(at, text): (usize, &str)| {
            let text = text.trim();
            parse_host(text).map_err(|rule| ParseConnectStringError::Host {
                number: at + 1,
                text: text.to_owned(),
                rule,
            })
        };
        let hosts = hosts.split(',').enumerate().map(parse);
        let hosts = hosts.collect::<Result<_, _>>()?;
        Ok(Self { hosts, chroot })
    }
}

impl fmt::Display for ConnectString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, host) in self.hosts.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{host}")?;
        }
        if self.chroot.is_root() {
            return Ok(());
        }
        write!(f, "{}", self.chroot)
    }
}

fn parse_host(text: &str) -> Result<Host, &'static str> {
    if text.is_empty() {
        return Err("a host is missing; write host or host:port between the commas");
    }
    let (name, port) = if let Some(rest) = text.strip_prefix('[') {
        let parts = rest.split_once(']');
        let (name, rest) = parts.ok_or("the '[' is not closed; write [address]:port")?;
        let (address, zone) = name.split_once('%').unwrap_or((name, "0"));
        if address.parse::<Ipv6Addr>().is_err() {
            return Err("between the brackets is no IPv6 address; write [address]:port");
        }
        if zone.is_empty() || !zone.chars().all(is_of_names) {
            return Err(
                "behind '%' comes the zone, a network interface; write [address%zone]:port",
            );
        }
        match rest.strip_prefix(':') {
            Some(port) => (name, Some(port)),
            None if rest.is_empty() => (name, None),
            None => return Err("behind ']' comes ':' and the port, or nothing"),
        }
    } else {
        if text.contains(';') {
            return Err(SEPARATOR);
        }
        let (name, port) = match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(if is_like_ipv6(text) {
                    "an IPv6 address must be in brackets; write [address]:port"
                } else {
                    SEPARATOR
                });
            }
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        };
        if name.is_empty() {
            return Err("the name is missing before the ':'; write host:port");
        }
        if !name.chars().all(is_of_names) {
            return Err("not the name of a host, which has letters, digits, '-', '_' and '.'");
        }
        (name, port)
    };
    Ok(Host {
        name: name.to_owned(),
        port: port.map_or(Ok(DEFAULT_PORT), parse_port)?,
    })
}

fn is_of_names(character: char) -> bool {
    character.is_alphanumeric() || "-._".contains(character)
}

/// Returns whether a text with several colons was meant as one address, and not as several hosts.
fn is_like_ipv6(text: &str) -> bool {
    text.contains("::") || text.split(':').count() >= GROUPS
}

fn parse_port(port: &str) -> Result<u16, &'static str> {
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|port| is_number && *port != 0);
    port.ok_or("a port is a number from 1 to 65535")
}

const DEFAULT_PORT: u16 = 2181;
const SEPARATOR: &str = "hosts are separated by commas; write host:port,host:port";
/// How many an IPv6 address has, unless a `::` stands for some.
const GROUPS: usize = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<ConnectString, ParseConnectStringError> {
        text.parse()
    }

    #[test]
    fn hosts_ports_and_chroot_are_taken_apart() {
        let parsed = parse("zk1:2181, zk_2.example.org ,[::1]:2182,10.0.0.1/app/x").unwrap();
        let hosts: Vec<_> = parsed
            .hosts
            .iter()
            .map(|host| (host.name.as_str(), host.port))
            .collect();
        let expected = [
            ("zk1", 2181),
            ("zk_2.example.org", 2181),
            ("::1", 2182),
            ("10.0.0.1", 2181),
        ];
        assert_eq!(hosts, expected);
        assert_eq!(parsed.chroot.to_string(), "/app/x");
        let scoped = parse("[fe80::1%eth0]:2182,[fe80::2%1]").unwrap();
        assert_eq!(scoped.hosts[0].name, "fe80::1%eth0");
        assert_eq!(scoped.to_string(), "[fe80::1%eth0]:2182,[fe80::2%1]:2181");
        assert_eq!(parse("zk1/").unwrap().chroot, NodePath::root());
        assert_eq!(parse("zk1/").unwrap().to_string(), "zk1:2181");
    }

    #[test]
    fn errors_say_what_is_wrong_and_what_would_be_right() {
        for (text, expected) in [
            (
                " ",
                "the connect string is empty; write host:port,host:port/chroot",
            ),
            (
                "zk1,,zk2",
                "host 2 of the connect string, \"\": a host is missing; write host or host:port between the commas",
            ),
            (
                "zk1:0",
                "host 1 of the connect string, \"zk1:0\": a port is a number from 1 to 65535",
            ),
            (
                "zk1:+1",
                "host 1 of the connect string, \"zk1:+1\": a port is a number from 1 to 65535",
            ),
            (
                "zk1:65536",
                "host 1 of the connect string, \"zk1:65536\": a port is a number from 1 to 65535",
            ),
            (
                "zk1:",
                "host 1 of the connect string, \"zk1:\": a port is a number from 1 to 65535",
            ),
            (
                ":2181",
                "host 1 of the connect string, \":2181\": the name is missing before the ':'; write host:port",
            ),
            (
                "::1",
                "host 1 of the connect string, \"::1\": an IPv6 address must be in brackets; write [address]:port",
            ),
            (
                "[::1",
                "host 1 of the connect string, \"[::1\": the '[' is not closed; write [address]:port",
            ),
            (
                "[zk1]",
                "host 1 of the connect string, \"[zk1]\": between the brackets is no IPv6 address; write [address]:port",
            ),
            (
                "[::1]2181",
                "host 1 of the connect string, \"[::1]2181\": behind ']' comes ':' and the port, or nothing",
            ),
            (
                "fe80::1%eth0",
                "host 1 of the connect string, \"fe80::1%eth0\": an IPv6 address must be in brackets; write [address]:port",
            ),
            (
                "[fe80::1%]",
                "host 1 of the connect string, \"[fe80::1%]\": behind '%' comes the zone, a network interface; write [address%zone]:port",
            ),
            (
                "1:2:3:4:5:6:7:8:2181",
                "host 1 of the connect string, \"1:2:3:4:5:6:7:8:2181\": an IPv6 address must be in brackets; write [address]:port",
            ),
            (
                "h1:2181;h2:2181",
                "host 1 of the connect string, \"h1:2181;h2:2181\": hosts are separated by commas; write host:port,host:port",
            ),
            (
                "h0,h1:2181:h2:2181",
                "host 2 of the connect string, \"h1:2181:h2:2181\": hosts are separated by commas; write host:port,host:port",
            ),
            (
                "zk1 zk2",
                "host 1 of the connect string, \"zk1 zk2\": not the name of a host, which has letters, digits, '-', '_' and '.'",
            ),
            (
                "zk1/a,zk2/a",
                "the connect string has a ',' after its chroot; write the chroot once, at the end",
            ),
            (
                "zk1/a/",
                "the connect string has a chroot that is no path: path \"/a/\" ends with '/'; write \"/a\"",
            ),
            (
                "zk1//",
                "the connect string has a chroot that is no path: path \"//\" has an empty component at byte 1; write one '/' between names",
            ),
            (
                "zk1/a//b",
                "the connect string has a chroot that is no path: path \"/a//b\" has an empty component at byte 3; write one '/' between names",
            ),
            (
                "zk1/a/../b",
                "the connect string has a chroot that is no path: path \"/a/../b\" has the component \"..\"; write the path out, without \".\" and \"..\"",
            ),
            (
                "zk1/a\nb",
                "the connect string has a chroot that is no path: path \"/a\\nb\" has the character U+000A at byte 2, which ZooKeeper does not allow in names; leave out control, private-use and supplementary characters",
            ),
            (
                "zk1,zk://zk2/a",
                "the connect string has \"zk://\" in it; write host:port alone",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.to_string(), expected, "{text}");
        }
    }

    #[test]
    fn an_error_contains_no_password() {
        for text in [
            "user:secret@zk1",
            "zk://user:secret@zk1/a",
            "zk1,user:secret@zk2/a",
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error, ParseConnectStringError::Credentials);
            assert!(!format!("{error} {error:?}").contains("secret"));
        }
        assert!(parse("zk1/a@b").is_ok());
    }

    proptest! {
        #[test]
        fn what_is_parsed_is_written_and_parsed_again(text in ".{0,40}|[a-z0-9:,/.\\[\\]]{0,40}") {
            if let Ok(parsed) = parse(&text) {
                prop_assert!(!parsed.hosts.is_empty());
                prop_assert_eq!(parse(&parsed.to_string()), Ok(parsed));
            }
        }
    }
}
