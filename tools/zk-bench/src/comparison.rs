//! Measures the lock next to its peers and to the minimum that the server allows, in turn and on one server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use zk_harness::Server;
use zk_lock::{CohortLimits, CohortLock, FairLock};
use zk_tests::peers::{Curator, Kazoo, Measured, Workload};
use zookeeper_client::Client;

use crate::baseline::{self, ClientsOwnLock};
use crate::environment::Environment;
use crate::fixture::{Fixture, open};
use crate::lock;
use crate::other_work::WorkMeter;
use crate::recreating_chain::recreating_chain;
use crate::round::Round;
use crate::settings::Settings;
use crate::table::Spread;
use crate::traffic::{Counted, Traffic};
use crate::woken_readers::{self, WaitingReaders};

/// The measurements on one ensemble.
#[derive(Clone, Debug, PartialEq)]
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
    /// The bytes that the server sends each reader when a writer's release wakes so many of them.
    pub woken: Vec<WokenReaders>,
    /// How long another session waited for a lock that a cohort used all the time, in milliseconds: median and maximum.
    pub other_session: [f64; 2],
}

/// The samples of one client in one workload.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Series {
    /// The workload: one session, a number of sessions or of tasks.
    pub workload: String,
    /// The client: [`OURS`], a reference or a peer.
    pub client: &'static str,
    /// The samples, in the order of measurement.
    pub samples: Vec<Sample>,
}

/// One measurement of one client.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sample {
    /// Operations a second.
    pub per_second: f64,
    /// The median latency.
    pub p50_micros: f64,
    /// The 99th percentile of the latency.
    pub p99_micros: f64,
    /// The CPU time of this process per acquire, in microseconds; `None` for a peer in a process of its own.
    pub cpu_micros: Option<f64>,
    /// The load per operation on the server, if all its operations are known.
    pub traffic: Option<Traffic>,
}

/// The samples of readers that one release of a writer wakes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WokenReaders {
    /// The number of readers.
    pub readers: usize,
    /// The bytes of replies per reader, in the order of measurement.
    pub bytes_each: Vec<f64>,
}

impl Comparison {
    /// Returns the ratio of our rates to those of a client in the same workload, sample by sample.
    pub(crate) fn ours_over(&self, client: &str, workload: &str) -> Option<Spread> {
        Some(Spread::of_ratios(
            self.rates(OURS, workload)?,
            self.rates(client, workload)?,
        ))
    }

    /// Returns the ratio of our rates in one workload to ours in another one, sample by sample.
    pub(crate) fn ours_between(&self, workload: &str, other: &str) -> Option<Spread> {
        Some(Spread::of_ratios(
            self.rates(OURS, workload)?,
            self.rates(OURS, other)?,
        ))
    }

    /// Returns the CPU time per acquire of our lock in a workload, in microseconds.
    pub(crate) fn our_cpu(&self, workload: &str) -> Option<Spread> {
        self.of(OURS, workload)?.cpu_micros()
    }

    /// Returns the bytes per woken reader.
    pub(crate) fn woken_bytes(&self, readers: usize) -> Option<Spread> {
        let found = self.woken.iter().find(|it| it.readers == readers)?;
        Some(Spread::of(found.bytes_each.iter().copied()))
    }

    fn rates(&self, client: &str, workload: &str) -> Option<impl Iterator<Item = f64>> {
        let samples = self.of(client, workload)?.samples.iter();
        Some(samples.map(|sample| sample.per_second))
    }

    fn of(&self, client: &str, workload: &str) -> Option<&Series> {
        let mut all = self.series.iter();
        all.find(|it| it.workload == workload && it.client == client)
    }
}

impl Series {
    /// Returns the spread of a number over all samples.
    pub fn spread(&self, number: impl Fn(&Sample) -> f64) -> Spread {
        Spread::of(self.samples.iter().map(number))
    }

    /// Returns the spread of the CPU time per acquire, in microseconds, if it was measured.
    pub fn cpu_micros(&self) -> Option<Spread> {
        let samples = self.samples.iter().map(|sample| sample.cpu_micros);
        Some(Spread::of(samples.collect::<Option<Vec<_>>>()?))
    }
}

/// The client that is compared with the others.
pub const OURS: &str = "zk-lock";
/// The minimum for an acquire and a release.
pub const RAW: &str = "create + delete";
/// The minimum for a hand-over if all nodes and watches are made in advance: one write.
pub const PREMADE_CHAIN: &str = "pre-made chain";
/// The minimum for a hand-over of sessions that return to the queue, as those of a lock do: two writes.
pub const RECREATING_CHAIN: &str = "re-creating chain";
/// Apache Curator.
pub const CURATOR: &str = "Curator";
/// The lock of the wire client's crate.
pub const CLIENTS_OWN: &str = "zookeeper-client";
const KAZOO: &str = "kazoo";

/// Runs all workloads on the ensemble of this fixture.
///
/// # Errors
///
/// Those of the locks and of the peers. Curator is required, kazoo is optional.
pub fn run(fixture: &Fixture, settings: Settings) -> anyhow::Result<Comparison> {
    let meter = WorkMeter::begin();
    let curator = fixture.run_unlimited("looking for Curator", Curator::find())?;
    let kazoo = fixture.run_unlimited("looking for kazoo", Kazoo::find());
    let kazoo = kazoo.ok();
    let mut peers = vec![format!("Curator {}", curator.version())];
    peers.extend(kazoo.iter().map(|it| format!("kazoo {}", it.version())));
    peers.push("zookeeper-client 0.11.2".to_owned());
    let (millis, contenders, rounds): (_, &[usize], _) = if settings.quick {
        (800, &[2, 20, 100], 1)
    } else {
        (2000, &[2, 5, 20, 100, 500], 3)
    };
    let mut course = Course {
        fixture,
        time: Duration::from_millis(millis),
        address: fixture.servers(1)?.remove(0),
        curator,
        kazoo,
        series: Vec::new(),
        woken: Vec::new(),
        other_session: Vec::new(),
    };
    course.warm_up()?;
    for _ in 0..rounds {
        course.alone()?;
        for &sessions in contenders {
            course.sessions(sessions)?;
        }
        course.tasks()?;
        for readers in READERS {
            course.woken_readers(readers)?;
        }
    }
    let waits = |at: usize| Spread::of(course.other_session.iter().map(|waits| waits[at]));
    Ok(Comparison {
        environment: Environment::of(fixture.ensemble()?, &meter),
        in_memory: settings.memory,
        peers,
        other_session: [waits(0).median, waits(1).max],
        series: course.series,
        woken: course.woken,
    })
}

struct Course<'a> {
    fixture: &'a Fixture,
    /// The length of a sample.
    time: Duration,
    address: String,
    curator: Curator,
    kazoo: Option<Kazoo>,
    series: Vec<Series>,
    woken: Vec<WokenReaders>,
    /// The waits of the other session, round by round.
    other_session: Vec<[f64; 2]>,
}

impl Course<'_> {
    /// Warms up the servers, whose JVM compiles what runs often: otherwise the first client would be the slowest.
    fn warm_up(&self) -> anyhow::Result<()> {
        let parent = "/race/warm-up";
        let client = self.clients(1, parent)?.remove(0);
        let locks = self.locks(SESSIONS, "/race/warm-up/ours")?;
        let until = Instant::now() + 3 * self.time;
        while Instant::now() < until {
            let alone = baseline::create_delete(client.clone(), parent.to_owned(), TRIAL);
            self.fixture.run("the warm-up", alone)?;
            let contended = lock::contend(locks.clone(), TRIAL);
            self.fixture.run("the warm-up", contended)?;
        }
        Ok(())
    }

    /// One session acquires and releases.
    fn alone(&mut self) -> anyhow::Result<()> {
        let (at, path) = ("one session", "/race/alone");
        let lock = self.locks(1, &format!("{path}/ours"))?.remove(0);
        self.timed(at, OURS, |operations| {
            lock::acquire_release(lock.clone(), operations)
        })?;
        let client = self.clients(1, path)?.remove(0);
        self.timed(at, RAW, |operations| {
            baseline::create_delete(client.clone(), path.to_owned(), operations)
        })?;
        let own = ClientsOwnLock::new(client, &format!("{path}/own"));
        self.timed(at, CLIENTS_OWN, |operations| {
            lock::acquire_release(own.clone(), operations)
        })?;
        self.curator(at, Workload::Uncontended, 1, path)?;
        self.kazoo(at, 1, path)
    }

    /// Several sessions contend.
    fn sessions(&mut self, sessions: usize) -> anyhow::Result<()> {
        let (at, path) = (
            &*format!("{sessions} sessions"),
            format!("/race/{sessions}"),
        );
        let yielding = format!("{at}, with yield");
        {
            let locks = self.locks(sessions, &format!("{path}/ours"))?;
            self.timed(at, OURS, |hand_overs| {
                lock::contend(locks.clone(), hand_overs)
            })?;
            if sessions == SESSIONS {
                self.timed(&yielding, OURS, |hand_overs| {
                    lock::contend_yielding(locks.clone(), hand_overs)
                })?;
            }
        }
        {
            let clients = self.clients(sessions, &path)?;
            self.timed(at, PREMADE_CHAIN, |hand_overs| {
                baseline::premade_chain(clients.clone(), path.clone(), hand_overs)
            })?;
            self.timed(at, RECREATING_CHAIN, |hand_overs| {
                recreating_chain(clients.clone(), path.clone(), hand_overs)
            })?;
            if sessions == SESSIONS {
                self.timed(&yielding, PREMADE_CHAIN, |hand_overs| {
                    baseline::premade_chain(clients.clone(), path.clone(), hand_overs)
                })?;
                let path = format!("{path}/own");
                let own = clients.into_iter();
                let own: Vec<_> = own.map(|it| ClientsOwnLock::new(it, &path)).collect();
                self.timed(at, CLIENTS_OWN, |hand_overs| {
                    lock::contend(own.clone(), hand_overs)
                })?;
            }
        }
        self.curator(at, Workload::Sessions, sessions, &path)?;
        if sessions == SESSIONS {
            self.kazoo(at, sessions, &path)?;
        }
        Ok(())
    }

    /// Tasks and threads of one process and one session contend.
    fn tasks(&mut self) -> anyhow::Result<()> {
        let (at, path) = (&*format!("{SESSIONS} tasks"), "/race/tasks");
        let lock_path = format!("{path}/ours");
        let address = self.address.clone();
        let other = self.locks(1, &lock_path)?.remove(0);
        let lock = self.fixture.run("the preparation", async move {
            let session = open(&address).await?;
            Ok(CohortLock::new(&session, lock_path.as_str())?)
        })?;
        let tasks = vec![lock; SESSIONS];
        self.timed(at, OURS, |hand_overs| {
            lock::contend(tasks.clone(), hand_overs)
        })?;
        let beside = format!("{at} and another session");
        let round = self.timed(&beside, OURS, |hand_overs| {
            lock::contend_with(tasks.clone(), Some(other.clone()), hand_overs)
        })?;
        let millis = |percent| round.others.percentile(percent).as_secs_f64() * 1e3;
        self.other_session.push([millis(50.0), millis(100.0)]);
        self.curator(at, Workload::Threads, SESSIONS, path)
    }

    /// One release of a writer wakes so many readers, several times.
    fn woken_readers(&mut self, readers: usize) -> anyhow::Result<()> {
        let path = format!("/race/readers-{readers}");
        let opening = WaitingReaders::open(self.address.clone(), path, readers);
        let sessions = Arc::new(self.fixture.run("the preparation", opening)?);
        let mut bytes = 0.0;
        for _ in 0..WAKES {
            let all = Arc::clone(&sessions);
            let queueing = async move { all.queue().await };
            let queued = self.fixture.run("the readers' queueing", queueing)?;
            let before = self.counted()?;
            let guards = self.fixture.run("the readers' waking", queued.wake())?;
            bytes += self.counted()?.since(before, 1).bytes_out;
            self.fixture
                .run("the readers' release", woken_readers::release(guards))?;
        }
        #[expect(clippy::cast_precision_loss, reason = "a hundred readers")]
        let each = bytes / f64::from(WAKES) / sessions.len() as f64;
        match self.woken.iter_mut().find(|it| it.readers == readers) {
            Some(woken) => woken.bytes_each.push(each),
            None => self.woken.push(WokenReaders {
                readers,
                bytes_each: vec![each],
            }),
        }
        Ok(())
    }

    fn locks(&self, sessions: usize, path: &str) -> anyhow::Result<Vec<FairLock>> {
        let servers = vec![self.address.clone(); sessions];
        self.fixture
            .run("the preparation", lock::handles(servers, path.to_owned()))
    }

    fn clients(&self, sessions: usize, parent: &str) -> anyhow::Result<Vec<Client>> {
        let (servers, parent) = (vec![self.address.clone(); sessions], parent.to_owned());
        self.fixture
            .run("the preparation", baseline::clients(servers, parent))
    }

    /// Measures a workload in this process, after a short trial that determines the number of operations. Returns the
    /// round.
    fn timed<F>(
        &mut self,
        at: &str,
        client: &'static str,
        round: impl Fn(u64) -> F,
    ) -> anyhow::Result<Round>
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
            cpu_micros: round.cpu_each.map(|each| each.as_secs_f64() * 1e6),
            traffic: (round.done > 0).then_some(traffic),
        };
        self.note(at, client, sample);
        Ok(round)
    }

    fn curator(
        &mut self,
        at: &str,
        workload: Workload,
        contenders: usize,
        path: &str,
    ) -> anyhow::Result<()> {
        let path = format!("{path}/curator");
        let contenders = u32::try_from(contenders)?;
        let before = self.counted()?;
        let times = [self.time; 2];
        let measuring = self
            .curator
            .measure(&self.address, &path, workload, contenders, times);
        let measured = self.fixture.run_unlimited("Curator", measuring)?;
        self.note_measured(at, CURATOR, &measured, before)
    }

    fn kazoo(&mut self, at: &str, sessions: usize, path: &str) -> anyhow::Result<()> {
        let Some(kazoo) = &self.kazoo else {
            return Ok(());
        };
        let (sessions, path) = (u32::try_from(sessions)?, format!("{path}/kazoo"));
        let before = self.counted()?;
        let measuring = kazoo.measure(&self.address, &path, sessions, self.time / 2, self.time);
        let measured = self.fixture.run_unlimited("kazoo", measuring)?;
        self.note_measured(at, KAZOO, &measured, before)
    }

    fn note_measured(
        &mut self,
        at: &str,
        client: &'static str,
        measured: &Measured,
        before: Counted,
    ) -> anyhow::Result<()> {
        let sample = Sample {
            per_second: measured.per_second,
            p50_micros: measured.p50_micros,
            p99_micros: measured.p99_micros,
            cpu_micros: None,
            traffic: Some(self.counted()?.since(before, measured.grants)),
        };
        self.note(at, client, sample);
        Ok(())
    }

    fn note(&mut self, workload: &str, client: &'static str, sample: Sample) {
        let mut all = self.series.iter_mut();
        match all.find(|it| it.workload == workload && it.client == client) {
            Some(series) => series.samples.push(sample),
            None => self.series.push(Series {
                workload: workload.to_owned(),
                client,
                samples: vec![sample],
            }),
        }
    }

    fn counted(&self) -> anyhow::Result<Counted> {
        let servers = self.fixture.ensemble()?.servers();
        let is_ours = |server: &&Server| server.client_address().to_string() == self.address;
        let server = servers.iter().find(is_ours);
        let server = server.context("the server is one of the ensemble")?;
        self.fixture
            .run_unlimited("asking the server", Counted::now(server, servers))
    }
}

/// Returns the time limit of the measured cohort, in milliseconds.
pub fn bound_millis() -> u128 {
    CohortLimits::default().time().as_millis()
}

/// The number of sessions, tasks and threads of the targets.
pub const SESSIONS: usize = 20;

/// The numbers of readers that one release wakes.
pub(crate) const READERS: [usize; 3] = [25, 50, 100];

/// How often they are woken in a round.
const WAKES: u32 = 3;

/// Operations of the trial.
const TRIAL: u64 = 200;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::other_work::OtherWork;

    /// Returns a comparison with made-up figures.
    pub(crate) fn example() -> Comparison {
        let series = |workload: &str, client, rates: &[f64]| Series {
            workload: workload.to_owned(),
            client,
            samples: rates
                .iter()
                .map(|rate| Sample {
                    per_second: *rate,
                    p50_micros: 1e6 / rate,
                    p99_micros: 2e6 / rate,
                    cpu_micros: (client != CURATOR).then_some(150.0),
                    traffic: Some(Traffic {
                        received: 6.0,
                        sent: 7.5,
                        fired: 2.0,
                        bytes_in: 400.0,
                        bytes_out: 300.0,
                        servers_cpu_micros: 1200.0,
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
                series("one session", OURS, &[90.0, 100.0, 110.0]),
                series("one session", RAW, &[100.0, 100.0, 100.0]),
                series("2 sessions", OURS, &[500.0]),
                series("20 sessions", OURS, &[900.0]),
                series("500 sessions", OURS, &[450.0]),
                series("20 sessions", CURATOR, &[500.0]),
                series("100 sessions", CURATOR, &[300.0]),
            ],
            woken: vec![
                WokenReaders {
                    readers: 25,
                    bytes_each: vec![100.0, 200.0],
                },
                WokenReaders {
                    readers: 100,
                    bytes_each: vec![110.0, 240.0],
                },
            ],
            other_session: [80.0, 104.0],
        }
    }
}
