//! The scopes of `test`: what is built, with which features, and which tests of that run.
//!
//! One selection of packages and features serves the build and the run: with another one, cargo would build what both
//! have twice.

use std::ffi::OsString;

/// The extent of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The libraries with their unit and simulated tests, and on real servers each recipe once and a failover.
    Default,
    /// All tests, long ones in their short form.
    All,
    /// All tests in their full length.
    Deep,
}

impl Scope {
    /// Parses an optional scope before the runner's arguments.
    ///
    /// With arguments and no scope the runner chooses from all tests.
    pub(crate) fn split(args: &[OsString]) -> (Self, &[OsString]) {
        match args.split_first() {
            None => (Self::Default, args),
            Some((first, rest)) if first == "all" => (Self::All, rest),
            Some((first, rest)) if first == "deep" => (Self::Deep, rest),
            Some(_) => (Self::All, args),
        }
    }

    /// Returns cargo's arguments that choose packages, features and targets.
    pub(super) fn selection(self) -> Vec<String> {
        let owned = |args: &[&str]| args.iter().map(ToString::to_string).collect();
        if self != Self::Default {
            return owned(&["--workspace", "--all-features"]);
        }
        let mut selection = self.packages_and_features();
        selection.push("--lib".to_owned());
        selection.extend(BINARIES.iter().flat_map(|name| owned(&["--test", name])));
        selection
    }

    /// Returns cargo's arguments that choose packages and features, for a program beside the tests.
    pub(super) fn packages_and_features(self) -> Vec<String> {
        if self != Self::Default {
            return self.selection();
        }
        let packages = PACKAGES.iter().flat_map(|package| ["-p", *package]);
        let mut selection: Vec<String> = packages.map(str::to_owned).collect();
        selection.extend(["--features".to_owned(), FEATURES.join(",")]);
        selection
    }

    /// Returns the modules whose tests this scope leaves out.
    pub(super) fn left_out(self) -> &'static [&'static str] {
        match self {
            Self::Default => &["deep", "long"],
            Self::All => &["deep"],
            Self::Deep => &[],
        }
    }

    /// Returns the profile of `.config/nextest.toml`.
    pub(super) fn profile(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::All => "all",
            Self::Deep => "deep",
        }
    }

    /// Returns the variables that set the length of long tests; the caller's environment takes precedence.
    pub(super) fn lengths(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Default | Self::All => &[],
            Self::Deep => &[
                ("FAULT_SECONDS", "60"),
                ("SEEDS", "2000"),
                ("PROGRAMS", "1000"),
                ("FAULT_PROGRAMS", "60"),
                ("SWEEP", "full"),
                ("GRANTS", "10000"),
            ],
        }
    }

    /// Says what runs, what does not, and how long it takes on two cores.
    pub(super) fn announcement(self) -> &'static str {
        match self {
            Self::Default => {
                "testing the libraries, simulated and with each recipe once on real servers: \
                 5 to 8 minutes on 2 cores if nothing is built yet\n\
                 left out: the other tests on real servers, documentation, programs, containers, and clients in other \
                 languages, which `cargo xtask test all` runs in 20 to 30 minutes"
            }
            Self::All => {
                "testing everything in its short form: 20 to 30 minutes on 2 cores if nothing is built yet"
            }
            Self::Deep => "testing everything in full length: hours",
        }
    }

    /// Returns the releases of ZooKeeper that its tests start, so that no test waits for a download.
    pub(super) fn zookeepers(self) -> &'static [&'static str] {
        match self {
            Self::Default => &["3.9"],
            Self::All | Self::Deep => &["3.9", "3.8", "3.4"],
        }
    }
}

/// Returns nextest's filter of the default scope, for a build that has more.
pub(super) fn default_filter() -> String {
    let packages: Vec<_> = PACKAGES
        .iter()
        .map(|name| format!("package({name})"))
        .collect();
    format!(
        "({}) & (kind(lib) | kind(test) & binary(/^({})$/)) & not test(/(^|::)long::/)",
        packages.join(" | "),
        BINARIES.join("|")
    )
}

/// Whether a test binary is in the default scope.
#[cfg(test)]
pub(super) fn is_in_default(package: &str, binary: &str) -> bool {
    PACKAGES.contains(&package) && (binary == "lib" || BINARIES.contains(&binary))
}

/// The packages of the default scope: the libraries, and the tests on real servers that a newcomer runs.
const PACKAGES: &[&str] = &[
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
    "zk-sim",
    "zk-smoke",
    "zk-wire",
];

/// The test binaries of the default scope, besides the unit tests: those without servers, and `smoke`.
const BINARIES: &[&str] = &["fuzz", "protocol", "scripted", "sim", "smoke"];

/// What those tests need. TLS, containers and sessions over `zookeeper-client` are left to the other scopes.
const FEATURES: &[&str] = &[
    "zk-cache/metrics",
    "zk-config/gzip",
    "zk-config/json",
    "zk-config/layers",
    "zk-core/blocking",
    "zk-core/metrics",
    "zk-core/sasl",
    "zk-group/partitioner",
    "zk-harness/cli",
    "zk-id/serde",
    "zk-leader/metrics",
    "zk-lock/metrics",
    "zk-queue/metrics",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_comes_before_the_runners_arguments() {
        let split = |args: &[&str]| {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            let (scope, rest) = Scope::split(&args);
            (scope, rest.len())
        };
        assert_eq!(split(&[]), (Scope::Default, 0));
        assert_eq!(split(&["all"]), (Scope::All, 0));
        assert_eq!(split(&["deep", "-p", "zk-lock"]), (Scope::Deep, 2));
        assert_eq!(split(&["-p", "all"]), (Scope::All, 2));
    }

    #[test]
    fn the_filter_chooses_what_the_selection_chooses() {
        let filter = default_filter();
        for package in PACKAGES {
            assert!(filter.contains(&format!("package({package})")), "{filter}");
        }
        assert!(filter.contains("binary(/^(fuzz|protocol|scripted|sim|smoke)$/)"));
        assert!(is_in_default("zk-lock", "lib") && is_in_default("zk-lock", "sim"));
        assert!(!is_in_default("zk-lock", "it") && !is_in_default("zk-tests", "sim"));
    }
}
