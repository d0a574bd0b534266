//! Reads the figures of a benchmark from the tables that it prints, and compares those of two builds.
//!
//! Pure: no I/O and no clock.

use std::fmt::Write as _;

/// One number of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    /// The label of the row.
    name: String,
    /// The unit, which is the heading of the column in most tables.
    unit: String,
    value: f64,
}

/// Reads the Markdown tables in the output of a benchmark, whatever else it prints.
pub(super) fn parse(output: &str) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut header: Option<Vec<&str>> = None;
    for line in output.lines() {
        let Some(row) = line.trim().strip_prefix('|') else {
            header = None;
            continue;
        };
        let cells: Vec<&str> = row
            .trim_end_matches('|')
            .split('|')
            .map(str::trim)
            .collect();
        let Some(header) = &header else {
            header = Some(cells);
            continue;
        };
        let columns = || header.iter().copied().zip(cells.iter().copied());
        let labels = columns().filter(|(heading, _)| LABELS.contains(heading));
        let name = labels.map(|(_, cell)| cell).collect::<Vec<_>>().join(", ");
        let unit = columns().find_map(|(heading, cell)| (heading == "unit").then_some(cell));
        for (heading, cell) in columns() {
            if !VALUES.contains(&heading) {
                continue;
            }
            if let Ok(value) = cell.parse() {
                figures.push(Figure {
                    name: renamed(&name),
                    unit: unit.unwrap_or(heading).to_owned(),
                    value,
                });
            }
        }
    }
    figures
}

/// Returns the present name of a row that an older revision may print under another one.
fn renamed(name: &str) -> String {
    let renamed = RENAMED.iter().find(|(old, _)| *old == name);
    renamed.map_or(name, |(_, new)| new).to_owned()
}

/// Median, minimum and maximum over the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let half = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(values[half - 1], values[half])
        } else {
            values[half]
        };
        Some(Self { median, min, max })
    }

    fn overlaps(self, other: Self) -> bool {
        self.min <= other.max && other.min <= self.max
    }

    fn show(self) -> String {
        let digits = match self.median {
            small if small < 10.0 => 3,
            middle if middle < 100.0 => 1,
            _ => 0,
        };
        let Self { median, min, max } = self;
        format!("{median:.digits$} ({min:.digits$}–{max:.digits$})")
    }
}

/// Compares the rounds of two builds: a table, the figures outside the spread, and those of one build only.
///
/// A figure is outside the spread if the ranges of the two builds do not overlap.
pub(super) fn compare(old: &[Vec<Figure>], new: &[Vec<Figure>]) -> String {
    let mut rows = vec![["figure", "unit", "old", "new", "new/old", ""].map(str::to_owned)];
    let mut outside = Vec::new();
    for figure in names(new) {
        let (before, after) = (values(old, figure), values(new, figure));
        let ratios = before.iter().zip(&after).map(|(old, new)| new / old);
        let ratio = Spread::of(ratios.collect());
        let (Some(before), Some(after), Some(ratio)) =
            (Spread::of(before), Spread::of(after), ratio)
        else {
            continue;
        };
        let verdict = if before.overlaps(after) {
            ""
        } else if (after.median > before.median) == figure.unit.ends_with("/s") {
            "better"
        } else {
            "WORSE"
        };
        if !verdict.is_empty() {
            outside.push(format!("{verdict}: {}, {}", figure.name, figure.unit));
        }
        rows.push([
            figure.name.clone(),
            figure.unit.clone(),
            before.show(),
            after.show(),
            ratio.show(),
            verdict.to_owned(),
        ]);
    }
    let mut text = table(&rows);
    let _ = match outside.len() {
        0 => writeln!(text, "\nevery figure is within the spread of the rounds"),
        count => writeln!(
            text,
            "\n{count} of {} figures are outside the spread:\n{}",
            rows.len() - 1,
            outside.join("\n")
        ),
    };
    for (one, other, which) in [(old, new, "old"), (new, old, "new")] {
        for figure in names(one) {
            if values(other, figure).is_empty() {
                let Figure { name, unit, .. } = figure;
                let _ = writeln!(
                    text,
                    "not compared, only in the {which} build: {name}, {unit}"
                );
            }
        }
    }
    text
}

/// Returns each figure of the rounds once, in the order of printing.
fn names(rounds: &[Vec<Figure>]) -> Vec<&Figure> {
    let mut names: Vec<&Figure> = Vec::new();
    for figure in rounds.iter().flatten() {
        if !names.iter().any(|known| is_same(known, figure)) {
            names.push(figure);
        }
    }
    names
}

fn values(rounds: &[Vec<Figure>], wanted: &Figure) -> Vec<f64> {
    let all = rounds.iter().flatten();
    let found = all.filter(|figure| is_same(figure, wanted));
    found.map(|figure| figure.value).collect()
}

fn is_same(one: &Figure, other: &Figure) -> bool {
    one.name == other.name && one.unit == other.unit
}

/// Formats rows in Markdown, with columns of equal width.
fn table(rows: &[[String; 6]]) -> String {
    let width = |column: usize| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or_default()
    };
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(text, "| {cell:<width$} ");
        }
        text += "|\n";
        if at == 0 {
            for width in widths {
                let _ = write!(text, "|{:-<1$}", "", width + 2);
            }
            text += "|\n";
        }
    }
    text
}

/// The headings of the columns that name a row.
const LABELS: [&str; 6] = [
    "workload",
    "client",
    "who",
    "figure",
    "question",
    "generator",
];

/// The headings of the columns whose numbers are compared.
const VALUES: [&str; 7] = [
    "rate /s",
    "p50 ms",
    "p99 ms",
    "ns per id",
    "zk-cache",
    "CPU µs",
    "allocations",
];

/// Rows that older revisions print under other names.
const RENAMED: [(&str, &str); 3] = [
    ("remote set until told, p50", "remote set until event, p50"),
    ("remote set until told, p99", "remote set until event, p99"),
    ("events told", "events delivered"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(output: &str) -> Vec<(String, String, f64)> {
        let figures = parse(output).into_iter();
        figures
            .map(|figure| (figure.name, figure.unit, figure.value))
            .collect()
    }

    fn expected(figures: &[(&str, &str, f64)]) -> Vec<(String, String, f64)> {
        figures
            .iter()
            .map(|(name, unit, value)| ((*name).to_owned(), (*unit).to_owned(), *value))
            .collect()
    }

    #[test]
    fn the_tables_of_all_benchmarks_are_read() {
        let lock = "Found 1 outlier\n\
            | workload         | rate /s | min–max | p50 ms | p99 ms | reference | ratio | min–max |\n\
            |------------------|--------:|---|---|---|---|---|---|\n\
            | uncontended/lock |     950 | 900–990 | 1.05 | 2.10 | uncontended/create+delete | 0.98 | 0.90–1.00 |\n";
        assert_eq!(
            figures(lock),
            expected(&[
                ("uncontended/lock", "rate /s", 950.0),
                ("uncontended/lock", "p50 ms", 1.05),
                ("uncontended/lock", "p99 ms", 2.1),
            ])
        );
        let queue = "| workload | who | rate /s | min–max | zk-queue is |\n|---|---|---|---|---|\n\
            | drain of 10,000 | zk-queue | 20000 | 20000–20000 |  |\n";
        assert_eq!(
            figures(queue),
            expected(&[("drain of 10,000, zk-queue", "rate /s", 20000.0)])
        );
        let cache = "| figure | unit | zk-cache | min–max | CuratorCache |\n|---|---|---|---|---|\n\
            | events told | /s | 9000 | 8000–9500 |  |\n";
        assert_eq!(
            figures(cache),
            expected(&[("events delivered", "/s", 9000.0)])
        );
        let wire = "| workload | client | rate /s | p50 ms | zk-wire is | CPU µs | allocations |\n|---|---|--:|--:|--:|--:|--:|\n\
            | get, serial | Java client | 4000 | 0.250 | 1.10 × | 90.5 |  |\n";
        assert_eq!(
            figures(wire),
            expected(&[
                ("get, serial, Java client", "rate /s", 4000.0),
                ("get, serial, Java client", "p50 ms", 0.25),
                ("get, serial, Java client", "CPU µs", 90.5),
            ])
        );
        let id = "| question | generator | ns per id | min–max | ours is |\n|---|---|--:|--:|--:|\n\
            | cost, 1 thread | zk-id | 5.0 | 4.0–6.0 |  |\n";
        assert_eq!(
            figures(id),
            expected(&[("cost, 1 thread, zk-id", "ns per id", 5.0)])
        );
    }

    #[test]
    fn a_figure_is_outside_if_the_ranges_do_not_overlap() {
        let rounds = |rates: [(f64, f64); 3]| {
            rates.map(|(rate, nanos)| {
                parse(&format!(
                    "| workload | rate /s |\n|---|---|\n| a | {rate} |\n\n\
                     | question | ns per id |\n|---|---|\n| b | {nanos} |\n"
                ))
            })
        };
        let old = rounds([(100.0, 5.0), (110.0, 6.0), (105.0, 5.5)]);
        let noise = compare(&old, &rounds([(109.0, 5.9), (120.0, 7.0), (130.0, 8.0)]));
        assert!(noise.contains("every figure is within"), "{noise}");
        let changed = compare(&old, &rounds([(210.0, 7.0), (220.0, 7.1), (200.0, 7.2)]));
        assert!(changed.contains("2 of 2 figures are outside"), "{changed}");
        assert!(changed.contains("better: a, rate /s"), "{changed}");
        assert!(changed.contains("WORSE: b, ns per id"), "{changed}");
        assert!(changed.contains("| 2.000 (1.905–2.100) "), "{changed}");
    }

    #[test]
    fn a_figure_of_one_build_only_is_named() {
        let one = |name: &str| {
            vec![parse(&format!(
                "| workload | rate /s |\n|---|---|\n| {name} | 1 |\n"
            ))]
        };
        let text = compare(&one("a"), &one("b"));
        assert!(text.contains("only in the old build: a, rate /s"), "{text}");
        assert!(text.contains("only in the new build: b, rate /s"), "{text}");
    }
}
