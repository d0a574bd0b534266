//! Checks that the tests exist which docs/features.md names.
//!
//! A test is named by its package with underscores, its binary (`lib` for tests in `src`), its module path and its
//! function, as in `zk_lock::it::queue::two_hundred_waiters_are_granted_in_order_of_arrival`.
//! Like `source`, it reads lines, not syntax, and takes the texts as arguments.

use std::collections::BTreeSet;

/// The page with the tables, as a path from the workspace's root.
pub(super) const PAGE: &str = "docs/features.md";

/// Returns the problems of the tables in a page, given the names of all tests.
pub(super) fn problems(page: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut is_row = false;
    for (number, line) in (1..).zip(page.lines()) {
        if !line.starts_with('|') || line.starts_with("|---") {
            is_row = line.starts_with('|');
            continue;
        }
        if !is_row {
            // The head of a table.
            continue;
        }
        let cell = line.trim_end_matches('|').rsplit('|').next();
        let named: Vec<&str> = cell
            .unwrap_or_default()
            .split('`')
            .skip(1)
            .step_by(2)
            .collect();
        if named.is_empty() {
            problems.push(format!(
                "{number}: a row needs a test: name one that shows the feature"
            ));
        }
        let missing = named.into_iter().filter(|name| !tests.contains(*name));
        problems.extend(missing.map(|name| {
            format!("{number}: {name} is not a test: correct the name, or name another one")
        }));
    }
    problems
}

/// Returns the names of the tests in a file, whose `path` begins at the workspace's root.
pub(super) fn tests(path: &str, text: &str) -> Vec<String> {
    let Some(file) = module(path) else {
        return Vec::new();
    };
    let mut tests = Vec::new();
    // The inline modules around a line, with their indentation.
    let mut modules: Vec<(usize, &str)> = Vec::new();
    let (mut is_test, mut in_attribute, mut in_macro) = (false, false, false);
    for line in text.lines() {
        let code = line.trim();
        let indentation = line.len() - line.trim_start().len();
        if in_attribute || code.starts_with("#[") {
            is_test |= code.starts_with("#[test]") || code.starts_with("#[tokio::test");
            in_attribute = !code.ends_with(']');
            continue;
        }
        if code.is_empty() || code.starts_with("//") {
            continue;
        }
        if code == "}" {
            modules.retain(|(outer, _)| *outer < indentation);
        }
        in_macro = MACROS.contains(&line) || (in_macro && line != "}");
        let function = item(code, "fn ").filter(|_| is_test);
        let module = item(code, "mod ").filter(|_| code.ends_with('{'));
        modules.extend(module.map(|name| (indentation, name)));
        let listed = || (in_macro && indentation > 0).then(|| &code[..name_length(code)]);
        if let Some(name) = function.or_else(listed) {
            let inline = modules.iter().map(|(_, name)| *name);
            let name: Vec<&str> = [&*file].into_iter().chain(inline).chain([name]).collect();
            tests.push(name.join("::"));
        }
        is_test = false;
    }
    tests
}

/// Returns the package, the binary and the module of a file.
fn module(path: &str) -> Option<String> {
    let (package, file) = match path.split_once('/')? {
        ("xtask", file) => ("xtask".to_owned(), file),
        ("tests", file) => match file.split_once('/')? {
            ("src" | "tests", _) => ("zk-tests".to_owned(), file),
            (directory, file) => (format!("zk-{directory}"), file),
        },
        (_, below) => {
            let (package, file) = below.split_once('/')?;
            (package.to_owned(), file)
        }
    };
    let file = match file.strip_prefix("tests/") {
        Some(file) => file.to_owned(),
        None => format!("lib/{}", file.strip_prefix("src/")?),
    };
    let file = file.strip_suffix(".rs")?;
    let root = file
        .strip_suffix("/main")
        .or_else(|| file.strip_suffix("/lib"));
    let modules = root.unwrap_or(file).replace('/', "::");
    Some(format!("{}::{modules}", package.replace('-', "_")))
}

/// Returns the name of the function or module that begins on a line.
fn item<'a>(code: &'a str, keyword: &str) -> Option<&'a str> {
    let (before, after) = code.split_once(keyword)?;
    let is_item = before
        .split_whitespace()
        .all(|word| word == "async" || word.starts_with("pub"));
    let length = name_length(after);
    (is_item && length > 0).then(|| &after[..length])
}

fn name_length(code: &str) -> usize {
    let end = code.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    end.unwrap_or(code.len())
}

/// Macros whose lines each begin with the name of a test.
const MACROS: [&str; 2] = ["on_each_backend! {", "swept! {"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_a_package_a_binary_and_a_module() {
        for (path, expected) in [
            (
                "crates/zk-lock/tests/it/queue.rs",
                Some("zk_lock::it::queue"),
            ),
            ("crates/zk-lock/tests/it/main.rs", Some("zk_lock::it")),
            (
                "crates/zk-id/src/layout/tests.rs",
                Some("zk_id::lib::layout::tests"),
            ),
            ("crates/zk-id/src/lib.rs", Some("zk_id::lib")),
            ("tools/zk-shell/src/main.rs", Some("zk_shell::lib")),
            ("examples/a-b/tests/sim/c.rs", Some("a_b::sim::c")),
            ("tests/tests/it/lock/rw.rs", Some("zk_tests::it::lock::rw")),
            ("tests/smoke/tests/smoke/main.rs", Some("zk_smoke::smoke")),
            (
                "tests/tests/external_types.rs",
                Some("zk_tests::external_types"),
            ),
            ("xtask/src/tidy.rs", Some("xtask::lib::tidy")),
            ("crates/zk-wire/fuzz/targets/texts.rs", None),
            ("crates/zk-lock/README.md", None),
            ("crates/build.rs", None),
        ] {
            assert_eq!(module(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn tests_are_found_and_other_functions_are_not() {
        for (text, expected) in [
            ("#[test]\nfn a() {\n", &["p::it::a"][..]),
            (
                "#[tokio::test(flavor = \"multi_thread\")]\n// Why.\n\nasync fn a() {\n",
                &["p::it::a"],
            ),
            (
                "#[test]\n#[expect(\n    lint,\n    reason = \"r\"\n)]\nfn a() {\n",
                &["p::it::a"],
            ),
            ("fn a() {\n", &[]),
            ("#[cfg(test)]\nfn a() {\n", &[]),
            ("#[test]\nfn a() {\n}\nfn helper() {\n", &["p::it::a"]),
            ("// #[test]\nfn a() {\n", &[]),
            ("        #[test]\n        async fn $test() {\n", &[]),
            (
                "mod deep {\n    mod x;\n    #[test]\n    fn a() {\n    }\n}\n#[test]\nfn b() {\n",
                &["p::it::deep::a", "p::it::b"],
            ),
            (
                "mod a {\n    mod b {\n        #[test]\n        fn c() {\n        }\n    }\n    #[test]\n    fn d() {\n",
                &["p::it::a::b::c", "p::it::a::d"],
            ),
            (
                "mod tests {\n    proptest! {\n        #[test]\n        fn a(x in 0..9) {\n",
                &["p::it::tests::a"],
            ),
            (
                "on_each_backend! {\n    a: 3,\n    // Why.\n    b,\n}\nasync fn c() {\n",
                &["p::it::a", "p::it::b"],
            ),
            (
                "mod x;\nmod y {\n}\nswept! {\n    a: story;\n}\n",
                &["p::it::a"],
            ),
            ("other! {\n    a: story;\n}\n", &[]),
        ] {
            assert_eq!(tests("crates/p/tests/it/main.rs", text), expected, "{text}");
        }
        assert_eq!(tests("crates/p/fuzz/a.rs", "#[test]\nfn a() {\n"), [""; 0]);
    }

    #[test]
    fn each_row_names_tests_that_exist() {
        let tests = ["p::it::a", "p::it::b"].map(str::to_owned).into();
        let head = "| | feature | tests |\n|---|---|---|\n";
        for (row, expected) in [
            ("| A1 | a feature | `p::it::a`, `p::it::b` |", &[][..]),
            ("| A1 | `not_a_test` | `p::it::a` |", &[]),
            ("| A1 | a feature | |", &["4: a row needs a test"]),
            ("| A1 | a feature | none |", &["4: a row needs a test"]),
            (
                "| A1 | a feature | `p::it::c` |",
                &["4: p::it::c is not a test"],
            ),
            (
                "| A1 | a feature | `p::it::a`, `b` |\n\n| | tests |\n|---|---|\n| A2 | |",
                &["4: b is not a test", "8: a row needs a test"],
            ),
        ] {
            let problems = problems(&format!("A `name`.\n{head}{row}\n"), &tests);
            let begins = problems
                .iter()
                .zip(expected)
                .all(|(it, begin)| it.starts_with(begin));
            assert!(
                begins && problems.len() == expected.len(),
                "{row}: {problems:?}"
            );
        }
    }
}
