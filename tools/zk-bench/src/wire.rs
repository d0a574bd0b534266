//! Measures clients of ZooKeeper next to each other: rate, latency, CPU, allocations and system calls of `zk-wire`, the
//! crate `zookeeper-client`, ZooKeeper's own Java client, and a blocking socket that speaks hand-written frames, which is
//! the least that any client can cost.
//!
//! Each client runs in a process of its own, so that its CPU time is its own, and only one of them works at a time.
//! The processes take the same [`Run`]s and answer with a [`Load`]; the program of the Rust clients is `client-load`, that
//! of the Java client is `java/ClientLoad.java`.

mod client_kind;
mod java_program;
mod load;
mod load_process;
mod results;
mod system_calls;
mod workload;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;

use crate::environment::Environment;
use crate::fixture::{Fixture, open};
use crate::other_work::WorkMeter;
use crate::settings::Settings;

use java_program::JavaProgram;
use load_process::LoadProcess;
use system_calls::TracedRuns;

pub use client_kind::ClientKind;
pub use load::Load;
pub use results::{Results, Series};
pub use system_calls::{BEGIN_MARK, END_MARK};
pub use workload::{Operation, PARENT, Run, RuntimeKind, WORKLOADS, Workload};

/// Measures all workloads with all clients in turn, on one server; the Java client only with `--peers`.
///
/// `client_load` is the program of that name.
///
/// # Errors
///
/// Those of the clients and of the ensemble.
pub fn run(fixture: &Fixture, settings: Settings, client_load: &Path) -> anyhow::Result<Results> {
    let meter = WorkMeter::begin();
    let server = fixture.servers(1)?.remove(0);
    fixture.run("the preparation", prepare(server.clone()))?;
    let java = if settings.peers && !settings.smoke {
        let compiling = JavaProgram::compile(fixture.ensemble()?.distribution());
        Some(fixture.run_unlimited("compiling the Java client", compiling)?)
    } else {
        None
    };
    let clients = Clients {
        client_load: client_load.to_owned(),
        java,
        server,
    };
    let lengths = Lengths::of(settings);
    let series = fixture.run_unlimited("the measurement", clients.measure(lengths))?;
    let system_calls = if settings.smoke {
        Ok(Vec::new())
    } else {
        let log = fixture.ensemble()?.directory().join("strace.log");
        let tracing = clients.trace(lengths.traced, &log);
        fixture.run_unlimited("counting system calls", tracing)
    };
    Ok(Results {
        environment: Environment::of(fixture.ensemble()?, &meter),
        series,
        system_calls: system_calls.map_err(|error| format!("{error:#}")),
    })
}

/// Creates the nodes that are read and written.
async fn prepare(server: String) -> anyhow::Result<()> {
    let session = open(&server).await?;
    session.create(PARENT, "").await?;
    let mut made = Vec::new();
    for workload in WORKLOADS {
        let path = workload.value_path();
        if !made.contains(&path) {
            session.create(path.as_str(), workload.value()).await?;
            made.push(path);
        }
    }
    session.close().await?;
    Ok(())
}

/// How often and how long is measured.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    /// Without the first one, which is discarded: the servers' JVM and the Java client compile what runs often.
    rounds: usize,
    warm_up: Duration,
    measured: Duration,
    /// The time that system calls are counted.
    traced: Duration,
}

impl Lengths {
    const fn of(settings: Settings) -> Self {
        let (rounds, warm_up, measured, traced) = match (settings.smoke, settings.quick) {
            (true, _) => (0, 1, 5, 0),
            (_, true) => (3, 40, 150, 100),
            _ => (7, 200, 1000, 1000),
        };
        Self {
            rounds,
            warm_up: Duration::from_millis(warm_up),
            measured: Duration::from_millis(measured),
            traced: Duration::from_millis(traced),
        }
    }
}

/// Starts the clients.
struct Clients {
    client_load: PathBuf,
    java: Option<JavaProgram>,
    server: String,
}

impl Clients {
    fn kinds(&self) -> Vec<ClientKind> {
        let kinds = ClientKind::ALL.into_iter();
        let is_there = |kind: &ClientKind| *kind != ClientKind::Java || self.java.is_some();
        kinds.filter(is_there).collect()
    }

    fn command(&self, kind: ClientKind) -> Command {
        match &self.java {
            Some(java) if kind == ClientKind::Java => java.command(&self.server),
            _ => {
                let mut command = Command::new(&self.client_load);
                command.args([kind.name(), &self.server]);
                command
            }
        }
    }

    /// Measures all workloads, `rounds` times; in each round, every client takes its turn with a workload before the next
    /// workload.
    async fn measure(&self, lengths: Lengths) -> anyhow::Result<Vec<Series>> {
        let mut processes = Vec::new();
        for kind in self.kinds() {
            processes.push((kind, LoadProcess::start(self.command(kind), kind)?));
        }
        let mut all = Vec::new();
        for workload in WORKLOADS {
            let kinds = self.kinds().into_iter();
            let kinds = kinds.filter(|kind| kind.does(workload));
            all.extend(kinds.map(|kind| Series::new(workload, kind)));
        }
        for round in 0..=lengths.rounds {
            for workload in WORKLOADS {
                let run = Run::new(workload, lengths.warm_up, lengths.measured);
                // Another one begins in each round, so that no client always follows the same one.
                processes.rotate_left(1);
                for (kind, process) in &mut processes {
                    if !kind.does(workload) {
                        continue;
                    }
                    let load = process.measure(run).await?;
                    let mut series = all.iter_mut();
                    let series = series.find(|it| it.workload == workload && it.client == *kind);
                    if let Some(series) = series.filter(|_| round > 0 || lengths.rounds == 0) {
                        series.loads.push(load);
                    }
                }
            }
        }
        for (_, process) in processes {
            process.end().await?;
        }
        Ok(all)
    }

    /// Runs each client once under `strace`, with one request in flight.
    async fn trace(&self, time: Duration, log: &Path) -> anyhow::Result<Vec<TracedRuns>> {
        let mut all = Vec::new();
        for kind in self.kinds() {
            let command = system_calls::traced(&self.command(kind), log).await?;
            let mut process = LoadProcess::start(command, kind)?;
            let mut done = Vec::new();
            let is_counted = |it: &Workload| it.is_serial() && kind.does(*it);
            for workload in WORKLOADS.into_iter().filter(is_counted) {
                let load = process.measure(Run::new(workload, time / 4, time)).await?;
                done.push((workload, load.operations));
            }
            process.end().await?;
            let text = std::fs::read_to_string(log)?;
            all.push(TracedRuns::read(kind, &done, &text)?);
        }
        Ok(all)
    }
}
