//! The record of a lease, in kazoo's format, and the decision whether it allows another holder.
//!
//! Pure: no I/O and no clock.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use super::utc;

/// The last holder of a lease, and when its lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) holder: String,
    /// In seconds since 1970.
    pub(super) end: u64,
}

/// The data of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parsed {
    Record(Record),
    /// A later version of the format: only its clients can tell whether the lease has ended.
    OtherVersion(String),
}

/// The record is not one of kazoo's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

impl Record {
    /// Returns the data of the record, as kazoo writes it; `None` if the end has no such form.
    pub(super) fn to_bytes(&self) -> Option<Vec<u8>> {
        let end = utc::format(self.end)?;
        let holder = quoted(&self.holder);
        let text = format!(r#"{{"version": {VERSION}, "holder": {holder}, "end": "{end}"}}"#);
        Some(text.into_bytes())
    }

    pub(super) fn parse(data: &[u8]) -> Result<Parsed, Malformed> {
        let value: Value = serde_json::from_slice(data).map_err(|_| Malformed("it is not JSON"))?;
        let version = value.get("version").ok_or(Malformed("it has no version"))?;
        if version.as_u64() != Some(VERSION) {
            return Ok(Parsed::OtherVersion(version.to_string()));
        }
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        let holder = text("holder").ok_or(Malformed("it has no holder"))?;
        let end = text("end").and_then(utc::parse);
        Ok(Parsed::Record(Self {
            holder: holder.to_owned(),
            end: end.ok_or(Malformed("its end is not a time"))?,
        }))
    }

    /// Returns whether the lease may go to `holder`. `now` is the earliest time that the leader's clock can show, since
    /// 1970. It may be ahead of the clock that the end was written by, by at most `clock_error`.
    pub(super) fn allows(&self, holder: &str, now: Duration, clock_error: Duration) -> bool {
        let ended = Duration::from_secs(self.end).checked_add(clock_error);
        self.holder == holder || ended.is_some_and(|ended| ended <= now)
    }
}

/// Returns the end of a lease that is taken now, since 1970, in whole seconds; `None` if there is no such time.
///
/// `elapsed` is at least the time since the leader's clock showed `created_at`.
pub(super) fn end(created_at: Duration, elapsed: Duration, duration: Duration) -> Option<u64> {
    // Servers report their time in whole milliseconds, rounded down.
    let now = created_at.checked_add(MILLISECOND)?.checked_add(elapsed)?;
    // Rounded up: at this end by the leader's clock, the holder no longer relies on the lease.
    now.checked_add(duration)?.as_secs().checked_add(1)
}

/// Formats a string as Python's `json.dumps` does: in ASCII.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            ' '..='~' => quoted.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(quoted, "\\u{unit:04x}").expect("a string takes any text");
                }
            }
        }
    }
    quoted.push('"');
    quoted
}

const VERSION: u64 = 1;
const MILLISECOND: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(holder: &str, end: u64) -> Record {
        Record {
            holder: holder.to_owned(),
            end,
        }
    }

    #[test]
    fn a_record_is_written_as_kazoo_writes_it() {
        let written = record("host \"7\" \u{fc}\u{1f600}\u{7f}", 1_795_671_840).to_bytes();
        assert_eq!(
            String::from_utf8(written.unwrap()).unwrap(),
            r#"{"version": 1, "holder": "host \"7\" \u00fc\ud83d\ude00\u007f", "end": "2026-11-26T05:44:00"}"#
        );
    }

    #[test]
    fn other_data_is_refused_with_the_reason() {
        for (data, expected) in [
            ("", "it is not JSON"),
            ("host", "it is not JSON"),
            ("{}", "it has no version"),
            (r#"{"version": 1}"#, "it has no holder"),
            (r#"{"version": 1, "holder": 7}"#, "it has no holder"),
            (r#"{"version": 1, "holder": "a"}"#, "its end is not a time"),
            (
                r#"{"version": 1, "holder": "a", "end": "soon"}"#,
                "its end is not a time",
            ),
        ] {
            let parsed = Record::parse(data.as_bytes());
            assert_eq!(parsed, Err(Malformed(expected)), "{data}");
        }
        let later = Record::parse(br#"{"version": 2, "until": 7}"#);
        assert_eq!(later, Ok(Parsed::OtherVersion("2".to_owned())));
    }

    #[test]
    fn a_lease_goes_to_its_holder_or_to_any_after_its_end() {
        let held = record("a", 100);
        for (holder, now, clock_error, expected) in [
            ("a", 0, 0, true),
            ("a", 99, 50, true),
            ("b", 99, 0, false),
            ("b", 100, 0, true),
            ("b", 100, 1, false),
            ("b", 149, 50, false),
            ("b", 150, 50, true),
        ] {
            let allowed = held.allows(
                holder,
                Duration::from_secs(now),
                Duration::from_secs(clock_error),
            );
            assert_eq!(allowed, expected, "{holder} at {now}");
        }
        assert!(!held.allows("b", Duration::from_secs(1_000), Duration::MAX));
    }

    /// The leader's clock may have been almost a millisecond ahead of the time that it reported.
    #[test]
    fn the_recorded_end_is_never_before_the_real_one() {
        let micros = Duration::from_micros;
        for (created_at, elapsed, expected) in [
            (1_000_000, 0, 61),
            (1_000_000, 998_999, 61),
            (1_000_000, 999_001, 62),
            (1_999_000, 0, 62),
            (1_999_000, 500, 62),
            (1_998_000, 999, 61),
        ] {
            let duration = Duration::from_secs(59);
            let end = end(micros(created_at), micros(elapsed), duration);
            assert_eq!(end, Some(expected), "{created_at} {elapsed}");
        }
        assert_eq!(end(Duration::ZERO, Duration::ZERO, Duration::MAX), None);
        assert_eq!(end(Duration::MAX, Duration::ZERO, Duration::ZERO), None);
    }

    proptest! {
        #[test]
        fn a_written_record_is_parsed_back(holder: String, end in 0_u64..253_402_300_800) {
            let written = record(&holder, end);
            let data = written.to_bytes().unwrap();
            prop_assert!(data.is_ascii());
            prop_assert_eq!(Record::parse(&data), Ok(Parsed::Record(written)));
        }

        #[test]
        fn garbage_never_panics(data: Vec<u8>) {
            drop(Record::parse(&data));
        }
    }
}
