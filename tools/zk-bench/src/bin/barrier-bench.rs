//! Measures double barriers next to the minimum that the servers allow: creates and deletes of the same nodes. With
//! `--peers` Curator's `DistributedDoubleBarrier` takes turns with them.
//!
//! Every client enters and leaves all rounds, as in the measurement of the paper on ZooKeeper (USENIX ATC 2010): 50
//! clients, 1,600 rounds. Prints the enters and leaves per second as a table in Markdown, for BENCHMARKS.md.

#![expect(clippy::print_stdout, reason = "a program with output for a terminal")]

use std::num::NonZeroU32;
use std::time::Instant;

use anyhow::Context as _;
use tokio::task::JoinSet;
use zk_barrier::{DoubleBarrier, Layout};
use zk_bench::{Environment, Settings, Spread, WorkMeter, open, servers, table};
use zk_core::Session;
use zk_tests::peers::Curator;

/// The numbers of clients, of barriers that each of them enters and leaves, and of measurements.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    clients: u32,
    barriers: u32,
    rounds: u32,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let settings = Settings::from_env()?;
    let meter = WorkMeter::begin();
    let ensemble = servers(settings).start().await?;
    let sizes = if settings.quick {
        Sizes {
            clients: 10,
            barriers: 50,
            rounds: 1,
        }
    } else {
        Sizes {
            clients: 50,
            barriers: 1_600,
            rounds: 3,
        }
    };
    let mut sessions = Vec::new();
    for _ in 0..sizes.clients {
        sessions.push(open(&ensemble.connect_string()).await?);
    }
    let mut curator = if settings.peers {
        Some(Curator::find().await?)
    } else {
        None
    };
    let (mut minimum, mut ours, mut recipe) = (Vec::new(), Vec::new(), Vec::new());
    let mut curators = Vec::new();
    for round in 0..sizes.rounds {
        let path = |what: &str| format!("/bench/{what}-{round}");
        minimum.push(creates_and_deletes(&sessions, &path("nodes"), sizes).await?);
        ours.push(barriers(&sessions, &path("rounds"), Layout::Rounds, sizes).await?);
        recipe.push(barriers(&sessions, &path("recipe"), Layout::Recipe, sizes).await?);
        if let Some(program) = &curator {
            let (connect, path) = (ensemble.connect_string(), path("curator"));
            let Sizes {
                clients, barriers, ..
            } = sizes;
            let rate = program.measure_double_barriers(&connect, &path, clients, barriers);
            match rate.await {
                Ok(rate) => curators.push(rate),
                // Its clients may wait for each other for ever.
                Err(error) => {
                    println!("Curator is not measured: {error:#}");
                    curator = None;
                }
            }
        }
    }
    let environment = Environment::of(&ensemble, &meter);
    println!("\n{}", environment.describe(&settings.command("barrier")));
    println!(
        "{} clients, {} barriers each:\n",
        sizes.clients, sizes.barriers
    );
    let mut table = table(&["figure", "enters and leaves /s", "min–max"]);
    for (figure, rates) in [
        ("creates and deletes alone", minimum),
        ("zk-barrier", ours),
        ("zk-barrier, the recipe's layout", recipe),
        ("Curator, a path for each barrier", curators),
    ] {
        if rates.is_empty() {
            continue;
        }
        let spread = Spread::of(rates);
        table.add_row([figure.to_owned(), spread.middle(0), spread.range(0)]);
    }
    println!("{table}\n");
    ensemble.down().await?;
    Ok(())
}

/// Returns the enters and leaves per second of all clients.
async fn barriers(
    sessions: &[Session],
    path: &str,
    layout: Layout,
    sizes: Sizes,
) -> anyhow::Result<f64> {
    let threshold = NonZeroU32::new(sizes.clients).context("there are clients")?;
    let begin = Instant::now();
    let mut clients = JoinSet::new();
    for session in sessions {
        let barrier = DoubleBarrier::new(session, path, threshold)?.with_layout(layout);
        clients.spawn(async move {
            for _ in 0..sizes.barriers {
                barrier.enter().await?.leave().await?;
            }
            anyhow::Ok(())
        });
    }
    per_second(clients, begin, sizes).await
}

/// Returns the creates and deletes per second of all clients, each of which waits for its own replies only.
async fn creates_and_deletes(
    sessions: &[Session],
    path: &str,
    sizes: Sizes,
) -> anyhow::Result<f64> {
    let first = sessions.first().context("there are clients")?;
    first.create(path, "").parents().await?;
    let begin = Instant::now();
    let mut clients = JoinSet::new();
    for (at, session) in sessions.iter().enumerate() {
        let (session, path) = (session.clone(), format!("{path}/{at}"));
        clients.spawn(async move {
            for _ in 0..sizes.barriers {
                session.create(path.as_str(), "").ephemeral().await?;
                session.delete(path.as_str()).await?;
            }
            anyhow::Ok(())
        });
    }
    per_second(clients, begin, sizes).await
}

/// Waits for all clients, and returns how many times one of them has entered or left per second.
async fn per_second(
    mut clients: JoinSet<anyhow::Result<()>>,
    begin: Instant,
    sizes: Sizes,
) -> anyhow::Result<f64> {
    while let Some(client) = clients.join_next().await {
        client??;
    }
    let changes = 2 * sizes.clients * sizes.barriers;
    Ok(f64::from(changes) / begin.elapsed().as_secs_f64())
}
