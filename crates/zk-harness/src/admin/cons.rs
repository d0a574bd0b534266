//! `cons`: the connected clients.
//!
//! Pure: no I/O and no clock.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use super::AdminError;
use super::text::Answer;

/// The answer to `cons`: one entry per client connection, in no particular order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cons {
    /// The connections, the one that asks included.
    pub connections: Vec<ConnectionInfo>,
}

/// One client connection, as `cons` and `stat` describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// The client's address as the server prints it, such as `127.0.0.1:53214`.
    pub peer: String,
    /// Answers that wait to be sent.
    pub queued: u64,
    /// Packets received from this client.
    pub received: u64,
    /// Packets sent to this client.
    pub sent: u64,
    /// The session, if the connection has one: the asker of a four-letter word has none, and `stat` never tells.
    pub session: Option<ConnectionSession>,
}

/// The session of a client connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionSession {
    /// The session's id.
    pub id: u64,
    /// The newest request, in the server's abbreviation: `PING`, `GETC`, `CREA`; `NA` before the first one.
    pub last_operation: String,
    /// When the connection was made, in milliseconds since 1970.
    pub established: u64,
    /// The negotiated session timeout.
    pub timeout: Duration,
    /// The client's number for its newest request, if it has sent one.
    pub last_cxid: Option<u64>,
    /// The newest transaction the client was told of, if any.
    pub last_zxid: Option<u64>,
    /// Latency of the newest request, in milliseconds.
    pub last_latency: u64,
    /// Shortest latency, in milliseconds.
    pub min_latency: u64,
    /// Mean latency, in milliseconds.
    pub avg_latency: u64,
    /// Longest latency, in milliseconds.
    pub max_latency: u64,
}

impl ConnectionInfo {
    /// Returns the client's address, unless the server printed it in a form that is none (Java before 14 writes IPv6
    /// addresses without brackets).
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.peer.parse().ok()
    }

    /// Reads ` /127.0.0.1:53214[1](queued=0,recved=6,sent=6,sid=0x1…,…)`.
    pub(super) fn parse(answer: Answer<'_>, line: &str) -> Result<Self, AdminError> {
        const SHAPE: &str = "a client as in ` /127.0.0.1:53214[1](queued=0,recved=1,sent=0)`";
        const NUMBER: &str = "a client whose fields are numbers";
        let shape = || answer.unexpected(line, SHAPE);

        let (head, fields) = line.split_once('(').ok_or_else(shape)?;
        let fields = Fields {
            answer,
            line,
            text: fields.strip_suffix(')').ok_or_else(shape)?,
        };
        // `[1]` is the interest set of the connection's selector; the address may have brackets of its own.
        let (peer, _interest) = head.rsplit_once('[').ok_or_else(shape)?;
        // A resolved client is `name/address`.
        let (_name, peer) = peer.rsplit_once('/').ok_or_else(shape)?;

        let session = match fields.find("sid") {
            None => None,
            Some(sid) => Some(ConnectionSession {
                id: answer.hex(sid, line, NUMBER)?,
                last_operation: fields.find("lop").ok_or_else(shape)?.to_owned(),
                established: fields.number("est")?,
                timeout: Duration::from_millis(fields.number("to")?),
                last_cxid: fields.hex("lcxid")?,
                // -1 stands for none.
                last_zxid: fields.hex("lzxid")?.filter(|&zxid| zxid != u64::MAX),
                last_latency: fields.number("llat")?,
                min_latency: fields.number("minlat")?,
                avg_latency: fields.number("avglat")?,
                max_latency: fields.number("maxlat")?,
            }),
        };
        Ok(Self {
            peer: peer.to_owned(),
            queued: fields.number("queued")?,
            received: fields.number("recved")?,
            sent: fields.number("sent")?,
            session,
        })
    }
}

impl FromStr for Cons {
    type Err = AdminError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let answer = Answer::new("cons", text)?;
        let connections = answer
            .lines()
            .map(|line| ConnectionInfo::parse(answer, line))
            .collect::<Result<Vec<_>, _>>()?;
        if connections.is_empty() {
            // The asker itself is always there, so an empty text is a truncated one.
            return Err(answer.unexpected("", "at least the connection that asks"));
        }
        Ok(Self { connections })
    }
}

/// `key=value,key=value`.
#[derive(Clone, Copy)]
struct Fields<'a> {
    answer: Answer<'a>,
    line: &'a str,
    text: &'a str,
}

impl<'a> Fields<'a> {
    fn find(self, key: &str) -> Option<&'a str> {
        self.text
            .split(',')
            .find_map(|field| field.split_once('=').filter(|(name, _)| *name == key))
            .map(|(_, v)| v)
    }

    fn number(self, key: &str) -> Result<u64, AdminError> {
        let value = self.find(key).unwrap_or_default();
        self.answer.value(
            value,
            self.line,
            "a client with the fields the server always prints, as numbers",
        )
    }

    fn hex(self, key: &str) -> Result<Option<u64>, AdminError> {
        self.find(key)
            .map(|value| {
                self.answer
                    .hex(value, self.line, "a client with hexadecimal ids")
            })
            .transpose()
    }
}
