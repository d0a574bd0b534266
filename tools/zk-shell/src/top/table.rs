//! Tables of rows that can be sorted, filtered, printed and turned into JSON.
//!
//! Pure: no I/O and no clock.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use crate::escape;

/// A column, and its key in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) key: &'static str,
    pub(crate) is_number: bool,
    /// Whether its text tells the row from others, by itself or with other columns of this kind.
    pub(crate) is_in_id: bool,
}

/// What tells a row from the others of its table: the texts of some of its cells.
pub(crate) type RowId = Vec<String>;

impl Column {
    pub(crate) const fn text(title: &'static str, key: &'static str) -> Self {
        Self {
            title,
            key,
            is_number: false,
            is_in_id: false,
        }
    }

    /// A text that is in the id of the row.
    pub(crate) const fn id(title: &'static str, key: &'static str) -> Self {
        Self {
            is_in_id: true,
            ..Self::text(title, key)
        }
    }

    pub(crate) const fn number(title: &'static str, key: &'static str) -> Self {
        Self {
            title,
            key,
            is_number: true,
            is_in_id: false,
        }
    }
}

/// A value as it is shown, and as it is sorted by.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    value: CellValue,
}

#[derive(Debug, Clone, PartialEq)]
enum CellValue {
    Unknown,
    Number(f64),
    Text(String),
}

impl Cell {
    /// A value that was not read.
    pub(crate) fn unknown() -> Self {
        Self {
            text: "-".to_owned(),
            value: CellValue::Unknown,
        }
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            value: CellValue::Text(text.clone()),
            text: printable(&text),
        }
    }

    /// A number with the form in which it is shown.
    #[expect(
        clippy::cast_precision_loss,
        reason = "figures beyond 2^53 are sorted well enough"
    )]
    pub(crate) fn count(number: u64, shown: impl Into<String>) -> Self {
        Self::number(number as f64, shown)
    }

    pub(crate) fn number(number: f64, shown: impl Into<String>) -> Self {
        Self {
            text: shown.into(),
            value: CellValue::Number(number),
        }
    }

    /// The text without escapes; empty unless the cell was made of a text.
    pub(crate) fn raw(&self) -> &str {
        match &self.value {
            CellValue::Text(text) => text,
            CellValue::Unknown | CellValue::Number(_) => "",
        }
    }

    fn json(&self) -> Value {
        match &self.value {
            CellValue::Unknown => Value::Null,
            CellValue::Number(number) => json_number(*number),
            CellValue::Text(text) => Value::String(text.clone()),
        }
    }
}

/// How a row is emphasised; never by colour alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Emphasis {
    #[default]
    None,
    /// The leader, or a holder.
    Strong,
    /// Something that is wrong.
    Alarm,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Cell>,
    pub(crate) emphasis: Emphasis,
}

impl Row {
    pub(crate) fn new(cells: Vec<Cell>) -> Self {
        Self {
            cells,
            emphasis: Emphasis::None,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    pub(crate) columns: &'static [Column],
    pub(crate) rows: Vec<Row>,
    pub(crate) notes: Vec<Note>,
}

/// A line below a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) text: String,
    /// Whether something is missing or wrong.
    pub(crate) is_problem: bool,
}

impl Note {
    pub(crate) fn problem(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_problem: true,
        }
    }

    pub(crate) fn remark(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_problem: false,
        }
    }

    /// The line, with a mark if it is a problem.
    pub(crate) fn line(&self) -> String {
        let mark = if self.is_problem { "! " } else { "  " };
        format!("{mark}{}", escape::line(&self.text))
    }
}

/// By which column a table is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Order {
    pub(crate) column: usize,
    pub(crate) is_descending: bool,
}

impl Table {
    pub(crate) fn id(&self, row: &Row) -> RowId {
        let cells = self.columns.iter().zip(&row.cells);
        let of_id = cells.filter(|(column, _)| column.is_in_id);
        of_id.map(|(_, cell)| cell.raw().to_owned()).collect()
    }

    /// Returns the place of a row, if it is there.
    pub(crate) fn position(&self, id: &RowId) -> Option<usize> {
        self.rows.iter().position(|row| self.id(row) == *id)
    }

    /// Keeps the rows with `filter` in one of their cells, in any case, and sorts them. Unknown values come last.
    pub(crate) fn arranged(mut self, filter: &str, order: Order) -> Self {
        let filter = filter.to_lowercase();
        self.rows.retain(|row| {
            let mut cells = row.cells.iter();
            filter.is_empty() || cells.any(|cell| cell.text.to_lowercase().contains(&filter))
        });
        self.rows.sort_by(
            |a, b| match (a.cells.get(order.column), b.cells.get(order.column)) {
                (Some(a), Some(b)) => compare(&a.value, &b.value, order.is_descending),
                _ => Ordering::Equal,
            },
        );
        self
    }

    /// The rows below the titles, and then the notes.
    pub(crate) fn plain(&self) -> String {
        let widths = self.widths();
        let mut lines = vec![];
        let titles: Vec<&str> = self.columns.iter().map(|column| column.title).collect();
        lines.push(self.line(&titles, &widths));
        for row in &self.rows {
            let cells: Vec<&str> = row.cells.iter().map(|cell| cell.text.as_str()).collect();
            lines.push(self.line(&cells, &widths));
        }
        lines.extend(self.notes.iter().map(Note::line));
        lines.push(String::new());
        lines.join("\n")
    }

    fn line(&self, cells: &[&str], widths: &[usize]) -> String {
        let cells = cells.iter().zip(widths).zip(self.columns);
        let cells: Vec<_> = cells
            .map(|((cell, &width), column)| padded(cell, width, column.is_number))
            .collect();
        cells.join("  ").trim_end().to_owned()
    }

    /// The width of each column, in cells of a terminal.
    pub(crate) fn widths(&self) -> Vec<usize> {
        let of = |at: usize, column: &Column| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(at));
            let widest = cells.map(|cell| width_of(&cell.text)).max();
            widest.unwrap_or(0).max(width_of(column.title))
        };
        let columns = self.columns.iter().enumerate();
        columns.map(|(at, column)| of(at, column)).collect()
    }

    /// An array with an object for each row.
    pub(crate) fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let fields = self.columns.iter().zip(&row.cells);
            let fields: Map<String, Value> = fields
                .map(|(column, cell)| (column.key.to_owned(), cell.json()))
                .collect();
            Value::Object(fields)
        });
        Value::Array(rows.collect())
    }
}

fn compare(a: &CellValue, b: &CellValue, is_descending: bool) -> Ordering {
    let ordering = match (a, b) {
        (CellValue::Unknown, CellValue::Unknown) => return Ordering::Equal,
        (CellValue::Unknown, _) => return Ordering::Greater,
        (_, CellValue::Unknown) => return Ordering::Less,
        (CellValue::Number(a), CellValue::Number(b)) => a.total_cmp(b),
        (CellValue::Text(a), CellValue::Text(b)) => a.cmp(b),
        (CellValue::Number(_), CellValue::Text(_)) => Ordering::Less,
        (CellValue::Text(_), CellValue::Number(_)) => Ordering::Greater,
    };
    if is_descending {
        ordering.reverse()
    } else {
        ordering
    }
}

/// Whole numbers are written without a fraction.
fn json_number(number: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is whole and below 2^53"
    )]
    if number.fract() == 0.0 && number.abs() < EXACT {
        Value::from(number as i64)
    } else {
        Value::from(number)
    }
}

/// The text on a line, without characters that a terminal acts upon.
pub(crate) fn printable(text: &str) -> String {
    escape::line(text).into_owned()
}

/// How many cells of a terminal a text takes.
pub(crate) fn width_of(text: &str) -> usize {
    ratatui::text::Span::raw(text).width()
}

/// The text with spaces up to a width, before it if it is a number.
pub(crate) fn padded(text: &str, width: usize, is_number: bool) -> String {
    let spaces = " ".repeat(width.saturating_sub(width_of(text)));
    if is_number {
        format!("{spaces}{text}")
    } else {
        format!("{text}{spaces}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[Column::id("NAME", "name"), Column::number("N", "n")];

    fn table() -> Table {
        let row = |name: &str, number: Option<u64>| {
            let number = number.map_or_else(Cell::unknown, |n| Cell::count(n, n.to_string()));
            Row::new(vec![Cell::text(name), number])
        };
        Table {
            columns: COLUMNS,
            rows: vec![
                row("b", Some(10)),
                row("Abc", None),
                row("c", Some(9)),
                row("é", Some(100)),
            ],
            notes: vec![Note::problem("mntr is missing"), Note::remark("press c")],
        }
    }

    fn names(table: &Table) -> Vec<&str> {
        let rows = table.rows.iter();
        rows.map(|row| row.cells[0].text.as_str()).collect()
    }

    #[test]
    fn rows_are_sorted_by_value_and_unknown_ones_are_last() {
        for (column, is_descending, expected) in [
            (1, false, ["c", "b", "é", "Abc"]),
            (1, true, ["é", "b", "c", "Abc"]),
            (0, false, ["Abc", "b", "c", "é"]),
            (0, true, ["é", "c", "b", "Abc"]),
            (7, true, ["b", "Abc", "c", "é"]),
        ] {
            let order = Order {
                column,
                is_descending,
            };
            assert_eq!(
                names(&table().arranged("", order)),
                expected,
                "{column} {is_descending}"
            );
        }
    }

    #[test]
    fn a_filter_keeps_rows_that_contain_it_in_any_case() {
        let order = Order::default();
        for (filter, expected) in [
            ("B", &["Abc", "b"][..]),
            ("a", &["Abc"]),
            ("10", &["b", "é"]),
            ("É", &["é"]),
            ("nothing", &[]),
        ] {
            assert_eq!(
                names(&table().arranged(filter, order)),
                expected,
                "{filter}"
            );
        }
    }

    #[test]
    fn plain_text_has_aligned_columns_and_notes() {
        assert_eq!(
            table().plain(),
            "NAME    N\nb      10\nAbc     -\nc       9\né     100\n! mntr is missing\n  press c\n"
        );
    }

    #[test]
    fn json_has_a_key_for_each_column() {
        assert_eq!(
            table().json().to_string(),
            r#"[{"n":10,"name":"b"},{"n":null,"name":"Abc"},{"n":9,"name":"c"},{"n":100,"name":"é"}]"#
        );
    }

    #[test]
    fn control_characters_never_reach_a_terminal() {
        for hostile in [
            "\u{1b}[2J\u{1b}]0;title\u{7}",
            "a\nb\tc\rd",
            "\u{9b}31m",
            "\u{202e}gnp.exe",
            "\u{7f}",
        ] {
            let shown = Cell::text(hostile).text;
            assert!(
                !shown.chars().any(|c| c.is_control() || c == '\u{202e}'),
                "{shown:?}"
            );
            assert_ne!(shown, "");
        }
        assert_eq!(Cell::text("grüße/日本").text, "grüße/日本");
    }
}
