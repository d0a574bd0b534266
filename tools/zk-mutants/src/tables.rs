//! What is changed, and which tests run besides a crate's own.
//!
//! Pure: constants, and texts made of them.

use std::fmt::Write as _;

/// The crates whose code is changed: the libraries.
pub(crate) const CRATES: [&str; 16] = [
    "zk-barrier",
    "zk-cache",
    "zk-config",
    "zk-core",
    "zk-counter",
    "zk-discovery",
    "zk-fault-proxy",
    "zk-group",
    "zk-harness",
    "zk-history",
    "zk-id",
    "zk-leader",
    "zk-lock",
    "zk-provision",
    "zk-queue",
    "zk-wire",
];

/// Tests of another package that also run for the mutants of a crate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Smoke {
    of: &'static str,
    package: &'static str,
    binary: &'static str,
    /// A filter of nextest.
    tests: &'static str,
}

const SMOKE: &[Smoke] = &[
    smoke("zk-core", "zk-lock", "sim", "test(/^(kinds|ended)::/)"),
    smoke("zk-core", "zk-queue", "sim", "test(/^(basic|work)::/)"),
    smoke("zk-core", "zk-cache", "sim", "test(/^(basic|loss)::/)"),
    smoke("zk-wire", "zk-tests", "sim", "all()"),
];

const fn smoke(
    of: &'static str,
    package: &'static str,
    binary: &'static str,
    tests: &'static str,
) -> Smoke {
    Smoke {
        of,
        package,
        binary,
        tests,
    }
}

/// Test binaries that start servers.
pub(crate) const WITH_SERVERS: [&str; 3] = ["it", "cli", "provision"];

/// The number of mutants of a run over all crates, and the least of each.
pub(crate) const IN_ALL: usize = 150;
pub(crate) const LEAST: usize = 4;

/// The number of mutants of a crate that is named.
pub(crate) const OF_ONE: usize = 40;

/// Returns the packages to build for some crates, with the test binaries of other packages.
pub(crate) fn packages<'a>(crates: &[&'a str]) -> (Vec<&'a str>, Vec<&'static str>) {
    let mut packages = crates.to_vec();
    let mut binaries = Vec::new();
    for smoke in SMOKE.iter().filter(|smoke| crates.contains(&smoke.of)) {
        packages.push(smoke.package);
        binaries.push(smoke.binary);
    }
    packages.sort_unstable();
    packages.dedup();
    (packages, binaries)
}

/// Returns the filter of the tests that run for the mutants of a crate.
pub(crate) fn tests_of(name: &str) -> String {
    let servers = WITH_SERVERS.join("|");
    let mut filter = format!("(package(={name}) & not binary(/^({servers})$/))");
    for smoke in SMOKE.iter().filter(|smoke| smoke.of == name) {
        let _ = write!(
            filter,
            " | (package(={}) & binary(={}) & {})",
            smoke.package, smoke.binary, smoke.tests
        );
    }
    filter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_and_the_core_have_a_smoke_of_others() {
        for name in ["zk-wire", "zk-core"] {
            assert!(tests_of(name).contains(" | (package("), "{name}");
            let (packages, binaries) = packages(&[name]);
            assert!(packages.len() > 1 && binaries.contains(&"sim"), "{name}");
        }
        assert_eq!(packages(&["zk-id"]), (vec!["zk-id"], vec![]));
        assert_eq!(
            tests_of("zk-id"),
            "(package(=zk-id) & not binary(/^(it|cli|provision)$/))"
        );
    }
}
