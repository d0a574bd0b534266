//! Random operations on the simulated ensemble, and on real servers of both releases through `zk-wire` and `zookeeper-client`: every reply,
//! refusal, stat and watch event is the same.
//!
//! `SEED=7` runs one program, `PROGRAMS=1000` that number of programs on each release.

mod faults;
mod play;
mod program;

use std::ops::Range;
use std::time::{Duration, Instant};

use zk_core::Session;
use zk_core::transport::Transport;
use zk_sim::Release;
use zk_zookeeper_client::Connect;

use play::{Open, play};
use program::{Program, SESSIONS};

/// Real servers, one at a time.
struct Real {
    connect_string: String,
    client: Client,
}

/// What connects to real servers.
#[derive(Debug, Clone, Copy)]
enum Client {
    ZookeeperClient,
    ZkWire,
}

impl Open for Real {
    async fn open(&self, session: usize) -> Box<dyn Transport> {
        self.client.open(&self.connect_string, session == 0).await
    }
}

impl Client {
    /// Opens a session, as ann or without a user.
    async fn open(self, servers: &str, is_ann: bool) -> Box<dyn Transport> {
        let timeout = Duration::from_secs(20);
        match self {
            Self::ZookeeperClient => {
                let mut connect = Connect::to(servers).session_timeout(timeout);
                if is_ann {
                    connect = connect.auth("digest", "ann:pw");
                }
                let transport = connect.transport().await;
                Box::new(transport.expect("the server grants a session"))
            }
            Self::ZkWire => {
                let mut builder = Session::builder(servers).session_timeout(timeout);
                if is_ann {
                    builder = builder.digest_auth("ann", "pw");
                }
                let transport = builder.transport().await;
                transport.expect("the server grants a session")
            }
        }
    }
}

/// Three simulated servers with one session each; some servers lag.
struct Simulated(zk_sim::Ensemble);

impl Open for Simulated {
    async fn open(&self, session: usize) -> Box<dyn Transport> {
        let mut connect = self.0.connect().server(session % 3 + 1);
        if session == 0 {
            connect = connect.digest("ann", "pw");
        }
        Box::new(connect.transport().await)
    }
}

/// Runs a program on simulated servers, on a runtime with paused time.
fn simulated(program: &Program, release: Release) -> Vec<String> {
    let played =
        std::thread::scope(|scope| scope.spawn(|| simulated_here(program, release)).join());
    played.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn simulated_here(program: &Program, release: Release) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let ensemble = zk_sim::Ensemble::builder()
        .release(release)
        .seed(program.seed)
        .build();
    let lag = Duration::from_millis(program.seed % 4);
    ensemble.server(2).lag_by(lag);
    ensemble.server(3).lag_by(lag * 2);
    runtime.block_on(async {
        let system = Simulated(ensemble);
        let mut sessions = open_all(&system).await;
        play(&system, &mut sessions, program).await
    })
}

async fn open_all(system: &impl Open) -> Vec<Box<dyn Transport>> {
    let mut sessions = Vec::new();
    for session in 0..SESSIONS {
        sessions.push(system.open(session).await);
    }
    sessions
}

/// Returns the first lines that differ, with the lines before them.
fn difference(real: &[String], simulated: &[String]) -> Option<String> {
    let longest = real.len().max(simulated.len());
    let at = (0..longest).find(|at| real.get(*at) != simulated.get(*at))?;
    let before = real[at.saturating_sub(8)..at].join("\n    ");
    Some(format!(
        "    {before}\nfirst  {:?}\nsecond {:?}",
        real.get(at),
        simulated.get(at)
    ))
}

/// Shrinks a program by halves, quarters and so on, while it still shows a difference.
async fn shrunk(
    system: &Real,
    sessions: &mut Vec<Box<dyn Transport>>,
    mut program: Program,
    release: Release,
) -> (Program, String) {
    let mut found = String::new();
    let mut size = program.len();
    while size > 0 {
        let mut begin = 0;
        while begin < program.len() {
            let smaller = program.without(begin, size).at_a_new_root();
            let real = play(system, sessions, &smaller).await;
            match difference(&real, &simulated(&smaller, release)) {
                Some(difference) => {
                    found = difference;
                    program = smaller;
                }
                None => begin += size,
            }
        }
        size /= 2;
    }
    (program, found)
}

async fn compare(version: &str, release: Release) -> usize {
    let ensemble = zk_harness::Ensemble::builder()
        .servers(1)
        .zookeeper(version)
        .data(zk_harness::DataStore::Memory)
        .container_check_interval(Duration::from_secs(3600))
        .max_session_timeout(Duration::from_secs(20))
        .start()
        .await
        .unwrap();
    let mut clients = Vec::new();
    for client in [Client::ZookeeperClient, Client::ZkWire] {
        let connect_string = ensemble.connect_string();
        let system = Real {
            connect_string,
            client,
        };
        let sessions = open_all(&system).await;
        clients.push((system, sessions));
    }
    let started = Instant::now();
    let mut operations = 0;
    for seed in seeds(PROGRAMS, DEFAULT_PROGRAMS) {
        let program = Program::generate(seed);
        for (system, sessions) in &mut clients {
            let program = match (system.client, release) {
                // Before 3.9, the removal of a one-shot watch removes a persistent one on the same node, too. zk-wire
                // therefore leaves it there, and zookeeper-client does not; the simulation does what the latter does.
                (Client::ZkWire, Release::V3_8) => program.without_drops(),
                (Client::ZkWire, _) => program.at_a_new_root(),
                (Client::ZookeeperClient, _) => program.for_zookeeper_client().at_a_new_root(),
            };
            let expected = simulated(&program, release);
            let real = play(system, sessions, &program).await;
            let Some(first) = difference(&real, &expected) else {
                continue;
            };
            let client = system.client;
            let (least, found) = shrunk(system, sessions, program, release).await;
            panic!(
                "SEED={seed} differs on {} through {client:?}:\n{first}\n\nthe least of it, {} requests:\n{found}\n{least:#?}",
                ensemble.version(),
                least.len()
            );
        }
        operations += program.len();
    }
    println!(
        "{operations} operations on {} in {:?}",
        ensemble.version(),
        started.elapsed()
    );
    drop(clients);
    ensemble.down().await.unwrap();
    operations
}

/// Returns the seeds of the programs to run, whose number is in this variable.
fn seeds(variable: &str, default: u64) -> Range<u64> {
    let number = |name: &str| {
        let value = std::env::var(name).ok()?;
        let number: u64 = value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is no number"));
        Some(number)
    };
    match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number(variable).unwrap_or(default),
    }
}

/// Returns whether fewer programs run than are enough to show everything.
fn is_partial(variable: &str, default: u64) -> bool {
    let seeds = seeds(variable, default);
    seeds.end - seeds.start < default
}

#[tokio::test(flavor = "multi_thread")]
async fn random_operations_have_the_outcomes_of_a_3_8_server() {
    let operations = compare("3.8", Release::V3_8).await;
    assert!(operations > 12_000 || is_partial(PROGRAMS, DEFAULT_PROGRAMS));
}

#[tokio::test(flavor = "multi_thread")]
async fn random_operations_have_the_outcomes_of_a_3_9_server() {
    let operations = compare("3.9", Release::V3_9).await;
    assert!(operations > 12_000 || is_partial(PROGRAMS, DEFAULT_PROGRAMS));
}

const PROGRAMS: &str = "PROGRAMS";
const DEFAULT_PROGRAMS: u64 = 30;
