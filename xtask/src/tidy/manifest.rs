//! Rules about one `Cargo.toml`.

/// The names each section of a manifest sets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    /// `[dependencies]`, those of single targets and build dependencies included.
    dependencies: Vec<String>,
    /// `[dev-dependencies]`.
    dev_dependencies: Vec<String>,
    /// Whether the crate takes the lints of the workspace.
    lints: bool,
}

impl Manifest {
    /// Reads as much of a manifest as the rules need.
    pub(super) fn parse(text: &str) -> Self {
        let mut manifest = Self::default();
        let mut section = String::new();
        for line in text
            .lines()
            .map(|line| line.split('#').next().unwrap_or_default().trim())
        {
            if let Some(header) = line
                .strip_prefix('[')
                .and_then(|line| line.strip_suffix(']'))
            {
                header.clone_into(&mut section);
                // `[dependencies.tokio]` sets one dependency as a section of its own.
                if let Some((parent, name)) = header.rsplit_once('.') {
                    manifest.add(parent, name);
                }
            } else if let Some((key, value)) = line.split_once('=') {
                let name = key.trim().split('.').next().unwrap_or_default();
                manifest.add(&section, name);
                manifest.lints |=
                    section == "lints" && name == "workspace" && value.trim() == "true";
            }
        }
        manifest
    }

    fn add(&mut self, section: &str, name: &str) {
        let name = name.trim().trim_matches('"').to_owned();
        match section.rsplit('.').next() {
            Some("dependencies" | "build-dependencies") => self.dependencies.push(name),
            Some("dev-dependencies") => self.dev_dependencies.push(name),
            _ => {}
        }
    }

    /// The broken rules, in the crate `name`.
    pub(super) fn problems(&self, name: &str) -> Vec<String> {
        let mut problems = Vec::new();
        let all = || self.dependencies.iter().chain(&self.dev_dependencies);
        let tool = TEST_TOOLS.iter().find(|(tool, _)| *tool == name);
        if let Some((_, uses)) = tool {
            let others =
                all().filter(|other| other.starts_with("zk-") && !uses.contains(&other.as_str()));
            for other in others {
                problems.push(format!(
                    "{other}: {name} may use {uses:?} of this workspace, and nothing that it may have to judge"
                ));
            }
        } else if !matches!(name, BENCH | TESTKIT) {
            let may = |tool: &str| (name, tool) == SIMULATED;
            let is_tool =
                |other: &&String| TEST_TOOLS.iter().any(|(tool, _)| tool == other) && !may(other);
            for tool in self.dependencies.iter().filter(is_tool) {
                problems.push(format!("{tool}: only a development dependency, for tests"));
            }
        }
        if self.dependencies.iter().any(|other| other == TESTKIT) {
            problems.push(format!(
                "{TESTKIT}: only a development dependency, for tests"
            ));
        }
        if name == WIRE && all().any(|other| other == TESTKIT) {
            problems.push(format!(
                "{TESTKIT}: it stands on {WIRE}, whose tests do without it"
            ));
        }
        if !matches!(name, ADAPTER | BENCH)
            && all().any(|dependency| dependency == "zookeeper-client")
        {
            problems.push(format!("zookeeper-client: only {ADAPTER} may depend on it"));
        }
        if RECIPES.contains(&name) {
            let sideways = self.dependencies.iter().filter(|other| {
                let may = SIDEWAYS.contains(&(name, other.as_str()));
                RECIPES.contains(&other.as_str()) && !may
            });
            for other in sideways {
                problems.push(format!(
                    "{other}: recipes stand on zk-core and not on each other; what two need goes there"
                ));
            }
        }
        if !self.lints {
            problems.push("the section [lints] with workspace = true is needed".to_owned());
        }
        problems
    }
}

/// The crates that are usable alone on zk-core.
pub(crate) const RECIPES: &[&str] = &[
    "zk-barrier",
    "zk-cache",
    "zk-config",
    "zk-counter",
    "zk-discovery",
    "zk-group",
    "zk-id",
    "zk-leader",
    "zk-lock",
    "zk-queue",
];

/// The recipes that are built on another one, and on which.
const SIDEWAYS: &[(&str, &str)] = &[
    ("zk-config", "zk-cache"),
    ("zk-counter", "zk-cache"),
    ("zk-discovery", "zk-cache"),
    ("zk-group", "zk-cache"),
    ("zk-group", "zk-lock"),
    ("zk-leader", "zk-lock"),
];

/// The crates for tests on real servers, and which of them each may use.
const TEST_TOOLS: &[(&str, &[&str])] = &[
    ("zk-fault-proxy", &[]),
    (
        "zk-harness",
        &["zk-fault-proxy", "zk-history", "zk-provision"],
    ),
    ("zk-history", &[]),
    ("zk-provision", &[]),
];

/// The simulation is itself only for tests, and serves clients with the codec of the proxy.
const SIMULATED: (&str, &str) = ("zk-sim", "zk-fault-proxy");

/// Never published: what the tests of zk-core and of all that stands on it share. It uses the harness.
const TESTKIT: &str = "zk-testkit";

/// It is below all that zk-testkit stands on.
const WIRE: &str = "zk-wire";

/// Sessions over the crate `zookeeper-client`.
const ADAPTER: &str = "zk-zookeeper-client";

/// Never published: its references are made on the wire client, on servers of the harness.
const BENCH: &str = "zk-bench";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_in_all_their_forms() {
        let text = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\nb = \"1\" # c = 2\n\"d\" = { version = \"1\" }\n\
                    [dependencies.e]\nversion = \"1\"\n[target.'cfg(unix)'.dependencies]\nf = \"1\"\n\
                    [dev-dependencies]\ng = \"1\"\n[build-dependencies]\nh = \"1\"\n[lints]\nworkspace = true\n";
        let manifest = Manifest::parse(text);
        assert_eq!(manifest.dependencies, ["a", "b", "d", "e", "f", "h"]);
        assert_eq!(manifest.dev_dependencies, ["g"]);
        assert!(manifest.lints);
    }

    /// The problems of the crate `name` with one dependency.
    fn problems(name: &str, section: &str, dependency: &str) -> Vec<String> {
        let lints = "[lints]\nworkspace = true\n";
        let text = format!("[{section}]\n{dependency}.workspace = true\n{lints}");
        Manifest::parse(&text).problems(name)
    }

    #[test]
    fn crates_import_only_downwards() {
        const USED: &str = "dependencies";
        const IN_TESTS: &str = "dev-dependencies";
        const IN_BUILDS: &str = "build-dependencies";
        for (name, section, dependency, allowed) in [
            // The test tools use no crate that they judge.
            ("zk-harness", USED, "zk-core", false),
            ("zk-harness", IN_TESTS, "zk-core", false),
            ("zk-history", IN_BUILDS, "zk-core", false),
            ("zk-provision", USED, "zk-core", false),
            ("zk-fault-proxy", IN_TESTS, "zk-core", false),
            // The harness uses the other test tools, and they do not use it.
            ("zk-harness", USED, "zk-history", true),
            ("zk-harness", USED, "zk-provision", true),
            ("zk-harness", USED, "zk-fault-proxy", true),
            ("zk-provision", USED, "zk-harness", false),
            // All of them are for tests and benchmarks.
            ("zk-lock", USED, "zk-history", false),
            ("zk-core", USED, "zk-harness", false),
            ("zk-core", IN_TESTS, "zk-harness", true),
            ("zk-bench", USED, "zk-harness", true),
            ("zk-sim", USED, "zk-fault-proxy", true),
            ("zk-sim", USED, "zk-harness", false),
            // What tests share uses the test tools, which do not use it, and is only for tests.
            ("zk-testkit", USED, "zk-harness", true),
            ("zk-lock", IN_TESTS, "zk-testkit", true),
            ("zk-core", IN_TESTS, "zk-testkit", true),
            ("zk-lock", USED, "zk-testkit", false),
            ("zk-lock", IN_BUILDS, "zk-testkit", false),
            ("zk-bench", USED, "zk-testkit", false),
            ("zk-harness", IN_TESTS, "zk-testkit", false),
            ("zk-history", IN_TESTS, "zk-testkit", false),
            ("zk-wire", IN_TESTS, "zk-testkit", false),
            // Recipes stand on zk-core and not on each other, but for some.
            ("zk-lock", USED, "zk-core", true),
            ("zk-leader", USED, "zk-lock", true),
            ("zk-queue", USED, "zk-lock", false),
            ("zk-queue", IN_TESTS, "zk-lock", true),
            ("zk-bench", USED, "zk-lock", true),
            // The client belongs to its adapter; benchmarks measure it as well.
            ("zk-core", USED, "zookeeper-client", false),
            ("zk-bench", USED, "zookeeper-client", true),
            ("zk-zookeeper-client", USED, "zookeeper-client", true),
            ("zk-lock", USED, "zookeeper-client", false),
        ] {
            let problems = problems(name, section, dependency);
            let expected = usize::from(!allowed);
            assert_eq!(problems.len(), expected, "{name}, {section}: {problems:?}");
        }
    }

    #[test]
    fn a_crate_without_lints_is_found() {
        assert_eq!(Manifest::parse("[package]\n").problems("zk-lock").len(), 1);
        assert_eq!(
            Manifest::parse("[lints]\nworkspace = false\n")
                .problems("zk-lock")
                .len(),
            1
        );
    }
}
