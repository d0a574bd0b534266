//! Measures queues next to the minimum that the servers allow and, with `ZK_BENCH_PEERS=1`, to Curator and kazoo.
//!
//! Prints the figures as a table in Markdown, for BENCHMARKS.md. The sides alternate over several rounds; the table shows
//! median, minimum and maximum.

use std::io::Write as _;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use comfy_table::Table;
use comfy_table::presets;
use zk_bench::Environment;
use zk_bench::Settings;
use zk_bench::Spread;
use zk_bench::WorkMeter;
use zk_core::Session;
use zk_core::codec::Text;
use zk_harness::DataStore;
use zk_harness::Ensemble;
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

/// The rates of one side in all rounds, by workload.
type Rates = Vec<(Workload, Vec<f64>)>;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let settings = Settings::from_env()?;
    let meter = WorkMeter::begin();
    let data = if settings.memory {
        DataStore::Memory
    } else {
        DataStore::Disk
    };
    let ensemble = Ensemble::builder().servers(3).data(data).start().await?;
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
    let (mut ours, mut baseline, mut curator, mut kazoo) =
        (Rates::new(), Rates::new(), Rates::new(), Rates::new());
    for round in 0..sizes.rounds {
        measure_ours(&connect, &format!("/bench/ours-{round}"), sizes, &mut ours).await?;
        measure_baseline(
            &connect,
            &format!("/bench/baseline-{round}"),
            sizes,
            &mut baseline,
        )
        .await?;
        if let Some((with_curator, with_kazoo)) = &peers {
            let path = format!("/bench/curator-{round}");
            for (workload, act) in acts(sizes) {
                let run = with_curator
                    .queue(&connect, &path, CuratorQueue::Simple, act)
                    .await?;
                note(&mut curator, workload, run.per_second());
            }
            let path = format!("/bench/kazoo-{round}");
            for (workload, act) in acts(sizes) {
                let run = with_kazoo.queue(&connect, &path, act).await?;
                note(&mut kazoo, workload, run.per_second());
            }
        }
    }
    let environment = Environment::of(&ensemble, &meter);
    print_line("\nqueues, items a second\n")?;
    for (name, fact) in environment.lines() {
        print_line(&format!("{name:<12} {fact}"))?;
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["workload", "client", "rate /s", "min–max", "zk-queue is"]);
    for workload in Workload::ALL {
        let of = |rates: &Rates| {
            let found = rates.iter().find(|(its, _)| *its == workload);
            found.map(|(_, rates)| Spread::of(rates.iter().copied()))
        };
        let reference = of(&ours).context("ours was measured")?;
        for (client, rates) in [
            ("zk-queue", &ours),
            ("create or delete", &baseline),
            ("Curator", &curator),
            ("kazoo", &kazoo),
        ] {
            let Some(spread) = of(rates) else {
                continue;
            };
            let times = reference.median / spread.median;
            table.add_row([
                workload.name().to_owned(),
                client.to_owned(),
                format!("{:.0}", spread.median),
                format!("{:.0}–{:.0}", spread.min, spread.max),
                if client == "zk-queue" {
                    String::new()
                } else {
                    format!("{times:.2} ×")
                },
            ]);
        }
    }
    print_line(&format!("\n{table}\n"))?;
    ensemble.down().await?;
    Ok(())
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
    note(
        rates,
        Workload::OfferSerially,
        per_second(sizes.serial, began),
    );
    let began = Instant::now();
    for _ in 0..sizes.serial {
        queue.take().await?;
    }
    note(rates, Workload::Poll, per_second(sizes.serial, began));
    let many = items(sizes.many);
    let began = Instant::now();
    in_flight(&many, async |item| Ok(queue.offer(item).await?)).await?;
    note(
        rates,
        Workload::OfferInFlight,
        per_second(sizes.many, began),
    );
    let began = Instant::now();
    let drained = queue.drain().await;
    drained.end?;
    note(rates, Workload::Drain, per_second(sizes.many, began));
    anyhow::ensure!(
        drained.items.len() == many.len(),
        "drained {} of {} items",
        drained.items.len(),
        many.len()
    );
    let began = Instant::now();
    queue.offer_all(&many).await?;
    note(rates, Workload::OfferAll, per_second(sizes.many, began));
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
    note(
        rates,
        Workload::OfferSerially,
        per_second(sizes.serial, began),
    );
    let began = Instant::now();
    for path in made {
        session.delete(path).await?;
    }
    note(rates, Workload::Poll, per_second(sizes.serial, began));
    let many = vec![(); sizes.many as usize];
    let began = Instant::now();
    in_flight(&many, async |()| {
        create().await?;
        Ok(())
    })
    .await?;
    note(
        rates,
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

async fn open(connect: &str) -> anyhow::Result<Session> {
    let builder = Session::builder(connect).session_timeout(Duration::from_secs(30));
    Ok(builder.connect().await?)
}

fn note(rates: &mut Rates, workload: Workload, rate: f64) {
    match rates.iter_mut().find(|(its, _)| *its == workload) {
        Some((_, all)) => all.push(rate),
        None => rates.push((workload, vec![rate])),
    }
}

fn per_second(count: u32, began: Instant) -> f64 {
    f64::from(count) / began.elapsed().as_secs_f64()
}

fn print_line(line: &str) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

const IN_FLIGHT: usize = 64;
