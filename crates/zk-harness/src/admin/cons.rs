//! Parses the answer to `cons`, the connected clients.
//!
//! Pure: no I/O and no clock.

use std::str::FromStr;

use super::AdminError;
use super::text::AnswerText;

/// The answer to `cons`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cons {
    /// The ids of the sessions that are connected to the server, in no particular order.
    ///
    /// A connection without a session, such as that of a four-letter word, is not among them.
    pub sessions: Vec<u64>,
}

impl FromStr for Cons {
    type Err = AdminError;

    /// Reads lines like ` /127.0.0.1:53214[1](queued=0,recved=6,sent=6,sid=0x1…,…)`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const SHAPE: &str = "a client as in ` /127.0.0.1:53214[1](queued=0,recved=1,sent=0)`";
        let answer = AnswerText::new("cons", text)?;
        let mut sessions = Vec::new();
        let mut is_empty = true;
        for line in answer.lines() {
            let fields = line
                .split_once('(')
                .and_then(|(_, fields)| fields.strip_suffix(')'))
                .ok_or_else(|| answer.unexpected(line, SHAPE))?;
            if let Some(id) = fields
                .split(',')
                .find_map(|field| field.strip_prefix("sid="))
            {
                sessions.push(answer.hex(id, line, "a client with a hexadecimal session id")?);
            }
            is_empty = false;
        }
        if is_empty {
            // The asker itself is always there, so an empty text is a truncated one.
            return Err(answer.unexpected("", "at least the connection that asks"));
        }
        Ok(Self { sessions })
    }
}
