//! Rows of text in columns, and ages in words. The time now is an argument.

use std::time::{Duration, SystemTime};

use crate::escape;

/// Formats rows so that each column is as wide as its widest cell. Cells are shortened and escaped.
pub(crate) fn columns<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let header = header.map(str::to_owned);
    let shown: Vec<[String; N]> = std::iter::once(&header)
        .chain(rows)
        .map(|row| row.each_ref().map(|text| cell(text)))
        .collect();
    let widths: [usize; N] = std::array::from_fn(|at| {
        let lengths = shown.iter().map(|row| row[at].chars().count());
        lengths.max().unwrap_or(0)
    });
    let lines = shown.iter().map(|row| {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    });
    lines.collect()
}

/// Says how long ago something was; never less than zero, because clocks differ.
pub(crate) fn age(since: SystemTime, now: SystemTime) -> String {
    words(now.duration_since(since).unwrap_or_default())
}

/// The two largest units of a time.
pub(crate) fn words(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m {}s", seconds % 60),
        (0, hours, minutes) => format!("{hours}h {minutes}m"),
        (days, hours, _) => format!("{days}d {hours}h"),
    }
}

/// Text of one cell: one line, not too long, and never empty.
pub(crate) fn cell(text: &str) -> String {
    let mut shown: String = text.chars().take(MOST_SHOWN).collect();
    if text.chars().nth(MOST_SHOWN).is_some() {
        shown.push('…');
    }
    match &*escape::line(&shown) {
        "" => "-".to_owned(),
        shown => shown.to_owned(),
    }
}

/// How much of a text is shown, in characters.
const MOST_SHOWN: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_aligned_and_never_control_the_terminal() {
        let rows = [
            ["aaa".to_owned(), "\u{1b}[2J".to_owned()],
            [String::new(), "x\ny".to_owned()],
        ];
        assert_eq!(
            columns(["A", "B"], &rows),
            "A    B\naaa  \\u{1b}[2J\n-    x\\ny\n"
        );
        let long = [["é".repeat(100)]];
        assert_eq!(columns(["A"], &long).chars().count(), 2 + 82);
    }

    #[test]
    fn an_age_has_two_units_and_is_never_negative() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        for (seconds, expected) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m 0s"),
            (3600, "1h 0m"),
            (90_061, "1d 1h"),
        ] {
            assert_eq!(age(now - Duration::from_secs(seconds), now), expected);
        }
        assert_eq!(age(now + Duration::from_secs(9), now), "0s");
    }
}
