//! Compares the items of other crates that our public items name with `golden/external-types.txt`.
//!
//! Such an item makes the other crate's version part of what a version of ours promises: see `docs/releasing.md`.

mod deep {
    use std::collections::{BTreeSet, HashSet};
    use std::path::Path;
    use std::process::Command;

    use serde_json::Value;

    #[test]
    fn external_types_in_public_items_are_those_listed() {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("external-types");
        let workspace = json_of(cargo(&["metadata", "--format-version=1", "--no-deps"]));
        let packages = workspace["packages"].as_array().expect("a list");
        let ours: HashSet<String> = packages
            .iter()
            .map(|package| text(&package["name"]).replace('-', "_"))
            .collect();
        let mut actual = BTreeSet::new();
        for name in packages.iter().filter_map(published_library) {
            let public = PublicItems::of(name, &target);
            let external = public.external_paths();
            let external = external
                .iter()
                .filter(|path| !ours.contains(path.split("::").next().unwrap_or_default()));
            actual.extend(external.map(|path| format!("{name}: {path}")));
        }
        let expected: BTreeSet<String> = include_str!("golden/external-types.txt")
            .lines()
            .map(str::to_owned)
            .collect();
        let lines = |of: Vec<&String>| -> String {
            of.into_iter().flat_map(|line| ["\n    ", line]).collect()
        };
        assert!(
            actual == expected,
            "public items name other items than tests/tests/golden/external-types.txt says\nnot in the file:{}\nonly in the file:{}",
            lines(actual.difference(&expected).collect()),
            lines(expected.difference(&actual).collect()),
        );
    }

    /// Returns the name of a package that is published and has a library.
    fn published_library(package: &Value) -> Option<&str> {
        let published = package["publish"]
            .as_array()
            .is_none_or(|to| !to.is_empty());
        let targets = package["targets"].as_array()?;
        let is_library = |target: &Value| {
            let kinds = target["kind"].as_array();
            kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind == "lib"))
        };
        (published && targets.iter().any(is_library)).then(|| text(&package["name"]))
    }

    /// What rustdoc writes as JSON about a library: its public items, and the paths of all items that they name.
    struct PublicItems(Value);

    impl PublicItems {
        fn of(package: &str, target: &Path) -> Self {
            let mut rustdoc = cargo(&["rustdoc", "--lib", "--all-features", "--package", package]);
            rustdoc.arg("--target-dir").arg(target);
            rustdoc.args(["--", "-Zunstable-options", "--output-format=json"]);
            // The format is unstable: only this lets a stable rustdoc write it.
            rustdoc.env("RUSTC_BOOTSTRAP", "1");
            output_of(rustdoc);
            let file = target.join(format!("doc/{}.json", package.replace('-', "_")));
            let json = std::fs::read(file).expect("rustdoc has written it");
            Self(serde_json::from_slice(&json).expect("rustdoc writes JSON"))
        }

        /// Returns the paths of the items of other crates, without those of the standard library.
        fn external_paths(&self) -> BTreeSet<String> {
            let index = self.0["index"].as_object().expect("items by their ids");
            let implied: HashSet<String> = index.values().flat_map(implied_items).collect();
            let mut named = HashSet::new();
            for (id, item) in index {
                let own = item["crate_id"] == 0;
                if own && !is_implied(item) && !implied.contains(id) {
                    collect_named_ids(&item["inner"], &mut named);
                }
            }
            let paths = named.iter().map(|id| &self.0["paths"][id.to_string()]);
            paths.filter_map(|path| self.external_path(path)).collect()
        }

        fn external_path(&self, summary: &Value) -> Option<String> {
            let of = summary["crate_id"].as_u64().filter(|of| *of != 0)?;
            let name = text(&self.0["external_crates"][of.to_string()]["name"]);
            let path: Vec<&str> = summary["path"].as_array()?.iter().map(text).collect();
            (!["std", "core", "alloc"].contains(&name)).then(|| path.join("::"))
        }
    }

    /// Whether this is an implementation that follows from others, as those of auto traits and blanket ones do.
    fn is_implied(item: &Value) -> bool {
        let implementation = &item["inner"]["impl"];
        implementation["is_synthetic"] == true || implementation["blanket_impl"].is_object()
    }

    /// Returns the ids of the items inside an implied implementation.
    fn implied_items(item: &Value) -> Vec<String> {
        let items = item["inner"]["impl"]["items"].as_array();
        let items = items.filter(|_| is_implied(item)).into_iter().flatten();
        items.map(ToString::to_string).collect()
    }

    /// Collects the ids of all items that a signature, a bound or a re-export names.
    fn collect_named_ids(value: &Value, ids: &mut HashSet<u64>) {
        match value {
            Value::Object(fields) => {
                if fields.contains_key("path") || fields.contains_key("source") {
                    ids.extend(fields.get("id").and_then(Value::as_u64));
                }
                for value in fields.values() {
                    collect_named_ids(value, ids);
                }
            }
            Value::Array(values) => {
                for value in values {
                    collect_named_ids(value, ids);
                }
            }
            _ => {}
        }
    }

    fn text(value: &Value) -> &str {
        value
            .as_str()
            .unwrap_or_else(|| panic!("{value} is no text"))
    }

    fn cargo(args: &[&str]) -> Command {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(args).args(["--locked", "--offline"]);
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        cargo
    }

    fn json_of(command: Command) -> Value {
        serde_json::from_slice(&output_of(command)).expect("JSON")
    }

    fn output_of(mut command: Command) -> Vec<u8> {
        let output = command.output().expect("cargo can be started");
        assert!(
            output.status.success(),
            "{command:?}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    }
}
