//! Random faults against real servers while recipes are at work, judged by checkers over what was recorded.

mod leader;
mod lock;
mod rw;
mod semaphore;
mod work;

use std::time::Duration;

use zk_harness::DataStore;
use zk_harness::Ensemble;
use zk_harness::Run;
use zk_harness::fault::probe_clock;
use zk_harness::fault::require;
use zk_harness::nemesis::Fault;
use zk_harness::nemesis::Nemesis;
use zk_harness::nemesis::Struck;

/// How long a run is broken for: a minute, or `NEMESIS_SECONDS`.
fn broken_for() -> Duration {
    let asked = std::env::var("NEMESIS_SECONDS").ok();
    let seconds = asked.map(|text| {
        text.parse()
            .expect("NEMESIS_SECONDS is a number of seconds")
    });
    Duration::from_secs(seconds.unwrap_or(60))
}

/// Three servers that the nemesis can do everything to that this machine allows, and what that is.
async fn stage() -> (Ensemble, Vec<Fault>) {
    let probed = tokio::task::spawn_blocking(probe_clock).await.unwrap();
    let has_clock = require(probed).unwrap().is_some();
    let ensemble = Ensemble::builder()
        .servers(3)
        .data(DataStore::Memory)
        // A leader that stalls is replaced after a second.
        .sync_limit(5)
        .proxied(true)
        .quorum_links(true)
        .movable_clock(has_clock)
        .start_timeout(Duration::from_secs(180))
        .start()
        .await
        .expect("the servers start");
    let faults = Fault::ALL
        .into_iter()
        .filter(|fault| has_clock || *fault != Fault::Clock);
    (ensemble, faults.collect())
}

/// Breaks things for a while, after some seconds in which nothing is broken.
///
/// When it returns, all is undone and the servers serve; whether the workers get on again is for the caller to wait for.
async fn torment(run: &Run, ensemble: &Ensemble, faults: Vec<Fault>) -> Vec<Struck> {
    let recorder = run.recorder("nemesis").expect("the run can be written");
    let nemesis = Nemesis::new(run.seed()).faults(faults).recorder(recorder);
    // What the rate before the first fault is measured over.
    drop(tokio::time::timeout(QUIET, std::future::pending::<()>()).await);
    nemesis
        .torment(ensemble, broken_for())
        .await
        .expect("faults can be made and undone")
}

/// Fails if servers have found out that their trees differ: then nothing can be said of their clients.
fn agreed(ensemble: &Ensemble) {
    for server in ensemble.servers() {
        let log = std::fs::read(server.log_file()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let differs = log.lines().find(|line| line.contains("digest mismatch"));
        assert!(
            differs.is_none(),
            "the servers lost writes of their own, see {}: {}",
            server.log_file().display(),
            differs.unwrap_or_default()
        );
    }
}

/// The median and the longest of some times, in milliseconds.
fn spread(mut times: Vec<Duration>) -> String {
    times.sort();
    match (times.get(times.len() / 2), times.last()) {
        (Some(median), Some(longest)) => format!(
            "median {:.0} ms, longest {:.0} ms, {} times",
            median.as_secs_f64() * 1e3,
            longest.as_secs_f64() * 1e3,
            times.len()
        ),
        _ => "never".to_owned(),
    }
}

const QUIET: Duration = Duration::from_secs(3);
