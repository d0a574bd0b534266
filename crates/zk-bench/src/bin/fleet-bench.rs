//! Measures the load of sessions while the application does nothing, idle and then holding one lock each.
//!
//! The figures come from the servers' own counters. The only argument is the number of sessions.

#![expect(clippy::print_stdout, reason = "a program with output for a terminal")]

use std::fs;
use std::future;
use std::time::Duration;

use anyhow::Context as _;
use anyhow::ensure;
use futures_util::StreamExt as _;
use futures_util::TryStreamExt as _;
use futures_util::stream;
use zk_bench::Environment;
use zk_bench::Settings;
use zk_bench::WorkMeter;
use zk_bench::servers;
use zk_bench::table;
use zk_core::Session;
use zk_harness::Ensemble;
use zk_lock::FairLock;

const SESSIONS: u32 = 500;
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
const MEASURED: Duration = Duration::from_secs(20);
/// The number of sessions opened, or locks acquired, concurrently.
const AT_ONCE: usize = 50;
/// The most requests per second of an idle session.
const MOST_REQUESTS: f64 = 0.5;
/// The most quorum writes per second of a session that holds a lock.
const MOST_WRITES: f64 = 0.45;

/// The counters of the servers and of this process.
#[derive(Clone, Copy, Debug)]
struct Counted {
    received: f64,
    zxid: f64,
    /// Seconds of processor time.
    busy: f64,
}

/// The counters per second.
#[derive(Clone, Copy, Debug)]
struct Rates {
    requests: f64,
    writes: f64,
    busy: f64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let settings = Settings::from_env()?;
    let count = match std::env::args().nth(1) {
        Some(count) => count
            .parse()
            .context("the number of sessions is not a number")?,
        None => SESSIONS,
    };
    let meter = WorkMeter::begin();
    let builder = servers(settings).max_client_connections(0);
    let ensemble = builder.start().await?;
    let connect = ensemble.connect_string();
    let before = resident()?;
    let sessions: Vec<Session> = stream::iter(0..count)
        .map(|_| {
            Session::builder(&connect)
                .session_timeout(SESSION_TIMEOUT)
                .connect()
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    let memory = (resident()? - before) / f64::from(count);

    pass(SESSION_TIMEOUT).await;
    let idle = measured(&ensemble).await?;
    let guards: Vec<_> = stream::iter(sessions.iter().enumerate())
        .map(async |(at, session)| {
            FairLock::new(session, format!("/fleet/{at}"))?
                .acquire()
                .await
                .map_err(anyhow::Error::from)
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    let with_locks = (resident()? - before) / f64::from(count);
    pass(SESSION_TIMEOUT).await;
    let holding = measured(&ensemble).await?;
    let lost = guards.iter().filter(|guard| !guard.is_valid()).count();

    let environment = Environment::of(&ensemble, &meter);
    println!("\n{count} sessions with a timeout of {SESSION_TIMEOUT:?}, {MEASURED:?} each\n");
    println!("{}", environment.describe(&settings.command("fleet")));
    let mut table = table(&[
        "sessions",
        "requests/s",
        "each",
        "quorum writes/s",
        "each",
        "client CPU, ms/s each",
        "memory, KiB each",
    ]);
    for (name, rates, memory) in [("idle", idle, memory), ("holding", holding, with_locks)] {
        let each = |rate: f64| rate / f64::from(count);
        table.add_row([
            name.to_owned(),
            format!("{:.0}", rates.requests),
            format!("{:.2}", each(rates.requests)),
            format!("{:.1}", rates.writes),
            format!("{:.2}", each(rates.writes)),
            format!("{:.3}", each(rates.busy) * 1e3),
            format!("{memory:.0}"),
        ]);
    }
    println!("{table}\n");
    for (target, figure, most) in [
        (
            "requests/s of an idle session",
            idle.requests / f64::from(count),
            MOST_REQUESTS,
        ),
        ("quorum writes/s of idle sessions", idle.writes, 0.0),
        (
            "quorum writes/s of a holder",
            holding.writes / f64::from(count),
            MOST_WRITES,
        ),
    ] {
        // Compares the rounded figure, because it includes the requests for the counters.
        let is_met = (figure * 100.0).round() <= most * 100.0;
        let verdict = if is_met { "met" } else { "MISSED" };
        println!("{verdict}: {target}: {figure:.2}, at most {most}");
    }
    drop(guards);
    drop(sessions);
    ensemble.down().await?;
    ensure!(
        lost == 0,
        "{lost} of the locks were no longer valid at the end"
    );
    Ok(())
}

async fn measured(ensemble: &Ensemble) -> anyhow::Result<Rates> {
    let before = counted(ensemble).await?;
    pass(MEASURED).await;
    let after = counted(ensemble).await?;
    let rate = |before: f64, after: f64| (after - before) / MEASURED.as_secs_f64();
    Ok(Rates {
        requests: rate(before.received, after.received),
        writes: rate(before.zxid, after.zxid),
        busy: rate(before.busy, after.busy),
    })
}

#[expect(clippy::cast_precision_loss, reason = "no run has 2^53 requests")]
async fn counted(ensemble: &Ensemble) -> anyhow::Result<Counted> {
    let (mut received, mut zxid) = (0.0, 0);
    for server in ensemble.servers() {
        let said = server.srvr().await?;
        received += said.received as f64;
        // Without the epoch, which does not change during the run.
        zxid = zxid.max(said.zxid & u64::from(u32::MAX));
    }
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields = stat
        .rsplit(") ")
        .next()
        .context("no fields in /proc/self/stat")?;
    let ticks = fields.split(' ').skip(11).take(2);
    let ticks: u64 = ticks.map(|ticks| ticks.parse().unwrap_or(0)).sum();
    Ok(Counted {
        received,
        zxid: zxid as f64,
        busy: ticks as f64 / TICKS_PER_SECOND,
    })
}

/// The memory of this process, in KiB.
fn resident() -> anyhow::Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.context("no VmRSS in /proc/self/status")?.parse()?)
}

async fn pass(time: Duration) {
    drop(tokio::time::timeout(time, future::pending::<()>()).await);
}

/// `USER_HZ` of Linux.
const TICKS_PER_SECOND: f64 = 100.0;
