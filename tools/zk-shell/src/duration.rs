//! Lengths of time as people type them.

use std::time::Duration;

/// Reads a number with a unit, as in `500ms`, `10s` or `2m`.
pub(crate) fn parse_timeout(text: &str) -> Result<Duration, String> {
    match parse(text) {
        Some((number, Some(unit))) if number > 0 => Ok(unit.saturating_mul(number)),
        Some((0, _)) => Err("it must be longer than zero".to_owned()),
        Some((_, _)) => Err(format!("a unit is missing; write {text}s or {text}ms")),
        None => Err("write a number with a unit: 500ms, 10s or 2m".to_owned()),
    }
}

/// Reads a time to live: a plain number is milliseconds, as in ZooKeeper's own shell.
pub(crate) fn parse_ttl(text: &str) -> Result<Duration, String> {
    match parse(text) {
        Some((number, unit)) if number > 0 => Ok(unit
            .unwrap_or(Duration::from_millis(1))
            .saturating_mul(number)),
        _ => Err(
            "write a number of milliseconds above zero, or one with a unit: 500ms, 10s or 2m"
                .to_owned(),
        ),
    }
}

/// Reads an age: as [`parse_timeout`], with hours and days too, as in `36h` or `7d`.
pub(crate) fn parse_age(text: &str) -> Result<Duration, String> {
    match parse(text) {
        Some((number, Some(unit))) => Ok(unit.saturating_mul(number)),
        _ => Err("write a number with a unit: 30s, 10m, 36h or 7d".to_owned()),
    }
}

fn parse(text: &str) -> Option<(u32, Option<Duration>)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = text[..digits].parse().ok()?;
    let unit = match &text[digits..] {
        "" => None,
        "ms" => Some(Duration::from_millis(1)),
        "s" => Some(Duration::from_secs(1)),
        "m" => Some(Duration::from_secs(60)),
        "h" => Some(Duration::from_secs(3600)),
        "d" => Some(Duration::from_secs(86_400)),
        _ => return None,
    };
    Some((number, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_need_a_unit() {
        for (text, expected) in [
            ("10s", Ok(Duration::from_secs(10))),
            ("500ms", Ok(Duration::from_millis(500))),
            ("2m", Ok(Duration::from_secs(120))),
            ("10", Err("a unit is missing; write 10s or 10ms")),
            ("0s", Err("it must be longer than zero")),
            ("0", Err("it must be longer than zero")),
            ("", Err("write a number with a unit: 500ms, 10s or 2m")),
            ("s", Err("write a number with a unit: 500ms, 10s or 2m")),
            ("-1s", Err("write a number with a unit: 500ms, 10s or 2m")),
            ("1h", Ok(Duration::from_secs(3600))),
            ("1w", Err("write a number with a unit: 500ms, 10s or 2m")),
            (
                "99999999999s",
                Err("write a number with a unit: 500ms, 10s or 2m"),
            ),
        ] {
            assert_eq!(
                parse_timeout(text),
                expected.map_err(str::to_owned),
                "{text}"
            );
        }
    }

    #[test]
    fn times_to_live_are_milliseconds_without_a_unit() {
        assert_eq!(parse_ttl("1500"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_ttl("3s"), Ok(Duration::from_secs(3)));
        for text in ["", "0", "x", "-5"] {
            assert!(parse_ttl(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ages_have_hours_and_days() {
        for (text, seconds) in [
            ("0s", 0),
            ("90s", 90),
            ("10m", 600),
            ("36h", 129_600),
            ("7d", 604_800),
        ] {
            assert_eq!(parse_age(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "7", "d", "-1d", "1w", "1.5h"] {
            assert!(parse_age(text).is_err(), "{text}");
        }
    }
}
