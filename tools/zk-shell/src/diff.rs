//! Compares texts line by line, in bounded time.

use std::time::Duration;

use similar::TextDiff;

/// Returns the difference of two texts, not always the smallest one: for long texts with little in common that takes time
/// that grows with the product of their lengths.
pub(crate) fn lines<'a>(old: &'a str, new: &'a str) -> TextDiff<'a, 'a, 'a, str> {
    TextDiff::configure().timeout(LIMIT).diff_lines(old, new)
}

const LIMIT: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_with_little_in_common_are_compared_soon() {
        let text = |seed: u64| {
            let lines = (0..100_000_u64).map(|at| format!("{:x}\n", (at * 31 + seed) % 99_991));
            lines.collect::<String>()
        };
        let (old, new) = (text(1), text(50_000));
        let begin = std::time::Instant::now();
        assert!(!lines(&old, &new).ops().is_empty());
        assert!(begin.elapsed().as_secs() < 5, "{:?}", begin.elapsed());
    }
}
