//! Measures the lock next to its peers and to the minimum that the server allows, in turn and on one server.

use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use serde::Deserialize;
use serde::Serialize;
use zk_core::Session;
use zk_harness::Server;
use zk_lock::CohortLimits;
use zk_lock::CohortLock;
use zk_tests::peers::Curator;
use zk_tests::peers::CuratorBench;
use zk_tests::peers::Kazoo;
use zk_tests::peers::Measured;
use zk_tests::peers::Workload;

use crate::baseline;
use crate::environment::Environment;
use crate::fixture::Fixture;
use crate::lock;
use crate::other_work::WorkMeter;
use crate::result::Spread;
use crate::round::Round;
use crate::settings::Settings;
use crate::traffic::Counted;
use crate::traffic::Traffic;

/// The measurements on one ensemble.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Comparison {
    /// The machine and the ensemble.
    pub environment: Environment,
    /// Whether the servers keep their data in memory.
    pub in_memory: bool,
    /// The peers, with their versions.
    pub peers: Vec<String>,
    /// The figures.
    pub series: Vec<Series>,
    /// How long another session waited for a lock that a cohort used all the time, in milliseconds: median and maximum.
    pub other_session: Option<[f64; 2]>,
}

/// The samples of one client in one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Series {
    /// The workload: `alone`, `sessions`, `tasks` or `tasks and another session`.
    pub workload: String,
    /// The number of contenders.
    pub contenders: usize,
    /// The client: [`OURS`], a reference or a peer.
    pub client: String,
    /// The samples, in the order of measurement.
    pub samples: Vec<Sample>,
}

/// One measurement of one client.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sample {
    /// Operations a second.
    pub per_second: f64,
    /// The median latency.
    pub p50_micros: f64,
    /// The 99th percentile of the latency.
    pub p99_micros: f64,
    /// The load per operation on the server, if all its operations are known.
    pub traffic: Option<Traffic>,
}

impl Comparison {
    /// Returns the samples of a client in a workload with this number of contenders.
    pub(crate) fn find(&self, workload: &str, contenders: usize, client: &str) -> Option<&Series> {
        self.series.iter().find(|series| {
            series.workload == workload
                && series.contenders == contenders
                && series.client == client
        })
    }

    /// Returns where the servers keep their data.
    pub(crate) fn storage(&self) -> &'static str {
        if self.in_memory {
            "in memory"
        } else {
            "on disk"
        }
    }
}

impl Series {
    /// Returns the spread of the rates.
    pub fn rate(&self) -> Spread {
        Spread::of(self.samples.iter().map(|sample| sample.per_second))
    }

    /// Returns the ratio of these rates to those of `other`, sample by sample.
    pub fn over(&self, other: &Self) -> Spread {
        let pairs = self.samples.iter().zip(&other.samples);
        Spread::of(pairs.map(|(one, other)| one.per_second / other.per_second))
    }

    /// Returns the median of a number over all samples.
    pub fn median(&self, number: impl Fn(&Sample) -> f64) -> f64 {
        Spread::of(self.samples.iter().map(number)).median
    }
}

/// The client that is compared with the others.
pub const OURS: &str = "zk-lock";
/// The minimum for an acquire and a release.
pub const RAW: &str = "create + delete";
/// The minimum for a hand-over.
pub const CHAIN: &str = "bare chain";
/// Apache Curator.
pub const CURATOR: &str = "Curator";
/// The lock of the wire client's crate.
pub const CLIENTS_OWN: &str = "zookeeper-client";
const KAZOO: &str = "kazoo";

/// The peers that were found.
#[derive(Debug)]
struct Peers {
    curator: Curator,
    kazoo: Option<Kazoo>,
}

/// Runs all workloads on the ensemble of this fixture.
///
/// # Errors
///
/// Those of the locks and of the peers. Curator is required, kazoo is optional.
pub fn run(fixture: &Fixture, settings: Settings) -> anyhow::Result<Comparison> {
    let meter = WorkMeter::begin();
    let curator = fixture.run_unlimited("looking for Curator", Curator::find())?;
    let kazoo = fixture
        .run_unlimited("looking for kazoo", Kazoo::find())
        .ok();
    let mut peers = vec![format!("Curator {}", curator.version())];
    peers.extend(
        kazoo
            .iter()
            .map(|kazoo| format!("kazoo {}", kazoo.version())),
    );
    peers.push("zookeeper-client 0.11.2".to_owned());
    let mut course = Course {
        fixture,
        time: if settings.quick {
            Duration::from_millis(800)
        } else {
            Duration::from_secs(2)
        },
        address: fixture.servers(1)?.remove(0),
        peers: Peers { curator, kazoo },
        series: Vec::new(),
        other_session: Vec::new(),
    };
    let contenders: &[usize] = if settings.quick {
        &[2, 20, 100]
    } else {
        &[2, 5, 20, 100, 500]
    };
    course.warm_up()?;
    for _ in 0..if settings.quick { 1 } else { 3 } {
        course.alone()?;
        for &sessions in contenders {
            course.sessions(sessions)?;
        }
        course.tasks()?;
    }
    let waits = |at: usize| Spread::of(course.other_session.iter().map(|waits| waits[at]));
    Ok(Comparison {
        environment: Environment::of(fixture.ensemble()?, &meter),
        in_memory: settings.memory,
        peers,
        other_session: Some([waits(0).median, waits(1).max]),
        series: course.series,
    })
}

struct Course<'a> {
    fixture: &'a Fixture,
    /// The length of a sample.
    time: Duration,
    address: String,
    peers: Peers,
    series: Vec<Series>,
    /// The waits of the other session, round by round.
    other_session: Vec<[f64; 2]>,
}

impl Course<'_> {
    /// Warms up the servers, whose JVM compiles what runs often: otherwise the first client would be the slowest.
    fn warm_up(&self) -> anyhow::Result<()> {
        let client = self.clients(1, "/race/warm-up")?.remove(0);
        let locks = self.locks(SESSIONS, "/race/warm-up/ours")?;
        let until = Instant::now() + 3 * self.time;
        while Instant::now() < until {
            let parent = "/race/warm-up".to_owned();
            let alone = baseline::create_delete(client.clone(), parent, TRIAL);
            self.fixture.run("the warm-up", alone)?;
            self.fixture
                .run("the warm-up", lock::contend(locks.clone(), TRIAL))?;
        }
        Ok(())
    }

    /// One session acquires and releases.
    fn alone(&mut self) -> anyhow::Result<()> {
        let (at, path) = (("alone", 1), "/race/alone");
        let locks = self.locks(1, &format!("{path}/ours"))?;
        self.timed(at, OURS, |operations| {
            lock::acquire_release(locks[0].clone(), operations)
        })?;
        let client = self.clients(1, path)?.remove(0);
        self.timed(at, RAW, |operations| {
            baseline::create_delete(client.clone(), path.to_owned(), operations)
        })?;
        self.timed(at, CLIENTS_OWN, |operations| {
            baseline::acquire_release(client.clone(), format!("{path}/own"), operations)
        })?;
        self.curator(at, Workload::Uncontended, path)?;
        self.kazoo(at, path)
    }

    /// Several sessions contend.
    fn sessions(&mut self, sessions: usize) -> anyhow::Result<()> {
        let (at, path) = (("sessions", sessions), format!("/race/{sessions}"));
        {
            let locks = self.locks(sessions, &format!("{path}/ours"))?;
            self.timed(at, OURS, |hand_overs| {
                lock::contend(locks.clone(), hand_overs)
            })?;
        }
        {
            let clients = self.clients(sessions, &path)?;
            self.timed(at, CHAIN, |hand_overs| {
                baseline::chain(clients.clone(), path.clone(), hand_overs)
            })?;
            if sessions == SESSIONS {
                self.timed(at, CLIENTS_OWN, |hand_overs| {
                    baseline::contend(clients.clone(), format!("{path}/own"), hand_overs)
                })?;
            }
        }
        self.curator(at, Workload::Sessions, &path)?;
        if sessions == SESSIONS {
            self.kazoo(at, &path)?;
        }
        Ok(())
    }

    /// Tasks and threads of one process and one session contend.
    fn tasks(&mut self) -> anyhow::Result<()> {
        let (at, path) = (("tasks", SESSIONS), "/race/tasks".to_owned());
        let lock_path = format!("{path}/ours");
        let address = self.address.clone();
        let others = self.locks(1, &lock_path)?;
        let lock = self.fixture.run("the preparation", async move {
            let session = Session::builder(address)
                .session_timeout(baseline::SESSION_TIMEOUT)
                .connect()
                .await?;
            Ok(CohortLock::new(&session, lock_path.as_str())?)
        })?;
        self.timed(at, OURS, |hand_overs| {
            let lock = lock.clone();
            async move { Ok(lock::cohort(lock, SESSIONS, hand_overs, None).await?.0) }
        })?;
        let waits = std::sync::Arc::new(std::sync::Mutex::new(None));
        self.timed(
            ("tasks and another session", SESSIONS),
            OURS,
            |hand_overs| {
                let (lock, other) = (lock.clone(), others[0].clone());
                let waits = std::sync::Arc::clone(&waits);
                async move {
                    let (round, waited) =
                        lock::cohort(lock, SESSIONS, hand_overs, Some(other)).await?;
                    *waits
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner) = Some(waited);
                    Ok(round)
                }
            },
        )?;
        let waited = waits
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
        if let Some(waited) = waited {
            let millis = |percent| waited.percentile(percent).as_secs_f64() * 1e3;
            self.other_session.push([millis(50.0), millis(100.0)]);
        }
        self.curator(at, Workload::Threads, &path)
    }

    fn locks(&self, sessions: usize, path: &str) -> anyhow::Result<Vec<zk_lock::FairLock>> {
        let servers = vec![self.address.clone(); sessions];
        self.fixture
            .run("the preparation", lock::handles(servers, path.to_owned()))
    }

    fn clients(
        &self,
        sessions: usize,
        parent: &str,
    ) -> anyhow::Result<Vec<zookeeper_client::Client>> {
        let (address, parent) = (self.address.clone(), parent.to_owned());
        self.fixture.run("the preparation", async move {
            let mut clients = Vec::with_capacity(sessions);
            for _ in 0..sessions {
                clients.push(baseline::connect(&address).await?);
            }
            baseline::make_parents(&clients[0], &parent).await?;
            Ok(clients)
        })
    }

    /// Measures a workload in this process, after a short trial that determines the number of operations.
    fn timed<F>(
        &mut self,
        at: (&str, usize),
        client: &str,
        round: impl Fn(u64) -> F,
    ) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<Round>> + Send + 'static,
    {
        let sample = |operations| self.fixture.run(client, round(operations));
        let trial = sample(TRIAL)?.rate() * self.time.as_secs_f64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "some millions"
        )]
        let operations = trial.max(100.0) as u64;
        let before = self.counted()?;
        let round = sample(operations)?;
        let traffic = self.counted()?.since(before, round.done);
        let micros = |percent| round.latencies.percentile(percent).as_secs_f64() * 1e6;
        let sample = Sample {
            per_second: round.rate(),
            p50_micros: micros(50.0),
            p99_micros: micros(99.0),
            traffic: (round.done > 0).then_some(traffic),
        };
        self.note(at, client, sample);
        Ok(())
    }

    fn curator(&mut self, at: (&str, usize), workload: Workload, path: &str) -> anyhow::Result<()> {
        let contenders = u32::try_from(at.1)?;
        let mut bench = CuratorBench::new();
        bench.warm_up = self.time;
        bench.measure = self.time;
        bench.sessions = contenders;
        bench.threads = contenders;
        bench.only = Some(workload);
        let before = self.counted()?;
        let measured = self.fixture.run_unlimited("Curator", async {
            let path = format!("{path}/curator");
            let all = bench.run(&self.peers.curator, &self.address, &path).await?;
            all.into_iter().next().context("Curator measured nothing")
        })?;
        self.note_measured(at, CURATOR, &measured, before)
    }

    fn kazoo(&mut self, at: (&str, usize), path: &str) -> anyhow::Result<()> {
        let Some(kazoo) = &self.peers.kazoo else {
            return Ok(());
        };
        let (sessions, path) = (u32::try_from(at.1)?, format!("{path}/kazoo"));
        let before = self.counted()?;
        let measuring = kazoo.measure(&self.address, &path, sessions, self.time / 2, self.time);
        let measured = self.fixture.run_unlimited("kazoo", measuring)?;
        self.note_measured(at, KAZOO, &measured, before)
    }

    fn note_measured(
        &mut self,
        at: (&str, usize),
        client: &str,
        measured: &Measured,
        before: Counted,
    ) -> anyhow::Result<()> {
        let sample = Sample {
            per_second: measured.per_second,
            p50_micros: measured.p50_micros,
            p99_micros: measured.p99_micros,
            traffic: Some(self.counted()?.since(before, measured.grants)),
        };
        self.note(at, client, sample);
        Ok(())
    }

    fn note(&mut self, (workload, contenders): (&str, usize), client: &str, sample: Sample) {
        let series = self.series.iter_mut().find(|series| {
            series.workload == workload
                && series.contenders == contenders
                && series.client == client
        });
        match series {
            Some(series) => series.samples.push(sample),
            None => self.series.push(Series {
                workload: workload.to_owned(),
                contenders,
                client: client.to_owned(),
                samples: vec![sample],
            }),
        }
    }

    fn counted(&self) -> anyhow::Result<Counted> {
        let server = self.server()?;
        self.fixture
            .run_unlimited("asking the server", Counted::now(server))
    }

    fn server(&self) -> anyhow::Result<&Server> {
        let servers = self.fixture.ensemble()?.servers();
        let found = servers
            .iter()
            .find(|server| server.client_address().to_string() == self.address);
        found.context("the server is one of the ensemble")
    }
}

/// Returns the time limit of the measured cohort, in milliseconds.
pub fn bound_millis() -> u128 {
    CohortLimits::default().time().as_millis()
}

/// The number of sessions, tasks and threads of the targets.
pub const SESSIONS: usize = 20;

/// Operations of the trial.
const TRIAL: u64 = 200;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::other_work::OtherWork;

    /// Returns a comparison with made-up figures.
    pub(crate) fn example() -> Comparison {
        let series = |workload: &str, contenders, client: &str, rates: &[f64]| Series {
            workload: workload.to_owned(),
            contenders,
            client: client.to_owned(),
            samples: rates
                .iter()
                .map(|rate| Sample {
                    per_second: *rate,
                    p50_micros: 1e6 / rate,
                    p99_micros: 2e6 / rate,
                    traffic: Some(Traffic {
                        received: 6.0,
                        sent: 7.5,
                        fired: 2.0,
                        bytes_in: 400.0,
                        bytes_out: 300.0,
                    }),
                })
                .collect(),
        };
        let text = str::to_owned;
        Comparison {
            environment: Environment {
                machine: text("m"),
                system: text("s"),
                other_work: OtherWork { share: Some(0.25) },
                ensemble: text("e"),
                data: text("memory"),
            },
            in_memory: true,
            peers: vec![text("Curator 5.4.0")],
            series: vec![
                series("alone", 1, OURS, &[90.0, 100.0, 110.0]),
                series("alone", 1, RAW, &[100.0, 100.0, 100.0]),
                series("sessions", 2, OURS, &[500.0]),
                series("sessions", 20, OURS, &[900.0]),
                series("sessions", 20, CURATOR, &[500.0]),
                series("sessions", 100, CURATOR, &[300.0]),
            ],
            other_session: Some([80.0, 104.0]),
        }
    }
}
