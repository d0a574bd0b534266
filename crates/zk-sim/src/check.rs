//! Runs a test with many seeds, and reports how to repeat a failed one.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use crate::ensemble::{Ensemble, EnsembleBuilder};

/// Runs `test` once for each seed, each time with a new ensemble of three servers on a new runtime with paused time.
///
/// ```
/// use zk_sim::Chaos;
///
/// zk_sim::check(0..20, async |sim, _seed| {
///     let session = sim.connect().await;
///     let chaos = tokio::spawn(Chaos::default().run(&sim));
///     session.create("/a", "").idempotent().await?;
///     chaos.await.expect("the chaos does not panic");
///     session.sync("/a").await?;
///     assert_eq!(session.get("/a").await?.1.version, 0);
///     Ok::<_, zk_core::Error>(())
/// });
/// ```
///
/// [`Check`] takes other ensembles, and describes the report of a failure.
///
/// # Panics
///
/// If the test panics or returns an error.
pub fn check<T: TestResult>(seeds: Range<u64>, test: impl AsyncFn(Ensemble, u64) -> T) -> Checked {
    Check::new(seeds).run(test)
}

/// A test that runs once for each of many seeds.
///
/// All random choices of the ensemble, of [`Chaos`](crate::Chaos) and of the sessions come from the seed, and so do the
/// numbers of `fastrand` on the thread of the test: the same seed gives the same run, request by request.
/// The test itself must draw only from the seed, wait only by Tokio's time, and make its `select!`s `biased`, because
/// Tokio otherwise picks a branch with a random generator of its own.
///
/// # Failures
///
/// If a test panics, returns an error, or takes longer than an hour of simulated time, the remaining seeds do not run.
/// The panic message contains the seed, the last requests with their outcomes, and the command that repeats this seed.
/// `SEED=7` in the environment runs only that seed.
#[derive(Clone)]
#[must_use = "no test runs before `run`"]
pub struct Check {
    seeds: Range<u64>,
    ensemble: EnsembleBuilder,
    shown: usize,
}

impl Check {
    /// Creates a check for these seeds.
    pub fn new(seeds: Range<u64>) -> Self {
        Self {
            seeds,
            ensemble: EnsembleBuilder::default(),
            shown: 20,
        }
    }

    /// Lets `SEEDS=2000` in the environment set the number of seeds, from the first one on.
    ///
    /// Without it the range given to [`new`](Self::new) is run. `SEED` takes precedence.
    ///
    /// # Panics
    ///
    /// If `SEEDS` is set to something other than a number.
    pub fn seeds_from_env(mut self) -> Self {
        if let Ok(count) = std::env::var(SEEDS) {
            let count: u64 = match count.parse() {
                Ok(count) => count,
                Err(error) => panic!("{SEEDS}={count:?} is not a number: {error}"),
            };
            self.seeds = self.seeds.start..self.seeds.start.saturating_add(count);
        }
        self
    }

    /// Sets the kind of ensemble; its seed is replaced.
    pub fn ensemble(mut self, ensemble: EnsembleBuilder) -> Self {
        self.ensemble = ensemble;
        self
    }

    /// Sets how many of the last requests a failure lists; default 20.
    pub fn show(mut self, requests: usize) -> Self {
        self.shown = requests;
        self
    }

    /// Runs the test for each seed, one after the other.
    ///
    /// # Panics
    ///
    /// If the test panics or returns an error.
    pub fn run<T: TestResult>(self, test: impl AsyncFn(Ensemble, u64) -> T) -> Checked {
        let mut checked = Checked {
            seeds: 0,
            requests: 0,
            simulated: Duration::ZERO,
            took: Duration::ZERO,
        };
        let started = Instant::now();
        for seed in self.seeds_to_run() {
            let ensemble = self.ensemble.clone().seed(seed).build();
            if let Err(failure) = run_one(&ensemble, seed, &test) {
                panic!("{}", self.report(&ensemble, seed, &failure));
            }
            checked.seeds += 1;
            checked.requests += ensemble.request_count();
            checked.simulated += ensemble.now();
        }
        checked.took = started.elapsed();
        checked
    }

    fn seeds_to_run(&self) -> Range<u64> {
        match std::env::var(SEED) {
            Ok(seed) => match seed.parse() {
                Ok(seed) => seed..seed + 1,
                Err(error) => panic!("{SEED}={seed:?} is not a number: {error}"),
            },
            Err(_) => self.seeds.clone(),
        }
    }

    fn report(&self, ensemble: &Ensemble, seed: u64, failure: &str) -> String {
        let last = ensemble.last_requests(self.shown);
        let lines = last.iter().map(|seen| {
            format!(
                "{:>12?} {} at server {}: {:?} {:?}{}",
                seen.at,
                seen.session,
                seen.server,
                seen.request,
                seen.outcome,
                if seen.answered { "" } else { ", not answered" },
            )
        });
        let lines: Vec<_> = lines.collect();
        format!(
            "seed {seed}: {failure}\n\nthe last {} of {} requests:\n{}\n\nrun it again: {}",
            last.len(),
            ensemble.request_count(),
            lines.join("\n"),
            command(seed)
        )
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check")
            .field("seeds", &self.seeds)
            .finish_non_exhaustive()
    }
}

/// The return type of a test: `()` or a `Result`.
pub trait TestResult {
    /// Returns the reason if the test failed.
    fn failure(self) -> Option<String>;
}

impl TestResult for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<E: fmt::Debug> TestResult for Result<(), E> {
    fn failure(self) -> Option<String> {
        self.err().map(|error| format!("{error:?}"))
    }
}

/// Totals of a finished check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// The number of seeds.
    pub seeds: usize,
    /// The number of requests in all runs.
    pub requests: usize,
    /// The simulated time of all runs.
    pub simulated: Duration,
    /// The real time of all runs.
    pub took: Duration,
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_precision_loss, reason = "a rounded figure is printed")]
        let rate = self.seeds as f64 / self.took.as_secs_f64();
        write!(
            f,
            "{} seeds, {} requests, {:?} of simulated time in {:.1?}: {rate:.0} seeds/s",
            self.seeds, self.requests, self.simulated, self.took
        )
    }
}

/// Runs the test for one seed, and returns the reason if it fails.
fn run_one<T: TestResult>(
    ensemble: &Ensemble,
    seed: u64,
    test: &impl AsyncFn(Ensemble, u64) -> T,
) -> Result<(), String> {
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| format!("cannot build a runtime: {error}"))?;
    let run = async {
        // The limit is also a timer: with paused time a runtime without timers would block forever.
        tokio::time::timeout(LONGEST, test(ensemble.clone(), seed)).await
    };
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(run)));
    match ended {
        Ok(Ok(result)) => result.failure().map_or(Ok(()), Err),
        Ok(Err(_)) => Err(format!(
            "the test did not end within {LONGEST:?} of simulated time"
        )),
        Err(panic) => Err(text_of(&*panic)),
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("the test panicked").to_owned()
}

/// Returns the command that repeats this test for one seed, as far as the test binary knows it.
fn command(seed: u64) -> String {
    let mut words = vec![format!("{SEED}={seed} cargo test")];
    let package = std::env::var("CARGO_PKG_NAME").ok();
    let binary = std::env::current_exe().ok();
    // The name of a test binary ends in a hash.
    let stem = binary
        .as_deref()
        .and_then(|path| path.file_stem()?.to_str()?.rsplit_once('-'))
        .map(|(stem, _)| stem);
    if let Some(package) = &package {
        words.push(format!("-p {package}"));
    }
    if let Some(stem) = stem {
        let is_library = package.is_some_and(|package| package.replace('-', "_") == stem);
        words.push(if is_library {
            "--lib".to_owned()
        } else {
            format!("--test {stem}")
        });
    }
    if let Some(test) = std::thread::current().name().filter(|name| *name != "main") {
        words.push(format!("-- --exact {test}"));
    }
    words.join(" ")
}

const SEED: &str = "SEED";
const SEEDS: &str = "SEEDS";
const LONGEST: Duration = Duration::from_secs(3600);
