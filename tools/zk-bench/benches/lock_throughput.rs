//! Measures the lock: alone, contended, in a hand-over, and next to its peers.

#![expect(clippy::print_stdout, reason = "a program with output for a terminal")]

use zk_bench::{
    Environment, Fixture, PairedBenchmark, Settings, Side, WorkMeter, baseline, comparison, lock,
    publish, recreating_chain, report,
};
use zk_lock::RaceLock;

fn main() -> anyhow::Result<()> {
    let settings = Settings::from_env()?;
    if settings.peers && !settings.smoke {
        return next_to_peers(settings);
    }
    let meter = WorkMeter::begin();
    let fixture = Fixture::new(settings)?;
    let mut benchmark = PairedBenchmark::new(&fixture, settings);
    benchmark.pair("uncontended", ["lock", "create+delete"], uncontended);
    for sessions in CONTENDERS {
        benchmark.pair(
            &format!("contention/{sessions}"),
            ["lock", "chain"],
            |fixture| contention(fixture, sessions),
        );
    }
    benchmark.pair("recreating/20", ["lock", "chain"], recreating);
    benchmark.pair("yielding/20", ["lock", "chain"], yielding);
    benchmark.pair("handover", ["lock", "notify"], handover);
    for sessions in RACERS {
        benchmark.pair(&format!("race/{sessions}"), ["race", "fair"], |fixture| {
            without_a_queue(fixture, sessions)
        });
    }
    if let Some(table) = benchmark.finish() {
        let environment = Environment::of(fixture.ensemble()?, &meter);
        let command = settings.command(NAME);
        println!("\n{}\n{table}\n", environment.describe(&command));
    }
    fixture.down()
}

/// One session, and one session of the wire client with the same server.
fn uncontended(fixture: &Fixture) -> anyhow::Result<[Side<'_>; 2]> {
    const PARENT: &str = "/uncontended-raw";
    let servers = fixture.servers(1)?;
    let (lock, client) = fixture.run("the preparation", async move {
        let clients = baseline::clients(servers.clone(), PARENT.to_owned()).await?;
        let lock = lock::handles(servers, "/uncontended".to_owned()).await?;
        Ok((lock[0].clone(), clients[0].clone()))
    })?;
    Ok([
        Box::new(move |operations| {
            fixture.run(
                "acquire and release",
                lock::acquire_release(lock.clone(), operations),
            )
        }),
        Box::new(move |operations| {
            fixture.run(
                "create and delete",
                baseline::create_delete(client.clone(), PARENT.to_owned(), operations),
            )
        }),
    ])
}

/// Several sessions, and as many sessions of the wire client with the same servers.
fn contention(fixture: &Fixture, sessions: usize) -> anyhow::Result<[Side<'_>; 2]> {
    let servers = fixture.servers(sessions)?;
    let path = format!("/contention-{sessions}");
    let parent = format!("{path}-chain");
    let top = parent.clone();
    let (locks, clients) = fixture.run("the preparation", async move {
        let clients = baseline::clients(servers.clone(), top).await?;
        Ok((lock::handles(servers, path).await?, clients))
    })?;
    Ok([
        Box::new(move |hand_overs| {
            fixture.run("the contention", lock::contend(locks.clone(), hand_overs))
        }),
        Box::new(move |hand_overs| {
            fixture.run(
                "the pre-made chain",
                baseline::premade_chain(clients.clone(), parent.clone(), hand_overs),
            )
        }),
    ])
}

/// Twenty sessions, and as many sessions of the wire client that create a node for each turn, too.
fn recreating(fixture: &Fixture) -> anyhow::Result<[Side<'_>; 2]> {
    const PARENT: &str = "/recreating-chain";
    let servers = fixture.servers(comparison::SESSIONS)?;
    let (locks, clients) = fixture.run("the preparation", async move {
        let clients = baseline::clients(servers.clone(), PARENT.to_owned()).await?;
        let locks = lock::handles(servers, "/recreating".to_owned()).await?;
        Ok((locks, clients))
    })?;
    Ok([
        Box::new(move |hand_overs| {
            fixture.run("the contention", lock::contend(locks.clone(), hand_overs))
        }),
        Box::new(move |hand_overs| {
            fixture.run(
                "the re-creating chain",
                recreating_chain(clients.clone(), PARENT.to_owned(), hand_overs),
            )
        }),
    ])
}

/// Twenty sessions that yield the lock to each other, and the chain whose nodes are created in advance.
fn yielding(fixture: &Fixture) -> anyhow::Result<[Side<'_>; 2]> {
    const PARENT: &str = "/yielding-chain";
    let servers = fixture.servers(comparison::SESSIONS)?;
    let (locks, clients) = fixture.run("the preparation", async move {
        let clients = baseline::clients(servers.clone(), PARENT.to_owned()).await?;
        let locks = lock::handles(servers, "/yielding".to_owned()).await?;
        Ok((locks, clients))
    })?;
    Ok([
        Box::new(move |hand_overs| {
            let contention = lock::contend_yielding(locks.clone(), hand_overs);
            fixture.run("the contention with yields", contention)
        }),
        Box::new(move |hand_overs| {
            fixture.run(
                "the pre-made chain",
                baseline::premade_chain(clients.clone(), PARENT.to_owned(), hand_overs),
            )
        }),
    ])
}

/// Several sessions, which contend for the lock without a queue, and then for the fair lock.
fn without_a_queue(fixture: &Fixture, sessions: usize) -> anyhow::Result<[Side<'_>; 2]> {
    let servers = fixture.servers(sessions)?;
    let path = format!("/race-{sessions}");
    let (race_locks, locks) = fixture.run("the preparation", async move {
        let locks = lock::handles(servers, format!("{path}-fair")).await?;
        let race_locks = locks.iter();
        let race_locks = race_locks.map(|lock| RaceLock::new(lock.session(), path.as_str()));
        Ok((race_locks.collect::<Result<Vec<_>, _>>()?, locks))
    })?;
    Ok([
        Box::new(move |hand_overs| {
            fixture.run("the race", lock::contend(race_locks.clone(), hand_overs))
        }),
        Box::new(move |hand_overs| {
            fixture.run("the contention", lock::contend(locks.clone(), hand_overs))
        }),
    ])
}

/// Two sessions with two followers, and two sessions of the wire client with the same followers.
fn handover(fixture: &Fixture) -> anyhow::Result<[Side<'_>; 2]> {
    const PARENT: &str = "/handover-raw";
    let servers = fixture.servers(2)?;
    let (locks, clients) = fixture.run("the preparation", async move {
        let clients = baseline::clients(servers.clone(), PARENT.to_owned()).await?;
        let locks = lock::handles(servers, "/handover".to_owned()).await?;
        Ok(([locks[0].clone(), locks[1].clone()], clients))
    })?;
    Ok([
        Box::new(move |hand_overs| {
            fixture.run("the hand-over", lock::hand_over(locks.clone(), hand_overs))
        }),
        Box::new(move |hand_overs| {
            let (holder, waiter) = (clients[0].clone(), clients[1].clone());
            fixture.run(
                "the bare notification",
                baseline::notify(holder, waiter, PARENT.to_owned(), hand_overs),
            )
        }),
    ])
}

/// Measures the lock next to its peers, with data on disk and then in memory, and writes `BENCHMARKS.md`.
fn next_to_peers(settings: Settings) -> anyhow::Result<()> {
    let in_memory: &[bool] = if settings.memory {
        &[true]
    } else {
        &[false, true]
    };
    let mut comparisons = Vec::new();
    for &memory in in_memory {
        let mut settings = settings;
        settings.memory = memory;
        println!("data {}", if memory { "in memory" } else { "on disk" });
        let fixture = Fixture::new(settings)?;
        comparisons.push(comparison::run(&fixture, settings)?);
        fixture.down()?;
    }
    let section = report::section(&settings.command(NAME), &comparisons);
    publish(settings, NAME, &section)
}

const NAME: &str = "lock";

/// The numbers of contending sessions.
const CONTENDERS: [usize; 3] = [1, 5, 20];

/// The numbers of sessions that contend for the lock without a queue.
const RACERS: [usize; 3] = [2, 20, 100];
