//! Measures queues next to the minimum that the servers allow and, with `ZK_BENCH_PEERS=1`, to Curator and kazoo.
//!
//! Prints the figures as a table in Markdown, for BENCHMARKS.md. The sides alternate over several rounds; the table shows
//! median, minimum and maximum.

#![expect(clippy::print_stdout, reason = "a program with output for a terminal")]

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Context as _;
use futures_util::StreamExt as _;
use futures_util::TryStreamExt as _;
use futures_util::stream;
use zk_bench::Environment;
use zk_bench::Settings;
use zk_bench::Spread;
use zk_bench::WorkMeter;
use zk_bench::open;
use zk_bench::servers;
use zk_bench::table;
use zk_core::codec::Text;
use zk_queue::Queue;
use zk_tests::peers::Curator;
use zk_tests::peers::CuratorQueue;
use zk_tests::peers::Kazoo;
use zk_tests::peers::QueueAct;

/// The numbers of items and rounds.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    serial: u32,
    many: u32,
    rounds: u32,
}

/// The rates of each client in all rounds, by workload.
#[derive(Debug, Default)]
struct Rates(BTreeMap<[&'static str; 2], Vec<f64>>);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let settings = Settings::from_env()?;
    let meter = WorkMeter::begin();
    let ensemble = servers(settings).start().await?;
    let sizes = if settings.quick {
        Sizes {
            serial: 200,
            many: 2_000,
            rounds: 1,
        }
    } else {
        Sizes {
            serial: 1_000,
            many: 10_000,
            rounds: 3,
        }
    };
    let peers = if settings.peers {
        Some((Curator::find().await?, Kazoo::find().await?))
    } else {
        None
    };
    let connect = ensemble.connect_string();
    let mut rates = Rates::default();
    for round in 0..sizes.rounds {
        let path = |client: &str| format!("/bench/{client}-{round}");
        measure_ours(&connect, &path("ours"), sizes, &mut rates).await?;
        measure_baseline(&connect, &path("baseline"), sizes, &mut rates).await?;
        if let Some((curator, kazoo)) = &peers {
            let (curators, kazoos) = (path("curator"), path("kazoo"));
            for (workload, act) in acts(sizes) {
                let simple = CuratorQueue::Simple;
                let run = curator.queue(&connect, &curators, simple, act);
                rates.note("Curator", workload, run.await?.per_second());
            }
            for (workload, act) in acts(sizes) {
                let run = kazoo.queue(&connect, &kazoos, act);
                rates.note("kazoo", workload, run.await?.per_second());
            }
        }
    }
    let environment = Environment::of(&ensemble, &meter);
    println!("\n{}", environment.describe(&settings.command("queue")));
    println!("{}\n", rates.table()?);
    ensemble.down().await?;
    Ok(())
}

impl Rates {
    /// Notes the items per second of a client in a workload.
    fn note(&mut self, client: &'static str, workload: &'static str, rate: f64) {
        self.0.entry([workload, client]).or_default().push(rate);
    }

    /// Measures a workload of `count` items.
    async fn measure<T>(
        &mut self,
        client: &'static str,
        workload: &'static str,
        count: u32,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let began = Instant::now();
        let done = work.await?;
        let rate = f64::from(count) / began.elapsed().as_secs_f64();
        self.note(client, workload, rate);
        Ok(done)
    }

    fn table(&self) -> anyhow::Result<String> {
        let mut table = table(&["workload", "client", "rate /s", "min–max", "zk-queue is"]);
        for workload in WORKLOADS {
            let of = |client| {
                let rates = self.0.get(&[workload, client])?;
                Some(Spread::of(rates.iter().copied()))
            };
            let ours = of(OURS).context("ours was measured")?;
            for client in [OURS, BASELINE, "Curator", "kazoo"] {
                let Some(spread) = of(client) else {
                    continue;
                };
                let times = format!("{:.2} ×", ours.median / spread.median);
                table.add_row([
                    workload.to_owned(),
                    client.to_owned(),
                    spread.middle(0),
                    spread.range(0),
                    if client == OURS { String::new() } else { times },
                ]);
            }
        }
        Ok(table.to_string())
    }
}

/// The workloads of the peers, which offer and take one item after the other and have no batches.
fn acts(sizes: Sizes) -> [(&'static str, QueueAct); 4] {
    [
        (OFFER_SERIALLY, QueueAct::Offer(sizes.serial)),
        (POLL, QueueAct::Take(sizes.serial)),
        // The closest equivalents of our 64 in flight and our drain.
        (OFFER_IN_FLIGHT, QueueAct::Offer(sizes.many)),
        (DRAIN, QueueAct::Take(sizes.many)),
    ]
}

async fn measure_ours(
    connect: &str,
    path: &str,
    sizes: Sizes,
    rates: &mut Rates,
) -> anyhow::Result<()> {
    let Sizes { serial, many, .. } = sizes;
    let session = open(connect).await?;
    let queue = Queue::new(&session, path, Text)?;
    let items: Vec<_> = (0..many).map(|number| number.to_string()).collect();
    let offers = async {
        for item in items.iter().take(serial as usize) {
            queue.offer(item).await?;
        }
        anyhow::Ok(())
    };
    rates.measure(OURS, OFFER_SERIALLY, serial, offers).await?;
    let takes = async {
        for _ in 0..serial {
            queue.take().await?;
        }
        anyhow::Ok(())
    };
    rates.measure(OURS, POLL, serial, takes).await?;
    let offers = in_flight(items.iter().map(async |item| Ok(queue.offer(item).await?)));
    rates.measure(OURS, OFFER_IN_FLIGHT, many, offers).await?;
    let drain = async {
        let drained = queue.drain().await;
        drained.end?;
        anyhow::Ok(drained.items.len())
    };
    let drained = rates.measure(OURS, DRAIN, many, drain).await?;
    anyhow::ensure!(drained == items.len(), "drained {drained} of {many} items");
    let offers = async { Ok(queue.offer_all(&items).await?) };
    rates.measure(OURS, OFFER_ALL, many, offers).await?;
    queue.drain().await.end?;
    drop(queue);
    Ok(session.close().await?)
}

/// Measures only the creates and deletes that a queue needs.
async fn measure_baseline(
    connect: &str,
    path: &str,
    sizes: Sizes,
    rates: &mut Rates,
) -> anyhow::Result<()> {
    let Sizes { serial, many, .. } = sizes;
    let session = open(connect).await?;
    session.create(path, "").parents().await?;
    let create = async || {
        let create = session.create(format!("{path}/qn-"), "1").sequential();
        anyhow::Ok(create.await?.0)
    };
    let creates = async {
        let mut made = Vec::new();
        for _ in 0..serial {
            made.push(create().await?);
        }
        anyhow::Ok(made)
    };
    let made = rates
        .measure(BASELINE, OFFER_SERIALLY, serial, creates)
        .await?;
    let deletes = async {
        for path in made {
            session.delete(path).await?;
        }
        anyhow::Ok(())
    };
    rates.measure(BASELINE, POLL, serial, deletes).await?;
    let creates = in_flight((0..many).map(|_| create()));
    rates
        .measure(BASELINE, OFFER_IN_FLIGHT, many, creates)
        .await?;
    session.delete(path).recursive().await?;
    Ok(session.close().await?)
}

/// Runs these, 64 at a time.
async fn in_flight<T>(
    all: impl Iterator<Item = impl Future<Output = anyhow::Result<T>>>,
) -> anyhow::Result<()> {
    let all = stream::iter(all).buffer_unordered(64);
    all.try_for_each(async |_| Ok(())).await
}

const OURS: &str = "zk-queue";
const BASELINE: &str = "create or delete";

/// The workloads, measured in items per second.
const WORKLOADS: [&str; 5] = [OFFER_SERIALLY, OFFER_IN_FLIGHT, OFFER_ALL, POLL, DRAIN];
const OFFER_SERIALLY: &str = "offers, one after the other";
const OFFER_IN_FLIGHT: &str = "offers, 64 in flight";
const OFFER_ALL: &str = "offers, as one batch";
const POLL: &str = "takes, one after the other";
const DRAIN: &str = "drain of 10,000";
