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
        } else if name != BENCH {
            let is_tool = |other: &&String| TEST_TOOLS.iter().any(|(tool, _)| tool == other);
            for tool in self.dependencies.iter().filter(is_tool) {
                problems.push(format!("{tool}: only a development dependency, for tests"));
            }
        }
        if !matches!(name, "zk-core" | BENCH)
            && all().any(|dependency| dependency == "zookeeper-client")
        {
            problems.push("zookeeper-client: only zk-core may depend on it".to_owned());
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
const RECIPES: &[&str] = &[
    "zk-cache",
    "zk-config",
    "zk-discovery",
    "zk-id",
    "zk-leader",
    "zk-lock",
    "zk-queue",
];

/// The recipes that are built on another one, and on which.
const SIDEWAYS: &[(&str, &str)] = &[
    ("zk-config", "zk-cache"),
    ("zk-discovery", "zk-cache"),
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

    #[test]
    fn the_test_tools_use_no_crate_that_they_judge() {
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let manifest = Manifest::parse(&format!(
                "[{section}]\nzk-core.workspace = true\n[lints]\nworkspace = true\n"
            ));
            for tool in ["zk-fault-proxy", "zk-harness", "zk-history", "zk-provision"] {
                assert_eq!(manifest.problems(tool).len(), 1, "{tool} {section}");
            }
            assert_eq!(manifest.problems("zk-lock"), [""; 0], "{section}");
        }
    }

    #[test]
    fn the_harness_uses_the_other_test_tools_and_they_do_not_use_it() {
        let ends = "\n[lints]\nworkspace = true\n";
        let on =
            |tool: &str| Manifest::parse(&format!("[dependencies]\n{tool}.workspace = true{ends}"));
        for tool in ["zk-fault-proxy", "zk-history", "zk-provision"] {
            assert_eq!(on(tool).problems("zk-harness"), [""; 0], "{tool}");
            assert_eq!(on("zk-harness").problems(tool).len(), 1, "{tool}");
            assert_eq!(on(tool).problems("zk-lock").len(), 1, "{tool}");
        }
    }

    #[test]
    fn the_harness_is_for_tests() {
        let ends = "\n[lints]\nworkspace = true\n";
        let inside = Manifest::parse(&format!(
            "[dependencies]\nzk-harness.workspace = true{ends}"
        ));
        assert_eq!(inside.problems("zk-core").len(), 1);
        let tests = Manifest::parse(&format!(
            "[dev-dependencies]\nzk-harness.workspace = true{ends}"
        ));
        assert_eq!(tests.problems("zk-core"), [""; 0]);
    }

    #[test]
    fn recipes_do_not_stand_on_each_other_but_for_some() {
        let ends = "\n[lints]\nworkspace = true\n";
        let on = |section: &str| {
            Manifest::parse(&format!("[{section}]\nzk-lock.workspace = true{ends}"))
        };
        assert_eq!(on("dependencies").problems("zk-leader"), [""; 0]);
        assert_eq!(on("dependencies").problems("zk-queue").len(), 1);
        assert_eq!(on("dev-dependencies").problems("zk-queue"), [""; 0]);
        assert_eq!(on("dependencies").problems("zk-bench"), [""; 0]);
    }

    #[test]
    fn the_client_belongs_to_zk_core() {
        let manifest = Manifest::parse(
            "[dependencies]\nzookeeper-client.workspace = true\n[lints]\nworkspace = true\n",
        );
        assert_eq!(manifest.problems("zk-core"), [""; 0]);
        assert_eq!(
            manifest.problems("zk-lock"),
            ["zookeeper-client: only zk-core may depend on it"]
        );
    }

    #[test]
    fn the_benchmarks_stand_on_the_client_and_the_harness() {
        let manifest = Manifest::parse(
            "[dependencies]\nzookeeper-client.workspace = true\nzk-harness.workspace = true\n\
             [lints]\nworkspace = true\n",
        );
        assert_eq!(manifest.problems("zk-bench"), [""; 0]);
        assert_eq!(manifest.problems("zk-lock").len(), 2);
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
