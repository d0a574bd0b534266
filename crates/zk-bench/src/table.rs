//! Formats the results as a table.

use comfy_table::CellAlignment;
use comfy_table::Table;
use comfy_table::presets;

use crate::result::Spread;
use crate::result::WorkloadResult;

/// Formats the results: with box-drawing characters for a terminal, otherwise in Markdown.
pub fn table(results: &[WorkloadResult], terminal: bool) -> String {
    let mut table = Table::new();
    table.load_style(if terminal {
        presets::UTF8_FULL_CONDENSED
    } else {
        presets::ASCII_MARKDOWN
    });
    table.set_header([
        "workload",
        "rate /s",
        "min–max",
        "p50 ms",
        "p99 ms",
        "reference",
        "ratio",
        "min–max",
    ]);
    for result in results {
        let (reference, ratio, spread) = match &result.reference {
            Some(reference) => (
                reference.workload.clone(),
                format!("{:.2}", reference.ratio.median),
                range(reference.ratio, 2),
            ),
            None => Default::default(),
        };
        table.add_row([
            result.workload.clone(),
            format!("{:.0}", result.rate.median),
            range(result.rate, 0),
            millis(result.p50_micros),
            millis(result.p99_micros),
            reference,
            ratio,
            spread,
        ]);
    }
    for index in NUMBERS {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

fn range(spread: Spread, digits: usize) -> String {
    format!("{:.digits$}–{:.digits$}", spread.min, spread.max)
}

fn millis(micros: f64) -> String {
    format!("{:.2}", micros / 1e3)
}

const NUMBERS: [usize; 6] = [1, 2, 3, 4, 6, 7];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::result::results;
    use crate::round::Latencies;
    use crate::round::Round;

    fn example() -> [WorkloadResult; 2] {
        let round = |millis: u64| {
            let mut latencies = Latencies::default();
            for _ in 0..1000 {
                latencies.record(Duration::from_micros(1500));
            }
            Round::new(Duration::from_millis(millis), latencies)
        };
        let pairs = [
            [round(1000), round(500)],
            [round(1250), round(500)],
            [round(1000), round(1000)],
        ];
        results("contention/5", "hand-overs", ["lock", "chain"], &pairs)
    }

    #[test]
    fn away_from_a_terminal_it_is_markdown() {
        let text = table(&example(), false);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
            .collect();
        assert_eq!(rows.len(), 4, "{text}");
        assert!(
            rows[1]
                .iter()
                .all(|cell| cell.trim_matches(':').chars().all(|c| c == '-')),
            "{text}"
        );
        assert_eq!(
            rows[2],
            [
                "contention/5/lock",
                "1000",
                "800–1000",
                "1.50",
                "1.50",
                "contention/5/chain",
                "0.50",
                "0.40–1.00"
            ]
        );
        assert_eq!(
            rows[3],
            [
                "contention/5/chain",
                "2000",
                "1000–2000",
                "1.50",
                "1.50",
                "",
                "",
                ""
            ]
        );
        assert!(
            text.is_ascii() || !text.contains('│'),
            "no drawn lines: {text}"
        );
    }

    #[test]
    fn a_terminal_gets_drawn_lines() {
        assert!(table(&example(), true).contains('│'));
    }
}
