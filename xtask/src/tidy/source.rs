//! Rules about one source file.
//!
//! They read lines, not syntax, which suffices for a tree that rustfmt has formatted.

/// Returns whether a file contains only tests, which need no documentation.
pub(super) fn is_test_file(path: &str) -> bool {
    // The applications among the examples have code and tests of their own.
    let path = path.strip_prefix("examples/").unwrap_or(path);
    path.ends_with("/tests.rs")
        || path
            .split('/')
            .any(|part| matches!(part, "tests" | "benches" | "examples"))
}

/// Rules for every file.
pub(super) fn everywhere(text: &str) -> Vec<String> {
    let lines = (1..).zip(text.lines());
    let found = lines.flat_map(|(number, line)| {
        let markers = MARKERS.iter().filter(|(marker, _)| line.contains(marker));
        markers
            .map(move |(marker, instead)| format!("{number}: {marker} is not allowed: {instead}"))
    });
    found.collect()
}

/// Imports of one module are one `use`: two declarations in a row that could be one are a problem.
pub(super) fn imports(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    let mut follows_attribute = false;
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.trim_start();
        match declaration(code).filter(|_| !follows_attribute) {
            Some((visibility, path)) => {
                let module = module_of(path);
                let of_same =
                    |(other, earlier): &&(&str, &str)| *other == visibility && *earlier == module;
                if seen.iter().any(|earlier| of_same(&earlier)) {
                    problems.push(format!(
                        "{number}: a second `use` of {module}: write one for each module, with braces"
                    ));
                }
                seen.push((visibility, module));
            }
            // What follows is a list of imports that takes more than one line, or its end.
            None if !seen.is_empty() && (code.starts_with('}') || code.ends_with(',')) => {}
            None => seen.clear(),
        }
        follows_attribute = code.starts_with("#[");
    }
    problems
}

/// Splits the beginning of an import into what is before `use` and what follows.
fn declaration(code: &str) -> Option<(&str, &str)> {
    let at = code.find("use ")?;
    let (visibility, path) = (&code[..at], &code[at + "use ".len()..]);
    let is_import = visibility.is_empty() || visibility.starts_with("pub");
    let is_path = path.contains("::") && (path.ends_with(';') || path.ends_with('{'));
    (is_import && is_path && !path.contains(" as ")).then_some((visibility, path))
}

/// Returns the module that an import takes items from; for `std::fs` that is itself.
fn module_of(path: &str) -> &str {
    if let Some((module, _)) = path.split_once("::{") {
        return module;
    }
    let path = path.trim_end_matches(';');
    let (module, item) = path.rsplit_once("::").unwrap_or((path, ""));
    let is_module = module == "std" && item.starts_with(char::is_lowercase);
    if item == "*" || is_module {
        return path;
    }
    module
}

/// Whether the documentation of a crate, in its `lib.rs`, says what holds for all its futures when they are dropped.
pub(super) fn states_cancel_safety(lib: &str) -> bool {
    lib.lines().any(|line| line == "//! # Cancel safety")
}

/// Rules for the code of the crates, except tests.
///
/// `is_cancel_safety_stated` is that of the file's crate, see [`states_cancel_safety`].
pub(super) fn in_crates(text: &str, path: &str, is_cancel_safety_stated: bool) -> Vec<String> {
    let mut problems = Vec::new();
    if !text.trim_start().starts_with("//!") {
        problems
            .push("module documentation is needed: a first line that begins with //!".to_owned());
    }
    // The functions of a program are not an interface.
    let is_program = path.contains("/src/bin/") || path.ends_with("/src/main.rs");
    if is_program || is_cancel_safety_stated {
        return problems;
    }
    let mut docs: Vec<&str> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let code = line.trim();
        if let Some(doc) = code.strip_prefix("///") {
            docs.push(doc.trim());
        } else if code.starts_with("pub async fn ") || code.starts_with("pub async unsafe fn ") {
            if !docs.contains(&"# Cancel safety") {
                problems.push(format!(
                    "{}: the documentation needs the heading `# Cancel safety`, here or in lib.rs for all functions: {code}",
                    at + 1
                ));
            }
            docs.clear();
        } else if !(code.starts_with("#[") || code.ends_with(")]")) {
            docs.clear();
        }
    }
    problems
}

/// Rules for the code of all crates, except the adapter of that client.
pub(super) fn outside_adapter(text: &str) -> Vec<String> {
    named_in_code(text, &["zookeeper_client"])
        .map(|(number, name)| {
            format!("{number}: {name} is named, which only zk-zookeeper-client may")
        })
        .collect()
}

/// Whether the documentation of a module marks it with `//! Pure:`.
pub(super) fn is_marked_pure(text: &str) -> bool {
    text.lines()
        .take_while(|line| line.starts_with("//!"))
        .any(|line| line.starts_with("//! Pure:"))
}

/// Rules for files that are marked `//! Pure:`: they decide, and perform no I/O.
///
/// Plain values such as `Duration` and `SocketAddr` are welcome.
pub(super) fn pure(text: &str) -> Vec<String> {
    // The module of the tests follows `#[cfg(test)]` at the left margin.
    let code = text.split("\n#[cfg(test)]").next().unwrap_or_default();
    named_in_code(code, IMPURE)
        .map(|(number, name)| {
            format!("{number}: {name} is named in a file that is marked `//! Pure:`")
        })
        .collect()
}

fn named_in_code<'a>(
    text: &'a str,
    names: &'a [&'a str],
) -> impl Iterator<Item = (usize, &'a str)> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !is_comment(line.trim_start()))
        .flat_map(move |(at, line)| {
            names
                .iter()
                .filter(move |name| has_word(line, name))
                .map(move |name| (at + 1, *name))
        })
}

/// Returns whether `line` contains `word` as a whole word.
fn has_word(line: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].chars().next_back().is_some_and(is_name)
            && !line[at + word.len()..].chars().next().is_some_and(is_name)
    })
}

fn is_comment(code: &str) -> bool {
    code.starts_with("//")
}

/// What is left for later, or hides a failure, and what to do instead.
const MARKERS: &[(&str, &str)] = &[
    ("TODO", "finish it or open an issue"),
    ("FIXME", "fix it or open an issue"),
    ("#[ignore", "make the test run or remove it"),
    ("#[should_panic", "test the error instead"),
];
const IMPURE: &[&str] = &[
    "tokio",
    "zookeeper_client",
    "std::fs",
    "std::process",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "ToSocketAddrs",
    "Instant",
    "SystemTime",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_business_is_found() {
        for marker in [
            "// TODO: later",
            "// FIXME",
            "#[ignore]",
            "#[ignore = \"slow\"]",
            "#[should_panic]",
        ] {
            assert_eq!(everywhere(marker).len(), 1, "{marker}");
        }
    }

    #[test]
    fn imports_of_one_module_are_one_declaration() {
        for (text, line) in [
            ("use a::b::C;\nuse a::b::D;\n", 2),
            ("use a::b::{C, D};\nuse x::Y;\nuse a::b::E;\n", 3),
            ("use a::b::{\n    C,\n    D,\n};\nuse a::b::E;\n", 5),
            ("use std::io;\nuse std::io::{Read, Write};\n", 2),
            ("    use super::a;\n    use super::b;\n", 2),
        ] {
            let found = imports(text);
            assert!(
                found.len() == 1 && found[0].starts_with(&format!("{line}: ")),
                "{text}: {found:?}"
            );
        }
        for text in [
            "use std::fs;\nuse std::io::{self, Read};\n",
            "use a::b::C;\npub use a::b::D;\n",
            "use a::b::C;\n\nuse a::b::D;\n",
            "use a::b::*;\nuse a::b::C as D;\n",
            "#[cfg(test)]\nuse a::b::C;\nuse a::b::D;\n",
            "use a::b::C;\nfn x() {}\nuse a::b::D;\n",
        ] {
            assert_eq!(imports(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn modules_begin_with_their_documentation() {
        assert_eq!(
            in_crates("//! A thing.\n", "crates/x/src/thing.rs", false),
            [""; 0]
        );
        assert_eq!(
            in_crates("use std::fmt;\n", "crates/x/src/thing.rs", false).len(),
            1
        );
        assert_eq!(
            in_crates(
                "/// A thing.\nstruct Thing;\n",
                "crates/x/src/thing.rs",
                false
            )
            .len(),
            1
        );
    }

    #[test]
    fn public_async_functions_speak_of_cancellation() {
        let with = "//! D.\n/// Waits.\n///\n/// # Cancel safety\n///\n/// Safe.\n#[must_use]\npub async fn wait() {}\n";
        assert_eq!(in_crates(with, "crates/x/src/a.rs", false), [""; 0]);
        let without = "//! D.\n/// Waits.\n///\n/// # Errors\npub async fn wait() {}\n";
        assert_eq!(
            in_crates(without, "crates/x/src/a.rs", false),
            [
                "5: the documentation needs the heading `# Cancel safety`, here or in lib.rs for all functions: \
                 pub async fn wait() {}"
            ]
        );
        assert_eq!(
            in_crates(without, "crates/x/src/a.rs", true),
            [""; 0],
            "the crate says it for all functions"
        );
        assert_eq!(
            in_crates(without, "crates/x/src/bin/y/a.rs", false),
            [""; 0],
            "programs have no callers"
        );
        assert_eq!(
            in_crates(
                "//! D.\npub(crate) async fn wait() {}\n",
                "crates/x/src/a.rs",
                false
            ),
            [""; 0]
        );
        let other = "//! D.\n/// # Cancel safety\nstruct A;\npub async fn wait() {}\n";
        assert_eq!(
            in_crates(other, "crates/x/src/a.rs", false).len(),
            1,
            "another item's heading does not count"
        );
    }

    #[test]
    fn only_the_documentation_of_a_crate_states_the_cancel_safety_of_all_functions() {
        assert!(states_cancel_safety(
            "//! Locks.\n//!\n//! # Cancel safety\n//!\n//! No future leaves a node.\n"
        ));
        for lib in [
            "//! Locks.\n//!\n//! See `Cancel safety` of each function.\n",
            "//! Locks.\n\n/// # Cancel safety\npub struct Lock;\n",
        ] {
            assert!(!states_cancel_safety(lib), "{lib}");
        }
    }

    #[test]
    fn the_client_is_named_in_code_only() {
        assert_eq!(outside_adapter("use zookeeper_client as zk;\n").len(), 1);
        assert_eq!(outside_adapter("/// Unlike zookeeper_client.\n"), [""; 0]);
    }

    #[test]
    fn pure_files_have_values_and_no_effects() {
        for line in [
            "use tokio::sync::Mutex;",
            "use std::fs;",
            "let a = std::process::id();",
            "let now = Instant::now();",
        ] {
            assert_eq!(pure(line).len(), 1, "{line}");
        }
        assert_eq!(
            pure(
                "use std::time::Duration;\nuse std::net::SocketAddr;\nstruct Instantly;\n// tokio\n"
            ),
            [""; 0]
        );
        assert_eq!(
            pure("fn a() {}\n\n#[cfg(test)]\nmod tests { use std::fs; }\n"),
            [""; 0],
            "its tests may"
        );
    }

    #[test]
    fn only_the_module_documentation_marks_a_file_as_pure() {
        assert!(is_marked_pure(
            "//! Order.\n//!\n//! Pure: no I/O.\n\nuse a;\n"
        ));
        assert!(!is_marked_pure("//! Order.\n\n//! Pure: late.\n"));
        assert!(!is_marked_pure("// Pure: no.\n"));
    }

    #[test]
    fn test_files_are_told_by_their_place() {
        for path in [
            "crates/a/src/b/tests.rs",
            "crates/a/tests/it/main.rs",
            "crates/a/benches/b.rs",
        ] {
            assert!(is_test_file(path), "{path}");
        }
        assert!(!is_test_file("crates/a/src/test.rs"));
        assert!(is_test_file("examples/a/tests/it/main.rs"));
        assert!(!is_test_file("examples/a/src/plan.rs"));
    }
}
