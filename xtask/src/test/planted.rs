//! `test planted`: breaks one rule after the other in a copy of the last commit, and records which tests notice.
//!
//! The flaws are in [`flaws`]: rules of the session lease, of the client and of the recipes. Of each, at least one test
//! without servers has to fail, and one of each filter that it names. The models have flaws of their own, beside their
//! rules.

mod copy;
mod document;
mod flaws;
mod results;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};

use self::copy::FlawedCopy;
use self::document::{DOCUMENT, Entry};
use self::flaws::{Flaw, TOPICS, Topic};
use self::results::{Noticed, Results};
use super::{Counts, Outcome};
use crate::revision;
use crate::workspace::Workspace;

/// Runs the tests of each chosen flaw, writes which of them notice, and counts what was demanded of them.
pub(super) fn planted(workspace: &Workspace, args: &[OsString]) -> anyhow::Result<Outcome> {
    let chosen = choose(args)?;
    let directory = workspace.target_dir().join("planted");
    let commit = revision::commit(&workspace.root, OsStr::new("HEAD"))?;
    let copy = FlawedCopy::of(workspace, &commit, &directory)?;
    let results = Results::of(&directory, &commit);
    let mut entries = BTreeMap::new();
    for (topic, flaws) in &chosen {
        if let Some(noticed) = flaws.iter().map(|flaw| results.known(flaw)).collect() {
            let noticed: Vec<Noticed> = noticed;
            println!("planted: the flaws of {} were run before", topic.name);
            entries.extend(flaws.iter().map(|flaw| flaw.what).zip(noticed));
            continue;
        }
        if !results.is_sound(topic.package, flaws) {
            let run = copy.run(topic.package, flaws)?;
            ensure!(
                run.failed.is_empty(),
                "tests of {} fail without a flaw: {:?}",
                topic.package,
                run.failed
            );
            results.keep_sound(topic.package, flaws)?;
        }
        for flaw in flaws {
            let noticed = match results.known(flaw) {
                Some(noticed) => noticed,
                None => results.keep(flaw, notice(&copy, topic.package, flaw)?)?,
            };
            entries.insert(flaw.what, noticed);
        }
    }
    write_document(&workspace.root.join(DOCUMENT), &entries)?;
    let mut counts = Counts::default();
    for (topic, flaw) in each(&chosen) {
        let Some(noticed) = entries.get(flaw.what) else {
            continue;
        };
        let missed = noticed.missed(flaw);
        counts.failed += u64::try_from(missed.len())?;
        counts.passed += u64::try_from(flaw.found_by.len() + 1 - missed.len())?;
        for missed in missed {
            println!("{}: not noticed by {missed}: {}", topic.name, flaw.what);
        }
    }
    Ok(Outcome {
        counts,
        good: counts.failed == 0,
        ..Outcome::default()
    })
}

/// Runs the tests of a package with a flaw.
fn notice(copy: &FlawedCopy, package: &str, flaw: &Flaw) -> anyhow::Result<Noticed> {
    println!("planted: {}", flaw.what);
    let planted = copy.plant(flaw)?;
    let run = copy.run(package, &[flaw])?;
    ensure!(run.count > 0, "no test ran with the flaw: {}", flaw.what);
    let mut silent = BTreeSet::new();
    for filter in flaw.found_by {
        let accepted = copy.list(package, flaw, filter)?;
        ensure!(!accepted.is_empty(), "{filter} has no test of {package}");
        if accepted.is_disjoint(&run.failed) {
            silent.insert((*filter).to_owned());
        }
    }
    drop(planted);
    Ok(Noticed {
        by: run.failed,
        timed_out: run.timed_out,
        silent,
    })
}

/// Returns the flaws that any of the words names, all without words: those of a topic, or with the word in their
/// description.
fn choose(words: &[OsString]) -> anyhow::Result<Vec<(&'static Topic, Vec<&'static Flaw>)>> {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let is_named = |word: &str, topic: &Topic, flaw: &Flaw| {
        if TOPICS.iter().any(|topic| topic.name == word) {
            topic.name == word
        } else {
            flaw.what.contains(word)
        }
    };
    let all = || {
        let flaws = |topic: &'static Topic| topic.flaws.iter().map(move |flaw| (topic, flaw));
        TOPICS.iter().flat_map(flaws)
    };
    for word in &words {
        let topics: Vec<_> = TOPICS.iter().map(|topic| topic.name).collect();
        ensure!(
            all().any(|(topic, flaw)| is_named(word, topic, flaw)),
            "no flaw is described by {word:?}; the topics are {}",
            topics.join(", ")
        );
    }
    let is_chosen = |topic: &Topic, flaw: &Flaw| {
        words.is_empty() || words.iter().any(|word| is_named(word, topic, flaw))
    };
    let chosen = TOPICS.iter().map(|topic| {
        let flaws = topic.flaws.iter().filter(|flaw| is_chosen(topic, flaw));
        (topic, flaws.collect::<Vec<_>>())
    });
    Ok(chosen.filter(|(_, flaws)| !flaws.is_empty()).collect())
}

fn each<'a>(
    chosen: &'a [(&'static Topic, Vec<&'static Flaw>)],
) -> impl Iterator<Item = (&'static Topic, &'static Flaw)> + 'a {
    let flaws = |(topic, flaws): &'a (_, Vec<_>)| flaws.iter().map(move |flaw| (*topic, *flaw));
    chosen.iter().flat_map(flaws)
}

/// Writes the document; what it says of flaws that were not run stays.
fn write_document(path: &Path, noticed: &BTreeMap<&str, Noticed>) -> anyhow::Result<()> {
    let old = fs::read_to_string(path).unwrap_or_default();
    let new = document::write(&old, TOPICS, |flaw| match noticed.get(flaw.what) {
        Some(noticed) => Entry::Run(noticed),
        None => Entry::AsBefore,
    });
    fs::write(path, new).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_choose_a_topic_or_flaws_by_their_description() {
        let names = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(OsString::from).collect();
            let chosen = choose(&words).unwrap();
            let topics: Vec<_> = chosen.iter().map(|(topic, _)| topic.name).collect();
            (topics.join(" "), each(&chosen).count())
        };
        let all: usize = TOPICS.iter().map(|topic| topic.flaws.len()).sum();
        assert_eq!(names(&[]).1, all);
        // No flaw of another topic, although some speak of clocks and blocks.
        assert_eq!(names(&["lock"]).0, "lock");
        assert_eq!(names(&["pauses of the leader"]), ("lease".to_owned(), 1));
        let error = choose(&["no such flaw".into()]).unwrap_err();
        assert!(error.to_string().contains("the topics are lease, lock"));
    }
}
