//! The format of requests to release a lock, and of answers to them, as lines in the data of the lock's node.
//!
//! ```text
//! owner: build7/4242
//! revoke: 10002a3f0001-0 30000 ops1/17 a rolling restart
//! revoke-answer: 10002a3f0001-0 refused two minutes more
//! ```
//!
//! The requests are data of the node, as Curator's is, and no nodes of their own. An ephemeral node has no children, so
//! they would have to be among the contenders: Curator counts every child of a semaphore's leases, and every contender
//! lists every child. Elsewhere, they would need a right to create nodes that the lock does not need.
//!
//! A request has an id, the time to answer in milliseconds, the requester and the reason. An answer replaces its
//! request. All other data is preserved.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use crate::owner::{escaped, joined, split, unescaped};

/// A request in the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestLine {
    pub(super) id: String,
    pub(super) within: Duration,
    pub(super) by: String,
    pub(super) reason: String,
}

/// The owner's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestAnswer {
    Accepted,
    Refused { reason: String },
}

/// Why a request could not be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddRequestError {
    /// The data is not in the format that can hold requests.
    ForeignData,
    /// Too many requests have no answer yet.
    TooMany,
}

/// Returns the unanswered requests, oldest first.
pub(super) fn requests(data: &[u8]) -> Vec<RequestLine> {
    let lines = split(data).map_or_else(Vec::new, |(lines, _)| lines);
    lines.into_iter().filter_map(RequestLine::parse).collect()
}

/// Returns the answer to a request.
pub(super) fn answer_to(data: &[u8], id: &str) -> Option<RequestAnswer> {
    let (lines, _) = split(data)?;
    lines.into_iter().find_map(|line| {
        let rest = line.strip_prefix(ANSWER_PREFIX)?.strip_prefix(id)?;
        let (verdict, reason) = rest.strip_prefix(' ').map(split_word)?;
        match verdict {
            "accepted" => Some(RequestAnswer::Accepted),
            "refused" => Some(RequestAnswer::Refused {
                reason: unescaped(reason),
            }),
            _ => None,
        }
    })
}

/// Adds a request. The oldest answers make room for it: a live requester removes its answer itself.
pub(super) fn add_request(data: &[u8], request: &RequestLine) -> Result<Vec<u8>, AddRequestError> {
    let (mut lines, more) = split(data).ok_or(AddRequestError::ForeignData)?;
    let is_note = |line: &&str| line.starts_with(REQUEST_PREFIX) || line.starts_with(ANSWER_PREFIX);
    if lines.iter().copied().filter(|line| is_note(line)).count() >= MAX_LINES {
        let oldest = lines
            .iter()
            .position(|line| line.starts_with(ANSWER_PREFIX));
        lines.remove(oldest.ok_or(AddRequestError::TooMany)?);
    }
    let line = request.line();
    lines.push(&line);
    Ok(joined(&lines, more))
}

/// Replaces a request with its answer; `None` if there is no such request.
pub(super) fn put_answer(data: &[u8], id: &str, answer: &RequestAnswer) -> Option<Vec<u8>> {
    let (mut lines, more) = split(data)?;
    let at = lines
        .iter()
        .position(|line| RequestLine::parse(line).is_some_and(|request| request.id == id))?;
    let line = match answer {
        RequestAnswer::Accepted => format!("{ANSWER_PREFIX}{id} accepted"),
        RequestAnswer::Refused { reason } => {
            format!("{ANSWER_PREFIX}{id} refused {}", escaped(reason))
        }
    };
    lines[at] = &line;
    Some(joined(&lines, more))
}

/// Removes a request or its answer; `None` if neither is there.
pub(super) fn remove_request(data: &[u8], id: &str) -> Option<Vec<u8>> {
    let (mut lines, more) = split(data)?;
    let before = lines.len();
    lines.retain(|line| {
        let note = line
            .strip_prefix(REQUEST_PREFIX)
            .or_else(|| line.strip_prefix(ANSWER_PREFIX));
        note.is_none_or(|note| split_word(note).0 != id)
    });
    (lines.len() < before).then(|| joined(&lines, more))
}

impl RequestLine {
    fn parse(line: &str) -> Option<Self> {
        let (id, rest) = split_word(line.strip_prefix(REQUEST_PREFIX)?);
        let (millis, rest) = split_word(rest);
        let (by, reason) = split_word(rest);
        Some(Self {
            id: id.to_owned(),
            within: Duration::from_millis(millis.parse().ok()?),
            by: unescaped(by),
            reason: unescaped(reason),
        })
    }

    fn line(&self) -> String {
        let millis = self.within.as_millis();
        let by = escaped(&self.by).replace(' ', "\\u{20}");
        format!(
            "{REQUEST_PREFIX}{} {millis} {by} {}",
            self.id,
            escaped(&self.reason)
        )
    }
}

/// Splits a text at the first space.
fn split_word(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

/// What Curator's `Revoker` writes as the data.
pub(super) const CURATOR_REVOKE_MESSAGE: &[u8] = b"__REVOKE__";
const REQUEST_PREFIX: &str = "revoke: ";
const ANSWER_PREFIX: &str = "revoke-answer: ";

/// The maximum number of requests and answers. Each waiter reads them.
const MAX_LINES: usize = 8;

#[cfg(test)]
mod tests;
