//! `test zookeeper-client`: runs the tests on real servers with sessions of that client instead of `zk-wire`.
//!
//! The client is chosen when a test runs, by a variable that its processes inherit: one build serves both runs.
//! `tests/tests/it/client.rs` checks that the variable has its effect.

use std::ffi::OsString;

use super::{Outcome, Scope, run_once};
use crate::workspace::Workspace;

/// A test that runs with `zk-wire` only.
struct Exception {
    package: &'static str,
    /// The beginning of the test's name: a module or the whole name.
    test: &'static str,
    reason: &'static str,
}

const EXCEPTIONS: &[Exception] = &[
    Exception {
        package: "zk-sim",
        test: "random::",
        reason: "it compares both clients, whatever the environment says",
    },
    Exception {
        package: "zk-core",
        test: "secure::",
        reason: "its sessions have no DIGEST-MD5 and no TLS",
    },
    Exception {
        package: "zk-core",
        test: "watches::more_watches_than_fit_one_request_survive_a_break",
        reason: TOO_MANY,
    },
    Exception {
        package: "zk-core",
        test: "subscriptions::thousands_of_subscriptions_survive_a_reconnect",
        reason: TOO_MANY,
    },
];

const TOO_MANY: &str = "more watches than that client can set again on another server";

/// Runs these tests with `zookeeper-client`, and prints which are left out.
pub(super) fn run(
    workspace: &Workspace,
    scope: Scope,
    args: &[OsString],
    env: &[(&str, OsString)],
) -> anyhow::Result<Outcome> {
    anyhow::ensure!(
        super::is_installed("nextest"),
        "`test zookeeper-client` needs cargo-nextest: cargo install --locked cargo-nextest"
    );
    for exception in EXCEPTIONS {
        let Exception {
            package,
            test,
            reason,
        } = exception;
        println!("not run with zookeeper-client: {package} {test}: {reason}");
    }
    let mut env = env.to_vec();
    env.push(("ZK_CORE_CLIENT", "zookeeper-client".into()));
    run_once(workspace, scope, &restricted(args, &filter()), &env)
}

/// Returns the filter of the tests that need sessions of real servers.
fn filter() -> String {
    let exceptions = EXCEPTIONS.iter().map(|Exception { package, test, .. }| {
        format!(" & not (package({package}) & test(/^{test}/))")
    });
    let all = "rdeps(zk-core) & binary(it)".to_owned();
    all + &exceptions.collect::<String>()
}

/// Restricts the runner's arguments to tests that a filter accepts, too. Nextest runs what any one of its filters
/// accepts, so each of them is restricted.
fn restricted(args: &[OsString], filter: &str) -> Vec<OsString> {
    const FILTERS: [&str; 2] = ["-E", "--filterset"];
    let mut restricted = Vec::new();
    let mut is_filter = false;
    let mut has_filters = false;
    let mut are_options = true;
    for arg in args {
        are_options &= arg != "--";
        if std::mem::replace(&mut is_filter, false) {
            restricted.push(format!("({}) & {filter}", arg.display()).into());
            continue;
        }
        if let Some((option, joined)) = are_options.then(|| joined_filter(arg)).flatten() {
            has_filters = true;
            restricted.push(format!("{option}({joined}) & {filter}").into());
            continue;
        }
        is_filter = are_options && FILTERS.iter().any(|name| arg == name);
        has_filters |= is_filter;
        restricted.push(arg.clone());
    }
    if !has_filters {
        let all = ["-E", filter].map(OsString::from);
        restricted.splice(0..0, all);
    }
    restricted
}

/// Splits a filter that is in one argument with its option.
fn joined_filter(arg: &OsString) -> Option<(&'static str, &str)> {
    let arg = arg.to_str()?;
    ["--filterset=", "-E=", "-E"]
        .into_iter()
        .find_map(|option| Some((option, arg.strip_prefix(option)?)))
        .filter(|(_, filter)| !filter.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exception_names_tests_that_exist() {
        let workspace = Workspace::root();
        for Exception { package, test, .. } in EXCEPTIONS {
            let (module, name) = test.split_once("::").expect("a module comes first");
            let file = format!("crates/{package}/tests/it/{module}.rs");
            let text = std::fs::read_to_string(workspace.join(&file));
            let text = text.unwrap_or_else(|error| panic!("{file}: {error}"));
            let is_there = if name.is_empty() {
                text.contains("#[test]") || text.contains("::test") || text.contains("\nmod ")
            } else {
                text.contains(&format!("fn {name}("))
            };
            assert!(is_there, "{file} has no {test}");
        }
    }

    #[test]
    fn filters_of_the_caller_are_restricted() {
        let restrict = |args: &[&str]| {
            let args: Vec<_> = args.iter().map(OsString::from).collect();
            let args = restricted(&args, "x & y");
            let args = args.iter().map(|arg| arg.to_str().unwrap().to_owned());
            args.collect::<Vec<_>>()
        };
        assert_eq!(restrict(&[]), ["-E", "x & y"]);
        assert_eq!(restrict(&["lock"]), ["-E", "x & y", "lock"]);
        assert_eq!(restrict(&["-E", "a | b"]), ["-E", "(a | b) & x & y"]);
        assert_eq!(restrict(&["-Ea | b"]), ["-E(a | b) & x & y"]);
        assert_eq!(restrict(&["-E=a"]), ["-E=(a) & x & y"]);
        assert_eq!(restrict(&["--filterset=a"]), ["--filterset=(a) & x & y"]);
        assert_eq!(restrict(&["--", "-E"]), ["-E", "x & y", "--", "-E"]);
    }

    #[test]
    fn exceptions_are_left_out() {
        let filter = filter();
        let begin = "rdeps(zk-core) & binary(it) & not (package(zk-sim) & test(/^random::/))";
        assert!(filter.starts_with(begin), "{filter}");
    }
}
