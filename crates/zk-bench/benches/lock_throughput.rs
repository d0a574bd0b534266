//! How fast the lock is: alone, contended, and in the hand-over itself.

#![expect(
    clippy::print_stdout,
    reason = "a program that talks to a person in a terminal"
)]

use std::io;
use std::io::IsTerminal as _;

use zk_bench::Contest;
use zk_bench::Facts;
use zk_bench::Record;
use zk_bench::Settings;
use zk_bench::Side;
use zk_bench::Stage;
use zk_bench::table;
use zk_bench::wire;

fn main() -> anyhow::Result<()> {
    let settings = Settings::from_env()?;
    let load = Facts::load();
    let stage = Stage::new(settings)?;
    let mut contest = Contest::new(&stage, settings);

    contest.pair(
        "uncontended",
        "acquire + release",
        ["raw", "raw2"],
        uncontended,
    );
    for sessions in CONTENDERS {
        let group = format!("contention/{sessions}");
        contest.pair(&group, "hand-overs", ["chain", "chain2"], |stage| {
            contention(stage, sessions)
        });
    }
    contest.pair("handover", "hand-overs", ["notify", "notify2"], handover);

    let standings = contest.finish();
    if let (Some(ensemble), false) = (stage.started(), standings.is_empty()) {
        let facts = Facts::of(ensemble, load);
        println!("\n{:<12} {}", "command", settings.command(NAME));
        for (name, fact) in facts.lines() {
            println!("{name:<12} {fact}");
        }
        println!("\n{}\n", table(&standings, io::stdout().is_terminal()));
        let path = Record::new(NAME, settings.command(NAME), facts, standings).write()?;
        println!("written to {}", path.display());
    }
    stage.down()
}
fn uncontended(stage: &Stage) -> anyhow::Result<[Side<'_>; 2]> {
    let make = |parent: &'static str| -> anyhow::Result<Side<'_>> {
        let server = stage.servers(1)?.remove(0);
        let client = stage.run("the preparation", async move {
            let client = wire::connect(&server).await?;
            wire::make_parent(&client, parent).await?;
            Ok(client)
        })?;
        Ok(Box::new(move |operations| {
            stage.run(
                "create and delete",
                wire::create_delete(client.clone(), parent.to_owned(), operations),
            )
        }))
    };
    Ok([make("/raw")?, make("/raw2")?])
}

fn contention(stage: &Stage, sessions: usize) -> anyhow::Result<[Side<'_>; 2]> {
    let make = |name: &'static str| -> anyhow::Result<Side<'_>> {
        let servers = stage.servers(sessions)?;
        let parent = format!("/{name}-{sessions}");
        let top = parent.clone();
        let clients = stage.run("the preparation", async move {
            let mut clients = Vec::new();
            for server in servers {
                clients.push(wire::connect(&server).await?);
            }
            wire::make_parent(&clients[0], &top).await?;
            Ok(clients)
        })?;
        Ok(Box::new(move |operations| {
            stage.run(
                "the bare chain",
                wire::chain(clients.clone(), parent.clone(), operations),
            )
        }))
    };
    Ok([make("chain")?, make("chain2")?])
}

fn handover(stage: &Stage) -> anyhow::Result<[Side<'_>; 2]> {
    let make = |parent: &'static str| -> anyhow::Result<Side<'_>> {
        let servers = stage.servers(2)?;
        let (holder, waiter) = stage.run("the preparation", async move {
            let holder = wire::connect(&servers[0]).await?;
            wire::make_parent(&holder, parent).await?;
            Ok((holder, wire::connect(&servers[1]).await?))
        })?;
        Ok(Box::new(move |operations| {
            stage.run(
                "the bare notification",
                wire::notify(
                    holder.clone(),
                    waiter.clone(),
                    parent.to_owned(),
                    operations,
                ),
            )
        }))
    };
    Ok([make("/notify")?, make("/notify2")?])
}

const NAME: &str = "lock";

/// How many sessions want the lock at once.
const CONTENDERS: [usize; 3] = [1, 5, 20];
