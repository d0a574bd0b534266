//! Loads a server with an asynchronous client: a task for each operation in flight, which begins the next one as soon as
//! the one before is done.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use zk_bench::wire::{Load, Operation, PARENT, Run, Workload};

use crate::async_client::AsyncClient;
use crate::give_up;
use crate::meter::Meter;

/// Opens the sessions of a run, runs and measures it, and closes them.
pub(crate) async fn load<C: AsyncClient>(server: &str, run: Run) -> anyhow::Result<Load> {
    let Workload {
        sessions,
        in_flight,
        ..
    } = run.workload;
    let clients: Vec<C> = stream::iter(0..sessions)
        .map(|_| C::connect(server))
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    let loops = sessions * in_flight;
    let barrier = Arc::new(Barrier::new(loops + 1));
    let mut tasks = JoinSet::new();
    for (number, client) in clients.iter().cycle().take(loops).enumerate() {
        let (client, barrier) = (client.clone(), Arc::clone(&barrier));
        tasks.spawn(async move {
            let requests = Requests::new(run.workload, number);
            requests.repeat(&client, run.warm_up, &mut Vec::new()).await;
            let mut latencies = Vec::with_capacity(SOME);
            // All are warm now; the meter starts before any of them goes on.
            barrier.wait().await;
            barrier.wait().await;
            requests.repeat(&client, run.measured, &mut latencies).await;
            latencies
        });
    }
    barrier.wait().await;
    let meter = Meter::start();
    barrier.wait().await;
    let latencies = tasks.join_all().await;
    let load = meter.stop(&latencies);
    for client in clients {
        client.close().await?;
    }
    Ok(load)
}

/// What one task repeats.
struct Requests {
    operation: Operation,
    /// The node that is read and written, and its data.
    value_path: String,
    value: Bytes,
    /// The node that is created and deleted.
    created_path: String,
}

impl Requests {
    fn new(workload: Workload, number: usize) -> Self {
        Self {
            operation: workload.operation,
            value_path: workload.value_path(),
            value: workload.value().into(),
            created_path: Workload::created_path(number),
        }
    }

    /// Repeats the operation for some time, at least once, and adds its latencies in nanoseconds.
    async fn repeat<C: AsyncClient>(&self, client: &C, time: Duration, latencies: &mut Vec<u64>) {
        let started = Instant::now();
        let mut begun = started;
        while begun == started || begun - started < time {
            if let Err(error) = self.perform(client).await {
                give_up(&error);
            }
            let now = Instant::now();
            let nanos = (now - begun).as_nanos();
            latencies.push(u64::try_from(nanos).unwrap_or(u64::MAX));
            begun = now;
        }
    }

    async fn perform<C: AsyncClient>(&self, client: &C) -> anyhow::Result<()> {
        match self.operation {
            Operation::Get => {
                let len = client.get(&self.value_path).await?;
                ensure!(len == self.value.len(), "a node has {len} bytes");
            }
            Operation::Set => client.set(&self.value_path, &self.value).await?,
            Operation::CreateDelete => {
                client.create(&self.created_path).await?;
                client.delete(&self.created_path).await?;
            }
            Operation::CreateListDelete => {
                let children = client.create_and_list(&self.created_path, PARENT).await?;
                ensure!(children > 0, "the list is empty");
                client.delete(&self.created_path).await?;
            }
        }
        Ok(())
    }
}

/// How many sessions are opened concurrently.
const AT_ONCE: usize = 20;
/// Room for the latencies of one task, so that it rarely has to grow.
const SOME: usize = 1024;
