//! The table in the document: reads it, and replaces a column.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context as _;

/// The features in their order, and for each version what they do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Table {
    features: Vec<String>,
    columns: BTreeMap<Version, BTreeMap<String, String>>,
}

/// A version such as 3.4.13, ordered by its numbers.
pub(super) type Version = Vec<u32>;

impl Table {
    /// Reads the table between the marks of a document.
    pub(super) fn parse(document: &str) -> anyhow::Result<Self> {
        let [_, table, _] = parts(document)?;
        let mut lines = table.lines().filter(|line| !line.is_empty());
        let mut read = Self::default();
        let Some(header) = lines.next() else {
            return Ok(read);
        };
        let versions = cells(header).into_iter().skip(1).map(parse_version);
        let versions: Vec<Version> = versions.collect::<anyhow::Result<_>>()?;
        for line in lines.skip(1) {
            let mut cells = cells(line).into_iter();
            let feature = cells.next().context("a row names its feature")?.to_owned();
            for (version, cell) in versions.iter().zip(cells) {
                let column = read.columns.entry(version.clone()).or_default();
                column.insert(feature.clone(), cell.to_owned());
            }
            read.features.push(feature);
        }
        Ok(read)
    }

    /// Returns the document with this table between its marks.
    pub(super) fn write_into(&self, document: &str) -> anyhow::Result<String> {
        let [before, _, after] = parts(document)?;
        let table = self.render();
        Ok(format!("{before}{BEGIN}{table}{END}{after}"))
    }

    /// Returns the column of a version, or if there is none, the newest of its series.
    pub(super) fn column(&self, version: &str) -> anyhow::Result<Vec<(&str, &str)>> {
        let numbers = parse_version(version)?;
        let of_series = |(other, _): &(&Version, _)| other[..2] == numbers[..2];
        let series = self.columns.iter().filter(of_series);
        let newest = series.map(|(_, column)| column).next_back();
        let column = self
            .columns
            .get(&numbers)
            .or(newest)
            .with_context(|| {
                format!(
                    "the table has no column of the series of {version}; `cargo xtask test --zookeeper {version}` adds it"
                )
            })?;
        let cell = |feature: &String| column.get(feature).map_or("", String::as_str);
        let features = self.features.iter();
        Ok(features
            .map(|feature| (feature.as_str(), cell(feature)))
            .collect())
    }

    /// Replaces or adds the column of a version. The rows and their order are those of the column.
    pub(super) fn set_column(
        &mut self,
        version: &str,
        column: &[(String, String)],
    ) -> anyhow::Result<()> {
        self.features = column.iter().map(|(feature, _)| feature.clone()).collect();
        let cells = column.iter().cloned().collect();
        self.columns.insert(parse_version(version)?, cells);
        Ok(())
    }

    fn render(&self) -> String {
        let mut out = String::from("\n| feature |");
        for version in self.columns.keys() {
            let numbers: Vec<_> = version.iter().map(ToString::to_string).collect();
            let _infallible = write!(out, " {} |", numbers.join("."));
        }
        out.push_str("\n|---|");
        out.push_str(&"---|".repeat(self.columns.len()));
        out.push('\n');
        for feature in &self.features {
            let _infallible = write!(out, "| {feature} |");
            for column in self.columns.values() {
                let cell = column.get(feature).map_or("not run", String::as_str);
                let _infallible = write!(out, " {cell} |");
            }
            out.push('\n');
        }
        out.push('\n');
        out
    }
}

fn parse_version(text: &str) -> anyhow::Result<Version> {
    let numbers = text
        .split('.')
        .map(str::parse)
        .collect::<Result<Vec<_>, _>>();
    let numbers = numbers.ok().filter(|numbers| numbers.len() == 3);
    numbers.with_context(|| format!("{text} is no version such as 3.9.6"))
}

fn cells(line: &str) -> Vec<&str> {
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(str::trim).collect()
}

/// Returns what is before the table, the table, and what is behind it.
fn parts(document: &str) -> anyhow::Result<[&str; 3]> {
    let found = document.split_once(BEGIN).and_then(|(before, rest)| {
        let (table, after) = rest.split_once(END)?;
        Some([before, table, after])
    });
    found.with_context(|| format!("the document has no `{BEGIN}` … `{END}`"))
}

const BEGIN: &str = "<!-- written by cargo xtask test --zookeeper -->\n";
const END: &str = "<!-- to here -->";

#[cfg(test)]
mod tests {
    use super::*;

    fn document(table: &str) -> String {
        format!("# Title\n\n{BEGIN}{table}{END}\n\nThe end.\n")
    }

    fn column(cells: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(feature, cell): &(&str, &str)| ((*feature).to_owned(), (*cell).to_owned());
        cells.iter().map(owned).collect()
    }

    #[test]
    fn columns_are_ordered_by_version_and_read_back() {
        let mut table = Table::parse(&document("")).unwrap();
        for version in ["3.10.0", "3.9.6", "3.4.13"] {
            let cells = [("create", "works"), ("ttl", version)];
            table.set_column(version, &column(&cells)).unwrap();
        }
        let written = table.write_into(&document("\nold\n")).unwrap();
        assert_eq!(table.write_into(&document("")).unwrap(), written);
        let expected = "
| feature | 3.4.13 | 3.9.6 | 3.10.0 |
|---|---|---|---|
| create | works | works | works |
| ttl | 3.4.13 | 3.9.6 | 3.10.0 |

";
        assert_eq!(written, document(expected));
        assert_eq!(Table::parse(&written).unwrap(), table);
    }

    #[test]
    fn a_version_without_a_column_is_compared_with_its_series() {
        let mut table = Table::default();
        for version in ["3.4.13", "3.9.3", "3.9.6"] {
            table
                .set_column(version, &column(&[("x", version)]))
                .unwrap();
        }
        for (version, expected) in [
            ("3.9.3", "3.9.3"),
            ("3.9.7", "3.9.6"),
            ("3.9.0", "3.9.6"),
            ("3.4.14", "3.4.13"),
        ] {
            assert_eq!(table.column(version).unwrap(), [("x", expected)]);
        }
        let error = table.column("3.7.0").unwrap_err().to_string();
        assert!(
            error.ends_with("`cargo xtask test --zookeeper 3.7.0` adds it"),
            "{error}"
        );
        assert!(table.column("3.9").is_err());
    }

    #[test]
    fn rows_that_a_column_lacks_are_marked() {
        let mut table = Table::default();
        table
            .set_column("3.8.0", &column(&[("a", "works")]))
            .unwrap();
        table
            .set_column("3.9.6", &column(&[("b", "works"), ("a", "works")]))
            .unwrap();
        assert!(
            table
                .render()
                .contains("| b | not run | works |\n| a | works | works |")
        );
        assert_eq!(table.column("3.8.0").unwrap(), [("b", ""), ("a", "works")]);
    }

    #[test]
    fn a_document_without_marks_is_refused() {
        assert!(Table::parse("# Title").is_err());
        assert!(Table::default().write_into("# Title").is_err());
    }
}
