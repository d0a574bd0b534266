//! The chain whose sessions create a new node for each turn: the minimum requests of a contended lock.

use std::sync::Arc;

use anyhow::Context as _;
use tokio::task::JoinSet;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions};

use crate::baseline::{STEM, ensure_deleted};
use crate::cpu::cpu_time;
use crate::handover_probe::HandoverProbe;
use crate::round::{Latencies, Round, joined};

/// Passes a turn along a queue of sequential nodes; each session creates its next node when it deletes its own.
///
/// As with a lock, a hand-over takes two writes: both are in flight together.
/// The watch on the predecessor is set as soon as a node is created, long before its turn if there are several
/// sessions.
/// Only sessions of the chain create nodes below `parent` meanwhile, so the predecessor of number *s* is number *s*−1,
/// and no session has to list the queue.
/// A latency is the time from one deletion until the next session is notified.
///
/// # Errors
///
/// Those of the client; also if two sessions had the turn at once, if the turns were not in the order of the nodes, or
/// if an event is not a deletion.
pub async fn recreating_chain(
    clients: Vec<Client>,
    parent: String,
    hand_overs: u64,
) -> anyhow::Result<Round> {
    let warm_up = HandoverProbe::warm_up(clients.len());
    let probe = Arc::new(HandoverProbe::new(warm_up, hand_overs));
    let cpu = cpu_time();
    let mut tasks = JoinSet::new();
    for (holder, client) in clients.into_iter().enumerate() {
        let prefix = format!("{parent}/{STEM}");
        tasks.spawn(take_turns(client, holder, prefix, Arc::clone(&probe)));
    }
    let latencies = joined(tasks).await?;
    let acquisitions = probe.acquisitions();
    let round = Round::new(probe.elapsed(), latencies).of(acquisitions);
    Ok(round.with_cpu_since(cpu, acquisitions))
}

/// Runs one session of the chain.
async fn take_turns(
    client: Client,
    holder: usize,
    prefix: String,
    probe: Arc<HandoverProbe>,
) -> anyhow::Result<Latencies> {
    let node = |number: i64| format!("{prefix}{number:010}");
    let create = || client.create(&prefix, b"", &OPTIONS);
    let mut latencies = Latencies::default();
    let (_, sequence) = create().await.context("cannot create a node")?;
    let mut number = sequence.into_i64();
    loop {
        let predecessor = node(number - 1);
        let (stat, deleted) = client.check_and_watch_stat(&predecessor).await?;
        // This server has created our node, so it has also created the preceding one: a missing one is deleted.
        let event = match stat {
            Some(_) => Some(deleted.changed().await),
            None => None,
        };
        let own = node(number);
        // A token is greater than zero, the first sequence number is not.
        let token = u64::try_from(number)? + 1;
        if let Some(event) = event {
            ensure_deleted(&event, &own)?;
        }
        if let Some(took) = probe.acquired(holder, token)? {
            latencies.record(took);
        }
        probe.begin_release(holder)?;
        // A request is sent when its future is created, not when it is awaited.
        let deletion = client.delete(&own, None);
        let creation = (!probe.is_done()).then(create);
        deletion.await.context("cannot delete a node")?;
        let Some(creation) = creation else {
            return Ok(latencies);
        };
        number = creation.await.context("cannot create a node")?.1.into_i64();
    }
}

const OPTIONS: CreateOptions<'static> =
    CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
