//! Which feature rows the tests say they cover.

use std::collections::BTreeSet;

/// The rows of the feature list: a letter for the part, and how many it has.
const ROWS: &[(char, u32)] = &[
    ('C', 18),
    ('K', 5),
    ('G', 5),
    ('L', 13),
    ('E', 3),
    ('Q', 5),
    ('I', 5),
    ('D', 2),
    ('H', 9),
];

/// The rows that a `// covers:` mark names.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    covered: BTreeSet<String>,
}

impl Coverage {
    /// Takes the marks of one file, and returns what is wrong with them.
    pub(super) fn add(&mut self, text: &str) -> Vec<String> {
        let mut problems = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let Some(marked) = line.trim_start().strip_prefix("// covers:") else {
                continue;
            };
            let rows: Vec<&str> = marked
                .split([' ', ','])
                .filter(|row| !row.is_empty())
                .collect();
            if rows.is_empty() {
                problems.push(format!(
                    "{}: a covers mark names at least one feature row",
                    at + 1
                ));
            }
            for row in rows {
                if all().any(|known| known == row) {
                    self.covered.insert(row.to_owned());
                } else {
                    problems.push(format!("{}: {row} is no feature row", at + 1));
                }
            }
        }
        problems
    }

    /// The rows no test is marked with, in the list's order.
    pub(super) fn uncovered(&self) -> Vec<String> {
        all().filter(|row| !self.covered.contains(row)).collect()
    }
}

fn all() -> impl Iterator<Item = String> {
    ROWS.iter()
        .flat_map(|&(part, count)| (1..=count).map(move |number| format!("{part}{number}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_take_rows_off_the_list() {
        let mut coverage = Coverage::default();
        assert_eq!(coverage.uncovered().len(), 65);
        let problems =
            coverage.add("// covers: H1 H2\n#[test]\nfn a() {}\n    // covers: C18, L13\n");
        assert_eq!(problems, [""; 0]);
        let left = coverage.uncovered();
        assert_eq!(left.len(), 61);
        assert!(
            ["H1", "H2", "C18", "L13"]
                .iter()
                .all(|row| !left.contains(&(*row).to_owned()))
        );
    }

    #[test]
    fn unknown_rows_and_empty_marks_are_told_with_their_line() {
        let mut coverage = Coverage::default();
        let problems = coverage.add("\n// covers: H10 C1 X1 c2\n// covers:\n");
        assert_eq!(
            problems,
            [
                "2: H10 is no feature row",
                "2: X1 is no feature row",
                "2: c2 is no feature row",
                "3: a covers mark names at least one feature row"
            ]
        );
        assert!(!coverage.uncovered().contains(&"C1".to_owned()));
    }

    #[test]
    fn text_about_marks_is_no_mark() {
        let mut coverage = Coverage::default();
        assert_eq!(
            coverage.add("let s = \"// covers: X9\";\n//! A mark is `// covers: X9`.\n"),
            [""; 0]
        );
    }
}
