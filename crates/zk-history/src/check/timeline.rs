//! Draws the operations of a violation on a time line, as text.
//!
//! Pure: no I/O and no clock.

use std::fmt::Write as _;

use super::verdict::{Evidence, Span};
use crate::History;

/// Draws a bar for each operation and a time axis; nothing without operations.
///
/// Blocks are the interval that counts, dots the time of the operation before it.
pub(super) fn of(evidence: &[Evidence], history: &History) -> String {
    let Some(scale) = Scale::of(evidence) else {
        return String::new();
    };
    let labels: Vec<String> = evidence
        .iter()
        .map(|one| {
            let label = format!("{}: {}: {}", one.call.client, one.call.op, one.call.outcome);
            shortened(&label, LABEL)
        })
        .collect();
    let width = labels.iter().map(|label| label.chars().count());
    let width = width.max().unwrap_or(0);
    let mut text = String::new();
    for (one, label) in evidence.iter().zip(labels) {
        let pad = " ".repeat(width - label.chars().count());
        let location = history.locate(one.call.source_line);
        let _ = writeln!(text, "    {label}{pad}  {}  {location}", scale.bar(one));
    }
    let common = evidence
        .iter()
        .map(|one| one.span)
        .reduce(Span::intersection)
        .filter(|common| evidence.len() > 1 && !common.is_empty());
    if let Some(common) = common {
        let label = format!("{:>width$}", "at the same time");
        let _ = writeln!(text, "    {label}  {}", scale.mark(common).trim_end());
    }
    let begun = history.bounds().0;
    let moment = |at: u64| format!("+{}", seconds(at.saturating_sub(begun)));
    let (first, last) = (moment(scale.time.from), moment(scale.time.to));
    let gap = BAR.saturating_sub(first.chars().count() + last.chars().count());
    let (pad, gap) = (" ".repeat(width), " ".repeat(gap.max(1)));
    let _ = writeln!(text, "    {pad}  {first}{gap}{last}");
    text
}

/// Formats a duration in seconds, milliseconds, microseconds or nanoseconds.
pub(super) fn seconds(nanos: u64) -> String {
    let (whole, unit, digits) = match nanos {
        0..1_000 => return format!("{nanos} ns"),
        1_000..1_000_000 => (1_000, "µs", 1),
        1_000_000..1_000_000_000 => (1_000_000, "ms", 1),
        _ => (1_000_000_000, "s", 3),
    };
    let scale = 10_u64.pow(digits);
    let part = u128::from(nanos % whole) * u128::from(scale) / u128::from(whole);
    format!("{}.{part:0w$} {unit}", nanos / whole, w = digits as usize)
}

/// Maps times to columns.
struct Scale {
    time: Span,
}

impl Scale {
    fn of(evidence: &[Evidence]) -> Option<Self> {
        let from = evidence.iter().map(|one| one.span.from).min()?;
        let to = evidence.iter().map(|one| one.span.to).max()?;
        let margin = (to.saturating_sub(from) / 20).max(1);
        Some(Self {
            time: Span::new(from.saturating_sub(margin), to.saturating_add(margin)),
        })
    }

    fn bar(&self, one: &Evidence) -> String {
        let (from, to) = (self.column(one.span.from), self.column(one.span.to));
        let waits_from = self.column(one.call.invoked);
        (0..BAR)
            .map(|column| {
                if one.span.is_empty() {
                    // An instant, or a holder that never relied on its grant.
                    if column == from { '|' } else { ' ' }
                } else if (from..to.max(from + 1)).contains(&column) {
                    '█'
                } else if (waits_from..from).contains(&column) {
                    '·'
                } else {
                    ' '
                }
            })
            .collect()
    }

    fn mark(&self, time: Span) -> String {
        let (from, to) = (self.column(time.from), self.column(time.to));
        let marked = from..to.max(from + 1);
        let columns = 0..BAR;
        columns
            .map(|column| if marked.contains(&column) { '▔' } else { ' ' })
            .collect()
    }

    fn column(&self, at: u64) -> usize {
        let length = u128::from(self.time.to - self.time.from).max(1);
        let at = at.clamp(self.time.from, self.time.to) - self.time.from;
        let column = u128::from(at) * (BAR as u128 - 1) / length;
        usize::try_from(column).unwrap_or(0)
    }
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most - 1).collect();
    short.push('…');
    short
}

/// The width of a bar and of a label, in columns.
const BAR: usize = 44;
const LABEL: usize = 48;

#[cfg(test)]
mod tests;
