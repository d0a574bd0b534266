//! Runs the process with an ensemble's fault proxies and links, and the commands that change the network.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use zk_fault_proxy::{Clients, Close, Route};
use zk_harness::{Ensemble, Selector, Server};

use crate::network_state::{Cut, Files, Network, POLL_EVERY};
use crate::output::print;
use crate::store::Store;
use crate::undo::Undo;

/// Starts the process, unless it runs, and waits until it has applied the requested state; returns whether it was
/// started.
///
/// With `whole` it removes earlier partitions and delays, because servers may not be able to start with them.
pub(crate) async fn ensure(store: &Store, name: &str, whole: bool) -> anyhow::Result<bool> {
    let ensemble = store.open(name)?;
    if !ensemble.has_proxies() {
        return Ok(false);
    }
    let files = Files::new(ensemble.directory());
    let runs = files.lock()?.is_none();
    let mut network = files.requested()?;
    let heals = whole && network.describe().is_some();
    if runs && !heals {
        return Ok(false);
    }
    if heals {
        network.heal();
    }
    network.generation += 1;
    files.request(&network)?;
    if runs {
        files.until_applied(network.generation).await?;
        return Ok(false);
    }
    let log = files.log();
    let log = File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    Command::new(program)
        .arg("--dir")
        .arg(store.root())
        .args(["--name", name, "proxies"])
        // `down` finds the process by this argument.
        .arg(ensemble.marker("proxies"))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        // Ctrl-C in the terminal must not end it.
        .process_group(0)
        .spawn()
        .context("cannot start the process of the fault proxies")?;
    files.until_applied(network.generation).await?;
    Ok(true)
}

/// Returns whether the proxies accept connections. Trying the lock instead could prevent a starting process from taking it.
pub(crate) fn are_reachable(ensemble: &Ensemble) -> bool {
    let string = ensemble.connect_string();
    let mut addresses = string.split(',').filter_map(|text| text.parse().ok());
    addresses.all(|address| TcpStream::connect_timeout(&address, CONNECT_WITHIN).is_ok())
}

/// Runs the proxies until the ensemble's files are removed, or the process is killed with the servers.
pub(crate) async fn serve(store: &Store, name: &str) -> anyhow::Result<ExitCode> {
    let mut ensemble = store.open(name)?;
    let files = Files::new(ensemble.directory());
    let Some(_lock) = files.lock()? else {
        return Ok(ExitCode::SUCCESS);
    };
    ensemble.start_proxies()?;
    let mut made: Option<Network> = None;
    let mut polls = tokio::time::interval(POLL_EVERY);
    while Ensemble::exists(ensemble.directory()) {
        polls.tick().await;
        let wanted = files.requested()?;
        if made.as_ref() != Some(&wanted) {
            let cuts = made.map_or_else(|| wanted.cuts.clone(), |made| made.cuts);
            make(&ensemble, &wanted, &cuts).await?;
            files.set_applied(&wanted)?;
            made = Some(wanted);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Applies the requested state; `cut` has the numbers of cuts that were already made.
async fn make(
    ensemble: &Ensemble,
    wanted: &Network,
    cut: &BTreeMap<u32, u64>,
) -> anyhow::Result<()> {
    if let Ok(links) = ensemble.links() {
        let ids = || ensemble.servers().iter().map(Server::id);
        for (from, to) in ids().flat_map(|from| ids().map(move |to| (from, to))) {
            // A link changes directly from its old to its new state, so that a blocked one stays blocked meanwhile.
            links.one_way(from, to)?.set(wanted.conditions(from, to));
        }
    }
    let proxy = ensemble.proxy()?;
    for server in ensemble.servers().iter().map(Server::id) {
        let route = if wanted.unreachable.contains(&server) {
            Route::Refuse
        } else {
            Route::SameServer
        };
        proxy.route(Clients::At(server), route)?;
        if wanted.cuts.get(&server) != cut.get(&server) {
            proxy.cut(Clients::At(server), Close::Rst).await;
        }
    }
    Ok(())
}

/// A change of the network.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    Partition(Cut),
    /// The delay and the jitter in milliseconds, and the limit in bytes per second.
    Slow(u64, u64, Option<u64>),
    Cut,
    Heal,
}

/// Changes the network around each selected server.
pub(crate) async fn change(
    store: &Store,
    name: &str,
    which: Selector,
    change: Change,
) -> anyhow::Result<ExitCode> {
    let (ensemble, _lock) = store.open_locked(name)?;
    anyhow::ensure!(
        !ensemble.is_in_containers(),
        "the servers of the ensemble {name} run in containers, which have no fault proxies; take it down, and start it with `up --backend processes --proxied`"
    );
    anyhow::ensure!(
        ensemble.has_proxies(),
        "the ensemble {name} has no fault proxies; take it down, and start it with `up --proxied`"
    );
    let files = Files::new(ensemble.directory());
    anyhow::ensure!(
        files.lock()?.is_none(),
        "the process of the fault proxies has ended; `up` starts it again; its log is {}",
        files.log().display()
    );
    let mut network = files.requested()?;
    let mut text = String::new();
    let ids: Vec<u32> = ensemble.servers().iter().map(Server::id).collect();
    let is_between_servers = match change {
        Change::Partition(cut) => cut != Cut::Isolated,
        Change::Slow(..) => true,
        Change::Cut | Change::Heal => false,
    };
    anyhow::ensure!(
        ids.len() > 1 || !is_between_servers,
        "the ensemble {name} has one server and no links; `partition` and `cut` disconnect its clients"
    );
    if let Change::Heal = change {
        network.heal();
        text.push_str("the network is whole\n");
    } else {
        for server in ensemble.select(which).await? {
            let id = server.id();
            let others: Vec<u32> = ids.iter().copied().filter(|other| *other != id).collect();
            let what = match change {
                Change::Partition(cut) => {
                    network.partition(id, &others, cut);
                    match cut {
                        Cut::Isolated => "is isolated",
                        Cut::Peers => "is cut off from the other servers",
                        Cut::Inbound => "does not hear the other servers",
                        Cut::Outbound => "is not heard by the other servers",
                    }
                }
                Change::Slow(delay, jitter, rate) => {
                    network.slow(id, &others, (delay, jitter, rate));
                    "and the other servers hear each other late"
                }
                Change::Cut => {
                    network.cut(id);
                    "has its clients' connections cut"
                }
                Change::Heal => continue,
            };
            writeln!(text, "server {id} {what}")?;
        }
    }
    network.generation += 1;
    files.request(&network)?;
    files.until_applied(network.generation).await?;
    let code = print(&text)?;
    if matches!(change, Change::Partition(_) | Change::Slow(..)) {
        Undo::new(store, name).print(&["heal"], &[]);
    }
    Ok(code)
}

const CONNECT_WITHIN: Duration = Duration::from_secs(1);
