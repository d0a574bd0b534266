//! Random faults against real servers while recipes are at work, judged by checkers over what was recorded.

mod breadcrumb;
mod leader;
mod lock;
mod one_shot_lease;
mod other_locks;
mod rw;
mod semaphore;
mod work;

use std::time::Duration;

use zk_harness::nemesis::{Fault, InjectedFault, Nemesis, fault_time};
use zk_harness::{DataStore, Ensemble};
use zk_history::Run;

/// Three servers that the nemesis can do everything to.
async fn stage() -> Ensemble {
    Ensemble::builder()
        .servers(3)
        .data(DataStore::Memory)
        // A leader that stalls is replaced after a second.
        .sync_limit(5)
        .proxied(true)
        .quorum_links(true)
        .movable_clock(true)
        .start_timeout(Duration::from_secs(180))
        .start()
        .await
        .expect("the servers start")
}

/// Breaks everything there is to break for a while, after some seconds in which nothing is broken.
///
/// When it returns, all is undone and the servers serve; whether the workers get on again is for the caller to wait
/// for.
async fn inject_faults(run: &Run, ensemble: &Ensemble) -> Vec<InjectedFault> {
    let recorder = run.recorder("nemesis").expect("the run can be written");
    let nemesis = Nemesis::new(run.seed())
        .faults(Fault::ALL)
        .recorder(recorder);
    // What the rate before the first fault is measured over.
    drop(tokio::time::timeout(QUIET, std::future::pending::<()>()).await);
    nemesis
        .run(ensemble, fault_time(Duration::from_secs(10)))
        .await
        .expect("faults can be made and undone")
}

/// Fails if servers have found out that their trees differ: then nothing can be said of their clients.
fn agreed(ensemble: &Ensemble) {
    if let Some(differs) = disagreement(ensemble) {
        panic!("{differs}");
    }
}

/// Returns what servers say of trees that differ.
fn disagreement(ensemble: &Ensemble) -> Option<String> {
    ensemble.servers().iter().find_map(|server| {
        let log = std::fs::read(server.log_file()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let differs = log.lines().find(|line| line.contains("digest mismatch"))?;
        let log_file = server.log_file();
        Some(format!(
            "the servers lost writes of their own, see {}: {differs}",
            log_file.display()
        ))
    })
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
