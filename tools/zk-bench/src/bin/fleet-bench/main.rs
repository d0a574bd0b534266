//! Measures the load of sessions while the application does nothing: idle, and holding one lock each.
//!
//! The figures come from the servers' own counters. The plain wire client, which only pings, is the reference.
//! The only argument is the number of sessions; without it there are several fleets.

#![expect(clippy::print_stdout, reason = "a program with output for a terminal")]

mod counters;
mod curator_fleet;
mod descriptors;
mod first_acquire;
mod fleets;
mod results;

use std::alloc::System;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use zk_bench::{Environment, Settings, WorkMeter, servers};
use zk_harness::Ensemble;

use crate::counters::{Process, Rates, measured, pass};
use crate::curator_fleet::CuratorProgram;
use crate::results::{Fleet, Results, Row};

/// Counts the memory of a session exactly: the resident memory of a process does not shrink between two fleets.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// How long a fleet is left alone before it is measured, and how long it is measured.
#[derive(Clone, Copy, Debug)]
struct Times {
    settling: Duration,
    /// A multiple of a third of the session timeout, which is the interval of pings.
    measured: Duration,
    /// The idleness before the first acquire.
    idleness: Duration,
}

/// The measurements on fleets of one size after the other.
struct Course {
    settings: Settings,
    times: Times,
    curator: Option<CuratorProgram>,
    results: Results,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let settings = Settings::from_env()?;
    let sizes = sizes(std::env::args().nth(1), settings.quick)?;
    let largest = sizes.iter().copied().max().unwrap_or_default();
    // Before the servers start, which inherit the limit.
    descriptors::raise_limit(largest)?;
    let meter = WorkMeter::begin();
    let curator = if settings.peers {
        Some(CuratorProgram::compile().await?)
    } else {
        None
    };
    let times = if settings.quick { QUICK } else { FULL };
    let mut course = Course {
        settings,
        times,
        curator,
        results: Results::default(),
    };
    for &size in &sizes {
        println!("{size} sessions");
        course.all_servers(size).await?;
        course.one_role(size, Fleet::HoldingOnFollowers).await?;
        course.one_role(size, Fleet::HoldingOnLeader).await?;
        if size <= MOST_OF_CURATOR {
            course.curator(size).await?;
        }
    }
    let environment = course.first_acquires(&meter).await?;
    let Times { measured, .. } = times;
    println!("\nsessions with a timeout of {SESSION_TIMEOUT:?}, each fleet for {measured:?}\n");
    println!("{}", environment.describe(&command(settings)));
    println!("{}\n", course.results.table());
    for verdict in course.results.verdicts() {
        println!("{verdict}");
    }
    Ok(())
}

impl Course {
    /// Plain clients, then sessions: idle, and then with a lock each. Their connections are with all servers.
    async fn all_servers(&mut self, size: u32) -> anyhow::Result<()> {
        let ensemble = self.start(size).await?;
        let connect = [ensemble.connect_string()];
        {
            let before = counters::heap();
            let clients = fleets::plain_clients(&connect, size).await?;
            let memory = counters::heap() - before;
            let rates = self.rates(&ensemble, Process::This).await?;
            self.add(Fleet::Plain, size, rates, memory);
            fleets::close_plain(clients).await?;
        }
        let before = counters::heap();
        let sessions = fleets::sessions(&connect, size).await?;
        let memory = counters::heap() - before;
        let rates = self.rates(&ensemble, Process::This).await?;
        self.add(Fleet::Idle, size, rates, memory);
        let guards = fleets::hold(&sessions).await?;
        let memory = counters::heap() - before;
        let rates = self.rates(&ensemble, Process::This).await?;
        self.add(Fleet::Holding, size, rates, memory);
        fleets::release(guards).await?;
        fleets::close(sessions).await?;
        Ok(ensemble.down().await?)
    }

    /// Sessions with a lock each, all of them connected to the leader, or all of them to followers.
    async fn one_role(&mut self, size: u32, fleet: Fleet) -> anyhow::Result<()> {
        let ensemble = self.start(size).await?;
        let leader = ensemble.leader().await?.id();
        let on_leader = fleet == Fleet::HoldingOnLeader;
        let servers = ensemble.servers().iter();
        let servers = servers.filter(|server| (server.id() == leader) == on_leader);
        let addresses: Vec<_> = servers
            .map(|server| server.client_address().to_string())
            .collect();
        let before = counters::heap();
        let sessions = fleets::sessions(&addresses, size).await?;
        let guards = fleets::hold(&sessions).await?;
        let memory = counters::heap() - before;
        let rates = self.rates(&ensemble, Process::This).await?;
        ensure!(
            ensemble.leader().await?.id() == leader,
            "another server became the leader during the run: repeat it"
        );
        self.add(fleet, size, rates, memory);
        fleets::release(guards).await?;
        fleets::close(sessions).await?;
        Ok(ensemble.down().await?)
    }

    /// Curator's clients, in a process of their own: idle, and then with a lock each.
    async fn curator(&mut self, size: u32) -> anyhow::Result<()> {
        let Some(program) = &self.curator else {
            return Ok(());
        };
        let ensemble = self.start(size).await?;
        let mut curator = program.start(&ensemble.connect_string(), size).await?;
        for fleet in [Fleet::CuratorIdle, Fleet::CuratorHolding] {
            if fleet == Fleet::CuratorHolding {
                curator.hold().await?;
            }
            let rates = self.rates(&ensemble, curator.process()).await?;
            self.add(fleet, size, rates, curator.process().resident()?);
        }
        curator.end().await?;
        Ok(ensemble.down().await?)
    }

    /// The first acquire after a minute of idleness. Returns the description of the machine and the ensemble.
    async fn first_acquires(&mut self, meter: &WorkMeter) -> anyhow::Result<Environment> {
        let ensemble = self.start(first_acquire::SESSIONS).await?;
        let connect = ensemble.connect_string();
        let first = first_acquire::measure(&connect, self.times.idleness).await?;
        self.results.first_acquire = Some(first);
        let environment = Environment::of(&ensemble, meter);
        ensemble.down().await?;
        Ok(environment)
    }

    /// Starts three servers with ZooKeeper's own intervals, new ones for each fleet of holders: otherwise the servers
    /// would delete the locks' parents while the next fleet is measured.
    async fn start(&self, sessions: u32) -> anyhow::Result<Ensemble> {
        let builder = servers(self.settings)
            .max_client_connections(0)
            .tick_time(TICK)
            .container_check_interval(CONTAINER_CHECKS)
            .start_timeout(STARTING);
        let ensemble = builder.start().await.context("cannot start an ensemble")?;
        for server in ensemble.servers() {
            let pid = server.pid().context("the server is a process")?;
            descriptors::check_process(pid, sessions)?;
        }
        Ok(ensemble)
    }

    async fn rates(&self, ensemble: &Ensemble, process: Process) -> anyhow::Result<Rates> {
        pass(self.times.settling).await;
        measured(ensemble, process, self.times.measured).await
    }

    fn add(&mut self, fleet: Fleet, size: u32, rates: Rates, memory: f64) {
        self.results.rows.push(Row {
            fleet,
            size,
            rates,
            memory,
        });
    }
}

/// Returns the sizes of the fleets: the argument, or the usual ones.
fn sizes(argument: Option<String>, quick: bool) -> anyhow::Result<Vec<u32>> {
    let Some(count) = argument else {
        return Ok(if quick { &SIZES[..1] } else { &SIZES }.to_vec());
    };
    let size = count.parse().ok().filter(|size| *size > 0);
    let size = size.with_context(|| format!("{count} is not a number of sessions: use one"))?;
    Ok(vec![size])
}

/// Returns the command that runs the benchmark with these options.
fn command(settings: Settings) -> String {
    let size = std::env::args().nth(1).map(|size| format!(" {size}"));
    settings.command("fleet") + &size.unwrap_or_default()
}

const SIZES: [u32; 3] = [100, 1000, 5000];
/// The largest fleet of Curator, which has several threads for each session.
const MOST_OF_CURATOR: u32 = 1000;
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
const FULL: Times = Times {
    settling: SESSION_TIMEOUT,
    measured: Duration::from_secs(20),
    idleness: Duration::from_secs(60),
};
const QUICK: Times = Times {
    settling: Duration::from_secs(2),
    measured: SESSION_TIMEOUT,
    idleness: Duration::from_secs(5),
};
/// ZooKeeper's default.
const TICK: Duration = Duration::from_secs(2);
/// ZooKeeper's default.
const CONTAINER_CHECKS: Duration = Duration::from_secs(60);
/// Long enough for a busy machine.
const STARTING: Duration = Duration::from_secs(180);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_the_only_size() {
        let some = |count: &str| sizes(Some(count.to_owned()), true);
        assert_eq!(sizes(None, false).unwrap(), SIZES);
        assert_eq!(sizes(None, true).unwrap(), [100]);
        assert_eq!(some("7").unwrap(), [7]);
        for wrong in ["0", "-1", "many"] {
            let error = some(wrong).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("{wrong} is not a number of sessions: use one")
            );
        }
    }
}
