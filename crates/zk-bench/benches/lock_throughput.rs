//! How fast the lock is: alone, contended, in the hand-over itself, and next to its peers.

#![expect(
    clippy::print_stdout,
    reason = "a program that talks to a person in a terminal"
)]

use std::io;
use std::io::IsTerminal as _;
use std::path::Path;

use zk_bench::Contest;
use zk_bench::Facts;
use zk_bench::Record;
use zk_bench::Settings;
use zk_bench::Side;
use zk_bench::Stage;
use zk_bench::Standing;
use zk_bench::WorkMeter;
use zk_bench::lock;
use zk_bench::race;
use zk_bench::report;
use zk_bench::table;
use zk_bench::unfair;
use zk_bench::wire;

fn main() -> anyhow::Result<()> {
    let settings = Settings::from_env()?;
    if settings.peers && !settings.smoke {
        return next_to_peers(settings);
    }
    let meter = WorkMeter::begin();
    let stage = Stage::new(settings)?;
    let mut contest = Contest::new(&stage, settings);
    contest.pair(
        "uncontended",
        "acquire + release",
        ["lock", "create+delete"],
        uncontended,
    );
    for sessions in CONTENDERS {
        contest.pair(
            &format!("contention/{sessions}"),
            "hand-overs",
            ["lock", "chain"],
            |stage| contention(stage, sessions),
        );
    }
    contest.pair("handover", "hand-overs", ["lock", "notify"], handover);
    for sessions in RACERS {
        contest.pair(
            &format!("race/{sessions}"),
            "hand-overs",
            ["race", "fair"],
            |stage| without_a_queue(stage, sessions),
        );
    }
    let standings = contest.finish();
    if !standings.is_empty() {
        report(&stage, settings, &meter, standings)?;
    }
    stage.down()
}

fn report(
    stage: &Stage,
    settings: Settings,
    meter: &WorkMeter,
    standings: Vec<Standing>,
) -> anyhow::Result<()> {
    let facts = Facts::of(stage.ensemble()?, meter);
    println!("\n{:<12} {}", "command", settings.command(NAME));
    for (name, fact) in facts.lines() {
        println!("{name:<12} {fact}");
    }
    println!("\n{}\n", table(&standings, io::stdout().is_terminal()));
    if facts.other_work.is_too_much() {
        println!("The machine had other work while this ran: these figures are not to be kept.\n");
    }
    let path = Record::new(NAME, settings.command(NAME), facts, standings).write()?;
    println!("written to {}", path.display());
    Ok(())
}

/// One session, and one of the wire client with the same server.
fn uncontended(stage: &Stage) -> anyhow::Result<[Side<'_>; 2]> {
    const PARENT: &str = "/uncontended-raw";
    let servers = stage.servers(1)?;
    let (lock, client) = stage.run("the preparation", async move {
        let client = wire::connect(&servers[0]).await?;
        wire::make_parent(&client, PARENT).await?;
        let lock = lock::handles(servers, "/uncontended".to_owned()).await?;
        Ok((lock[0].clone(), client))
    })?;
    Ok([
        Box::new(move |operations| {
            stage.run(
                "acquire and release",
                lock::acquire_release(lock.clone(), operations),
            )
        }),
        Box::new(move |operations| {
            stage.run(
                "create and delete",
                wire::create_delete(client.clone(), PARENT.to_owned(), operations),
            )
        }),
    ])
}

/// So many sessions, and as many of the wire client with the same servers.
fn contention(stage: &Stage, sessions: usize) -> anyhow::Result<[Side<'_>; 2]> {
    let servers = stage.servers(sessions)?;
    let path = format!("/contention-{sessions}");
    let parent = format!("{path}-chain");
    let top = parent.clone();
    let (locks, clients) = stage.run("the preparation", async move {
        let mut clients = Vec::with_capacity(servers.len());
        for server in &servers {
            clients.push(wire::connect(server).await?);
        }
        wire::make_parent(&clients[0], &top).await?;
        Ok((lock::handles(servers, path).await?, clients))
    })?;
    Ok([
        Box::new(move |hand_overs| {
            stage.run("the contention", lock::contend(locks.clone(), hand_overs))
        }),
        Box::new(move |hand_overs| {
            stage.run(
                "the bare chain",
                wire::chain(clients.clone(), parent.clone(), hand_overs),
            )
        }),
    ])
}

/// So many sessions, which contend for the lock without a queue, and then for the fair one.
fn without_a_queue(stage: &Stage, sessions: usize) -> anyhow::Result<[Side<'_>; 2]> {
    let servers = stage.servers(sessions)?;
    let path = format!("/race-{sessions}");
    let (races, locks) = stage.run("the preparation", async move {
        let locks = lock::handles(servers, format!("{path}-fair")).await?;
        Ok((unfair::handles(&locks, &path)?, locks))
    })?;
    Ok([
        Box::new(move |hand_overs| {
            stage.run("the race", unfair::contend(races.clone(), hand_overs))
        }),
        Box::new(move |hand_overs| {
            stage.run("the contention", lock::contend(locks.clone(), hand_overs))
        }),
    ])
}

/// Two sessions with two followers, and two of the wire client with the same ones.
fn handover(stage: &Stage) -> anyhow::Result<[Side<'_>; 2]> {
    const PARENT: &str = "/handover-raw";
    let servers = stage.servers(2)?;
    let (locks, holder, waiter) = stage.run("the preparation", async move {
        let holder = wire::connect(&servers[0]).await?;
        let waiter = wire::connect(&servers[1]).await?;
        wire::make_parent(&holder, PARENT).await?;
        let locks = lock::handles(servers, "/handover".to_owned()).await?;
        Ok(([locks[0].clone(), locks[1].clone()], holder, waiter))
    })?;
    Ok([
        Box::new(move |hand_overs| {
            stage.run("the hand-over", lock::hand_over(locks.clone(), hand_overs))
        }),
        Box::new(move |hand_overs| {
            let (holder, waiter) = (holder.clone(), waiter.clone());
            stage.run(
                "the bare notification",
                wire::notify(holder, waiter, PARENT.to_owned(), hand_overs),
            )
        }),
    ])
}

/// Everything next to the peers, with the data on disk and then in memory, and `BENCHMARKS.md` written anew.
fn next_to_peers(settings: Settings) -> anyhow::Result<()> {
    let places: &[bool] = if settings.memory {
        &[true]
    } else {
        &[false, true]
    };
    let mut races = Vec::new();
    for &memory in places {
        let mut settings = settings;
        settings.memory = memory;
        println!("data {}", if memory { "in memory" } else { "on disk" });
        let stage = Stage::new(settings)?;
        races.push(race::race(&stage, settings)?);
        stage.down()?;
    }
    let command = settings.command(NAME);
    println!("\n{}", report::section(&command, &races));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    report::write(&root, &command, &races)?;
    println!("written to BENCHMARKS.md and docs/bench/lock.svg");
    Ok(())
}

const NAME: &str = "lock";

/// How many sessions want the lock at once.
const CONTENDERS: [usize; 3] = [1, 5, 20];

/// How many sessions race at once.
const RACERS: [usize; 3] = [2, 20, 100];
