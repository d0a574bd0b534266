//! The references: the least that the same work needs, on the wire client itself.
//!
//! There is no retry, no deadline and no clean-up here. A session that breaks ends the round.

use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::ensure;
use tokio::task::JoinSet;
use zookeeper_client::Acls;
use zookeeper_client::Client;
use zookeeper_client::CreateMode;
use zookeeper_client::EventType;
use zookeeper_client::LockClient;
use zookeeper_client::LockOptions;
use zookeeper_client::LockPrefix;
use zookeeper_client::OneshotWatcher;
use zookeeper_client::WatchedEvent;

use crate::baton::Baton;
use crate::round::Latencies;
use crate::round::Round;
use crate::round::joined;

/// Opens a session with one server.
///
/// # Errors
///
/// Those of the client.
///
/// # Cancel safety
///
/// A session may be left that the server expires.
pub async fn connect(server: &str) -> anyhow::Result<Client> {
    Client::connector()
        .with_session_timeout(SESSION_TIMEOUT)
        .connect(server)
        .await
        .with_context(|| format!("cannot open a session with {server}"))
}

/// Makes a persistent node, for the others to be below.
///
/// # Errors
///
/// Those of the client.
///
/// # Cancel safety
///
/// The node may be made or not.
pub async fn make_parent(client: &Client, parent: &str) -> anyhow::Result<()> {
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client
        .create(parent, b"", &options)
        .await
        .with_context(|| format!("cannot create {parent}"))?;
    Ok(())
}

/// Makes a persistent node and those above it, where they are missing.
///
/// # Errors
///
/// Those of the client.
///
/// # Cancel safety
///
/// Some of the nodes may be made.
pub async fn make_parents(client: &Client, path: &str) -> anyhow::Result<()> {
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client
        .mkdir(path, &options)
        .await
        .with_context(|| format!("cannot create {path}"))
}

/// Creates and deletes an ephemeral sequential node below `parent`, so often, one after the other.
///
/// # Errors
///
/// Those of the client.
///
/// # Cancel safety
///
/// The last node may be left.
pub async fn create_delete(
    client: Client,
    parent: String,
    operations: u64,
) -> anyhow::Result<Round> {
    let prefix = format!("{parent}/{STEM}");
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let mut latencies = Latencies::default();
    let started = Instant::now();
    for _ in 0..operations {
        let begun = Instant::now();
        let (_, sequence) = client.create(&prefix, b"", &options).await?;
        client.delete(&format!("{prefix}{sequence}"), None).await?;
        latencies.record(begun.elapsed());
    }
    Ok(Round::new(started.elapsed(), latencies).of(operations))
}

/// Acquires and releases the lock that the client crate brings with it, so often, one after the other.
///
/// It releases in the background, so that a latency is that of the acquire, and of a release that is still on its way.
///
/// # Errors
///
/// Those of the client.
///
/// # Cancel safety
///
/// A node may be left until its session ends.
pub async fn acquire_release(
    client: Client,
    path: String,
    operations: u64,
) -> anyhow::Result<Round> {
    let mut latencies = Latencies::default();
    let started = Instant::now();
    for _ in 0..operations {
        let begun = Instant::now();
        drop(acquire(&client, &path).await?);
        latencies.record(begun.elapsed());
    }
    Ok(Round::new(started.elapsed(), latencies).of(operations))
}

/// Has all of them acquire and release the lock that the client crate brings with it, as
/// [`lock::contend`](crate::lock::contend) does with ours.
///
/// # Errors
///
/// Those of the client, and that two held it at once.
///
/// # Cancel safety
///
/// Nodes may be left until their sessions end.
pub async fn contend(clients: Vec<Client>, path: String, hand_overs: u64) -> anyhow::Result<Round> {
    let baton = Arc::new(Baton::new(Baton::warm_up(clients.len()), hand_overs));
    let mut tasks = JoinSet::new();
    for (holder, client) in clients.into_iter().enumerate() {
        let (baton, path) = (Arc::clone(&baton), path.clone());
        tasks.spawn(async move {
            let mut latencies = Latencies::default();
            while !baton.is_done() {
                let held = acquire(&client, &path).await?;
                // It has no token: the number of takes will do.
                if let Some(took) = baton.take(holder, baton.takes() + 1)? {
                    latencies.record(took);
                }
                baton.let_go(holder)?;
                drop(held);
            }
            anyhow::Ok(latencies)
        });
    }
    let latencies = joined(tasks).await?;
    Ok(Round::new(baton.elapsed(), latencies).of(baton.takes()))
}

async fn acquire<'a>(client: &'a Client, path: &str) -> anyhow::Result<LockClient<'a>> {
    let prefix = LockPrefix::new_curator(path, "lock-")?;
    let parents = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let options = LockOptions::new(Acls::anyone_all()).with_ancestor_options(parents)?;
    let held = client.lock(prefix, b"", options).await;
    held.context("cannot acquire the client's own lock")
}

/// Passes a baton along a queue of nodes that are made and watched beforehand.
///
/// Node *i* belongs to session *i* mod *n*, which watches node *i*−1 and deletes its own as soon as it is told that the
/// other is gone. A latency is that from one deletion until the next session is told of it.
///
/// # Errors
///
/// Those of the client, and events that are no deletions.
///
/// # Cancel safety
///
/// The queue is left until its sessions end.
pub async fn chain(clients: Vec<Client>, parent: String, hand_overs: u64) -> anyhow::Result<Round> {
    let warm_up = Baton::warm_up(clients.len());
    let nodes: Vec<String> = (0..=warm_up + hand_overs)
        .map(|number| format!("{parent}/{STEM}{number:010}"))
        .collect();
    premake(&clients, &nodes).await?;
    let mut links = watch_predecessors(&clients, &nodes).await?;

    let baton = Arc::new(Baton::new(warm_up, hand_overs));
    let mut tasks = JoinSet::new();
    let first = clients[0].clone();
    for (holder, client) in clients.into_iter().enumerate() {
        let links = std::mem::take(&mut links[holder]);
        let baton = Arc::clone(&baton);
        tasks.spawn(pass_on(client, holder, links, baton));
    }
    baton.take(0, 1)?;
    baton.let_go(0)?;
    first.delete(&nodes[0], None).await?;
    let latencies = joined(tasks).await?;
    Ok(Round::new(baton.elapsed(), latencies))
}

/// One place of a session in the chain: its predecessor's watch, its own node, and the number of that node.
struct Link {
    predecessor: OneshotWatcher,
    own: String,
    number: u64,
}

async fn premake(clients: &[Client], nodes: &[String]) -> anyhow::Result<()> {
    let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    for batch in nodes.chunks(BATCH).enumerate() {
        let (before, nodes) = (batch.0 * BATCH, batch.1);
        // Requests leave when they are made, not when they are awaited.
        let requests: Vec<_> = nodes
            .iter()
            .enumerate()
            .map(|(at, node)| clients[(before + at) % clients.len()].create(node, b"", &options))
            .collect();
        for request in requests {
            request.await.context("cannot make the chain")?;
        }
    }
    Ok(())
}

async fn watch_predecessors(
    clients: &[Client],
    nodes: &[String],
) -> anyhow::Result<Vec<Vec<Link>>> {
    for client in clients {
        // Its server may not have seen the nodes that others made.
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
            ensure!(stat.is_some(), "the node before {own} is not there");
            links[number % clients.len()].push(Link {
                predecessor,
                own: own.clone(),
                number: number as u64,
            });
        }
    }
    Ok(links)
}

/// What one session does in the chain.
async fn pass_on(
    client: Client,
    holder: usize,
    links: Vec<Link>,
    baton: Arc<Baton>,
) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::default();
    let mut deletions = Vec::with_capacity(links.len());
    for link in links {
        let event = link.predecessor.changed().await;
        let took = baton.take(holder, link.number + 1)?;
        ensure_deleted(&event, &link.own)?;
        if let Some(took) = took {
            latencies.record(took);
        }
        baton.let_go(holder)?;
        deletions.push(client.delete(&link.own, None));
    }
    for deletion in deletions {
        deletion
            .await
            .context("cannot delete a node of the chain")?;
    }
    Ok(latencies)
}

/// Deletes a node that another session watches, so often; a latency is that from the deletion until the other session
/// is told of it.
///
/// # Errors
///
/// Those of the client, and events that are no deletions.
///
/// # Cancel safety
///
/// The last node may be left until its session ends.
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
        ensure!(stat.is_some(), "{node} is not there");
        // The waiter is a task of its own, as that of a lock is.
        let told = tokio::spawn(async move { (watch.changed().await, Instant::now()) });
        let begun = Instant::now();
        let deletion = holder.delete(&node, None);
        let (event, at) = told.await?;
        ensure_deleted(&event, &node)?;
        let took = at.saturating_duration_since(begun);
        latencies.record(took);
        elapsed += took;
        deletion.await?;
    }
    Ok(Round::new(elapsed, latencies))
}

fn ensure_deleted(event: &WatchedEvent, before: &str) -> anyhow::Result<()> {
    ensure!(
        event.event_type == EventType::NodeDeleted,
        "expected the deletion of the node before {before}, but saw {event:?}"
    );
    Ok(())
}

/// What names of the lock begin with, so that requests are of the same size.
const STEM: &str = "_c_01234567-89ab-cdef-0123-456789abcdef-lock-";

/// How many requests are on their way at once while a round is prepared.
const BATCH: usize = 256;

/// That of all sessions, ours and the references'.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(30);
