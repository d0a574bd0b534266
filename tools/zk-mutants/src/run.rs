//! Draws the mutants of some crates, builds them, runs the tests, and writes the results.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::compile::{self, Tests};
use crate::copy::{self, Copy};
use crate::draw::{self, Candidate};
use crate::progress::{Baseline, Key, Outcome, Progress, Test, Verdict};
use crate::report::{self, Report, Results, Survivor};
use crate::rewrite::{self, Rewritten};
use crate::runner::{Limits, Runner};
use crate::{choose, errors, tables, walk};

/// What a run is about.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The workspace, whose file of results is written.
    pub(crate) root: PathBuf,
    /// The directory of the commit's files, the copy and the progress.
    pub(crate) work: PathBuf,
    /// The commit.
    pub(crate) revision: String,
    pub(crate) seed: u64,
    /// The crates with their numbers of mutants; all of them share the whole number if none is named.
    pub(crate) crates: Vec<String>,
    pub(crate) count: Option<usize>,
    /// What a user has typed.
    pub(crate) command: String,
}

/// A crate and its mutants.
struct Drawn {
    name: String,
    candidates: Vec<Candidate>,
    /// The number before that of its first mutant.
    base: u32,
    progress: Progress,
}

impl Drawn {
    /// Returns the mutants, with their numbers.
    fn mutants(&self) -> Vec<(u32, &Candidate)> {
        let key = &self.progress.key;
        let taken = draw::take(&self.candidates, key.count, &self.progress.dropped);
        let taken = taken.into_iter().map(|at| &self.candidates[at]);
        (self.base + 1..).zip(taken).collect()
    }

    fn is_finished(&self) -> bool {
        let outcomes = &self.progress.outcomes;
        let mut mutants = self.mutants().into_iter();
        mutants.all(|(number, _)| outcomes.contains_key(&number))
    }

    /// Leaves out the mutants with these numbers from now on; returns whether there are any.
    fn drop_mutants(&mut self, numbers: &BTreeSet<u32>) -> bool {
        let key = &self.progress.key;
        let taken = draw::take(&self.candidates, key.count, &self.progress.dropped);
        let numbered = (self.base + 1..).zip(taken);
        let dropped = numbered.filter(|(number, _)| numbers.contains(number));
        let dropped: Vec<usize> = dropped.map(|(_, at)| at).collect();
        self.progress.dropped.extend(&dropped);
        !dropped.is_empty()
    }
}

impl Run {
    /// Runs, or continues what was interrupted.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let started = Instant::now();
        let copy = Copy::at(&self.work);
        let mut drawn = self.draw(&copy)?;
        if !drawn.iter().all(Drawn::is_finished) {
            let tests = tests(&copy, &drawn);
            self.build(&copy, &tests, &mut drawn, started)?;
            let runner = Runner::new(&copy, &self.work, &tests)?;
            let seconds = started.elapsed().as_secs_f64();
            println!("built in {seconds:.0} s");
            if let Some(first) = drawn.iter_mut().find(|drawn| !drawn.is_finished()) {
                first.progress.spent += seconds;
            }
            for drawn in drawn.iter_mut().filter(|drawn| !drawn.is_finished()) {
                self.baseline(&runner, drawn)?;
                self.mutants(&runner, drawn, started)?;
            }
        }
        self.report(&drawn)
    }

    fn draw(&self, copy: &Copy) -> anyhow::Result<Vec<Drawn>> {
        let is_named =
            |name: &&str| self.crates.is_empty() || self.crates.iter().any(|it| it == name);
        let names: Vec<&str> = tables::CRATES.into_iter().filter(is_named).collect();
        for name in &self.crates {
            let known = tables::CRATES.join(", ");
            ensure!(
                names.contains(&name.as_str()),
                "no crate {name}: use {known}"
            );
        }
        let mut codes = Vec::new();
        for name in &names {
            codes.push(walk::read(&copy.commit, name)?);
        }
        let counts = if self.crates.is_empty() {
            let lines: Vec<usize> = codes.iter().map(|code| code.lines).collect();
            draw::apportion(&lines, self.count.unwrap_or(tables::IN_ALL), tables::LEAST)
        } else {
            vec![self.count.unwrap_or(tables::OF_ONE); names.len()]
        };
        let mut drawn = Vec::new();
        for ((name, mut code), count) in names.into_iter().zip(codes).zip(counts) {
            draw::shuffle(&mut code.candidates, name, self.seed);
            let key = Key {
                revision: self.revision.clone(),
                seed: self.seed,
                count,
            };
            let (places, lines) = (code.candidates.len(), code.lines);
            println!("{name}: {count} of {places} places in {lines} lines");
            let at = tables::CRATES.iter().position(|it| *it == name);
            let at = at.context("the crate is in the table")?;
            drawn.push(Drawn {
                name: name.to_owned(),
                candidates: code.candidates,
                base: u32::try_from(at + 1)? * APART,
                progress: Progress::open(&self.work, name, key),
            });
        }
        Ok(drawn)
    }

    /// Builds the tests with all mutants, in place of those that do not compile with others.
    fn build(
        &self,
        copy: &Copy,
        tests: &Tests,
        drawn: &mut [Drawn],
        started: Instant,
    ) -> anyhow::Result<()> {
        loop {
            in_time(started)?;
            let files = rewritten(copy, drawn)?;
            let texts = files
                .iter()
                .map(|(file, it)| (file.into(), it.text.clone()));
            copy.write(&texts.collect())?;
            let errors = compile::build(copy, tests)?;
            if errors.is_empty() {
                return Ok(());
            }
            let mut numbers = BTreeSet::new();
            for error in &errors {
                numbers.extend(errors::to_blame(error, &files)?);
            }
            for drawn in drawn.iter_mut() {
                if drawn.drop_mutants(&numbers) {
                    // Other mutants have their numbers now.
                    drawn.progress.baseline = None;
                    drawn.progress.outcomes.clear();
                    drawn.progress.save(&self.work, &drawn.name)?;
                }
            }
            println!("{} do not compile: others are drawn", numbers.len());
        }
    }

    /// Runs a crate's tests without a mutant, unless an earlier command did.
    fn baseline(&self, runner: &Runner, drawn: &mut Drawn) -> anyhow::Result<()> {
        if drawn.progress.baseline.is_some() {
            return Ok(());
        }
        let started = Instant::now();
        let directory = self.work.join("reached");
        let ended = runner
            .baseline(&tables::tests_of(&drawn.name), &directory)
            .with_context(|| drawn.name.clone())?;
        let reached = reached(&directory)?;
        let baseline = Baseline {
            slowest_test: ended.iter().map(|it| it.seconds).fold(0.0, f64::max),
            all_tests: started.elapsed().as_secs_f64(),
            reached,
        };
        println!(
            "{}: {} tests pass in {:.1} s, the slowest takes {:.1} s",
            drawn.name,
            ended.len(),
            baseline.all_tests,
            baseline.slowest_test
        );
        drawn.progress.spent += baseline.all_tests;
        drawn.progress.baseline = Some(baseline);
        drawn.progress.save(&self.work, &drawn.name)
    }

    /// Runs the tests with each mutant that has no outcome yet.
    fn mutants(&self, runner: &Runner, drawn: &mut Drawn, started: Instant) -> anyhow::Result<()> {
        let baseline = drawn.progress.baseline.clone().unwrap_or_default();
        let limits = Limits::after(&baseline);
        let mut outcomes = drawn.progress.outcomes.clone();
        let count = drawn.progress.key.count;
        let mutants = drawn.mutants();
        let mutants: Vec<_> = mutants
            .iter()
            .map(|(number, it)| (*number, shown(it)))
            .collect();
        for (number, shown) in mutants {
            if outcomes.contains_key(&number) {
                continue;
            }
            in_time(started)?;
            let now = Instant::now();
            let verdict = match baseline.reached.get(&number) {
                None => Verdict::NotReached,
                Some(tests) => runner
                    .mutant(number, &filter(&drawn.name, tests), limits)
                    .with_context(|| shown.clone())?,
            };
            let seconds = now.elapsed().as_secs_f64();
            let what = match &verdict {
                Verdict::Caught(test) => format!("caught by {} {}", test.binary, test.name),
                Verdict::TimedOut(Some(test)) => {
                    format!("timed out in {} {}", test.binary, test.name)
                }
                Verdict::TimedOut(None) => "timed out".to_owned(),
                Verdict::Survived => "SURVIVED".to_owned(),
                Verdict::NotReached => "NOT REACHED".to_owned(),
            };
            let at = number - drawn.base;
            println!(
                "{} {at}/{count} {shown}: {what}, {seconds:.1} s",
                drawn.name
            );
            outcomes.insert(number, Outcome { verdict, seconds });
            drawn.progress.outcomes.clone_from(&outcomes);
            drawn.progress.spent += seconds;
            drawn.progress.save(&self.work, &drawn.name)?;
            // What failed runs keep is of no use here.
            let runs = self.work.join("runs");
            if runs.exists() {
                fs::remove_dir_all(runs)?;
            }
        }
        Ok(())
    }

    fn report(&self, drawn: &[Drawn]) -> anyhow::Result<()> {
        let file = self.root.join(RESULTS);
        let mut report = Report::parse(&fs::read_to_string(&file).unwrap_or_default());
        let short: String = self.revision.chars().take(12).collect();
        let (mut of_mutants, mut in_all) = (0.0, 0.0);
        for drawn in drawn {
            let mut results = Results {
                revision: short.clone(),
                seed: self.seed,
                ..Results::default()
            };
            let progress = &drawn.progress;
            in_all += progress.spent;
            for (number, candidate) in drawn.mutants() {
                let outcome = &progress.outcomes[&number];
                of_mutants += outcome.seconds;
                let reached = progress
                    .baseline
                    .as_ref()
                    .and_then(|it| it.reached.get(&number));
                results.add(&outcome.verdict, || survivor(candidate, reached));
            }
            report.replace(&drawn.name, results);
        }
        report.command = format!(
            "`{}`, at revision `{short}`, with seed {}, in {} of which the mutants took {}.",
            self.command,
            self.seed,
            minutes(in_all),
            minutes(of_mutants)
        );
        fs::write(&file, report.text())
            .with_context(|| format!("cannot write {}", file.display()))?;
        println!("caught in all crates: {}; see {RESULTS}", report.share());
        Ok(())
    }
}

/// Returns the tests to build: those of the crates and those of their smoke.
fn tests(copy: &Copy, drawn: &[Drawn]) -> Tests {
    let names: Vec<&str> = drawn.iter().map(|drawn| drawn.name.as_str()).collect();
    let (packages, smoke) = tables::packages(&names);
    let binaries = names.iter().flat_map(|name| {
        let package = copy.commit.join("crates").join(name);
        copy::test_binaries(&package, &tables::WITH_SERVERS)
    });
    let binaries: BTreeSet<String> = binaries
        .chain(smoke.into_iter().map(str::to_owned))
        .collect();
    Tests {
        packages: packages.into_iter().map(str::to_owned).collect(),
        binaries: binaries.into_iter().collect(),
    }
}

/// Returns the files that have mutants, and the roots of their crates, which choose among them.
fn rewritten(copy: &Copy, drawn: &[Drawn]) -> anyhow::Result<BTreeMap<String, Rewritten>> {
    let mut files = BTreeMap::new();
    for drawn in drawn {
        let root = format!("crates/{}/src/lib.rs", drawn.name);
        let mut by_file: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        by_file.entry(&root).or_default();
        for (number, candidate) in &drawn.mutants() {
            let mutants = by_file.entry(&candidate.file).or_default();
            mutants.push((*number, candidate.site.clone()));
        }
        for (file, mutants) in by_file {
            let text = read(&copy.commit, file)?;
            let mutants: Vec<_> = mutants
                .iter()
                .map(|(number, site)| (*number, site))
                .collect();
            let mut rewritten = rewrite::rewrite(&text, &mutants);
            if file == root {
                rewritten.text += choose::CHOOSE;
            }
            files.insert(file.to_owned(), rewritten);
        }
    }
    Ok(files)
}

/// Reads what a run without a mutant has noted.
fn reached(directory: &Path) -> anyhow::Result<BTreeMap<u32, BTreeSet<Test>>> {
    let mut reached = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let number = entry.file_name().to_string_lossy().parse()?;
        let text = fs::read_to_string(entry.path())?;
        let tests = text.lines().filter_map(|line| line.split_once(' '));
        let tests = tests.map(|(binary, name)| Test {
            binary: binary.to_owned(),
            name: name.to_owned(),
        });
        reached.insert(number, tests.collect());
    }
    Ok(reached)
}

/// Returns a filter of the tests that reach a mutant; of all tests of its crate, if they are many.
fn filter(name: &str, reached_by: &BTreeSet<Test>) -> String {
    if reached_by.len() > MANY {
        return tables::tests_of(name);
    }
    let tests = reached_by.iter();
    let tests = tests.map(|test| format!("(binary_id(={}) & test(={}))", test.binary, test.name));
    tests.collect::<Vec<_>>().join(" | ")
}

fn shown(candidate: &Candidate) -> String {
    let site = &candidate.site;
    let change = report::change(&site.original, &site.changed);
    format!("{}:{}: {change}", candidate.file, site.line)
}

fn survivor(candidate: &Candidate, reached: Option<&BTreeSet<Test>>) -> Survivor {
    let site = &candidate.site;
    Survivor {
        file: candidate.file.clone(),
        line: site.line,
        change: report::change(&site.original, &site.changed),
        reached_by: reached.map_or(0, BTreeSet::len),
        verdict: String::new(),
    }
}

fn minutes(seconds: f64) -> String {
    format!("{:.1} min", seconds / 60.0)
}

fn in_time(started: Instant) -> anyhow::Result<()> {
    let minutes = LIMIT.as_secs() / 60;
    ensure!(
        started.elapsed() < LIMIT,
        "{minutes} minutes are over: the same command continues"
    );
    Ok(())
}

fn read(root: &Path, file: &str) -> anyhow::Result<String> {
    fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))
}

const RESULTS: &str = "docs/mutants.md";

/// How long a command runs at most, but for what it has begun.
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// How far the numbers of two crates' mutants are apart.
const APART: u32 = 1000;

/// More tests are not named one by one.
const MANY: usize = 300;
