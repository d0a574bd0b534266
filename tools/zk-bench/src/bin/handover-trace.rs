//! Splits the time of a hand-over into steps, from the release until the next holder's acquire has returned.
//!
//! Both sessions use a follower, through proxies that record when each frame passes.

#![expect(clippy::print_stdout, reason = "a program with output for a terminal")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use zk_bench::{Environment, Settings, Trace, WorkMeter, open, servers, table};
use zk_core::Session;
use zk_harness::{Ensemble, Server};
use zk_lock::FairLock;

const PATH: &str = "/trace";
const ROUNDS: usize = 400;
/// Rounds that are discarded.
const WARM_UP: usize = 50;
/// The limit for waits that take milliseconds.
const MAX_WAIT: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let settings = Settings::from_env()?;
    let meter = WorkMeter::begin();
    let ensemble = servers(settings).proxied(true).start().await?;
    let follower = follower(&ensemble).await?;
    let connect = ensemble.proxy()?.address(follower)?.to_string();
    let (holder, waiter) = (open(&connect).await?, open(&connect).await?);
    let mut traces = Vec::new();
    for round in 0..WARM_UP + ROUNDS {
        let trace = hand_over(&ensemble, &holder, &waiter).await?;
        if round >= WARM_UP {
            traces.push(trace);
        }
    }
    let environment = Environment::of(&ensemble, &meter);
    println!("\na hand-over step by step, in microseconds\n");
    println!("{}", environment.describe(&settings.command("trace")));
    let mut table = table(&["step", "median", "10 %", "90 %"]);
    for (step, times) in Trace::steps(&traces) {
        let at = |percent: f64| format!("{:.0}", times.percentile(percent).as_secs_f64() * 1e6);
        table.add_row([step.to_owned(), at(50.0), at(10.0), at(90.0)]);
    }
    println!("{table}\n");
    ensemble.down().await?;
    Ok(())
}

/// Returns the id of a follower.
async fn follower(ensemble: &Ensemble) -> anyhow::Result<u32> {
    let leader = ensemble.leader().await?.id();
    let mut ids = ensemble.servers().iter().map(Server::id);
    ids.find(|id| *id != leader)
        .context("the ensemble has no follower")
}

/// Measures one hand-over from `holder` to `waiter`.
async fn hand_over(
    ensemble: &Ensemble,
    holder: &Session,
    waiter: &Session,
) -> anyhow::Result<Trace> {
    let log = ensemble.proxy()?.log();
    let held = FairLock::new(holder, PATH)?.acquire().await?;
    let lock = FairLock::new(waiter, PATH)?;
    log.clear();
    let acquiring = tokio::spawn(async move {
        let guard = lock.acquire().await?;
        anyhow::Ok((Instant::now(), guard))
    });
    let node: Arc<str> = held.path().as_str().into();
    let waits = async {
        let mut interval = tokio::time::interval(Duration::from_millis(1));
        while !Trace::is_watched(&log.events(), &node) {
            interval.tick().await;
        }
    };
    tokio::time::timeout(MAX_WAIT, waits)
        .await
        .context("the waiter does not watch the holder's node")?;
    log.clear();
    let released = Instant::now();
    let release = tokio::spawn(held.release());
    let (acquired, guard) = tokio::time::timeout(MAX_WAIT, acquiring)
        .await
        .context("the waiter is not granted the lock")???;
    release.await??;
    let trace = Trace::of(&log.events(), &node, acquired - released);
    guard.release().await?;
    trace.context("the proxy has not seen all steps of the hand-over")
}
