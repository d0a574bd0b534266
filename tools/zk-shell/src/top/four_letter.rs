//! Parses the replies to four-letter words.
//!
//! Fields that are not known are skipped, and those that are missing stay `None`: releases differ in them.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;

use super::sample::{Connection, Figures, Reading};
use super::word::Word;

/// Why a reply has no figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The word is not in `4lw.commands.whitelist`.
    NotWhitelisted,
    /// The server has no quorum.
    NoQuorum,
    /// The reply is of another form: the release does not know the word.
    UnknownWord,
}

/// Parses the reply to a word.
pub(crate) fn parse(word: Word, reply: &[u8]) -> Result<Reading, Refusal> {
    let text = String::from_utf8_lossy(reply);
    let text = text.trim_start_matches(['\n', '\r']);
    let first = text.lines().next().unwrap_or_default();
    if first.contains(NOT_SERVING) {
        return Err(Refusal::NoQuorum);
    }
    if first.contains(NOT_LISTED) {
        return Err(Refusal::NotWhitelisted);
    }
    match word {
        Word::Srvr => figures(srvr(text)),
        Word::Mntr => figures(mntr(text)),
        Word::Conf => figures(conf(text)),
        Word::Dirs => figures(dirs(text)),
        Word::Cons => cons(text).map(Reading::Connections),
        Word::Wchp => watches(text).map(Reading::Watches),
        Word::Dump => ephemerals(text).map(Reading::Ephemerals),
    }
}

/// Figures of which at least one is there.
pub(crate) fn figures(figures: Figures) -> Result<Reading, Refusal> {
    if figures == Figures::default() {
        Err(Refusal::UnknownWord)
    } else {
        Ok(Reading::Figures(figures))
    }
}

fn srvr(text: &str) -> Figures {
    let mut figures = Figures::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        match key {
            "Zookeeper version" => figures.version = release(value),
            "Latency min/avg/max" => {
                let mut parts = value.split('/').skip(1);
                figures.average_latency = parts.next().and_then(decimal);
                figures.max_latency = parts.next().and_then(decimal);
            }
            "Received" => figures.received = value.parse().ok(),
            "Connections" => figures.connections = value.parse().ok(),
            "Outstanding" => figures.outstanding = value.parse().ok(),
            "Zxid" => figures.zxid = hexadecimal(value),
            "Mode" => figures.role = role(value),
            "Node count" => figures.nodes = value.parse().ok(),
            _ => {}
        }
    }
    figures
}

fn mntr(text: &str) -> Figures {
    let mut figures = Figures::default();
    for line in text.lines() {
        if let Some((key, value)) = line.split_once('\t') {
            monitor(&mut figures, key.strip_prefix("zk_").unwrap_or(key), value);
        }
    }
    figures
}

/// Takes over one value of `mntr`, or of the `AdminServer`'s `monitor`.
pub(crate) fn monitor(figures: &mut Figures, key: &str, value: &str) {
    match key {
        "version" => figures.version = release(value),
        "server_state" => figures.role = role(value),
        "avg_latency" => figures.average_latency = decimal(value),
        "max_latency" => figures.max_latency = decimal(value),
        "packets_received" => figures.received = whole(value),
        "num_alive_connections" => figures.connections = whole(value),
        "outstanding_requests" => figures.outstanding = whole(value),
        "znode_count" => figures.nodes = whole(value),
        "watch_count" => figures.watches = whole(value),
        "ephemerals_count" => figures.ephemerals = whole(value),
        "approximate_data_size" => figures.data_bytes = whole(value),
        "open_file_descriptor_count" => figures.open_files = whole(value),
        "max_file_descriptor_count" => figures.max_files = whole(value),
        "synced_followers" => figures.synced_followers = whole(value),
        "avg_fsynctime" => figures.average_fsync = decimal(value),
        "max_fsynctime" => figures.max_fsync = decimal(value),
        _ => {}
    }
}

fn conf(text: &str) -> Figures {
    let mut lines = text.lines().filter_map(|line| line.split_once('='));
    let limit = lines.find(|(key, _)| *key == "maxClientCnxns");
    Figures {
        max_connections_per_host: limit.and_then(|(_, value)| value.trim().parse().ok()),
        ..Figures::default()
    }
}

fn dirs(text: &str) -> Figures {
    let mut figures = Figures::default();
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        match key {
            "datadir_size" => figures.snapshot_bytes = whole(value.trim()),
            "logdir_size" => figures.log_bytes = whole(value.trim()),
            _ => {}
        }
    }
    figures
}

/// Reads lines like ` /10.0.0.7:53214[1](queued=0,recved=6,sent=6,sid=0x1…,…)`.
fn cons(text: &str) -> Result<Vec<Connection>, Refusal> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let connections: Vec<_> = lines.filter_map(connection).collect();
    // The asker itself is always there.
    if connections.is_empty() {
        Err(Refusal::UnknownWord)
    } else {
        Ok(connections)
    }
}

fn connection(line: &str) -> Option<Connection> {
    let (address, fields) = line.trim().split_once('(')?;
    let (address, _) = address.rsplit_once('[')?;
    let (host, port) = host_and_port(address)?;
    let mut connection = Connection {
        host,
        port,
        ..Connection::default()
    };
    for field in fields.trim_end_matches(')').split(',') {
        let Some((key, value)) = field.split_once('=') else {
            continue;
        };
        match key {
            "queued" => connection.outstanding = value.parse().unwrap_or_default(),
            "recved" => connection.received = value.parse().unwrap_or_default(),
            "sid" => connection.session = hexadecimal(value),
            "lop" => connection.last_operation = Some(value.to_owned()),
            "est" => connection.established = value.parse().ok(),
            "to" => connection.timeout = value.parse().ok(),
            "avglat" => connection.average_latency = decimal(value),
            "maxlat" => connection.max_latency = decimal(value),
            _ => {}
        }
    }
    Some(connection)
}

/// Reads `/10.0.0.7:53214` and `host/[0:0:0:0:0:0:0:1]:53214`.
pub(crate) fn host_and_port(address: &str) -> Option<(String, u16)> {
    let address = address.rsplit('/').next()?;
    let (host, port) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some((host.to_owned(), port.parse().ok()?))
}

/// Reads a path on a line of its own, and then each of its sessions after a tab.
fn watches(text: &str) -> Result<BTreeMap<String, Vec<u64>>, Refusal> {
    let mut watches = BTreeMap::<String, Vec<u64>>::new();
    let mut path = None;
    for line in text.lines() {
        match line.strip_prefix('\t') {
            None if line.starts_with('/') => path = Some(line),
            None if line.is_empty() => {}
            Some(session) => {
                if let (Some(path), Some(session)) = (path, hexadecimal(session.trim())) {
                    watches.entry(path.to_owned()).or_default().push(session);
                }
            }
            None => path = None,
        }
    }
    // A server without watches replies with an empty line.
    if watches.is_empty() && !text.trim().is_empty() {
        return Err(Refusal::UnknownWord);
    }
    Ok(watches)
}

/// Reads what follows `Sessions with Ephemerals`: a session with a colon, and then each of its paths after a tab.
fn ephemerals(text: &str) -> Result<BTreeMap<u64, Vec<String>>, Refusal> {
    let mut lines = text
        .lines()
        .skip_while(|line| !line.starts_with("Sessions with Ephemerals"));
    lines.next().ok_or(Refusal::UnknownWord)?;
    let mut ephemerals = BTreeMap::<u64, Vec<String>>::new();
    let mut session = None;
    for line in lines {
        if let Some(path) = line.strip_prefix('\t') {
            if let Some(session) = session {
                ephemerals.entry(session).or_default().push(path.to_owned());
            }
        } else if let Some(id) = line.trim().strip_suffix(':').and_then(hexadecimal) {
            session = Some(id);
        } else {
            // Another list, such as that of connections.
            break;
        }
    }
    Ok(ephemerals)
}

/// Cuts `3.9.3` out of `3.9.3-c26634f3, built on 2024-10-17 23:21 UTC`.
pub(crate) fn release(build: &str) -> Option<String> {
    let release = build.split(['-', ',', ' ']).next().unwrap_or_default();
    (!release.is_empty()).then(|| release.to_owned())
}

fn role(text: &str) -> Option<String> {
    let known = ["leader", "follower", "observer", "standalone", "read-only"];
    known.contains(&text).then(|| text.to_owned())
}

/// Parses a hexadecimal number, with or without `0x`.
pub(crate) fn hexadecimal(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| is_plain)
}

/// Parses a figure that a server never reports as negative or infinite.
fn decimal(text: &str) -> Option<f64> {
    let number: f64 = text.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

/// Parses a count, which some releases write with a fraction.
fn whole(text: &str) -> Option<u64> {
    text.trim().split('.').next()?.parse().ok()
}

const NOT_SERVING: &str = "not currently serving requests";
const NOT_LISTED: &str = "is not executed because it is not in the whitelist";

#[cfg(test)]
mod tests;
