//! The lock next to its peers and to the least that the server allows: all on one server, one after the other, again
//! and again.

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

use crate::facts::Facts;
use crate::lock;
use crate::other_work::WorkMeter;
use crate::round::Round;
use crate::settings::Settings;
use crate::stage::Stage;
use crate::standing::Spread;
use crate::traffic::Counted;
use crate::traffic::Traffic;
use crate::wire;

/// All that was measured on one ensemble.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Race {
    /// The machine and the ensemble.
    pub facts: Facts,
    /// Whether the servers keep their data in memory.
    pub in_memory: bool,
    /// What took part.
    pub peers: Vec<String>,
    /// The figures.
    pub lanes: Vec<Lane>,
    /// How long another session waited for a lock that a cohort was busy with, in milliseconds: the middle one and the
    /// longest.
    pub stranger: Option<[f64; 2]>,
}

/// One contender in one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Lane {
    /// The workload: `alone`, `sessions`, `tasks` or `tasks and a stranger`.
    pub workload: String,
    /// How many contend.
    pub contenders: usize,
    /// Who: [`OURS`], a reference or a peer.
    pub who: String,
    /// Its goes, in the order in which they alternated with those of the others.
    pub goes: Vec<Go>,
}

/// One go of one contender.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Go {
    /// Operations a second.
    pub per_second: f64,
    /// Half of the operations took no longer.
    pub p50_micros: f64,
    /// All but one in a hundred took no longer.
    pub p99_micros: f64,
    /// What each cost the server, where all that was asked of it is known.
    pub traffic: Option<Traffic>,
}

impl Lane {
    /// The rates of its goes.
    pub fn rate(&self) -> Spread {
        Spread::of(self.goes.iter().map(|go| go.per_second))
    }

    /// The rates of this one over those of another one, go by go.
    pub fn over(&self, other: &Self) -> Spread {
        let pairs = self.goes.iter().zip(&other.goes);
        Spread::of(pairs.map(|(one, other)| one.per_second / other.per_second))
    }

    /// The middle one of some numbers of its goes.
    pub fn median(&self, number: impl Fn(&Go) -> f64) -> f64 {
        Spread::of(self.goes.iter().map(number)).median
    }
}

/// Who is compared with the others.
pub const OURS: &str = "zk-lock";
/// The bare minimum of an acquire and a release.
pub const RAW: &str = "create + delete";
/// The bare minimum of a hand-over.
pub const CHAIN: &str = "bare chain";
/// The first of the peers.
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

/// Runs everything on the ensemble of this stage.
///
/// # Errors
///
/// Those of the locks and of the peers; Curator has to be there, kazoo need not.
pub fn race(stage: &Stage, settings: Settings) -> anyhow::Result<Race> {
    let meter = WorkMeter::begin();
    let curator = stage.run_unlimited("looking for Curator", Curator::find())?;
    let kazoo = stage.run_unlimited("looking for kazoo", Kazoo::find()).ok();
    let mut peers = vec![format!("Curator {}", curator.version())];
    peers.extend(
        kazoo
            .iter()
            .map(|kazoo| format!("kazoo {}", kazoo.version())),
    );
    peers.push("zookeeper-client 0.11.2".to_owned());
    let mut course = Course {
        stage,
        time: if settings.quick {
            Duration::from_millis(800)
        } else {
            Duration::from_secs(2)
        },
        address: stage.servers(1)?.remove(0),
        peers: Peers { curator, kazoo },
        lanes: Vec::new(),
        stranger: Vec::new(),
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
    let waits = |at: usize| Spread::of(course.stranger.iter().map(|waits| waits[at]));
    Ok(Race {
        facts: Facts::of(stage.ensemble()?, &meter),
        in_memory: settings.memory,
        peers,
        stranger: Some([waits(0).median, waits(1).max]),
        lanes: course.lanes,
    })
}

struct Course<'a> {
    stage: &'a Stage,
    /// How long a go is.
    time: Duration,
    address: String,
    peers: Peers,
    lanes: Vec<Lane>,
    /// The waits of the stranger, round by round.
    stranger: Vec<[f64; 2]>,
}

impl Course<'_> {
    /// The servers compile what runs often: whoever went first would be the slowest.
    fn warm_up(&self) -> anyhow::Result<()> {
        let client = self.clients(1, "/race/warm-up")?.remove(0);
        let locks = self.locks(SESSIONS, "/race/warm-up/ours")?;
        let until = Instant::now() + 3 * self.time;
        while Instant::now() < until {
            let parent = "/race/warm-up".to_owned();
            let alone = wire::create_delete(client.clone(), parent, TRIAL);
            self.stage.run("the warm-up", alone)?;
            self.stage
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
            wire::create_delete(client.clone(), path.to_owned(), operations)
        })?;
        self.timed(at, CLIENTS_OWN, |operations| {
            wire::acquire_release(client.clone(), format!("{path}/own"), operations)
        })?;
        self.curator(at, Workload::Uncontended, path)?;
        self.kazoo(at, path)
    }

    /// So many sessions contend.
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
                wire::chain(clients.clone(), path.clone(), hand_overs)
            })?;
            if sessions == SESSIONS {
                self.timed(at, CLIENTS_OWN, |hand_overs| {
                    wire::contend(clients.clone(), format!("{path}/own"), hand_overs)
                })?;
            }
        }
        self.curator(at, Workload::Sessions, &path)?;
        if sessions == SESSIONS {
            self.kazoo(at, &path)?;
        }
        Ok(())
    }

    /// Tasks, and threads, of one process and one session contend.
    fn tasks(&mut self) -> anyhow::Result<()> {
        let (at, path) = (("tasks", SESSIONS), "/race/tasks".to_owned());
        let crowd = format!("{path}/ours");
        let address = self.address.clone();
        let strangers = self.locks(1, &crowd)?;
        let lock = self.stage.run("the preparation", async move {
            let session = Session::builder(address)
                .session_timeout(wire::SESSION_TIMEOUT)
                .connect()
                .await?;
            Ok(CohortLock::new(&session, crowd.as_str())?)
        })?;
        self.timed(at, OURS, |hand_overs| {
            let lock = lock.clone();
            async move { Ok(lock::crowd(lock, SESSIONS, hand_overs, None).await?.0) }
        })?;
        let waits = std::sync::Arc::new(std::sync::Mutex::new(None));
        self.timed(("tasks and a stranger", SESSIONS), OURS, |hand_overs| {
            let (lock, stranger) = (lock.clone(), strangers[0].clone());
            let waits = std::sync::Arc::clone(&waits);
            async move {
                let (round, waited) =
                    lock::crowd(lock, SESSIONS, hand_overs, Some(stranger)).await?;
                *waits
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner) = Some(waited);
                Ok(round)
            }
        })?;
        let waited = waits
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
        if let Some(waited) = waited {
            let millis = |percent| waited.percentile(percent).as_secs_f64() * 1e3;
            self.stranger.push([millis(50.0), millis(100.0)]);
        }
        self.curator(at, Workload::Threads, &path)
    }

    fn locks(&self, sessions: usize, path: &str) -> anyhow::Result<Vec<zk_lock::FairLock>> {
        let servers = vec![self.address.clone(); sessions];
        self.stage
            .run("the preparation", lock::handles(servers, path.to_owned()))
    }

    fn clients(
        &self,
        sessions: usize,
        parent: &str,
    ) -> anyhow::Result<Vec<zookeeper_client::Client>> {
        let (address, parent) = (self.address.clone(), parent.to_owned());
        self.stage.run("the preparation", async move {
            let mut clients = Vec::with_capacity(sessions);
            for _ in 0..sessions {
                clients.push(wire::connect(&address).await?);
            }
            wire::make_parents(&clients[0], &parent).await?;
            Ok(clients)
        })
    }

    /// A go of a workload in this process, after a short one that tells how many operations it is to have.
    fn timed<F>(
        &mut self,
        at: (&str, usize),
        who: &str,
        round: impl Fn(u64) -> F,
    ) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<Round>> + Send + 'static,
    {
        let go = |operations| self.stage.run(who, round(operations));
        let trial = go(TRIAL)?.rate() * self.time.as_secs_f64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "some millions"
        )]
        let operations = trial.max(100.0) as u64;
        let before = self.counted()?;
        let round = go(operations)?;
        let traffic = self.counted()?.since(before, round.done);
        let micros = |percent| round.latencies.percentile(percent).as_secs_f64() * 1e6;
        let go = Go {
            per_second: round.rate(),
            p50_micros: micros(50.0),
            p99_micros: micros(99.0),
            traffic: (round.done > 0).then_some(traffic),
        };
        self.note(at, who, go);
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
        let measured = self.stage.run_unlimited("Curator", async {
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
        let measured = self.stage.run_unlimited("kazoo", measuring)?;
        self.note_measured(at, KAZOO, &measured, before)
    }

    fn note_measured(
        &mut self,
        at: (&str, usize),
        who: &str,
        measured: &Measured,
        before: Counted,
    ) -> anyhow::Result<()> {
        let go = Go {
            per_second: measured.per_second,
            p50_micros: measured.p50_micros,
            p99_micros: measured.p99_micros,
            traffic: Some(self.counted()?.since(before, measured.grants)),
        };
        self.note(at, who, go);
        Ok(())
    }

    fn note(&mut self, (workload, contenders): (&str, usize), who: &str, go: Go) {
        let lane = self.lanes.iter_mut().find(|lane| {
            lane.workload == workload && lane.contenders == contenders && lane.who == who
        });
        match lane {
            Some(lane) => lane.goes.push(go),
            None => self.lanes.push(Lane {
                workload: workload.to_owned(),
                contenders,
                who: who.to_owned(),
                goes: vec![go],
            }),
        }
    }

    fn counted(&self) -> anyhow::Result<Counted> {
        let server = self.server()?;
        self.stage
            .run_unlimited("asking the server", Counted::now(server))
    }

    fn server(&self) -> anyhow::Result<&Server> {
        let servers = self.stage.ensemble()?.servers();
        let found = servers
            .iter()
            .find(|server| server.client_address().to_string() == self.address);
        found.context("the server is one of the ensemble")
    }
}

/// The bound of the cohort that is measured, in milliseconds.
pub fn bound_millis() -> u128 {
    CohortLimits::default().time().as_millis()
}

/// How many sessions, tasks and threads the figures to reach are about.
pub const SESSIONS: usize = 20;

/// Operations of the round that only tells how long the next one is to be.
const TRIAL: u64 = 200;
