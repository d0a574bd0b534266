//! Finding times for which two held what only one may hold.

use serde::Deserialize;
use serde::Serialize;

/// A time between two moments, in nanoseconds of one clock; the second one belongs to it no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Span {
    /// When it began.
    pub from: u64,
    /// When it ended.
    pub to: u64,
}

impl Span {
    /// Makes the span between two moments.
    pub const fn new(from: u64, to: u64) -> Self {
        Self { from, to }
    }
}

/// Finds the spans that began before an earlier one had ended, each with the one that ends last of those before it.
///
/// Empty if and only if no two of them overlap.
pub fn overlaps<T>(items: &[T], span: impl Fn(&T) -> Span) -> Vec<(&T, &T)> {
    let mut sorted: Vec<&T> = items
        .iter()
        .filter(|item| span(item).from < span(item).to)
        .collect();
    sorted.sort_by_key(|item| span(item).from);
    let mut found = Vec::new();
    let mut last: Option<&T> = None;
    for item in sorted {
        if let Some(before) = last.filter(|before| span(item).from < span(before).to) {
            found.push((before, item));
        }
        if last.is_none_or(|before| span(before).to < span(item).to) {
            last = Some(item);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(spans: &[(u64, u64)]) -> Vec<((u64, u64), (u64, u64))> {
        overlaps(spans, |span| Span::new(span.0, span.1))
            .into_iter()
            .map(|(before, after)| (*before, *after))
            .collect()
    }

    #[test]
    fn spans_that_only_touch_do_not_overlap() {
        assert_eq!(found(&[(5, 9), (1, 5), (9, 9), (9, 12)]), []);
        assert_eq!(found(&[]), []);
    }

    #[test]
    fn a_long_span_is_compared_with_all_that_begin_in_it() {
        assert_eq!(
            found(&[(4, 5), (1, 9), (6, 12), (2, 3)]),
            [((1, 9), (2, 3)), ((1, 9), (4, 5)), ((1, 9), (6, 12)),]
        );
    }

    #[test]
    fn it_finds_something_exactly_when_a_pair_overlaps() {
        let all: Vec<(u64, u64)> = (0..5)
            .flat_map(|from| (from..5).map(move |to| (from, to)))
            .collect();
        for a in &all {
            for b in &all {
                for c in &all {
                    let spans = [*a, *b, *c];
                    let overlap = |x: &(u64, u64), y: &(u64, u64)| x.0.max(y.0) < x.1.min(y.1);
                    let expected = overlap(a, b) || overlap(a, c) || overlap(b, c);
                    assert_eq!(!found(&spans).is_empty(), expected, "{spans:?}");
                }
            }
        }
    }
}
