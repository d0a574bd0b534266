//! Finds the tests of each feature row, and whether they use real servers.
//!
//! A mark `// covers: L1` counts if it is directly above a test that asserts something, itself or in a function of the
//! same test binary that it names.
//! The test is *real* if it, or such a function, starts an ensemble of `zk-harness`; *simulated* if the files of these
//! functions name `zk_sim`; otherwise *pure*.
//! Tests below `src` are never real: they are compiled without the harness.

mod functions;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use functions::Against;
use functions::Function;

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
    ('H', 10, 9),
    ('W', 7, 0),
    ('M', 6, 0),
    ('O', 6, 0),
    ('S', 4, 0),
    ('V', 2, 0),
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

impl Against {
    const fn word(self) -> &'static str {
        match self {
            Self::Nothing => "pure",
            Self::Simulation => "simulated",
            Self::Servers => "real",
        }
    }
}

/// The functions of all files, with their marks.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    functions: Vec<Function>,
    mains: BTreeSet<String>,
}

/// The result of all marks.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Broken rules, as `file:line: problem`.
    pub(super) problems: Vec<String>,
    /// Rows of working features without a marked test that asserts something.
    pub(super) uncovered: Vec<String>,
    /// Rows that need a server but have only tests without one.
    pub(super) weak: Vec<String>,
    /// Rows of future features without a test.
    pub(super) not_built: Vec<String>,
    shown: BTreeMap<String, Vec<(Against, String)>>,
}

impl Coverage {
    /// Adds a file, and returns the problems of its marks.
    pub(super) fn add(&mut self, path: &str, text: &str) -> Vec<String> {
        let scan = functions::scan(path, text);
        let mut problems = scan.problems;
        for function in &scan.functions {
            for row in &function.rows {
                if !all().any(|(known, _)| known == *row) {
                    problems.push(format!("{}: {row} is not a feature row", function.line));
                }
            }
        }
        if let Some(directory) = path.strip_suffix("/main.rs") {
            self.mains.insert(directory.to_owned());
        }
        self.functions.extend(scan.functions);
        problems
    }

    /// Evaluates the marks, after all files were added.
    pub(super) fn rows(&mut self) -> Rows {
        // Most names in a function are not functions.
        let functions = self.functions.iter().map(|it| it.name.clone());
        let functions: BTreeSet<String> = functions.collect();
        for function in &mut self.functions {
            function.names.retain(|name| functions.contains(name));
        }
        let mut by_name: BTreeMap<(&str, &str), Vec<&Function>> = BTreeMap::new();
        for function in self.functions.iter().filter(|it| !it.is_test) {
            let key = (function.binary.as_str(), function.name.as_str());
            by_name.entry(key).or_default().push(function);
        }
        let mut scopes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut rows = Rows::default();
        for test in self.functions.iter().filter(|it| !it.rows.is_empty()) {
            let scopes = scopes
                .entry(&test.binary)
                .or_insert_with(|| self.scopes(&test.binary));
            let reached = reached(test, scopes, &by_name);
            if !reached.iter().any(|it| it.asserts) {
                rows.problems.push(format!(
                    "{}:{}: a covers mark stands above a test that asserts nothing: {}",
                    test.file, test.line, test.name
                ));
                continue;
            }
            let against = reached.iter().map(|it| it.against);
            let against = against.max().unwrap_or(test.against);
            for row in &test.rows {
                let place = format!("{} {}", test.file, test.name);
                let shown = rows.shown.entry(row.clone()).or_default();
                shown.push((against, place));
            }
        }
        for (row, is_built) in all() {
            let strongest = rows.shown.get(&row);
            let strongest = strongest.and_then(|tests| tests.iter().map(|(it, _)| *it).max());
            let needs_server = !SERVER_ADDS_NOTHING.iter().any(|(it, _)| *it == row);
            match strongest {
                None if is_built => rows.uncovered.push(row),
                None => rows.not_built.push(row),
                Some(against) if needs_server && against != Against::Servers => rows.weak.push(row),
                Some(_) => {}
            }
        }
        rows
    }

    /// Returns the directories whose functions a test of `binary` may call: its own, shared directories next to it, and
    /// the library of the tests across crates.
    fn scopes<'a>(&'a self, binary: &'a str) -> BTreeSet<&'a str> {
        let mut scopes = BTreeSet::from([binary]);
        if binary.starts_with("tests/") {
            scopes.insert("tests/src");
        }
        if let Some((parent, _)) = binary.rsplit_once('/')
            && parent.ends_with("/tests")
        {
            let others = self.functions.iter().map(|it| it.binary.as_str());
            scopes.extend(others.filter(|other| {
                other.rsplit_once('/').is_some_and(|(of, _)| of == parent)
                    && !self.mains.contains(*other)
            }));
        }
        scopes
    }
}

impl Rows {
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

/// Returns the test and all functions that it reaches by name within its binary.
fn reached<'a>(
    test: &'a Function,
    scopes: &BTreeSet<&str>,
    by_name: &BTreeMap<(&str, &str), Vec<&'a Function>>,
) -> Vec<&'a Function> {
    let mut reached: Vec<&Function> = vec![test];
    let mut looked_up: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut next = 0;
    while let Some(&from) = reached.get(next) {
        next += 1;
        for name in &from.names {
            if !looked_up.insert((&from.file, name)) {
                continue;
            }
            let found: Vec<&Function> = scopes
                .iter()
                .filter_map(|scope| by_name.get(&(*scope, name.as_str())))
                .flatten()
                .copied()
                .collect();
            // One of the same file hides those of others.
            let is_near = found.iter().any(|it| it.file == from.file);
            for function in found {
                let is_meant = !is_near || function.file == from.file;
                if is_meant && !reached.iter().any(|it| std::ptr::eq(*it, function)) {
                    reached.push(function);
                }
            }
        }
    }
    reached
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

    const IT: &str = "crates/a/tests/it/basic.rs";

    fn rows_of(files: &[(&str, &str)]) -> Rows {
        let mut coverage = Coverage::default();
        for (path, text) in files {
            assert_eq!(coverage.add(path, text), [""; 0], "{path}");
        }
        coverage.rows()
    }

    #[test]
    fn marks_above_asserting_tests_take_rows_off_the_list() {
        let before = rows_of(&[]);
        assert_eq!((before.uncovered.len(), before.not_built.len()), (65, 34));
        let text = [
            "// covers: H1 H2\n#[test]\nfn a() {\n    assert!(b());\n}\n",
            "// covers: C18, W3\n#[test]\nfn c() {\n    check();\n}\n",
            "fn check() {\n    assert_eq!(1, 1);\n}\n",
        ];
        let after = rows_of(&[("crates/a/src/b/tests.rs", &text.concat())]);
        assert_eq!(after.problems, [""; 0]);
        assert_eq!((after.uncovered.len(), after.not_built.len()), (62, 33));
        assert_eq!(after.weak, ["C18", "H1", "H2", "W3"]);
    }

    #[test]
    fn a_test_that_asserts_nothing_covers_nothing() {
        let table = "// covers: L1\n#[test]\nfn types_are_send() {\n    is_send::<u8>();\n}\nfn is_send<T: Send>() {}\n";
        let rows = rows_of(&[(IT, table)]);
        assert_eq!(
            rows.problems,
            [
                "crates/a/tests/it/basic.rs:1: a covers mark stands above a test that asserts nothing: types_are_send"
            ]
        );
        assert!(rows.uncovered.contains(&"L1".to_owned()));
    }

    #[test]
    fn a_real_server_is_one_that_the_harness_starts() {
        let test = |rows: &str| {
            format!(
                "// covers: {rows}\n#[tokio::test]\nasync fn a() {{\n    with_servers(b).await;\n}}\n"
            )
        };
        let helpers = "use zk_harness::Ensemble;\nasync fn with_servers() {\n    Ensemble::builder();\n    assert!(true);\n}\n";
        let simulated = helpers.replace("zk_harness", "zk_sim");
        let rows = rows_of(&[
            (IT, &test("L1")),
            ("crates/a/tests/it/main.rs", helpers),
            ("crates/a/tests/sim/basic.rs", &test("L2")),
            ("crates/a/tests/sim/main.rs", &simulated),
            ("crates/b/tests/it/basic.rs", &test("L3")),
            ("crates/b/tests/it/main.rs", "fn main() {}\n"),
            ("crates/b/tests/shared/servers.rs", helpers),
            ("tests/tests/it/lock.rs", &test("L4")),
            ("tests/src/lib.rs", helpers),
            ("crates/c/src/lib.rs", &format!("{}{helpers}", test("L5"))),
            ("crates/d/src/lib.rs", &format!("{}{simulated}", test("I4"))),
        ]);
        assert_eq!(rows.problems, [""; 0]);
        assert_eq!(rows.weak, ["L2", "L5"], "a server adds nothing to I4");
        for (row, word) in [
            ("L1", "real"),
            ("L2", "simulated"),
            ("L3", "real"),
            ("L4", "real"),
            ("L5", "pure"),
            ("I4", "simulated"),
        ] {
            assert_eq!(rows.shown[row][0].0.word(), word, "{row}");
        }
        let list = rows.list();
        for line in [
            "L1",
            "    real      crates/a/tests/it/basic.rs a",
            "L2 NO REAL SERVER",
            "L6 no test",
            "I4 (a server adds nothing: no request is made for an id)",
            "W1 not built yet",
        ] {
            assert!(list.lines().any(|it| it == line), "{line}: {list}");
        }
    }

    #[test]
    fn a_mark_of_an_unknown_row_is_reported_with_its_line() {
        let problems = Coverage::default().add(
            IT,
            "\n// covers: H11 C1 X1 c2\n#[test]\nfn a() {\n    assert!(true);\n}\n",
        );
        assert_eq!(
            problems,
            [
                "2: H11 is not a feature row",
                "2: X1 is not a feature row",
                "2: c2 is not a feature row",
            ]
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
