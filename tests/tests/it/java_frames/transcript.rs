//! The text of a golden file.
//!
//! ```text
//! == create persistent
//! > 0000004c…     a request with its length, in hexadecimal
//! < 0000001e…     a message of the server
//!   Created { path: "/golden", stat: None }
//! ```
//!
//! The handshake has `>>` and `<<`. Below each message of the server is what zk-wire decodes from it.

use std::collections::HashMap;
use std::fmt::Write as _;

use bytes::Bytes;
use zk_wire::proto::{ConnectResponse, Incoming, Reply, ReplyShape};

use super::recorder::Frame;

#[path = "../../../../crates/zk-wire/tests/protocol/golden_text.rs"]
mod golden_text;

/// A golden file that is being written.
pub(crate) struct Transcript {
    text: String,
    /// The operations of the requests without a reply, by connection and number.
    sent: HashMap<(usize, i32), i32>,
}

impl Transcript {
    pub(crate) fn of_release(release: &str) -> Self {
        let text = format!(
            "# What the Java client of ZooKeeper {release} and a server of the same release sent each other.\n\
             # Recorded by tests/tests/it/java_frames.rs.\n"
        );
        let sent = HashMap::new();
        Self { text, sent }
    }

    /// Adds the frames of a step.
    pub(crate) fn step(&mut self, name: &str, frames: Vec<Frame>) {
        self.line(&format!("\n== {name}"));
        for frame in frames {
            let arrow = match (frame.is_request, frame.is_handshake) {
                (true, true) => ">>",
                (true, false) => ">",
                (false, true) => "<<",
                (false, false) => "<",
            };
            let len = u32::try_from(frame.payload.len()).expect("a frame is short");
            let hex = hex(&[&len.to_be_bytes()[..], &frame.payload].concat());
            self.line(&format!("{arrow} {hex}"));
            if !frame.is_request {
                let decoded = self.decode(frame);
                self.line(&format!("  {decoded}"));
            } else if !frame.is_handshake {
                let opcode = frame.payload[4..].first_chunk();
                let opcode = i32::from_be_bytes(*opcode.expect("a request has an operation"));
                self.sent.insert((frame.connection, frame.xid()), opcode);
            }
        }
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn line(&mut self, line: &str) {
        writeln!(self.text, "{line}").expect("a text takes every line");
    }

    /// Decodes a message of the server, and forgets the request that it replies to.
    fn decode(&mut self, frame: Frame) -> String {
        let payload = Bytes::from(frame.payload);
        if frame.is_handshake {
            let response = ConnectResponse::decode(payload);
            return format!("{:?}", response.expect("the server grants a session"));
        }
        match Incoming::decode(payload).expect("it is a message of a server") {
            Incoming::Notification(event) => format!("{event:?}"),
            Incoming::Unnamed(problem) => format!("{problem}"),
            Incoming::Reply {
                body: Err(code), ..
            } => format!("refused: {code}"),
            Incoming::Reply { xid, body, .. } => {
                let opcode = self.sent.remove(&(frame.connection, xid.get()));
                let shape = shape(opcode.expect("it replies to a request"));
                let body = body.expect("it is not refused");
                let reply = Reply::decode(shape, body);
                golden_text::text_of(&reply.expect("it has the shape of its operation"))
            }
        }
    }
}

/// Returns the lines of a golden file that can be compared, without what is different in each run.
pub(crate) fn comparable(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(comparable_line).collect()
}

fn comparable_line(line: &str) -> String {
    match line.split_once(' ') {
        Some((">>", hex)) => {
            // The newest transaction seen, the session and its password, unless it is a new one.
            let is_new = &hex[40..56] == "0000000000000000";
            let of_the_run: &[[usize; 2]] = if is_new {
                &[]
            } else {
                &[[8, 16], [20, 28], [32, 48]]
            };
            format!(">> {}", masked(hex, of_the_run))
        }
        Some((">", hex)) => {
            let of_the_run: &[[usize; 2]] = match (&hex[8..16], &hex[16..24]) {
                (_, SET_WATCHES | SET_WATCHES2) => &[[4, 8], [12, 20]],
                (xid, _) if xid.starts_with('f') => &[],
                _ => &[[4, 8]],
            };
            format!("> {}", masked(hex, of_the_run))
        }
        Some((arrow @ ("<" | "<<"), hex)) => format!("{arrow} {} bytes", hex.len() / 2),
        _ => OF_THE_RUN
            .iter()
            .fold(line.to_owned(), |line, name| without_number(&line, name)),
    }
}

/// Masks ranges of bytes.
fn masked(hex: &str, ranges: &[[usize; 2]]) -> String {
    let mut hex = hex.to_owned();
    for [from, to] in ranges {
        hex.replace_range(2 * from..2 * to, &"..".repeat(to - from));
    }
    hex
}

/// Removes the numbers behind a name; zero is no number of a run.
fn without_number(line: &str, name: &str) -> String {
    let mut parts = line.split(name);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(name);
        let rest = part.trim_start_matches(|digit: char| digit.is_ascii_hexdigit() || digit == 'x');
        text.push_str(if part.starts_with("0,") { part } else { rest });
    }
    text
}

/// Returns what the reply to a request of this opcode contains: an independent copy of what zk-wire knows.
fn shape(opcode: i32) -> ReplyShape {
    match opcode {
        1 => ReplyShape::Path,
        15 | 19 | 21 => ReplyShape::PathAndStat,
        3 | 5 | 7 => ReplyShape::Stat,
        4 | 16 => ReplyShape::Data,
        6 => ReplyShape::Acl,
        8 => ReplyShape::Children,
        12 => ReplyShape::ChildrenAndStat,
        14 => ReplyShape::Multi,
        22 => ReplyShape::MultiRead,
        103 => ReplyShape::Paths,
        104 => ReplyShape::Count,
        107 => ReplyShape::Identities,
        2 | 9 | 11 | 17 | 18 | 100 | 101 | 105 | 106 | -11 => ReplyShape::Empty,
        _ => panic!("the reply to operation {opcode} is not known"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a text takes every byte");
        text
    })
}

/// The opcode of `setWatches`, which contains the newest transaction seen.
const SET_WATCHES: &str = "00000065";
/// The opcode of `setWatches2`.
const SET_WATCHES2: &str = "00000069";

/// What precedes the numbers that are different in each run.
const OF_THE_RUN: [&str; 8] = [
    "czxid: ",
    "mzxid: ",
    "pzxid: ",
    "ctime: ",
    "mtime: ",
    "ephemeral_owner: ",
    "session_id: ",
    "zxid: Some(",
];
