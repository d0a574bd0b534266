//! Summarises the figures of several rounds, and formats tables of them.

use comfy_table::{CellAlignment, Table, presets};

/// Median, minimum and maximum of some numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Computes the spread; all zero without numbers.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
        let half = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) && half > 0 {
            f64::midpoint(at(half - 1), at(half))
        } else {
            at(half)
        };
        Self {
            median,
            min: at(0),
            max: at(sorted.len().saturating_sub(1)),
        }
    }

    /// Computes the spread of the ratios, number by number: a slow moment of the machine affects both sides of a pair.
    pub fn of_ratios(
        ones: impl IntoIterator<Item = f64>,
        others: impl IntoIterator<Item = f64>,
    ) -> Self {
        let pairs = ones.into_iter().zip(others);
        Self::of(pairs.map(|(one, other)| one / other))
    }

    /// Formats the median.
    pub fn middle(self, digits: usize) -> String {
        format!("{:.digits$}", self.median)
    }

    /// Formats the minimum and the maximum.
    pub fn range(self, digits: usize) -> String {
        format!("{:.digits$}–{:.digits$}", self.min, self.max)
    }
}

/// Starts a table in Markdown; all columns except the first two are for numbers.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_odd_and_an_even_number() {
        let spread = Spread::of([3.0, 1.0, 2.0]);
        assert_eq!((spread.median, spread.min, spread.max), (2.0, 1.0, 3.0));
        let spread = Spread::of([4.0, 1.0, 2.0, 100.0]);
        assert_eq!((spread.median, spread.min, spread.max), (3.0, 1.0, 100.0));
        assert_eq!(Spread::of([]).median.to_bits(), 0);
        assert_eq!(
            (spread.middle(1), spread.range(0)),
            ("3.0".into(), "1–100".into())
        );
    }

    #[test]
    fn a_slow_moment_that_hits_both_does_not_change_the_ratio() {
        // In a bad moment a tenth of both.
        let ratio = Spread::of_ratios([1000.0, 100.0, 1000.0], [2000.0, 200.0, 2000.0]);
        assert_eq!((ratio.median, ratio.min, ratio.max), (0.5, 0.5, 0.5));
    }
}
