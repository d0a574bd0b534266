//! The lines in an owner's data by which others ask it to give up its lock, and by which it answers.
//!
//! ```text
//! owner: build7/4242
//! revoke: 10002a3f0001-0 30000 ops1/17 a rolling restart
//! revoke-answer: 10002a3f0001-0 refused two minutes more
//! ```
//!
//! A request has an id, the time to answer in milliseconds, who asks and why; an answer takes the place of its request.
//! All else in the data stays as it is.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use crate::owner::escaped;
use crate::owner::joined;
use crate::owner::split;
use crate::owner::unescaped;

/// A request as it stands in the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) id: String,
    pub(super) within: Duration,
    pub(super) by: String,
    pub(super) reason: String,
}

/// What the owner answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Accepted,
    Refused { reason: String },
}

/// Why a request could not be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// The data is not in the form that has requests.
    OtherForm,
    /// Too many others have asked and had no answer yet.
    TooMany,
}

/// Returns the requests that have no answer yet, oldest first.
pub(super) fn requests(data: &[u8]) -> Vec<Request> {
    let lines = split(data).map_or_else(Vec::new, |(lines, _)| lines);
    lines.into_iter().filter_map(Request::parse).collect()
}

/// Returns the answer to a request.
pub(super) fn answer_to(data: &[u8], id: &str) -> Option<Answer> {
    let (lines, _) = split(data)?;
    lines.into_iter().find_map(|line| {
        let rest = line.strip_prefix(ANSWER)?.strip_prefix(id)?;
        let (verdict, reason) = rest.strip_prefix(' ').map(word)?;
        match verdict {
            "accepted" => Some(Answer::Accepted),
            "refused" => Some(Answer::Refused {
                reason: unescaped(reason),
            }),
            _ => None,
        }
    })
}

/// Adds a request. The oldest answers make room for it, since whoever asked for them takes them away if it is alive.
pub(super) fn asked(data: &[u8], request: &Request) -> Result<Vec<u8>, Full> {
    let (mut lines, more) = split(data).ok_or(Full::OtherForm)?;
    let is_note = |line: &&str| line.starts_with(REQUEST) || line.starts_with(ANSWER);
    if lines.iter().copied().filter(|line| is_note(line)).count() >= MOST {
        let oldest = lines.iter().position(|line| line.starts_with(ANSWER));
        lines.remove(oldest.ok_or(Full::TooMany)?);
    }
    let line = request.line();
    lines.push(&line);
    Ok(joined(&lines, more))
}

/// Puts an answer in the place of its request; `None` if that is not there.
pub(super) fn answered(data: &[u8], id: &str, answer: &Answer) -> Option<Vec<u8>> {
    let (mut lines, more) = split(data)?;
    let at = lines
        .iter()
        .position(|line| Request::parse(line).is_some_and(|request| request.id == id))?;
    let line = match answer {
        Answer::Accepted => format!("{ANSWER}{id} accepted"),
        Answer::Refused { reason } => format!("{ANSWER}{id} refused {}", escaped(reason)),
    };
    lines[at] = &line;
    Some(joined(&lines, more))
}

/// Takes a request and its answer away; `None` if neither is there.
pub(super) fn withdrawn(data: &[u8], id: &str) -> Option<Vec<u8>> {
    let (mut lines, more) = split(data)?;
    let before = lines.len();
    lines.retain(|line| {
        let note = line
            .strip_prefix(REQUEST)
            .or_else(|| line.strip_prefix(ANSWER));
        note.is_none_or(|note| word(note).0 != id)
    });
    (lines.len() < before).then(|| joined(&lines, more))
}

impl Request {
    fn parse(line: &str) -> Option<Self> {
        let (id, rest) = word(line.strip_prefix(REQUEST)?);
        let (millis, rest) = word(rest);
        let (by, reason) = word(rest);
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
            "{REQUEST}{} {millis} {by} {}",
            self.id,
            escaped(&self.reason)
        )
    }
}

/// The text up to the first space, and the rest.
fn word(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

const REQUEST: &str = "revoke: ";
const ANSWER: &str = "revoke-answer: ";

/// How many requests and answers there may be at a time: each waiter reads them.
const MOST: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::OwnerInfo;

    fn request(id: &str, by: &str, reason: &str) -> Request {
        Request {
            id: id.to_owned(),
            within: Duration::from_millis(1500),
            by: by.to_owned(),
            reason: reason.to_owned(),
        }
    }

    // covers: L7
    #[test]
    fn a_request_and_its_answer_leave_the_owner_as_it_was() {
        let owner = OwnerInfo::new("a", 1)
            .with_label("x")
            .with_more("\n\nrevoke: no 1 b c");
        let before = owner.to_bytes();
        for (by, reason) in [("b/2", "why not"), ("b \n 2", "\n\n"), ("", ""), ("b", "")] {
            let asking = request("7-1", by, reason);
            let asked = asked(&before, &asking).unwrap();
            assert_eq!(OwnerInfo::parse(&asked), Some(owner.clone()));
            assert_eq!(requests(&asked), [asking]);
            assert_eq!(answer_to(&asked, "7-1"), None);
            for answer in [
                Answer::Accepted,
                Answer::Refused {
                    reason: "no\nno".to_owned(),
                },
            ] {
                let answered = answered(&asked, "7-1", &answer).unwrap();
                assert_eq!(requests(&answered), []);
                assert_eq!(answer_to(&answered, "7-1"), Some(answer));
                assert_eq!(answer_to(&answered, "7-"), None);
                assert_eq!(withdrawn(&answered, "7-1"), Some(before.clone()));
            }
            assert_eq!(withdrawn(&asked, "7-1"), Some(before.clone()));
            assert_eq!(withdrawn(&asked, "7"), None);
        }
    }

    // covers: L7
    #[test]
    fn several_may_ask_and_old_answers_make_room() {
        let mut data = OwnerInfo::new("a", 1).to_bytes();
        for at in 0..MOST {
            data = asked(&data, &request(&format!("{at}"), "b", "c")).unwrap();
        }
        let one_more = request("more", "b", "c");
        assert_eq!(asked(&data, &one_more), Err(Full::TooMany));
        data = answered(&data, "3", &Answer::Accepted).unwrap();
        data = asked(&data, &one_more).unwrap();
        assert_eq!(answer_to(&data, "3"), None);
        let ids: Vec<_> = requests(&data).into_iter().map(|one| one.id).collect();
        assert_eq!(ids, ["0", "1", "2", "4", "5", "6", "7", "more"]);
    }

    #[test]
    fn data_in_other_forms_takes_no_request() {
        for data in [&b""[..], b"10.0.0.1", b"__REVOKE__", b"revoke: 1 2 a b"] {
            assert_eq!(
                asked(data, &request("1", "b", "c")),
                Err(Full::OtherForm),
                "{data:?}"
            );
            assert_eq!(requests(data), []);
            assert_eq!(withdrawn(data, "1"), None);
        }
        for line in ["revoke: ", "revoke: 1", "revoke: 1 x", "revoke: 1 -5 a b"] {
            assert_eq!(requests(format!("owner: a/1\n{line}").as_bytes()), []);
        }
    }
}
