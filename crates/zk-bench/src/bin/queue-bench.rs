//! Measures queues next to the minimum that the servers allow and, with `ZK_BENCH_PEERS=1`, to Curator and kazoo.
//!
//! Prints the figures as a table in Markdown, for BENCHMARKS.md. The sides alternate over several rounds; the table shows
//! median, minimum and maximum.

#![expect(clippy::print_stdout, reason = "a program with output for a terminal")]

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Context as _;
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

/// A workload, measured in items per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Workload {
    OfferSerially,
    OfferInFlight,
    OfferAll,
    Poll,
    Drain,
}

impl Workload {
    const ALL: [Self; 5] = [
        Self::OfferSerially,
        Self::OfferInFlight,
        Self::OfferAll,
        Self::Poll,
        Self::Drain,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::OfferSerially => "offers, one after the other",
            Self::OfferInFlight => "offers, 64 in flight",
            Self::OfferAll => "offers, as one batch",
            Self::Poll => "takes, one after the other",
            Self::Drain => "drain of 10,000",
        }
    }
}

/// The numbers of items and rounds.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    serial: u32,
    many: u32,
    rounds: u32,
}

/// The rates of each client in all rounds, by workload.
#[derive(Debug, Default)]
struct Rates(BTreeMap<(Workload, &'static str), Vec<f64>>);

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
    fn note(&mut self, client: &'static str, workload: Workload, rate: f64) {
        self.0.entry((workload, client)).or_default().push(rate);
    }

    fn table(&self) -> anyhow::Result<String> {
        let mut table = table(&["workload", "client", "rate /s", "min–max", "zk-queue is"]);
        for workload in Workload::ALL {
            let of = |client| {
                let rates = self.0.get(&(workload, client))?;
                Some(Spread::of(rates.iter().copied()))
            };
            let ours = of(OURS).context("ours was measured")?;
            for client in [OURS, BASELINE, "Curator", "kazoo"] {
                let Some(spread) = of(client) else {
                    continue;
                };
                let times = format!("{:.2} ×", ours.median / spread.median);
                table.add_row([
                    workload.name().to_owned(),
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
fn acts(sizes: Sizes) -> [(Workload, QueueAct); 4] {
    [
        (Workload::OfferSerially, QueueAct::Offer(sizes.serial)),
        (Workload::Poll, QueueAct::Take(sizes.serial)),
        // The closest equivalents of our 64 in flight and our drain.
        (Workload::OfferInFlight, QueueAct::Offer(sizes.many)),
        (Workload::Drain, QueueAct::Take(sizes.many)),
    ]
}

async fn measure_ours(
    connect: &str,
    path: &str,
    sizes: Sizes,
    rates: &mut Rates,
) -> anyhow::Result<()> {
    let session = open(connect).await?;
    let queue = Queue::new(&session, path, Text)?;
    let items = |count: u32| {
        (0..count)
            .map(|number| number.to_string())
            .collect::<Vec<_>>()
    };
    let serial = items(sizes.serial);
    let began = Instant::now();
    for item in &serial {
        queue.offer(item).await?;
    }
    rates.note(
        OURS,
        Workload::OfferSerially,
        per_second(sizes.serial, began),
    );
    let began = Instant::now();
    for _ in 0..sizes.serial {
        queue.take().await?;
    }
    rates.note(OURS, Workload::Poll, per_second(sizes.serial, began));
    let many = items(sizes.many);
    let began = Instant::now();
    in_flight(&many, async |item| Ok(queue.offer(item).await?)).await?;
    rates.note(OURS, Workload::OfferInFlight, per_second(sizes.many, began));
    let began = Instant::now();
    let drained = queue.drain().await;
    drained.end?;
    rates.note(OURS, Workload::Drain, per_second(sizes.many, began));
    anyhow::ensure!(
        drained.items.len() == many.len(),
        "drained {} of {} items",
        drained.items.len(),
        many.len()
    );
    let began = Instant::now();
    queue.offer_all(&many).await?;
    rates.note(OURS, Workload::OfferAll, per_second(sizes.many, began));
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
    let session = open(connect).await?;
    session.create(path, "").parents().await?;
    let create = || session.create(format!("{path}/qn-"), "1").sequential();
    let mut made = Vec::new();
    let began = Instant::now();
    for _ in 0..sizes.serial {
        made.push(create().await?.0);
    }
    rates.note(
        BASELINE,
        Workload::OfferSerially,
        per_second(sizes.serial, began),
    );
    let began = Instant::now();
    for path in made {
        session.delete(path).await?;
    }
    rates.note(BASELINE, Workload::Poll, per_second(sizes.serial, began));
    let many = vec![(); sizes.many as usize];
    let began = Instant::now();
    in_flight(&many, async |()| {
        create().await?;
        Ok(())
    })
    .await?;
    rates.note(
        BASELINE,
        Workload::OfferInFlight,
        per_second(sizes.many, began),
    );
    session.delete(path).recursive().await?;
    Ok(session.close().await?)
}

/// Runs `act` for each item, 64 at a time.
async fn in_flight<T>(
    items: &[T],
    act: impl AsyncFn(&T) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let next = std::cell::Cell::new(0);
    let worker = async || {
        while let Some(item) = items.get(next.replace(next.get() + 1)) {
            act(item).await?;
        }
        anyhow::Ok(())
    };
    let workers = (0..IN_FLIGHT).map(|_| worker());
    for ended in futures_util::future::join_all(workers).await {
        ended?;
    }
    Ok(())
}

fn per_second(count: u32, began: Instant) -> f64 {
    f64::from(count) / began.elapsed().as_secs_f64()
}

const OURS: &str = "zk-queue";
const BASELINE: &str = "create or delete";
const IN_FLIGHT: usize = 64;
