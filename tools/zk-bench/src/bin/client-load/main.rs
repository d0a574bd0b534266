//! Loads a server with one client of ZooKeeper, and measures what that costs the client.
//!
//! ```text
//! client-load CLIENT SERVER
//! ```
//!
//! `CLIENT` is one of the names of `zk_bench::wire::ClientKind`. Each line of the standard input is a
//! `zk_bench::wire::Run`, and the answer is a line with a `zk_bench::wire::Load` as JSON. Each run has sessions of its own.
//! The program ends with its input.

#![expect(clippy::print_stdout, reason = "the answers to the runs")]
#![expect(clippy::print_stderr, reason = "a program that reports its failure")]

mod async_client;
mod blocking_socket;
mod closed_loop;
mod meter;

use std::alloc::System;
use std::io;
use std::process;

use anyhow::{Context as _, bail};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use zk_bench::wire::{ClientKind, Run, RuntimeKind};

/// Counts allocations.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let mut arg = |name: &str| args.next().with_context(|| format!("{name} is missing"));
    let client: ClientKind = arg("CLIENT")?.parse()?;
    let server = arg("SERVER")?;
    for line in io::stdin().lines() {
        let run: Run = line?.parse()?;
        let load = match client {
            ClientKind::BlockingSocket => blocking_socket::load(&server, run)?,
            ClientKind::ZkWire => {
                runtime(run)?.block_on(closed_loop::load::<zk_wire::Client>(&server, run))?
            }
            ClientKind::ZkCore => {
                runtime(run)?.block_on(closed_loop::load::<zk_core::Session>(&server, run))?
            }
            ClientKind::ZookeeperClient => runtime(run)?
                .block_on(closed_loop::load::<zookeeper_client::Client>(&server, run))?,
            ClientKind::Java => bail!("the Java client has a program of its own"),
        };
        println!("{}", serde_json::to_string(&load)?);
    }
    Ok(())
}

fn runtime(run: Run) -> io::Result<tokio::runtime::Runtime> {
    match run.workload.runtime {
        RuntimeKind::CurrentThread => tokio::runtime::Builder::new_current_thread(),
        RuntimeKind::MultiThread => tokio::runtime::Builder::new_multi_thread(),
    }
    .enable_all()
    .build()
}

/// Ends the process: the other loops of the run would wait for this one.
fn give_up(error: &anyhow::Error) -> ! {
    eprintln!("error: {error:#}");
    process::exit(1)
}
