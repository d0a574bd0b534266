//! The references: the minimum requests for the same work, sent with the wire client.
//!
//! They have no retries, deadlines or clean-up. A broken session ends the round.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tokio::task::JoinSet;
use zookeeper_client::{
    Acls, Client, CreateMode, EventType, LockOptions, LockPrefix, OneshotWatcher, OwnedLockClient,
    WatchedEvent,
};

use crate::cpu::cpu_time;
use crate::fixture::SESSION_TIMEOUT;
use crate::handover_probe::HandoverProbe;
use crate::lock::MeasuredLock;
use crate::round::{Latencies, Round, joined};

/// Opens a session with one server.
///
/// # Errors
///
/// Those of the client.
pub async fn connect(server: &str) -> anyhow::Result<Client> {
    Client::connector()
        .with_session_timeout(SESSION_TIMEOUT)
        .connect(server)
        .await
        .with_context(|| format!("cannot open a session with {server}"))
}

/// Opens a session with each server, and creates the node `parent` and its missing parents.
///
/// # Errors
///
/// Those of the client.
pub async fn clients(servers: Vec<String>, parent: String) -> anyhow::Result<Vec<Client>> {
    let mut clients = Vec::with_capacity(servers.len());
    for server in servers {
        clients.push(connect(&server).await?);
    }
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let made = clients[0].mkdir(&parent, &options).await;
    made.with_context(|| format!("cannot create {parent}"))?;
    Ok(clients)
}

/// Creates and deletes an ephemeral sequential node below `parent`, `operations` times in sequence.
///
/// # Errors
///
/// Those of the client.
pub async fn create_delete(
    client: Client,
    parent: String,
    operations: u64,
) -> anyhow::Result<Round> {
    let prefix = format!("{parent}/{STEM}");
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let mut latencies = Latencies::default();
    let (started, cpu) = (Instant::now(), cpu_time());
    for _ in 0..operations {
        let begun = Instant::now();
        let (_, sequence) = client.create(&prefix, b"", &options).await?;
        client.delete(&format!("{prefix}{sequence}"), None).await?;
        latencies.record(begun.elapsed());
    }
    let round = Round::new(started.elapsed(), latencies).of(operations);
    Ok(round.with_cpu_since(cpu, operations))
}

/// The lock of the client crate, on one session.
///
/// It has no token, and releases in the background: a latency covers an acquire and the previous release.
#[derive(Clone, Debug)]
pub struct ClientsOwnLock {
    client: Client,
    path: String,
}

impl ClientsOwnLock {
    /// Creates a handle to the lock at `path`.
    pub fn new(client: Client, path: &str) -> Self {
        Self {
            client,
            path: path.to_owned(),
        }
    }
}

impl MeasuredLock for ClientsOwnLock {
    type Guard = OwnedLockClient;

    async fn acquire(&self) -> anyhow::Result<(OwnedLockClient, Option<u64>)> {
        let prefix = LockPrefix::new_curator(&self.path, "lock-")?;
        let parents = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let options = LockOptions::new(Acls::anyone_all()).with_ancestor_options(parents)?;
        let held = self.client.lock(prefix, b"", options).await;
        let held = held.context("cannot acquire the client's own lock")?;
        Ok((held.into_owned(), None))
    }

    async fn release(guard: OwnedLockClient) -> anyhow::Result<()> {
        drop(guard);
        Ok(())
    }
}

/// Passes a turn along a queue of nodes that are created and watched in advance.
///
/// Node *i* belongs to session *i* mod *n*, which watches node *i*−1 and deletes its own as soon as it is notified that
/// the other is gone. A latency is the time from one deletion until the next session is notified.
///
/// # Errors
///
/// Those of the client; also if an event is not a deletion.
pub async fn premade_chain(
    clients: Vec<Client>,
    parent: String,
    hand_overs: u64,
) -> anyhow::Result<Round> {
    let warm_up = HandoverProbe::warm_up(clients.len());
    let nodes: Vec<String> = (0..=warm_up + hand_overs)
        .map(|number| format!("{parent}/{STEM}{number:010}"))
        .collect();
    premake(&clients, &nodes).await?;
    let mut links = watch_predecessors(&clients, &nodes).await?;

    let cpu = cpu_time();
    let probe = Arc::new(HandoverProbe::new(warm_up, hand_overs));
    let mut tasks = JoinSet::new();
    let first = clients[0].clone();
    for (holder, client) in clients.into_iter().enumerate() {
        let links = std::mem::take(&mut links[holder]);
        let probe = Arc::clone(&probe);
        tasks.spawn(pass_on(client, holder, links, probe));
    }
    probe.acquired(0, 1)?;
    probe.begin_release(0)?;
    first.delete(&nodes[0], None).await?;
    let latencies = joined(tasks).await?;
    // `Round::of` is not called: the requests that prepare the chain are no part of a hand-over.
    let round = Round::new(probe.elapsed(), latencies);
    Ok(round.with_cpu_since(cpu, probe.acquisitions()))
}

/// One position in the chain: the watch on the predecessor, the session's own node, and the number of that node.
struct Link {
    predecessor: OneshotWatcher,
    own: String,
    number: u64,
}

async fn premake(clients: &[Client], nodes: &[String]) -> anyhow::Result<()> {
    let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    for batch in nodes.chunks(BATCH).enumerate() {
        let (before, nodes) = (batch.0 * BATCH, batch.1);
        // A request is sent when its future is created, not when it is awaited.
        let requests: Vec<_> = nodes
            .iter()
            .enumerate()
            .map(|(at, node)| clients[(before + at) % clients.len()].create(node, b"", &options))
            .collect();
        for request in requests {
            request.await.context("cannot create the chain")?;
        }
    }
    Ok(())
}

async fn watch_predecessors(
    clients: &[Client],
    nodes: &[String],
) -> anyhow::Result<Vec<Vec<Link>>> {
    for client in clients {
        // Its server may not have applied the creates of the other sessions.
        client.sync(&nodes[0]).await?;
    }
    let mut links: Vec<Vec<Link>> = clients.iter().map(|_| Vec::new()).collect();
    let pairs: Vec<&[String]> = nodes.windows(2).collect();
    let mut number = 0;
    for batch in pairs.chunks(BATCH) {
        let requests: Vec<_> = batch
            .iter()
            .map(|pair| {
                number += 1;
                let client = &clients[number % clients.len()];
                (number, &pair[1], client.check_and_watch_stat(&pair[0]))
            })
            .collect();
        for (number, own, request) in requests {
            let (stat, predecessor) = request.await.context("cannot watch the chain")?;
            ensure!(stat.is_some(), "the node before {own} does not exist");
            links[number % clients.len()].push(Link {
                predecessor,
                own: own.clone(),
                number: number as u64,
            });
        }
    }
    Ok(links)
}

/// Runs one session of the chain.
async fn pass_on(
    client: Client,
    holder: usize,
    links: Vec<Link>,
    probe: Arc<HandoverProbe>,
) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::default();
    let mut deletions = Vec::with_capacity(links.len());
    for link in links {
        let event = link.predecessor.changed().await;
        let took = probe.acquired(holder, link.number + 1)?;
        ensure_deleted(&event, &link.own)?;
        if let Some(took) = took {
            latencies.record(took);
        }
        probe.begin_release(holder)?;
        deletions.push(client.delete(&link.own, None));
    }
    for deletion in deletions {
        deletion
            .await
            .context("cannot delete a node of the chain")?;
    }
    Ok(latencies)
}

/// Deletes a node that another session watches, `hand_overs` times.
///
/// A latency is the time from the deletion until the other session is notified.
///
/// # Errors
///
/// Those of the client; also if an event is not a deletion.
pub async fn notify(
    holder: Client,
    waiter: Client,
    parent: String,
    hand_overs: u64,
) -> anyhow::Result<Round> {
    let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    let node = format!("{parent}/{STEM}0000000000");
    let mut latencies = Latencies::default();
    let mut elapsed = Duration::ZERO;
    for _ in 0..hand_overs {
        holder.create(&node, b"", &options).await?;
        waiter.sync(&node).await?;
        let (stat, watch) = waiter.check_and_watch_stat(&node).await?;
        ensure!(stat.is_some(), "{node} does not exist");
        // The waiter runs in its own task, as the waiter of a lock does.
        let notified = tokio::spawn(async move { (watch.changed().await, Instant::now()) });
        let begun = Instant::now();
        let deletion = holder.delete(&node, None);
        let (event, at) = notified.await?;
        ensure_deleted(&event, &node)?;
        let took = at.saturating_duration_since(begun);
        latencies.record(took);
        elapsed += took;
        deletion.await?;
    }
    Ok(Round::new(elapsed, latencies))
}

pub(crate) fn ensure_deleted(event: &WatchedEvent, before: &str) -> anyhow::Result<()> {
    ensure!(
        event.event_type == EventType::NodeDeleted,
        "the node before {before} was not deleted: {event:?}"
    );
    Ok(())
}

/// The prefix of the lock's node names, so that the requests have the same size.
pub(crate) const STEM: &str = "_c_01234567-89ab-cdef-0123-456789abcdef-lock-";

/// The number of requests in flight while a round is prepared.
const BATCH: usize = 256;
