//! Measures queues next to the minimum that the servers allow and, with `ZK_BENCH_PEERS=1`, to Curator and kazoo.
//!
//! Prints the figures as a table in Markdown, for BENCHMARKS.md. The sides alternate over several rounds; the table shows
//! median, minimum and maximum. What depends on a process being new is measured in processes of its own.

#![expect(clippy::print_stdout, reason = "a program with output for a terminal")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::process::Stdio;
use std::time::Instant;

use anyhow::Context as _;
use futures_util::{StreamExt as _, TryStreamExt as _, future, stream};
use zk_bench::{Environment, Settings, Spread, WorkMeter, followers_first, open, servers, table};
use zk_core::codec::Text;
use zk_core::{CreateMode, Session};
use zk_queue::{Queue, WorkQueue, WorkerOptions};
use zk_tests::peers::{Curator, CuratorQueue, Kazoo, QueueAct};

/// The numbers of items and rounds.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    serial: u32,
    many: u32,
    waiting: u32,
    rounds: u32,
}

/// The rates of each client in all rounds, by workload.
#[derive(Debug, Default)]
struct Rates(BTreeMap<[&'static str; 2], Vec<f64>>);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    if let [work, connect, path] = args.as_slice() {
        return in_new_process(work, connect, path).await;
    }
    let settings = Settings::from_env()?;
    let meter = WorkMeter::begin();
    let ensemble = servers(settings).start().await?;
    let sizes = if settings.quick {
        Sizes {
            serial: 200,
            many: 2_000,
            waiting: 10_000,
            rounds: 1,
        }
    } else {
        Sizes {
            serial: 1_000,
            many: 10_000,
            waiting: 100_000,
            rounds: 4,
        }
    };
    let peers = if settings.peers {
        Some((Curator::find().await?, Kazoo::find().await?))
    } else {
        None
    };
    let connect = followers_first(&ensemble).await?.remove(0);
    // New servers are slow at first.
    measure_baseline(&connect, "/bench/warm-up", sizes, &mut Rates::default()).await?;
    let mut rates = Rates::default();
    for round in 0..sizes.rounds {
        let path = |client: &str| format!("/bench/{client}-{round}");
        let mut new_processes = NEW_PROCESSES;
        // Each side is first equally often: what one leaves to do, such as the servers' garbage, slows the next one.
        if round % 2 == 0 {
            measure_ours(&connect, &path("ours"), sizes, &mut rates).await?;
            measure_baseline(&connect, &path("baseline"), sizes, &mut rates).await?;
            measure_transactions(&connect, &path("transactions"), sizes, &mut rates).await?;
        } else {
            new_processes.reverse();
            measure_transactions(&connect, &path("transactions"), sizes, &mut rates).await?;
            measure_baseline(&connect, &path("baseline"), sizes, &mut rates).await?;
            measure_ours(&connect, &path("ours"), sizes, &mut rates).await?;
        }
        measure_workers(&connect, &path("work"), sizes, &mut rates).await?;
        for (client, consumers) in [(ONE_CONSUMER, 1), (OURS, CONSUMERS)] {
            let path = path(&format!("consumers-{consumers}"));
            measure_consumers(&connect, &path, sizes, (client, consumers), &mut rates).await?;
        }
        measure_bare_consumers(&connect, &path("takes"), sizes, &mut rates).await?;
        for (workload, client, work) in new_processes {
            let rate = new_process(work, &connect, &path(work)).await?;
            rates.note(client, workload, rate);
        }
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
    let bytes = memory_of_waiting(&connect, sizes.waiting).await?;
    println!(
        "A consumer of {} waiting items needs {:.1} MiB of memory for those that it lists, {:.0} bytes for each that waits.\n",
        sizes.waiting,
        bytes / 1024.0 / 1024.0,
        bytes / f64::from(sizes.waiting)
    );
    ensemble.down().await?;
    Ok(())
}

impl Rates {
    /// Notes the items per second of a client in a workload.
    fn note(&mut self, client: &'static str, workload: &'static str, rate: f64) {
        self.0.entry([workload, client]).or_default().push(rate);
    }

    /// Returns the last rate of ours in a workload.
    fn last_of_ours(&self, workload: &'static str) -> anyhow::Result<f64> {
        let rates = self.0.get(&[workload, OURS]);
        let last = rates.and_then(|rates| rates.last().copied());
        last.with_context(|| format!("{workload} was not measured yet"))
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
            let of = |client| Some(self.0.get(&[workload, client])?.iter().copied());
            let ours = of(OURS).context("ours was measured")?;
            for client in CLIENTS {
                let Some(rates) = of(client) else {
                    continue;
                };
                let ratios = Spread::of_ratios(ours.clone(), rates.clone());
                let spread = Spread::of(rates);
                let times = format!("{} × ({})", ratios.middle(2), ratios.range(2));
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
    let offers = in_flight(items.iter().map(async |item| {
        queue.offer(item).await?;
        anyhow::Ok(())
    }));
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
    let mut made = Vec::new();
    for _ in 0..serial {
        made.push(create().await?);
    }
    let gets_and_deletes = async {
        for path in made {
            let (_, stat) = session.get(&path).await?;
            session.delete(path).version(stat.version).await?;
        }
        anyhow::Ok(())
    };
    rates
        .measure(GET_AND_DELETE, POLL, serial, gets_and_deletes)
        .await?;
    let creates = in_flight((0..many).map(|_| create()));
    rates
        .measure(BASELINE, OFFER_IN_FLIGHT, many, creates)
        .await?;
    session.delete(path).recursive().await?;
    Ok(session.close().await?)
}

/// Measures bare transactions with the same parts as ours: those of an offer one after the other, and those of a claim and
/// an acknowledgement of 64 items at a time.
async fn measure_transactions(
    connect: &str,
    path: &str,
    sizes: Sizes,
    rates: &mut Rates,
) -> anyhow::Result<()> {
    let session = open(connect).await?;
    for child in ["items", "claims", "control"] {
        session
            .create(format!("{path}/{child}"), "")
            .parents()
            .await?;
    }
    let (token, control) = (format!("{path}/control/token"), format!("{path}/control"));
    session.create(&*token, "").ephemeral().await?;
    let begin = || {
        let transaction = session.transaction();
        transaction.set(&*token, "").check_version(&*control, 0)
    };
    let sequential = CreateMode::PersistentSequential;
    let offers = async {
        for _ in 0..sizes.serial {
            let create = begin().create_as(format!("{path}/items/qn-"), "1", sequential, None);
            create.commit().await?;
        }
        anyhow::Ok(())
    };
    rates
        .measure(TRANSACTION, OFFER_SERIALLY, sizes.serial, offers)
        .await?;
    let items: Vec<_> = (0..sizes.many)
        .map(|number| {
            [
                format!("{path}/items/{number}"),
                format!("{path}/claims/{number}"),
            ]
        })
        .collect();
    create_all(&session, items.iter().map(|[item, _]| item)).await?;
    let work = async {
        for chunk in items.chunks(64) {
            let (mut claims, mut ends) = (begin(), begin());
            for [item, claim] in chunk {
                claims = claims
                    .create_ephemeral(&**claim, "owner")
                    .set_version(&**item, "1", 0);
                ends = ends.delete_version(&**item, 1).delete_version(&**claim, 0);
            }
            claims.commit().await?;
            ends.commit().await?;
        }
        anyhow::Ok(())
    };
    rates
        .measure(TRANSACTION, WORK_64, sizes.many, work)
        .await?;
    session.delete(path).recursive().await?;
    Ok(session.close().await?)
}

/// Measures workers whose handlers do nothing, next to our drain of the same round.
async fn measure_workers(
    connect: &str,
    path: &str,
    sizes: Sizes,
    rates: &mut Rates,
) -> anyhow::Result<()> {
    let session = open(connect).await?;
    let queue = WorkQueue::new(&session, path, Text)?;
    let drained = rates.last_of_ours(DRAIN)?;
    for (workload, concurrency, count) in [
        (WORK_1, 1, sizes.serial),
        (WORK_8, 8, sizes.many),
        (WORK_64, 64, sizes.many),
    ] {
        let items = (0..count).map(|number| number.to_string());
        queue.offer_all(items).await?;
        let (handled, all_handled) = (Cell::new(0), tokio::sync::Notify::new());
        let handler = async |_| {
            handled.set(handled.get() + 1);
            if handled.get() == count {
                all_handled.notify_one();
            }
            Ok::<_, Infallible>(())
        };
        let options = WorkerOptions::default().with_concurrency(concurrency);
        let work = async {
            let stats = queue
                .work_until(all_handled.notified(), &options, handler)
                .await?;
            anyhow::Ok(stats.acknowledged)
        };
        let done = rates.measure(OURS, workload, count, work).await?;
        anyhow::ensure!(
            done == u64::from(count),
            "{done} of {count} items were done"
        );
        rates.note(OUR_DRAIN, workload, drained);
    }
    Ok(session.close().await?)
}

/// Measures so many sessions that take the items of one queue, one after the other each.
async fn measure_consumers(
    connect: &str,
    path: &str,
    sizes: Sizes,
    (client, consumers): (&'static str, usize),
    rates: &mut Rates,
) -> anyhow::Result<()> {
    let count = sizes.many;
    let session = open(connect).await?;
    let queue = Queue::new(&session, path, Text)?;
    queue
        .offer_all((0..count).map(|number| number.to_string()))
        .await?;
    let sessions = future::try_join_all((0..consumers).map(|_| open(connect))).await?;
    let consumers = sessions.iter().map(async |session| {
        let queue = Queue::new(session, path, Text)?;
        let mut taken = 0;
        while queue.poll().await?.is_some() {
            taken += 1;
        }
        anyhow::Ok(taken)
    });
    let takes = future::try_join_all(consumers);
    let taken = rates.measure(client, CONSUMERS_8, count, takes).await?;
    let all: u32 = taken.iter().sum();
    anyhow::ensure!(all == count, "{all} of {count} items were taken: {taken:?}");
    for session in sessions.iter().chain([&session]) {
        session.close().await?;
    }
    Ok(())
}

/// Measures the transactions of eight sessions' takes alone, of items that each session knows to be its own.
async fn measure_bare_consumers(
    connect: &str,
    path: &str,
    sizes: Sizes,
    rates: &mut Rates,
) -> anyhow::Result<()> {
    let session = open(connect).await?;
    session.create(path, "").parents().await?;
    let items: Vec<_> = (0..sizes.many)
        .map(|number| format!("{path}/{number}"))
        .collect();
    create_all(&session, &items).await?;
    let sessions = future::try_join_all((0..CONSUMERS).map(|_| open(connect))).await?;
    let mut tokens = Vec::new();
    for (number, session) in sessions.iter().enumerate() {
        let token = format!("{path}/token-{number}");
        tokens.push(session.create(token, "").ephemeral().await?.0);
    }
    let takes = sessions.iter().enumerate().map(async |(number, session)| {
        for item in items.iter().skip(number).step_by(CONSUMERS) {
            let take = session.transaction().set(&tokens[number], "");
            let take = take.check_version(path, 0).delete_version(&**item, 0);
            take.commit().await?;
        }
        anyhow::Ok(())
    });
    let takes = future::try_join_all(takes);
    rates
        .measure(TRANSACTION, CONSUMERS_8, sizes.many, takes)
        .await?;
    session.delete(path).recursive().await?;
    for session in sessions.iter().chain([&session]) {
        session.close().await?;
    }
    Ok(())
}

/// Creates nodes, 500 with each transaction.
async fn create_all(
    session: &Session,
    paths: impl IntoIterator<Item = &String>,
) -> anyhow::Result<()> {
    let mut paths = paths.into_iter().peekable();
    while paths.peek().is_some() {
        let mut transaction = session.transaction();
        for path in paths.by_ref().take(500) {
            transaction = transaction.create(path.as_str(), "1");
        }
        transaction.commit().await?;
    }
    Ok(())
}

/// Runs `work` in a new process of this program, and returns the figure that it prints.
async fn new_process(work: &str, connect: &str, path: &str) -> anyhow::Result<f64> {
    let program = std::env::current_exe()?;
    let mut command = tokio::process::Command::new(program);
    command.args([work, connect, path]).kill_on_drop(true);
    let output = command.stderr(Stdio::inherit()).output().await?;
    anyhow::ensure!(
        output.status.success(),
        "{work} ended with {}",
        output.status
    );
    let printed = String::from_utf8(output.stdout)?;
    let figure = printed.trim().parse();
    figure.with_context(|| format!("{work} printed {printed:?}"))
}

/// Does what a new process is to measure, and prints the figure.
async fn in_new_process(work: &str, connect: &str, path: &str) -> anyhow::Result<()> {
    let session = open(connect).await?;
    let figure = match work {
        FIRST_OFFERS | FIRST_OFFERS_IN_FLIGHT => {
            let queue = Queue::new(&session, path, Text)?;
            let item = "1".to_owned();
            let offers = (0..FIRST).map(|_| async {
                queue.offer(&item).await?;
                anyhow::Ok(())
            });
            first_thousand(work == FIRST_OFFERS_IN_FLIGHT, offers).await?
        }
        FIRST_CREATES | FIRST_CREATES_IN_FLIGHT => {
            session.create(path, "").parents().await?;
            let create = || session.create(format!("{path}/qn-"), "1").sequential();
            let creates = (0..FIRST).map(|_| async {
                create().await?;
                Ok(())
            });
            first_thousand(work == FIRST_CREATES_IN_FLIGHT, creates).await?
        }
        LIST_WAITING => listing_bytes(&session, path).await?,
        _ => anyhow::bail!("unknown work {work}"),
    };
    println!("{figure}");
    Ok(session.close().await?)
}

/// Returns the rate of a new process's first requests, 64 at a time or one after the other.
async fn first_thousand(
    are_in_flight: bool,
    all: impl Iterator<Item = impl Future<Output = anyhow::Result<()>>>,
) -> anyhow::Result<f64> {
    let began = Instant::now();
    if are_in_flight {
        in_flight(all).await?;
    } else {
        for one in all {
            one.await?;
        }
    }
    Ok(f64::from(FIRST) / began.elapsed().as_secs_f64())
}

/// Returns how many bytes a consumer in a new process needs for a queue of so many items.
async fn memory_of_waiting(connect: &str, count: u32) -> anyhow::Result<f64> {
    let session = open(connect).await?;
    let queue = Queue::new(&session, "/bench/waiting", Text)?;
    queue
        .offer_all((0..count).map(|number| number.to_string()))
        .await?;
    let bytes = new_process(LIST_WAITING, connect, "/bench/waiting").await?;
    session.close().await?;
    Ok(bytes)
}

/// Returns by how many bytes the memory of this process grows when it lists a queue.
async fn listing_bytes(session: &Session, path: &str) -> anyhow::Result<f64> {
    let queue = Queue::new(session, path, Text)?;
    // What the first use of a session needs is not counted.
    queue.len().await?;
    let before = resident_bytes()?;
    anyhow::ensure!(queue.oldest_age().await?.is_some(), "nothing waits");
    queue.poll().await?;
    Ok(resident_bytes()? - before)
}

/// Returns the memory of this process.
fn resident_bytes() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kilobytes: f64 = kilobytes.context("VmRSS is missing")?.trim().parse()?;
    Ok(kilobytes * 1024.0)
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
const GET_AND_DELETE: &str = "get + delete";
const TRANSACTION: &str = "bare transactions";
const OUR_DRAIN: &str = "drain of zk-queue";
const ONE_CONSUMER: &str = "one consumer";
const CLIENTS: [&str; 8] = [
    OURS,
    BASELINE,
    TRANSACTION,
    GET_AND_DELETE,
    OUR_DRAIN,
    ONE_CONSUMER,
    "Curator",
    "kazoo",
];

/// The workloads, measured in items per second.
const WORKLOADS: [&str; 11] = [
    OFFER_SERIALLY,
    OFFER_FIRST,
    OFFER_IN_FLIGHT,
    OFFER_FIRST_IN_FLIGHT,
    OFFER_ALL,
    POLL,
    CONSUMERS_8,
    DRAIN,
    WORK_1,
    WORK_8,
    WORK_64,
];
const OFFER_SERIALLY: &str = "offers, one after the other";
const OFFER_FIRST: &str = "first thousand offers, one after the other";
const OFFER_IN_FLIGHT: &str = "offers, 64 in flight";
const OFFER_FIRST_IN_FLIGHT: &str = "first thousand offers, 64 in flight";
const OFFER_ALL: &str = "offers, as one batch";
const POLL: &str = "takes, one after the other";
const CONSUMERS_8: &str = "takes by 8 consumers";
const DRAIN: &str = "drain of 10,000";
const WORK_1: &str = "claim + acknowledge, 1 handler";
const WORK_8: &str = "claim + acknowledge, 8 handlers";
const WORK_64: &str = "claim + acknowledge, 64 handlers";

/// What is done in new processes: the workload, the client, and the name of the work.
const NEW_PROCESSES: [(&str, &str, &str); 4] = [
    (OFFER_FIRST, OURS, FIRST_OFFERS),
    (OFFER_FIRST, BASELINE, FIRST_CREATES),
    (OFFER_FIRST_IN_FLIGHT, OURS, FIRST_OFFERS_IN_FLIGHT),
    (OFFER_FIRST_IN_FLIGHT, BASELINE, FIRST_CREATES_IN_FLIGHT),
];
const FIRST_OFFERS: &str = "first-offers";
const FIRST_CREATES: &str = "first-creates";
const FIRST_OFFERS_IN_FLIGHT: &str = "first-offers-in-flight";
const FIRST_CREATES_IN_FLIGHT: &str = "first-creates-in-flight";
const LIST_WAITING: &str = "list-waiting";
const FIRST: u32 = 1_000;
const CONSUMERS: usize = 8;
