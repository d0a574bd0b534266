//! Parses the answers to four-letter words.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::AdminError;
use crate::health::Role;

/// The answer to `srvr`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Srvr {
    /// The release, such as `3.9.3`.
    pub version: String,
    /// Packets received.
    pub received: u64,
    /// The newest transaction this server has applied.
    ///
    /// A follower that has applied nothing since it joined reports 0, while the leader already reports its new epoch.
    pub zxid: u64,
    /// The server's role.
    pub mode: Role,
}

/// The answer to `mntr`: some five hundred metrics.
///
/// Which keys are there depends on the server's version and role.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mntr {
    metrics: BTreeMap<String, String>,
}

/// The answer to `cons`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cons {
    /// The ids of the sessions that are connected to the server, in no particular order.
    ///
    /// A connection without a session, such as that of a four-letter word, is not among them.
    pub sessions: Vec<u64>,
}

/// The answer to `wchs`: the number of watches on one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wchs {
    /// Connections with a watch.
    pub connections: u64,
    /// Watched paths.
    pub paths: u64,
    /// All watches.
    pub watches: u64,
}

impl Srvr {
    /// Returns the epoch of the last transaction: the upper half of the zxid.
    pub const fn epoch(&self) -> u64 {
        self.zxid >> 32
    }
}

impl Mntr {
    /// Returns how many watches the server holds (`zk_watch_count`).
    pub fn watches(&self) -> Option<u64> {
        self.number("zk_watch_count")
    }

    /// Returns the value of any key, as the server printed it.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.metrics.get(key).map(String::as_str)
    }

    /// Returns the value of any key as a number.
    pub fn number<T: FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }
}

impl FromStr for Srvr {
    type Err = AdminError;

    /// Skips lines that are not known, so that a newer server may say more.
    fn from_str(text: &str) -> Result<Self, AdminError> {
        let answer = Answer::new("srvr", text)?;
        Ok(Self {
            version: answer.field("Zookeeper version", release_of)?,
            received: answer.field("Received", |value| value.parse().ok())?,
            zxid: answer.field("Zxid", hexadecimal)?,
            mode: answer.field("Mode", role)?,
        })
    }
}

impl FromStr for Mntr {
    type Err = AdminError;

    fn from_str(text: &str) -> Result<Self, AdminError> {
        let answer = Answer::new("mntr", text)?;
        let mut metrics = BTreeMap::new();
        for line in answer.lines() {
            let (key, value) = line
                .split_once('\t')
                .filter(|(key, _)| !key.is_empty())
                .ok_or_else(|| answer.unexpected(line, "a key, a tab and a value"))?;
            metrics.insert(key.to_owned(), value.to_owned());
        }
        if !metrics.contains_key("zk_version") {
            return Err(answer.unexpected("", "zk_version"));
        }
        Ok(Self { metrics })
    }
}

impl FromStr for Cons {
    type Err = AdminError;

    /// Reads lines like ` /127.0.0.1:53214[1](queued=0,recved=6,sent=6,sid=0x1…,…)`.
    fn from_str(text: &str) -> Result<Self, AdminError> {
        let answer = Answer::new("cons", text)?;
        let mut sessions = Vec::new();
        for line in answer.lines() {
            let unexpected = || answer.unexpected(line, "a connection and its properties");
            let (_, fields) = line.split_once('(').ok_or_else(unexpected)?;
            let fields = fields.strip_suffix(')').ok_or_else(unexpected)?;
            let mut fields = fields.split(',');
            if let Some(id) = fields.find_map(|field| field.strip_prefix("sid=")) {
                sessions.push(hexadecimal(id).ok_or_else(unexpected)?);
            }
        }
        if answer.lines().next().is_none() {
            // The asker itself is always there, so an empty text is a truncated one.
            return Err(answer.unexpected("", "the connection that asks"));
        }
        Ok(Self { sessions })
    }
}

impl FromStr for Wchs {
    type Err = AdminError;

    fn from_str(text: &str) -> Result<Self, AdminError> {
        let answer = Answer::new("wchs", text)?;
        let mut lines = answer.lines();
        let first = lines.next().unwrap_or_default();
        let mut numbers = || {
            let (connections, paths) = first
                .strip_suffix(" paths")?
                .split_once(" connections watching ")?;
            let watches = lines.next()?.strip_prefix("Total watches:")?.trim();
            Some(Self {
                connections: connections.parse().ok()?,
                paths: paths.parse().ok()?,
                watches: watches.parse().ok()?,
            })
        };
        numbers().ok_or_else(|| answer.unexpected(first, "connections, paths and watches"))
    }
}

/// An answer that is not a refusal, with its word.
struct Answer<'a> {
    word: &'static str,
    text: &'a str,
}

impl<'a> Answer<'a> {
    /// Returns an error if the answer is that the server does not serve, or does not allow the word.
    fn new(word: &'static str, text: &'a str) -> Result<Self, AdminError> {
        let answer = Self { word, text };
        let first = answer.lines().next().unwrap_or_default();
        if first == NOT_SERVING {
            return Err(AdminError::NotServing);
        }
        match first.strip_suffix(NOT_WHITELISTED) {
            Some(refused) => Err(AdminError::NotWhitelisted {
                word: shortened(refused),
            }),
            None => Ok(answer),
        }
    }

    /// Returns the lines that are not empty.
    fn lines(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let lines = self.text.lines().map(str::trim_end);
        lines.filter(|line| !line.is_empty())
    }

    /// Parses the value after `key:`.
    fn field<T>(
        &self,
        key: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, AdminError> {
        let value = |line: &'a str| line.strip_prefix(key)?.strip_prefix(':');
        let line = self.lines().find(|line| value(line).is_some());
        let parsed = line.and_then(value).and_then(|value| parse(value.trim()));
        parsed.ok_or_else(|| self.unexpected(line.unwrap_or_default(), key))
    }

    fn unexpected(&self, line: &str, expected: &'static str) -> AdminError {
        AdminError::Unexpected {
            word: self.word,
            line: shortened(line),
            expected,
        }
    }
}

/// Cuts `3.9.3` out of `3.9.3-c26634f3, built on 2024-10-17 23:21 UTC`.
fn release_of(build: &str) -> Option<String> {
    build.split(['-', ',', ' ']).next().map(str::to_owned)
}

/// Parses a hexadecimal number, with or without `0x`.
fn hexadecimal(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    // `from_str_radix` accepts a sign, which no server prints.
    let is_signed = digits.starts_with('+');
    u64::from_str_radix(digits, 16).ok().filter(|_| !is_signed)
}

fn role(text: &str) -> Option<Role> {
    let mut roles = Role::ALL.into_iter();
    roles.find(|role| role.to_string() == text)
}

/// Shortens a long line for an error message.
fn shortened(line: &str) -> String {
    const SHOWN: usize = 160;
    match line.char_indices().nth(SHOWN) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";
const NOT_WHITELISTED: &str = " is not executed because it is not in the whitelist.";
