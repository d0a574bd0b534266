//! Runs the orphan-contender scenario with our lock on both clients, Curator's, kazoo's and the client crate's, and prints a comparison.

#![expect(clippy::print_stdout, reason = "a program with output for a terminal")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use zk_bench::table;
use zk_core::Session;
use zk_tests::orphan::{Contender, Ending, Slow, Stage};
use zk_tests::peers::{Curator, Kazoo, PeerContender, Recipe};
use zk_zookeeper_client::Connect;

/// Our lock in a session over that client.
const ON_OTHER_CLIENT: &str = "zk-lock on zookeeper-client";
const LAGS: [u64; 4] = [10, 30, 300, 2500];
const TIMES: usize = 3;

struct Peers {
    curator: anyhow::Result<Curator>,
    kazoo: anyhow::Result<Kazoo>,
    wire: PathBuf,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let own = std::env::current_exe()?;
    let peers = Peers {
        curator: Curator::find().await,
        kazoo: Kazoo::find().await,
        wire: own.with_file_name("wire-contender"),
    };
    let mut stage = Stage::start(None).await?;
    let ours_and_clients = ["zk-lock", ON_OTHER_CLIENT, "zookeeper-client 0.11.2"];
    let mut names = ours_and_clients.map(str::to_owned).to_vec();
    match &peers.kazoo {
        Ok(kazoo) => names.push(format!("kazoo {}", kazoo.version())),
        Err(error) => println!("not run: kazoo: {error:#}"),
    }
    match &peers.curator {
        Ok(curator) => names.push(format!("Curator {}", curator.version())),
        Err(error) => println!("not run: Curator: {error:#}"),
    }

    let mut endings: BTreeMap<(usize, u64), Vec<Ending>> = BTreeMap::new();
    for lag in LAGS {
        for _ in 0..TIMES {
            for (at, name) in names.iter().enumerate() {
                let begin = async |connect: String, path: String| {
                    begin(&peers, name, &connect, &path).await
                };
                let ending = stage
                    .play(Slow::FromLeader, Duration::from_millis(lag), begin)
                    .await
                    .with_context(|| format!("{name}, {lag} ms"))?;
                println!("{name}, {lag} ms: {ending:?}");
                endings.entry((at, lag)).or_default().push(ending);
            }
        }
    }

    let lags = LAGS.map(|lag| format!("{lag} ms"));
    let mut header = vec!["lock"];
    header.extend(lags.iter().map(String::as_str));
    let mut table = table(&header);
    for (at, name) in names.iter().enumerate() {
        let cells = LAGS.map(|lag| cell(&endings[&(at, lag)]));
        table.add_row([vec![name.clone()], cells.to_vec()].concat());
    }
    println!(
        "\nZooKeeper {}, three servers, data in memory; the leader's messages are delayed, {TIMES} runs per lock\n{table}",
        stage.version()
    );
    stage.down().await
}

async fn begin(peers: &Peers, name: &str, connect: &str, path: &str) -> anyhow::Result<Contender> {
    let recipe = match (name.split(' ').next(), &peers.curator, &peers.kazoo) {
        (Some("Curator"), Ok(curator), _) => Recipe::CuratorMutex(curator),
        (Some("kazoo"), _, Ok(kazoo)) => Recipe::Kazoo(kazoo),
        (Some("zookeeper-client"), ..) => Recipe::Program(&peers.wire),
        _ => {
            let timeout = Contender::SESSION_TIMEOUT;
            let session = if name == ON_OTHER_CLIENT {
                let connect = Connect::to(connect).session_timeout(timeout);
                connect.session().await?
            } else {
                let builder = Session::builder(connect).session_timeout(timeout);
                builder.connect().await?
            };
            return Contender::ours(&session, path);
        }
    };
    let peer = PeerContender::start(recipe, connect, path).await?;
    Ok(Contender::Peer(peer))
}

/// Formats the median time until the lock was acquired, or how often it never was.
fn cell(endings: &[Ending]) -> String {
    let mut times: Vec<_> = endings
        .iter()
        .filter_map(|ending| ending.acquired)
        .collect();
    times.sort();
    let dead = endings.len() - times.len();
    let nodes = endings.iter().map(|ending| ending.nodes).max().unwrap_or(0);
    let median = times
        .get(times.len() / 2)
        .map(|time| format!("{:.0} ms", time.as_secs_f64() * 1e3));
    if let Some(failed) = endings.iter().find_map(|ending| ending.failed.as_ref()) {
        return format!("**failed**: {failed}");
    }
    match (dead, median) {
        (0, Some(median)) => format!("acquired after {median}, {nodes} node(s)"),
        (dead, _) => format!("**dead {dead} of {}**, {nodes} nodes", endings.len()),
    }
}
