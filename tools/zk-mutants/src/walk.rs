//! Reads the sources of a crate, without its tests and programs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::draw::Candidate;
use crate::sites;

/// The code of a crate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Code {
    /// In the order of the files' names.
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) lines: usize,
}

/// Reads the library of a crate, module by module from `lib.rs`.
pub(crate) fn read(root: &Path, name: &str) -> anyhow::Result<Code> {
    let source = PathBuf::from("crates").join(name).join("src");
    let mut code = Code::default();
    let mut files = vec![(source.join("lib.rs"), source)];
    while let Some((file, modules)) = files.pop() {
        let text = fs::read_to_string(root.join(&file))
            .with_context(|| format!("cannot read {}", file.display()))?;
        let found =
            sites::read(&text).with_context(|| format!("cannot parse {}", file.display()))?;
        code.lines += found.code_lines;
        code.candidates
            .extend(found.sites.into_iter().map(|site| Candidate {
                file: file.to_string_lossy().into_owned(),
                site,
            }));
        for module in found.modules {
            let directory = modules.join(module.path.join("/"));
            let beside = directory.with_extension("rs");
            let inside = directory.join("mod.rs");
            let file = if root.join(&beside).exists() {
                beside
            } else {
                inside
            };
            files.push((file, directory));
        }
    }
    code.candidates.sort_by(|a, b| {
        let place = |it: &Candidate| (it.file.clone(), it.site.range.start, it.site.range.end);
        place(a).cmp(&place(b))
    });
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_followed_and_tests_are_not() {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("lib.rs", "mod a;\n#[cfg(test)]\nmod tests;\n"),
            ("a.rs", "mod b;\nfn f() -> u8 { 1 }\n"),
            ("a/b.rs", "mod c;\nfn f() -> u8 { 2 }\n"),
            ("a/b/c/mod.rs", "fn f() -> u8 { 3 }\n"),
            ("tests.rs", "fn f() -> u8 { 4 }\n"),
            ("main.rs", "fn f() -> u8 { 5 }\n"),
        ] {
            let file = root.path().join("crates/zk-x/src").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let code = read(root.path(), "zk-x").unwrap();
        let found = code.candidates.iter().map(|it| it.site.original.as_str());
        assert_eq!(found.collect::<Vec<_>>(), ["1", "2", "3"]);
        assert_eq!(code.lines, 6);
    }
}
