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
        if name == "zk-harness" {
            for ours in all().filter(|dependency| dependency.starts_with("zk-")) {
                problems.push(format!(
                    "{ours}: zk-harness knows no other crate of this workspace"
                ));
            }
        } else if name != BENCH
            && self
                .dependencies
                .iter()
                .any(|dependency| dependency == "zk-harness")
        {
            problems.push("zk-harness: only a development dependency, for tests".to_owned());
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
    fn the_harness_knows_no_other_crate_of_ours() {
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let manifest = Manifest::parse(&format!(
                "[{section}]\nzk-core.workspace = true\n[lints]\nworkspace = true\n"
            ));
            assert_eq!(manifest.problems("zk-harness").len(), 1, "{section}");
            assert_eq!(manifest.problems("zk-lock"), [""; 0], "{section}");
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
