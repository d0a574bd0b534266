//! Uses each recipe once, with two sessions, and with contention where it is about contention.
//!
//! Each uses nodes of its own, in an empty tree.

use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use zk_barrier::{Barrier, DoubleBarrier};
use zk_cache::TreeCache;
use zk_config::{Listener, PublishOptions, Publisher};
use zk_core::codec::Text;
use zk_core::{PersistentNode, PersistentNodeOptions, Session};
use zk_counter::{AtomicCounter, CounterOptions, SharedCount};
use zk_discovery::{Instance, Registry, RoundRobin};
use zk_group::Membership;
use zk_group::partitioner::{Partitioner, PartitionerOptions};
use zk_id::{BlockIds, SequenceIds, Snowflakes, WorkerIds, ZxidIds};
use zk_leader::{Breadcrumb, LeaderLatch, Selector};
use zk_lock::{
    CohortLock, FairLock, Lock, LockGuard, MultiLock, OneShotLease, OneShotLeaseOptions, RaceLock,
    ReentrantLock, RwLock, Semaphore,
};
use zk_queue::{Queue, WorkQueue};

/// One recipe.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "tests use these")]
pub struct Recipe {
    /// What it is called.
    pub name: &'static str,
    /// Whether it follows nodes, which it does with persistent watches where there are some.
    pub follows_nodes: bool,
    /// Uses it with two sessions.
    pub run: for<'a> fn(&'a Session, &'a Session) -> Running<'a>,
}

/// A recipe in use.
pub type Running<'a> = Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send + 'a>>;

/// All recipes.
pub const RECIPES: &[Recipe] = &[
    Recipe {
        name: "fair lock",
        follows_nodes: false,
        run: |one, other| Box::pin(fair_lock(one, other)),
    },
    Recipe {
        name: "read-write lock",
        follows_nodes: false,
        run: |one, other| Box::pin(rw_lock(one, other)),
    },
    Recipe {
        name: "re-entrant lock",
        follows_nodes: false,
        run: |one, other| Box::pin(reentrant_lock(one, other)),
    },
    Recipe {
        name: "cohort lock",
        follows_nodes: false,
        run: |one, other| Box::pin(cohort_lock(one, other)),
    },
    Recipe {
        name: "multi lock",
        follows_nodes: false,
        run: |one, other| Box::pin(multi_lock(one, other)),
    },
    Recipe {
        name: "semaphore",
        follows_nodes: false,
        run: |one, other| Box::pin(semaphore(one, other)),
    },
    Recipe {
        name: "race lock",
        follows_nodes: false,
        run: |one, other| Box::pin(race_lock(one, other)),
    },
    Recipe {
        name: "one-shot lease",
        follows_nodes: false,
        run: |one, other| Box::pin(one_shot_lease(one, other)),
    },
    Recipe {
        name: "leader latch and selector",
        follows_nodes: false,
        run: |one, other| Box::pin(leader(one, other)),
    },
    Recipe {
        name: "breadcrumb",
        follows_nodes: false,
        run: |one, other| Box::pin(breadcrumb(one, other)),
    },
    Recipe {
        name: "queue",
        follows_nodes: false,
        run: |one, other| Box::pin(queue(one, other)),
    },
    Recipe {
        name: "work queue",
        follows_nodes: false,
        run: |one, other| Box::pin(work_queue(one, other)),
    },
    Recipe {
        name: "ids from the servers",
        follows_nodes: false,
        run: |one, other| Box::pin(ids(one, other)),
    },
    Recipe {
        name: "snowflakes and worker numbers",
        follows_nodes: false,
        run: |one, other| Box::pin(snowflakes(one, other)),
    },
    Recipe {
        name: "tree cache",
        follows_nodes: true,
        run: |one, other| Box::pin(cache(one, other)),
    },
    Recipe {
        name: "configuration",
        follows_nodes: true,
        run: |one, other| Box::pin(configuration(one, other)),
    },
    Recipe {
        name: "discovery",
        follows_nodes: true,
        run: |one, other| Box::pin(discovery(one, other)),
    },
    Recipe {
        name: "counters",
        follows_nodes: true,
        run: |one, other| Box::pin(counters(one, other)),
    },
    Recipe {
        name: "barrier",
        follows_nodes: false,
        run: |one, other| Box::pin(barrier(one, other)),
    },
    Recipe {
        name: "double barrier",
        follows_nodes: false,
        run: |one, other| Box::pin(double_barrier(one, other)),
    },
    Recipe {
        name: "group",
        follows_nodes: true,
        run: |one, other| Box::pin(group(one, other)),
    },
    Recipe {
        name: "partitioner",
        follows_nodes: true,
        run: |one, other| Box::pin(partitioner(one, other)),
    },
    Recipe {
        name: "persistent node",
        follows_nodes: false,
        run: |one, other| Box::pin(persistent_node(one, other)),
    },
];

/// For what takes moments on an idle machine.
const SOON: Duration = Duration::from_secs(30);

async fn soon<T>(what: &str, wanted: impl Future<Output = T>) -> anyhow::Result<T> {
    let result = tokio::time::timeout(SOON, wanted).await;
    result.with_context(|| format!("waited {SOON:?} for this: {what}"))
}

/// Checks that a lock passes from its holder to a waiter.
async fn passes<L: Lock + Sync>(first: &L, second: &L) -> anyhow::Result<()> {
    let held = first.acquire().await?;
    ensure!(second.try_acquire().await?.is_none(), "it is held");
    let mut waiting = Box::pin(second.acquire());
    let early = tokio::time::timeout(Duration::from_millis(100), &mut waiting).await;
    ensure!(early.is_err(), "it is held");
    held.release().await?;
    let held = soon("the waiter is granted the lock", waiting).await??;
    held.release().await?;
    Ok(())
}

async fn fair_lock(one: &Session, other: &Session) -> anyhow::Result<()> {
    let path = "/fair/lock";
    let (first, second) = (FairLock::new(one, path)?, FairLock::new(other, path)?);
    passes(&first, &second).await?;
    let held = first.acquire().await?;
    let token = held.fencing_token();
    held.txn().create("/fair-result", "").commit().await?;
    held.release().await?;
    let held = second.acquire().await?;
    ensure!(held.fencing_token() > token);
    held.release().await?;
    Ok(())
}

async fn rw_lock(one: &Session, other: &Session) -> anyhow::Result<()> {
    let (first, second) = (RwLock::new(one, "/rw")?, RwLock::new(other, "/rw")?);
    let readers = [
        first.reader().acquire().await?,
        second.reader().acquire().await?,
    ];
    ensure!(
        first.writer().try_acquire().await?.is_none(),
        "there are readers"
    );
    for reader in readers {
        reader.release().await?;
    }
    passes(first.writer(), second.writer()).await?;
    Ok(())
}

async fn reentrant_lock(one: &Session, other: &Session) -> anyhow::Result<()> {
    let path = "/reentrant";
    let (first, second) = (
        ReentrantLock::new(one, path)?,
        ReentrantLock::new(other, path)?,
    );
    passes(&first, &second).await?;
    let held = first.acquire().await?;
    let again = first.acquire().await?;
    held.release().await?;
    ensure!(
        second.try_acquire().await?.is_none(),
        "it is held once more"
    );
    again.release().await?;
    Ok(())
}

async fn cohort_lock(one: &Session, other: &Session) -> anyhow::Result<()> {
    let path = "/cohort";
    let (first, second) = (CohortLock::new(one, path)?, CohortLock::new(other, path)?);
    passes(&first, &second).await?;
    // Within the process.
    passes(&first, &first.clone()).await?;
    Ok(())
}

async fn multi_lock(one: &Session, other: &Session) -> anyhow::Result<()> {
    let of = |session| {
        let [a, b] = ["/multi/a", "/multi/b"].map(|path| FairLock::new(session, path));
        anyhow::Ok(MultiLock::new([a?, b?])?)
    };
    let (first, second) = (of(one)?, of(other)?);
    let held = first.acquire().await?;
    ensure!(second.try_acquire().await?.is_none(), "both are held");
    held.release().await?;
    let held = soon("both are granted", second.acquire()).await??;
    held.release().await?;
    Ok(())
}

async fn semaphore(one: &Session, other: &Session) -> anyhow::Result<()> {
    let first = Semaphore::new(one, "/semaphore", 2)?;
    let second = Semaphore::new(other, "/semaphore", 2)?;
    let (a, b) = (first.acquire().await?, second.acquire().await?);
    ensure!(
        first.try_acquire().await?.is_none(),
        "both leases are taken"
    );
    b.release().await?;
    let c = soon("a lease is free", first.acquire()).await??;
    for lease in [a, c] {
        lease.release().await?;
    }
    Ok(())
}

async fn race_lock(one: &Session, other: &Session) -> anyhow::Result<()> {
    let (first, second) = (RaceLock::new(one, "/race")?, RaceLock::new(other, "/race")?);
    passes(&first, &second).await?;
    Ok(())
}

async fn one_shot_lease(one: &Session, other: &Session) -> anyhow::Result<()> {
    let options = |holder| OneShotLeaseOptions::new(holder, Duration::from_secs(600));
    let taken = OneShotLease::try_take(one, "/one-shot", &options("one")).await?;
    ensure!(taken.is_some_and(|lease| lease.is_valid()));
    let taken = OneShotLease::try_take(other, "/one-shot", &options("other")).await?;
    ensure!(taken.is_none(), "it is taken");
    for (session, holder) in [(one, "one"), (other, "other")] {
        let options = options(holder);
        let taken = OneShotLease::try_take_one_of(session, "/one-shots", 2, &options);
        ensure!(taken.await?.is_some(), "there is one for each");
    }
    Ok(())
}

async fn leader(one: &Session, other: &Session) -> anyhow::Result<()> {
    let first = LeaderLatch::new(one, "/latch")?.join();
    soon("it leads", first.handle().leading()).await??;
    let second = LeaderLatch::new(other, "/latch")?.join();
    let mut leading = Box::pin(second.handle().leading());
    let early = tokio::time::timeout(Duration::from_millis(100), &mut leading).await;
    ensure!(early.is_err(), "another participant leads");
    first.leave().await;
    soon("the other one leads", leading).await??;
    second.leave().await;
    for session in [one, other] {
        let selector = Selector::new(session, "/selector")?;
        let led = selector.run(async |lease| ControlFlow::Break(lease.is_valid()));
        ensure!(soon("the selector leads", led).await??);
    }
    Ok(())
}

async fn breadcrumb(one: &Session, other: &Session) -> anyhow::Result<()> {
    let mut fenced = Vec::new();
    for (session, name) in [(one, "one"), (other, "other")] {
        let latch = LeaderLatch::new(session, "/breadcrumb")?.join();
        let lease = soon("it leads", latch.leading()).await??;
        let fence = |data| {
            fenced.push(data);
            std::future::ready(Ok::<_, std::convert::Infallible>(()))
        };
        let breadcrumb = Breadcrumb::take_over(&lease, name, fence).await?;
        if name == "other" {
            breadcrumb.remove().await?;
        }
        latch.leave().await;
    }
    ensure!(fenced == [b"one"], "{fenced:?}");
    Ok(())
}

async fn queue(one: &Session, other: &Session) -> anyhow::Result<()> {
    let producer = Queue::new(one, "/queue", Text)?;
    let consumer = Queue::new(other, "/queue", Text)?;
    let taking = consumer.take();
    let offering = async {
        for item in ["a", "b"] {
            producer.offer(&item.to_owned()).await?;
        }
        anyhow::Ok(())
    };
    let both = async { tokio::join!(taking, offering) };
    let (first, offered) = soon("an item is taken", both).await?;
    offered?;
    ensure!(first? == "a");
    ensure!(
        consumer
            .take_timeout(Duration::from_secs(10))
            .await?
            .as_deref()
            == Some("b")
    );
    ensure!(consumer.poll().await?.is_none());
    Ok(())
}

async fn work_queue(one: &Session, other: &Session) -> anyhow::Result<()> {
    let producer = WorkQueue::new(one, "/work", Text)?;
    let consumer = WorkQueue::new(other, "/work", Text)?;
    producer.offer(&"item".to_owned()).await?;
    // A server may lag behind the one of the other session.
    other.sync("/work").await?;
    let claim = consumer.try_claim().await?.context("an item was offered")?;
    ensure!(claim.item() == "item");
    ensure!(producer.try_claim().await?.is_none(), "it is claimed");
    claim.acknowledge().await?;
    one.sync("/work").await?;
    ensure!(producer.is_empty().await?);
    Ok(())
}

async fn ids(one: &Session, other: &Session) -> anyhow::Result<()> {
    let mut numbers = Vec::new();
    for session in [one, other] {
        numbers.push(SequenceIds::new(session, "/ids/sequence")?.next().await?);
    }
    ensure!(numbers[0] < numbers[1], "{numbers:?}");
    let zxids = ZxidIds::new(one, "/ids/zxid")?;
    ensure!(zxids.next().await? < zxids.next().await?);
    let ten = NonZeroU32::new(10).context("it is ten")?;
    let block = BlockIds::new(one, "/ids/block", ten)?.next().await?;
    ensure!(block != BlockIds::new(other, "/ids/block", ten)?.next().await?);
    Ok(())
}

async fn snowflakes(one: &Session, other: &Session) -> anyhow::Result<()> {
    let layout = zk_id::Layout::TWITTER;
    let first = Snowflakes::new(one, "/snowflakes", layout)?.claim().await?;
    let second = Snowflakes::new(other, "/snowflakes", layout)?
        .claim()
        .await?;
    ensure!(first.generator().worker() != second.generator().worker());
    ensure!(first.generator().next().await? != second.generator().next().await?);
    for snowflake in [first, second] {
        snowflake.release().await?;
    }
    let workers = WorkerIds::new(one, "/workers", 2)?;
    let (a, b) = (workers.claim().await?, workers.claim().await?);
    ensure!(a.number() != b.number());
    for worker in [a, b] {
        worker.release().await?;
    }
    Ok(())
}

async fn cache(one: &Session, other: &Session) -> anyhow::Result<()> {
    one.create("/cached/a", "").parents().await?;
    let cache = TreeCache::start(other, "/cached")?;
    let mut events = cache.events();
    let has = |path: &str, data: &str| {
        let node = cache.get(path);
        node.is_some_and(|node| node.data() == Some(data.as_bytes()))
    };
    while !has("/cached/a", "") {
        soon("the node is read", events.next()).await?;
    }
    one.create("/cached/a/b", "b").await?;
    one.set("/cached/a", "new").await?;
    while !(has("/cached/a/b", "b") && has("/cached/a", "new")) {
        soon("the changes are read", events.next()).await?;
    }
    drop(cache);
    Ok(())
}

async fn configuration(one: &Session, other: &Session) -> anyhow::Result<()> {
    let mut events = Listener::new(other, "/config/key", Text)?.events::<String>();
    let first = soon("the listener starts", events.next()).await?;
    ensure!(matches!(first, Some(zk_config::Event::Absent)), "{first:?}");
    let options = PublishOptions::default().with_history(2);
    let publisher = Publisher::with_options(one, Text, options);
    for value in ["1", "2"] {
        publisher.publish("/config/key", &value.to_owned()).await?;
    }
    ensure!(publisher.history("/config/key").await?.len() == 1);
    loop {
        match soon("the value is delivered", events.next()).await? {
            Some(zk_config::Event::Created(value) | zk_config::Event::Changed(value)) => {
                if value.value == "2" {
                    break;
                }
            }
            other => bail!("{other:?}"),
        }
    }
    drop(events);
    Ok(())
}

async fn discovery(one: &Session, other: &Session) -> anyhow::Result<()> {
    let providers = Registry::new(other, "/services")?.providers::<String>("mail")?;
    let instance = Instance::builder("mail", "payload".to_owned()).id("one");
    let instance = instance.address("127.0.0.1").build()?;
    let registration = Registry::new(one, "/services")?.register(instance).await?;
    let strategy = RoundRobin::anywhere();
    let picked = providers
        .pick_timeout(&strategy, Duration::from_secs(20))
        .await?;
    ensure!(picked.id() == "one");
    registration.unregister().await?;
    drop(providers);
    Ok(())
}

async fn counters(one: &Session, other: &Session) -> anyhow::Result<()> {
    for (session, expected) in [(one, 1), (other, 2)] {
        let counter = AtomicCounter::new(session, "/counter", &CounterOptions::default())?;
        ensure!(counter.increment().await? == expected);
    }
    let first = SharedCount::start(one, "/shared", 7)?;
    let second = SharedCount::start(other, "/shared", 7)?;
    let mut changes = second.changes();
    soon("both are synchronised", second.synchronized()).await??;
    soon("both are synchronised", first.synchronized()).await??;
    first.set(8).await?;
    loop {
        let change = soon("the count changes", changes.next()).await?;
        let change = change.context("the changes go on")??;
        if change.is_some_and(|count| count.value == 8) {
            break;
        }
    }
    drop((first, second));
    Ok(())
}

async fn barrier(one: &Session, other: &Session) -> anyhow::Result<()> {
    let (first, second) = (
        Barrier::new(one, "/barrier")?,
        Barrier::new(other, "/barrier")?,
    );
    first.set().await?;
    let mut waiting = Box::pin(second.wait());
    let early = tokio::time::timeout(Duration::from_millis(100), &mut waiting).await;
    ensure!(early.is_err(), "the barrier is set");
    first.remove().await?;
    soon("the barrier is removed", waiting).await??;
    Ok(())
}

async fn double_barrier(one: &Session, other: &Session) -> anyhow::Result<()> {
    let threshold = NonZeroU32::new(2).context("it is two")?;
    let first = DoubleBarrier::new(one, "/double", threshold)?;
    let second = DoubleBarrier::new(other, "/double", threshold)?;
    let entering = async { tokio::join!(first.enter(), second.enter()) };
    let (a, b) = soon("both have entered", entering).await?;
    let (a, b) = (a?, b?);
    let leaving = async { tokio::join!(a.leave(), b.leave()) };
    let (a, b) = soon("both have left", leaving).await?;
    a?;
    b?;
    Ok(())
}

async fn group(one: &Session, other: &Session) -> anyhow::Result<()> {
    let members = [
        Membership::join(one, "/group", "one", "")?,
        Membership::join(other, "/group", "other", "")?,
    ];
    let both = |members: &zk_group::Members| members.len() == 2;
    for member in &members {
        soon("both are members", member.group().wait_for(both)).await??;
    }
    for member in members {
        member.leave().await?;
    }
    Ok(())
}

async fn partitioner(one: &Session, other: &Session) -> anyhow::Result<()> {
    let start = |session, name| {
        let options = PartitionerOptions::default().with_settle_time(Duration::from_millis(100));
        Partitioner::start_with(session, "/partitioner", name, ["a", "b"], options)
    };
    let first = start(one, "one")?;
    let mut items = Vec::new();
    for _ in 0..2 {
        let item = soon("an item is owned", first.next()).await?;
        items.push(item.context("it has not ended")?);
    }
    let second = start(other, "other")?;
    let [a, b] = [items[0].release_requested(), items[1].release_requested()];
    let requested = async {
        tokio::select! {
            () = a => 0,
            () = b => 1,
        }
    };
    let index = soon("an item is to be released", requested).await?;
    items.swap_remove(index).release().await?;
    let item = soon("the item is owned", second.next()).await?;
    ensure!(item.context("it has not ended")?.item() != items[0].item());
    drop(items);
    first.leave().await?;
    second.leave().await?;
    Ok(())
}

async fn persistent_node(one: &Session, other: &Session) -> anyhow::Result<()> {
    let options = PersistentNodeOptions::ephemeral();
    let node = PersistentNode::start(one, "/persistent", "data", options)?;
    let present = soon("the node is made", node.ready()).await??;
    let before = present.stat.czxid;
    other.sync("/").await?;
    other.delete("/persistent").await?;
    soon("the node is made again", async {
        loop {
            other.sync("/").await?;
            let (found, mut watch) = other.exists("/persistent").watched().await?;
            if found.is_some_and(|stat| stat.czxid > before) {
                return anyhow::Ok(());
            }
            watch.changed().await;
        }
    })
    .await??;
    node.remove().await?;
    Ok(())
}
