//! The public names of other clients, read from their own files.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context as _;

use super::compiler::Compiler;
use super::curator::Curator;
use super::kazoo::Kazoo;
use super::{jars, run};

/// A public class of another client, or a public function outside of classes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "tests make these")]
pub struct PublicName {
    /// The artifact or module that contains it.
    pub place: String,
    /// Its name without packages; a nested class has that of the class around it and a dot before its own.
    pub name: String,
    /// The public methods that the class declares itself, without those of every object.
    pub methods: BTreeSet<String>,
}

const CLASSES: &str = include_str!("../../java/PublicClasses.java");
const NAMES: &str = include_str!("../../python/public_names.py");

const ARTIFACTS: [&str; 4] = [
    "curator-client",
    "curator-framework",
    "curator-recipes",
    "curator-x-discovery",
];

const WITHIN: Duration = Duration::from_secs(60);

impl Curator {
    /// Reads the public classes of Curator's client, framework, recipes and service discovery from the jars.
    ///
    /// # Errors
    ///
    /// If the program that reads them cannot be compiled or fails.
    ///
    /// # Cancel safety
    ///
    /// Safe: the process is killed.
    pub async fn public_names(&self) -> anyhow::Result<Vec<PublicName>> {
        let compiler = Compiler::find().await?;
        let classes = compiler
            .compile(&[("PublicClasses.java", CLASSES)], &[])
            .await?;
        let mut classpath = self.classpath().to_vec();
        classpath.push(classes);
        let mut command = run::java(self.java());
        command
            .args(run::QUICK)
            .arg("-classpath")
            .arg(jars::joined(&classpath)?)
            .arg("PublicClasses")
            .args(ARTIFACTS);
        let printed = run::output(&mut command, "reading Curator's classes", WITHIN).await?;
        parse(&printed)
    }
}

impl Kazoo {
    /// Reads the public classes and functions of kazoo's modules, without those of its tests.
    ///
    /// # Errors
    ///
    /// If the program that reads them fails.
    ///
    /// # Cancel safety
    ///
    /// Safe: the process is killed.
    pub async fn public_names(&self) -> anyhow::Result<Vec<PublicName>> {
        let mut command = self.run(NAMES);
        parse(&run::output(&mut command, "reading kazoo's names", WITHIN).await?)
    }
}

/// Parses lines of a place, a name and its methods.
fn parse(printed: &str) -> anyhow::Result<Vec<PublicName>> {
    printed
        .lines()
        .map(|line| {
            let mut parts = line.split('\t');
            let mut next = || {
                parts
                    .next()
                    .with_context(|| format!("not understood: {line:?}"))
            };
            Ok(PublicName {
                place: next()?.to_owned(),
                name: without_packages(next()?).to_owned(),
                methods: next()?.split_whitespace().map(str::to_owned).collect(),
            })
        })
        .collect()
}

/// Removes the parts before the first one that begins with a capital letter.
fn without_packages(name: &str) -> &str {
    let starts = name.split('.').scan(0, |at, part| {
        let start = *at;
        *at += part.len() + 1;
        Some((start, part))
    });
    let mut of_classes = starts.filter(|(_, part)| part.starts_with(char::is_uppercase));
    of_classes.next().map_or(name, |(start, _)| &name[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_name_with_its_methods() {
        let names = parse("a\torg.x.Outer.Inner\tb c\nm\tjoin\t\n").unwrap();
        let name = |place: &str, name: &str, methods: &[&str]| PublicName {
            place: place.to_owned(),
            name: name.to_owned(),
            methods: methods.iter().map(|method| (*method).to_owned()).collect(),
        };
        assert_eq!(
            names,
            [
                name("a", "Outer.Inner", &["b", "c"]),
                name("m", "join", &[])
            ]
        );
        assert!(parse("a\tb\n").is_err());
    }
}
