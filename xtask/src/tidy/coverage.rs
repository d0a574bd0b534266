//! Finds the tests of each feature row, and what they run against.
//!
//! A mark `// covers: L1` counts if it is directly above a test. The name of the test binary says what the test runs
//! against: *real* servers for `it` and `cli`, the *simulated* ensemble for `sim`; any other test is *pure*.
//! It reads lines, not syntax, which suffices for a tree that rustfmt has formatted.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The rows of the feature list: the letter of the part, its number of rows, and how many of them work.
///
/// The others are future features: their marks count, and without a mark they are listed as not built.
const ROWS: &[(char, u32, u32)] = &[
    ('C', 25, 18),
    ('K', 5, 5),
    ('G', 5, 5),
    ('L', 14, 13),
    ('E', 3, 3),
    ('Q', 5, 5),
    ('I', 5, 5),
    ('D', 2, 2),
    ('H', 10, 10),
    ('W', 7, 7),
    ('M', 6, 0),
    ('O', 6, 0),
    ('S', 4, 4),
    ('V', 2, 2),
];

/// Rows that need no server, and the reason.
const SERVER_ADDS_NOTHING: &[(&str, &str)] = &[
    ("H9", "checkers judge recorded text"),
    (
        "H10",
        "the claim is that the simulated ensemble needs no server",
    ),
    (
        "I3",
        "the bits of an id and its clock are arithmetic; no request is made for an id",
    ),
    ("I4", "no request is made for an id"),
    ("S4", "parsers take bytes from the test"),
    ("V2", "the differences are played by a scripted server"),
    ("W1", "the protocol core has no I/O"),
];

/// What a test runs against, the strongest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Against {
    Nothing,
    Simulation,
    Servers,
}

/// The result of all marks.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Rows of working features without a marked test.
    pub(super) uncovered: Vec<String>,
    /// Rows that need a server but have only tests without one.
    pub(super) weak: Vec<String>,
    /// Rows of future features without a test.
    pub(super) not_built: Vec<String>,
    shown: BTreeMap<String, Vec<(Against, String)>>,
}

impl Against {
    /// Returns what the tests of a file run against.
    fn of(path: &str) -> Self {
        let parts: Vec<&str> = path.split('/').collect();
        let binary = parts.windows(2).find(|pair| pair[0] == "tests");
        match binary.map_or("", |pair| pair[1]) {
            "it" | "cli" => Self::Servers,
            "sim" => Self::Simulation,
            // The directory of the tests across crates has the same name.
            "tests" => Self::of(&path["tests/".len()..]),
            _ => Self::Nothing,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Nothing => "pure",
            Self::Simulation => "simulated",
            Self::Servers => "real",
        }
    }
}

impl Rows {
    /// Adds the marks of a file, whose `path` begins at the workspace's root; returns their problems.
    pub(super) fn add(&mut self, path: &str, text: &str) -> Vec<String> {
        let against = Against::of(path);
        let on_each_backend = on_each_backend(text);
        let mut problems = Vec::new();
        let mut marks: Vec<(usize, &str)> = Vec::new();
        let (mut is_test, mut in_attribute) = (false, false);
        for (number, line) in (1..).zip(text.lines()) {
            let code = line.trim();
            if in_attribute || code.starts_with("#[") {
                is_test |= code.starts_with("#[test]") || code.starts_with("#[tokio::test");
                in_attribute = !code.ends_with(']');
            } else if let Some(rows) = code.strip_prefix("// covers:") {
                let rows = rows.split([' ', ',']).filter(|row| !row.is_empty());
                let before = marks.len();
                marks.extend(rows.map(|row| (number, row)));
                if marks.len() == before {
                    problems.push(format!(
                        "{number}: a covers mark names at least one feature row"
                    ));
                }
            } else if !code.starts_with("//") {
                let name = function_name(code);
                let test = name.filter(|name| is_test || on_each_backend.contains(name));
                for (number, row) in marks.drain(..) {
                    let Some(test) = test else {
                        problems.push(format!(
                            "{number}: a covers mark stands directly above a test, with nothing but attributes and comments between"
                        ));
                        continue;
                    };
                    if !all().any(|(known, _)| known == row) {
                        problems.push(format!("{number}: {row} is not a feature row"));
                    }
                    let tests = self.shown.entry(row.to_owned()).or_default();
                    tests.push((against, format!("{path} {test}")));
                }
                is_test = false;
            }
        }
        problems
    }

    /// Evaluates the marks, after all files were added.
    pub(super) fn evaluate(&mut self) {
        for (row, is_built) in all() {
            let tests = self.shown.get(&row).into_iter().flatten();
            let needs_server = !SERVER_ADDS_NOTHING.iter().any(|(it, _)| *it == row);
            match tests.map(|(against, _)| *against).max() {
                None if is_built => self.uncovered.push(row),
                None => self.not_built.push(row),
                Some(against) if needs_server && against != Against::Servers => self.weak.push(row),
                Some(_) => {}
            }
        }
    }

    /// Formats every row with its tests.
    pub(super) fn list(&self) -> String {
        let mut list = String::new();
        for (row, is_built) in all() {
            let reason = SERVER_ADDS_NOTHING.iter().find(|(it, _)| *it == row);
            let note = match (self.shown.get(&row), reason) {
                (None, _) if is_built => " no test".to_owned(),
                (None, _) => " not built yet".to_owned(),
                (Some(_), Some((_, why))) => format!(" (a server adds nothing: {why})"),
                (Some(_), None) if self.weak.contains(&row) => " NO REAL SERVER".to_owned(),
                (Some(_), None) => String::new(),
            };
            writeln!(list, "{row}{note}").expect("a string takes everything");
            for (against, place) in self.shown.get(&row).into_iter().flatten() {
                let word = against.word();
                writeln!(list, "    {word:<9} {place}").expect("a string takes everything");
            }
        }
        list
    }
}

/// Returns the functions that `on_each_backend!` turns into tests.
fn on_each_backend(text: &str) -> Vec<&str> {
    let Some((_, list)) = text.split_once("\non_each_backend! {") else {
        return Vec::new();
    };
    let (list, _) = list.split_once('}').unwrap_or((list, ""));
    let names = list.split(',').filter_map(|one| one.split(':').next());
    names.map(str::trim).collect()
}

/// The name behind `fn`, if the line begins a function.
fn function_name(code: &str) -> Option<&str> {
    let (before, after) = code.split_once("fn ")?;
    let is_function = before.split_whitespace().all(|word| {
        matches!(
            word,
            "pub" | "pub(crate)" | "pub(super)" | "const" | "async"
        )
    });
    let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$'))?;
    (is_function && end > 0).then(|| &after[..end])
}

/// Every row, and whether its feature works.
fn all() -> impl Iterator<Item = (String, bool)> {
    ROWS.iter().flat_map(|&(part, count, built)| {
        (1..=count).map(move |number| (format!("{part}{number}"), number <= built))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: &str = "#[test]\nfn a() {\n    assert!(true);\n}\n";

    fn rows_of(files: &[(&str, &str)]) -> Rows {
        let mut rows = Rows::default();
        for (path, marks) in files {
            let problems = rows.add(path, &format!("// covers: {marks}\n{TEST}"));
            assert_eq!(problems, [""; 0], "{path}");
        }
        rows.evaluate();
        rows
    }

    #[test]
    fn marks_above_tests_take_rows_off_the_list() {
        let before = rows_of(&[]);
        assert_eq!((before.uncovered.len(), before.not_built.len()), (79, 20));
        let after = rows_of(&[("crates/a/src/b/tests.rs", "H1 H2, C18, M3")]);
        assert_eq!((after.uncovered.len(), after.not_built.len()), (76, 19));
        assert_eq!(after.weak, ["C18", "H1", "H2", "M3"]);
    }

    #[test]
    fn the_binary_says_what_a_test_runs_against() {
        let rows = rows_of(&[
            ("crates/a/tests/it/b/c.rs", "L1"),
            ("crates/a/tests/sim/b.rs", "L2"),
            ("crates/a/tests/cli/b.rs", "L3"),
            ("tests/tests/it/lock/rw.rs", "L4"),
            ("examples/a/tests/it/b.rs", "L5"),
            ("crates/a/src/b/tests.rs", "L6"),
            ("crates/a/tests/provision/b.rs", "L7"),
            ("crates/a/tests/sim/b.rs", "I4"),
        ]);
        assert_eq!(rows.weak, ["L2", "L6", "L7"], "a server adds nothing to I4");
        let list = rows.list();
        for line in [
            "L1",
            "    real      crates/a/tests/it/b/c.rs a",
            "L2 NO REAL SERVER",
            "    simulated crates/a/tests/sim/b.rs a",
            "    pure      crates/a/src/b/tests.rs a",
            "L8 no test",
            "I4 (a server adds nothing: no request is made for an id)",
            "M1 not built yet",
        ] {
            assert!(list.lines().any(|it| it == line), "{line}: {list}");
        }
    }

    #[test]
    fn a_mark_stands_above_a_test_and_nowhere_else() {
        let problems = |text: &str| Rows::default().add("a/src/b.rs", text);
        for fine in [
            "// covers: L1\n/// A claim.\n#[tokio::test(flavor = \"multi_thread\")]\n// covers: L3\n\
             #[expect(\n    lint,\n    reason = \"a reason\"\n)]\nasync fn one() {\n}\n",
            "\non_each_backend! {\n    one: \"a\",\n}\n// covers: L1\nasync fn one() {\n}\n",
            "let s = \"// covers: X9\";\n//! A mark is `// covers: X9`.\n",
        ] {
            assert_eq!(problems(fine), [""; 0], "{fine}");
        }
        for wrong in [
            "// covers: L1\nfn helper() {}\n",
            "// covers: L1\n\nuse std::fmt;\n\n#[test]\nfn a() {}\n",
            "// covers: L1\n#[derive(Debug)]\nstruct A;\n",
        ] {
            let problems = problems(wrong);
            let [problem] = &problems[..] else {
                panic!("{wrong}: {problems:?}");
            };
            assert!(problem.starts_with("1: a covers mark stands"), "{problem}");
        }
        assert_eq!(
            problems("\n// covers:\n#[test]\nfn a() {}\n"),
            ["2: a covers mark names at least one feature row"]
        );
        assert_eq!(
            problems("\n// covers: H11 C1 c2\n#[test]\nfn a() {}\n"),
            ["2: H11 is not a feature row", "2: c2 is not a feature row"]
        );
    }

    #[test]
    fn rows_to_which_a_server_adds_nothing_are_rows() {
        for (row, why) in SERVER_ADDS_NOTHING {
            assert!(all().any(|(known, _)| known == *row), "{row}");
            assert!(!why.is_empty(), "{row}");
        }
    }
}
