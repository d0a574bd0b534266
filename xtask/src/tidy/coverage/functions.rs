//! Finds the functions of a Rust file, the names in them, and the rows of their marks.
//!
//! It reads lines, which suffices for text that rustfmt has formatted: a function ends at the first line that consists of
//! its indentation and a closing brace.

use std::collections::BTreeSet;

/// The servers that a test runs against, the strongest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Against {
    Nothing,
    Simulation,
    Servers,
}

/// One function of a file.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) file: String,
    /// The directory of the test binary or library that it is compiled into.
    pub(super) binary: String,
    pub(super) name: String,
    pub(super) is_test: bool,
    /// The rows of the marks above it.
    pub(super) rows: Vec<String>,
    /// The line of its first mark, or of itself.
    pub(super) line: usize,
    /// Whether it asserts something itself.
    pub(super) asserts: bool,
    /// Servers if it starts them itself, the simulation if its file names that.
    pub(super) against: Against,
    /// Every identifier in it, among them the functions that it calls.
    pub(super) names: BTreeSet<String>,
}

/// The functions of one file.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) functions: Vec<Function>,
    /// The problems of its marks, as `line: problem`.
    pub(super) problems: Vec<String>,
}

/// Reads a file, whose `path` begins at the workspace's root.
pub(super) fn scan(path: &str, text: &str) -> Scan {
    let mut scan = Scan::default();
    let names_harness = text.contains("zk_harness") || path.starts_with("crates/zk-harness/");
    // Code below `src` is compiled without the harness, but for the library of the tests across crates.
    let binary = binary(path);
    let may_start = names_harness && (binary == "tests/src" || !binary.ends_with("/src"));
    let is_simulated = text.contains("zk_sim");
    let lines: Vec<&str> = text.lines().collect();
    let mut marks: Vec<(usize, Vec<String>)> = Vec::new();
    let mut is_test = false;
    let mut in_attribute = false;
    let on_each_backend = on_each_backend(text);
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim();
        if in_attribute || code.starts_with("#[") {
            is_test |= code.starts_with("#[test]") || code.starts_with("#[tokio::test");
            in_attribute = !code.ends_with(']');
            continue;
        }
        if let Some(rows) = code.strip_prefix("// covers:") {
            let rows = rows.split([' ', ',']).filter(|row| !row.is_empty());
            let rows: Vec<String> = rows.map(str::to_owned).collect();
            if rows.is_empty() {
                let number = at + 1;
                scan.problems.push(format!(
                    "{number}: a covers mark names at least one feature row"
                ));
            }
            marks.push((at + 1, rows));
            continue;
        }
        if code.starts_with("//") {
            continue;
        }
        let name = function_name(code);
        is_test |= name.is_some_and(|name| on_each_backend.contains(&name));
        if !is_test || name.is_none() {
            for (number, _) in marks.drain(..) {
                scan.problems.push(format!(
                    "{number}: a covers mark stands directly above a test, with nothing but attributes and comments between"
                ));
            }
        }
        if let Some(name) = name {
            let body = body(&lines[at..]);
            let is_started =
                on_each_backend.contains(&name) || STARTS.iter().any(|it| body.contains(it));
            let against = if may_start && is_started {
                Against::Servers
            } else if is_simulated {
                Against::Simulation
            } else {
                Against::Nothing
            };
            scan.functions.push(Function {
                file: path.to_owned(),
                binary: binary.clone(),
                name: name.to_owned(),
                is_test,
                line: marks.first().map_or(at + 1, |(number, _)| *number),
                rows: marks.drain(..).flat_map(|(_, rows)| rows).collect(),
                asserts: ASSERTIONS.iter().any(|it| body.contains(it)),
                against,
                names: identifiers(&body).map(str::to_owned).collect(),
            });
        }
        is_test = false;
    }
    scan
}

/// Returns the functions that `on_each_backend!` turns into tests, which start servers before they call them.
fn on_each_backend(text: &str) -> Vec<&str> {
    let Some((_, list)) = text.split_once("\non_each_backend! {") else {
        return Vec::new();
    };
    let (list, _) = list.split_once('}').unwrap_or((list, ""));
    let names = list.split(',').filter_map(|one| one.split(':').next());
    names.map(str::trim).collect()
}

/// The name behind `fn`, if the line begins a function; in a macro it may be one of its variables.
fn function_name(code: &str) -> Option<&str> {
    let mut words = code.split_inclusive(' ').map(str::trim_end);
    let mut rest = code;
    loop {
        let word = words.next()?;
        rest = rest[word.len()..].trim_start();
        match word {
            "fn" => break,
            "pub" | "pub(crate)" | "pub(super)" | "const" | "async" => {}
            _ => return None,
        }
    }
    let end = rest.find(|c: char| !(is_in_name(c) || c == '$'))?;
    (end > 0).then(|| &rest[..end])
}

/// The text of the function that begins at the first line, without comments.
fn body(lines: &[&str]) -> String {
    let first = lines[0];
    let indent = &first[..first.len() - first.trim_start().len()];
    let mut body = String::from(first);
    if first.ends_with('}') || first.ends_with(';') {
        return body;
    }
    for line in &lines[1..] {
        if !line.trim_start().starts_with("//") {
            body.push('\n');
            body.push_str(line);
        }
        if line.strip_prefix(indent) == Some("}") {
            break;
        }
    }
    body
}

fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_in_name(c))
        .filter(|name| !name.is_empty())
}

const fn is_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The directory whose files are compiled together: of a library or program its `src`, of integration tests the one
/// below `tests`.
fn binary(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    let directories = &parts[..parts.len() - 1];
    let end = if let Some(at) = directories.iter().position(|part| *part == "src") {
        at + 1
    } else if let Some(at) = directories.iter().rposition(|part| *part == "tests") {
        directories.len().min(at + 2)
    } else {
        directories.len()
    };
    directories[..end].join("/")
}

/// What makes a test fail when the claim does not hold. `unwrap` and `expect` are in every test and say nothing.
const ASSERTIONS: &[&str] = &[
    "assert!(",
    "assert_eq!(",
    "assert_ne!(",
    "assert_matches!(",
    "assert_snapshot!(",
    "panic!(",
    "unreachable!(",
    "unwrap_err(",
    "expect_err(",
];

/// What starts a real ensemble, or the program that does, in a file that names the harness.
const STARTS: &[&str] = &["Ensemble::builder(", "\"zk-ensemble\"", "_zk-ensemble\""];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_with_their_marks_and_bodies() {
        let text = [
            "// covers: L1, L2",
            "/// A claim.",
            "#[tokio::test(flavor = \"multi_thread\")]",
            "// covers: L3",
            "#[expect(",
            "    lint,",
            "    reason = \"a reason\"",
            ")]",
            "async fn one() {",
            "    // assert!(false)",
            "    helper().await;",
            "}",
            "",
            "mod inner {",
            "    pub(crate) async fn helper() {",
            "        if true {",
            "            assert!(true);",
            "        }",
            "    }",
            "    const fn short() {}",
            "}",
            "        async fn $test() {",
            "        }",
        ]
        .join("\n");
        let scan = scan("crates/a/tests/it/b.rs", &text);
        assert_eq!(scan.problems, [""; 0]);
        let seen: Vec<_> = scan
            .functions
            .iter()
            .map(|it| (it.name.as_str(), it.line, it.is_test, it.asserts))
            .collect();
        assert_eq!(
            seen,
            [
                ("one", 1, true, false),
                ("helper", 15, false, true),
                ("short", 20, false, false),
                ("$test", 22, false, false),
            ]
        );
        assert_eq!(scan.functions[0].rows, ["L1", "L2", "L3"]);
        assert!(scan.functions[0].names.contains("helper"));
        let mut functions = scan.functions.iter();
        assert!(functions.all(|it| it.against == Against::Nothing));
    }

    #[test]
    fn a_mark_stands_above_a_test_and_nowhere_else() {
        for wrong in [
            "// covers: L1\nfn helper() {}\n",
            "// covers: L1\n\nuse std::fmt;\n\n#[test]\nfn a() {}\n",
            "// covers: L1\n#[derive(Debug)]\nstruct A;\n",
        ] {
            let problems = scan("a/src/b.rs", wrong).problems;
            assert_eq!(problems.len(), 1, "{wrong}: {problems:?}");
            assert!(
                problems[0].starts_with("1: a covers mark stands"),
                "{problems:?}"
            );
        }
        let empty = scan("a/src/b.rs", "\n// covers:\n#[test]\nfn a() {}\n");
        assert_eq!(
            empty.problems,
            ["2: a covers mark names at least one feature row"]
        );
    }

    #[test]
    fn text_about_marks_is_no_mark() {
        let text = "let s = \"// covers: X9\";\n//! A mark is `// covers: X9`.\n";
        assert_eq!(scan("a/src/b.rs", text).problems, [""; 0]);
    }

    #[test]
    fn files_of_one_binary_are_known_by_their_directory() {
        for (path, expected) in [
            ("crates/a/src/b/tests.rs", "crates/a/src"),
            ("crates/a/tests/it/b/c.rs", "crates/a/tests/it"),
            ("crates/a/tests/b.rs", "crates/a/tests"),
            ("tests/tests/it/lock/rw.rs", "tests/tests/it"),
            ("tests/src/peers/rw.rs", "tests/src"),
            ("examples/a/tests/sim/b.rs", "examples/a/tests/sim"),
        ] {
            assert_eq!(binary(path), expected, "{path}");
        }
    }
}
