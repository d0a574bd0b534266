//! Uses each recipe so that all kinds of its nodes exist, and ends it as its page says.

use std::fmt::Debug;
use std::num::NonZeroU32;
use std::pin::{Pin, pin};
use std::time::Duration;

use zk_barrier::{Barrier, DoubleBarrier};
use zk_cache::{ChildrenCache, Snapshot, TreeCache};
use zk_config::{PublishOptions, Publisher};
use zk_core::codec::Text;
use zk_core::{Acl, ErrorClass, PersistentNode, PersistentNodeOptions, Session};
use zk_counter::{AtomicCounter, CounterOptions, SharedCount, SharedValue};
use zk_discovery::{Dubbo, DubboProvider, Instance, Registry, Serverset, ServersetMember};
use zk_group::Membership;
use zk_group::partitioner::{Partitioner, PartitionerOptions, PartitionerProblem};
use zk_id::{BlockIds, Layout, SequenceIds, Snowflakes, WorkerIds, ZxidIds};
use zk_leader::{Breadcrumb, ElectionOptions, LeaderLatch, Selector, StepDownPolicy};
use zk_lock::{
    CohortLimits, CohortLock, FairLock, LockOptions, MultiLock, OneShotLease, OneShotLeaseOptions,
    RaceLock, ReentrantLock, RwLock, Semaphore,
};
use zk_queue::{Queue, QueueOptions, WorkLayout, WorkOptions, WorkQueue};

use super::failure::Failure;

/// A recipe in use: its debug output, and what ends the use.
pub(crate) struct Held {
    pub(crate) debug: String,
    pub(crate) end: End,
}

type End = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

impl Held {
    /// Ends with what a future does, which owns what is held.
    fn new(
        held: &impl Debug,
        end: impl Future<Output = Result<(), Failure>> + Send + 'static,
    ) -> Self {
        Self {
            debug: format!("{held:?}"),
            end: Box::pin(end),
        }
    }

    /// Has nothing to end.
    fn done(made: &impl Debug) -> Self {
        Self::new(made, async { Ok(()) })
    }
}

/// The recipes; the rights that they need on the parent of their path and on their own nodes, in the letters of ZooKeeper's
/// shell; and what happens instead of an error without one of these.
pub(crate) const RECIPES: [(&str, &str, &str); 61] = [
    ("AtomicCounter", "crw", ""),
    ("Barrier", "cd", ""),
    ("BlockIds", "crw", ""),
    ("Breadcrumb", "cdr", ""),
    ("CohortLock", "cdr", ""),
    ("DoubleBarrier", "cdrw", ""),
    ("DoubleBarrier, recipe", "cdr", ""),
    ("FairLock", "cdr", ""),
    ("FairLock, HBase", "cdr", ""),
    ("FairLock, kazoo", "cdr", ""),
    ("FairLock, ZooKeeper", "cdr", ""),
    ("LeaderLatch", "cdr", ""),
    ("Membership", "cdr", ""),
    ("Membership, Party", "cdr", ""),
    ("Membership, ShallowParty", "cdr", ""),
    ("MultiLock", "cdr", ""),
    (
        "OneShotLease",
        "cdrw",
        "delete: its lock stays until the session ends, and the next lease waits for it",
    ),
    (
        "OneShotLease, one of several",
        "cdrw",
        "delete: its lock stays until the session ends, and the next lease waits for it",
    ),
    (
        "Partitioner",
        "cdr",
        "read: `problem` reports that the view of the group does not show it",
    ),
    ("PersistentNode, container", "cdr", ""),
    ("PersistentNode, ephemeral", "cdr", ""),
    ("PersistentNode, ttl", "cdr", ""),
    ("Publisher", "crw", ""),
    ("Publisher, history", "crwa", ""),
    ("Queue", "cdrw", ""),
    ("Queue, Curator", "cdrw", ""),
    ("Queue, CuratorDelay", "cdrw", ""),
    ("Queue, CuratorId", "cdrw", ""),
    ("Queue, CuratorPriority", "cdrw", ""),
    ("Queue, Kazoo", "cdrw", ""),
    ("Queue, priority and delay", "cdrw", ""),
    ("Queue, segments", "cdrw", ""),
    (
        "RaceLock",
        "cdr",
        "read: the error of a release names DELETE, too",
    ),
    ("ReentrantLock", "cdr", ""),
    ("Registry", "cdr", ""),
    ("Registry, Dubbo", "cdr", ""),
    ("Registry, serverset", "cdr", ""),
    ("RwLock, reader", "cdr", ""),
    ("RwLock, HBase reader", "cdr", ""),
    ("RwLock, kazoo reader", "cdr", ""),
    ("RwLock, writer", "cdr", ""),
    ("RwLock, HBase writer", "cdr", ""),
    ("RwLock, kazoo writer", "cdr", ""),
    (
        "Selector",
        "cdr",
        "delete: the node of the leader stays until the session ends",
    ),
    ("Semaphore", "cdr", ""),
    ("SequenceIds", "c", ""),
    ("Session::commit_marked", "c", ""),
    ("Session::create", "cd", ""),
    ("SharedCount", "crw", ""),
    ("SharedValue", "crw", ""),
    ("Snowflakes", "cdrw", ""),
    ("TreeCache", "r", ""),
    ("WorkerIds", "cdr", ""),
    ("WorkQueue", "cdrw", ""),
    ("WorkQueue, Curator", "cdrw", ""),
    ("WorkQueue, CuratorDelay", "cdrw", ""),
    ("WorkQueue, CuratorId", "cdrw", ""),
    ("WorkQueue, CuratorPriority", "cdrw", ""),
    ("WorkQueue, KazooLocking", "cdrw", ""),
    ("WorkQueue, segments", "cdrw", ""),
    ("ZxidIds", "crw", ""),
];

/// The size of a segment that is never full.
const MANY: u32 = 1000;

/// Uses a recipe at `path`, whose parent exists.
pub(crate) async fn hold(recipe: &str, session: &Session, path: &str) -> Result<Held, Failure> {
    hold_with(recipe, session, path, None).await
}

/// Uses a recipe as [`hold`] does, with options that have this ACL, if there is one and the recipe has such options.
pub(crate) async fn hold_with(
    recipe: &str,
    session: &Session,
    path: &str,
    acl: Option<&Acl>,
) -> Result<Held, Failure> {
    const ONE: NonZeroU32 = NonZeroU32::MIN;
    let lock_options = || {
        let options = LockOptions::default().with_layout(lock_layout(recipe));
        match acl {
            Some(acl) => options.with_acl(acl.clone()),
            None => options,
        }
    };
    let election_options = || {
        let options = ElectionOptions::default();
        match acl {
            Some(acl) => options.with_acl(acl.clone()),
            None => options,
        }
    };
    let node_options = |options: PersistentNodeOptions| match acl {
        Some(acl) => options.with_acl(acl.clone()),
        None => options,
    };
    macro_rules! release {
        ($guard:expr) => {{
            let guard = $guard;
            Held::new(
                &format!("{guard:?}"),
                async move { Ok(guard.release().await?) },
            )
        }};
    }
    Ok(match recipe {
        "AtomicCounter" => {
            let counter = AtomicCounter::new(session, path, &CounterOptions::default())?;
            counter.increment().await?;
            Held::done(&counter)
        }
        "Barrier" => {
            let barrier = Barrier::new(session, path)?;
            barrier.set().await?;
            Held::new(&barrier.clone(), async move {
                Ok(barrier.remove().await.map(drop)?)
            })
        }
        "BlockIds" => {
            let ids = BlockIds::new(session, path, ONE)?;
            ids.next_many(3).await?;
            Held::done(&ids)
        }
        "Breadcrumb" => {
            let latch = LeaderLatch::with_options(session, path, &election_options())?.join();
            let lease = latch.leading().await?;
            let fence = async |_| Ok::<_, std::convert::Infallible>(());
            let breadcrumb = Breadcrumb::take_over(&lease, "this process", fence).await?;
            Held::new(&format!("{latch:?} {lease:?} {breadcrumb:?}"), async move {
                breadcrumb.remove().await?;
                latch.leave().await;
                Ok(())
            })
        }
        "CohortLock" => release!(
            CohortLock::with_options(session, path, lock_options(), CohortLimits::default())?
                .acquire()
                .await?
        ),
        "DoubleBarrier" | "DoubleBarrier, recipe" => {
            let layout = match recipe {
                "DoubleBarrier" => zk_barrier::Layout::Rounds,
                _ => zk_barrier::Layout::Recipe,
            };
            let barrier = DoubleBarrier::new(session, path, ONE)?.with_layout(layout);
            let member = barrier.enter().await?;
            Held::new(
                &format!("{member:?}"),
                async move { Ok(member.leave().await?) },
            )
        }
        "FairLock" | "FairLock, HBase" | "FairLock, kazoo" | "FairLock, ZooKeeper" => {
            release!(
                FairLock::with_options(session, path, lock_options())?
                    .acquire()
                    .await?
            )
        }
        "LeaderLatch" => {
            let options = election_options().with_step_down(StepDownPolicy::Application);
            let latch = LeaderLatch::with_options(session, path, &options)?.join();
            let lease = latch.leading().await?;
            // Where the leader is asked to step down.
            has_children(session, &format!("{path}-step-down"), 1).await?;
            Held::new(&format!("{latch:?} {lease:?}"), async move {
                latch.handle().resign().await?;
                drop(latch.leave().await);
                Ok(())
            })
        }
        "Membership" | "Membership, Party" | "Membership, ShallowParty" => {
            let (layout, payload) = match recipe {
                "Membership" => (zk_group::Layout::Curator, "payload"),
                "Membership, Party" => (zk_group::Layout::KazooParty, ""),
                _ => (zk_group::Layout::KazooShallowParty, ""),
            };
            let member = Membership::join_with(session, path, "one", payload, layout)?;
            unless_problem(member.ready(), || member.problem()).await?;
            Held::new(
                &format!("{member:?}"),
                async move { Ok(member.leave().await?) },
            )
        }
        "MultiLock" => {
            let locks = ["one", "two"].map(|name| {
                FairLock::with_options(session, format!("{path}/{name}"), lock_options())
            });
            let [one, two] = locks;
            release!(MultiLock::new([one?, two?])?.acquire().await?)
        }
        "OneShotLease" => {
            let options = OneShotLeaseOptions::new("this process", Duration::from_secs(60));
            OneShotLease::try_take(session, path, &options).await?;
            // Longer, by its holder.
            Held::done(&OneShotLease::try_take(session, path, &options).await?)
        }
        "OneShotLease, one of several" => {
            let mut leases = Vec::new();
            // The first holder then has its lease for longer.
            for holder in ["this process", "another one", "this process"] {
                let options = OneShotLeaseOptions::new(holder, Duration::from_secs(60));
                leases.push(OneShotLease::try_take_one_of(session, path, 2, &options).await?);
            }
            Held::done(&leases)
        }
        "Partitioner" => {
            let options =
                PartitionerOptions::default().with_settle_time(Duration::from_millis(100));
            let partitioner = Partitioner::start_with(session, path, "one", ["item"], options)?;
            let next = async { Ok::<_, Failure>(partitioner.next().await) };
            // A list that takes long is read again.
            let problem = || {
                let problem = partitioner.problem();
                problem.filter(|problem| !matches!(problem, PartitionerProblem::Unseen { .. }))
            };
            let item = unless_problem(next, problem).await?;
            Held::new(&format!("{partitioner:?} {item:?}"), async move {
                drop(item);
                Ok(partitioner.leave().await?)
            })
        }
        "PersistentNode, container" => {
            persistent_node(
                session,
                path,
                node_options(PersistentNodeOptions::container()),
            )
            .await?
        }
        "PersistentNode, ephemeral" => {
            let options = PersistentNodeOptions::ephemeral_sequential().with_protection();
            persistent_node(session, &format!("{path}-"), node_options(options)).await?
        }
        "PersistentNode, ttl" => {
            let options = PersistentNodeOptions::ttl(Duration::from_secs(60));
            persistent_node(session, path, node_options(options)).await?
        }
        "Publisher" | "Publisher, history" => {
            let revisions = if recipe == "Publisher" { 0 } else { 2 };
            let mut options = PublishOptions::default().with_history(revisions);
            if let Some(acl) = acl {
                options = options.with_acl(acl.clone());
            }
            let publisher = Publisher::with_options(session, Text, options);
            publisher.publish(path, &"first".to_owned()).await?;
            publisher.publish(path, &"second".to_owned()).await?;
            Held::done(&publisher)
        }
        "Queue" => offered(session, path, zk_queue::Layout::Recipe).await?,
        "Queue, Curator" => offered(session, path, zk_queue::Layout::Curator).await?,
        "Queue, CuratorDelay" => offered(session, path, zk_queue::Layout::CuratorDelay).await?,
        "Queue, CuratorId" => offered(session, path, zk_queue::Layout::CuratorId).await?,
        "Queue, CuratorPriority" => {
            offered(session, path, zk_queue::Layout::CuratorPriority).await?
        }
        "Queue, Kazoo" => offered(session, path, zk_queue::Layout::Kazoo).await?,
        "Queue, priority and delay" => {
            let options = QueueOptions::default().with_layout(zk_queue::Layout::Native);
            let queue = Queue::with_options(session, path, Text, &options)?;
            queue.offer(&"urgent".to_owned()).priority(-1).await?;
            let later = queue.offer(&"later".to_owned());
            later.delay(Duration::from_secs(3600)).await?;
            Held::new(&format!("{queue:?}"), async move {
                queue.remove().await?;
                Ok(())
            })
        }
        "Queue, segments" => {
            let options = QueueOptions::default().with_segment_size(1);
            let queue = Queue::with_options(session, path, Text, &options)?;
            for item in ["first", "second"] {
                queue.offer(&item.to_owned()).await?;
            }
            Held::new(&format!("{queue:?}"), async move {
                for _ in 0..2 {
                    queue.remove().await?;
                }
                Ok(())
            })
        }
        "RaceLock" => release!(
            RaceLock::with_options(session, path, lock_options())?
                .acquire()
                .await?
        ),
        "ReentrantLock" => release!(
            ReentrantLock::with_options(session, path, lock_options())?
                .acquire()
                .await?
        ),
        "Registry" => {
            let instance = Instance::builder("mail", "payload".to_owned()).id("one");
            let instance = instance.address("127.0.0.1").build()?;
            let registration = Registry::new(session, path)?.register(instance).await?;
            Held::new(&format!("{registration:?}"), async move {
                Ok(registration.unregister().await?)
            })
        }
        "Registry, Dubbo" => {
            let instance = Instance::builder("mail", DubboProvider::new("dubbo"));
            let instance = instance.address("127.0.0.1").port(1).build()?;
            let registry = Registry::new(session, path)?.with_layout(Dubbo);
            let registration = registry.register(instance).await?;
            Held::new(&format!("{registration:?}"), async move {
                Ok(registration.unregister().await?)
            })
        }
        "Registry, serverset" => {
            let instance = Instance::builder("mail", ServersetMember::new());
            let instance = instance.address("127.0.0.1").port(1).build()?;
            let registry = Registry::new(session, path)?.with_layout(Serverset);
            let registration = registry.register(instance).await?;
            Held::new(&format!("{registration:?}"), async move {
                Ok(registration.unregister().await?)
            })
        }
        "RwLock, reader" | "RwLock, HBase reader" | "RwLock, kazoo reader" => {
            let lock = RwLock::with_options(session, path, lock_options())?;
            release!(lock.reader().acquire().await?)
        }
        "RwLock, writer" | "RwLock, HBase writer" | "RwLock, kazoo writer" => {
            let lock = RwLock::with_options(session, path, lock_options())?;
            release!(lock.writer().acquire().await?)
        }
        "Selector" => {
            let selector = Selector::with_options(session, path, &election_options())?;
            let debug = format!("{selector:?}");
            Held::done(
                &selector
                    .run_once(async |lease| format!("{debug} {lease:?}"))
                    .await?,
            )
        }
        "Semaphore" => release!(
            Semaphore::with_options(session, path, 3, lock_options())?
                .acquire()
                .await?
        ),
        "SequenceIds" => {
            let ids = SequenceIds::new(session, path)?;
            for _ in 0..2 {
                ids.next().await?;
            }
            Held::done(&ids)
        }
        "SharedCount" => {
            let count = SharedCount::start(session, path, 1)?;
            count.set(2).await?;
            Held::done(&count)
        }
        "SharedValue" => {
            let value = SharedValue::start(session, path, "first")?;
            value.set("second").await?;
            Held::done(&value)
        }
        "Session::commit_marked" => {
            let parent = path.rsplit_once('/').expect("it is absolute").0;
            let transaction = session.transaction().create(path, "data");
            Held::done(&transaction.commit_marked(parent).await?)
        }
        "Session::create" => {
            let create = session
                .create(format!("{path}/node-"), "data")
                .container_parents();
            let node = create.ephemeral().sequential().owned().await?;
            Held::new(
                &format!("{node:?}"),
                async move { Ok(node.delete().await?) },
            )
        }
        "Snowflakes" => {
            let snowflakes = Snowflakes::new(session, path, Layout::TWITTER)?;
            let generator = snowflakes.claim().await?;
            generator.next().await?;
            generator.release().await?;
            // The mark of the number is there now.
            let generator = snowflakes.claim().await?;
            generator.next().await?;
            release!(generator)
        }
        "TreeCache" => {
            let parent = path.rsplit_once('/').expect("it is absolute").0;
            let cache = TreeCache::start(session, parent)?;
            let snapshot = cache.synchronized().await.expect("it has not ended");
            all_read(&snapshot)?;
            Held::done(&cache)
        }
        "WorkQueue" => claimed(session, path, WorkLayout::Native, MANY).await?,
        "WorkQueue, segments" => claimed(session, path, WorkLayout::Native, 1).await?,
        "WorkQueue, Curator"
        | "WorkQueue, CuratorDelay"
        | "WorkQueue, CuratorId"
        | "WorkQueue, CuratorPriority"
        | "WorkQueue, KazooLocking" => {
            let lock_path = format!("{path}-claims").parse().expect("it is a path");
            let layout = match recipe {
                "WorkQueue, Curator" => WorkLayout::Curator { lock_path },
                "WorkQueue, CuratorDelay" => WorkLayout::CuratorDelay { lock_path },
                "WorkQueue, CuratorId" => WorkLayout::CuratorId { lock_path },
                "WorkQueue, CuratorPriority" => WorkLayout::CuratorPriority { lock_path },
                _ => WorkLayout::KazooLocking,
            };
            claimed(session, path, layout, MANY).await?
        }
        "WorkerIds" => release!(WorkerIds::new(session, path, 2)?.claim().await?),
        "ZxidIds" => {
            let ids = [ZxidIds::new(session, path)?, ZxidIds::new(session, path)?];
            for ids in &ids {
                ids.next().await?;
            }
            Held::done(&ids)
        }
        unknown => panic!("no recipe {unknown}"),
    })
}

/// Returns the layout that the name of a recipe ends in.
fn lock_layout(recipe: &str) -> zk_lock::Layout {
    match recipe.split([' ', ',']).nth(2) {
        Some("HBase") => zk_lock::Layout::hbase(),
        Some("kazoo") => zk_lock::Layout::kazoo(),
        Some("ZooKeeper") => zk_lock::Layout::zookeeper(),
        _ => zk_lock::Layout::curator(),
    }
}

/// Waits until a node has this many children.
pub(crate) async fn has_children(
    session: &Session,
    path: &str,
    count: usize,
) -> Result<(), Failure> {
    let cache = ChildrenCache::start(session, path)?;
    let has_all = |now: &Snapshot| now.is_synchronized() && now.children(path).count() == count;
    cache.wait_for(has_all).await?;
    Ok(())
}

/// Returns an error for a node that a cache could not read.
pub(crate) fn all_read(snapshot: &Snapshot) -> Result<(), Failure> {
    match snapshot.partial_reads().next() {
        None => Ok(()),
        Some((path, unread)) => Err(Failure {
            text: format!("{path}: {unread}"),
            class: ErrorClass::Outcome,
        }),
    }
}

/// Offers an item, whose removal ends the use.
async fn offered(session: &Session, path: &str, layout: zk_queue::Layout) -> Result<Held, Failure> {
    let options = QueueOptions::default().with_layout(layout);
    let queue = Queue::with_options(session, path, Text, &options)?;
    let offer = queue.offer(&"item".to_owned());
    let named = if layout.has_ids() {
        offer.id("its-id")
    } else {
        offer
    };
    named.await?;
    Ok(Held::new(&format!("{queue:?}"), async move {
        queue.remove().await?;
        Ok(())
    }))
}

/// Claims an item, buries another one and offers a third; the acknowledgement ends the use.
async fn claimed(
    session: &Session,
    path: &str,
    layout: WorkLayout,
    segment_size: u32,
) -> Result<Held, Failure> {
    let has_ids = layout.items().has_ids();
    let options = WorkOptions::default().with_layout(layout);
    let options = options.with_segment_size(segment_size);
    let queue = WorkQueue::with_options(session, path, Text, &options)?;
    for item in ["buried", "claimed", "waiting"] {
        let offer = queue.offer(&item.to_owned());
        let named = if has_ids { offer.id(item) } else { offer };
        named.await?;
    }
    let buried = queue.try_claim().await?.expect("it was offered");
    buried.bury("for the test").await?;
    let claim = queue.try_claim().await?.expect("it was offered");
    Ok(Held::new(&format!("{queue:?} {claim:?}"), async move {
        Ok(claim.acknowledge().await?)
    }))
}

async fn persistent_node(
    session: &Session,
    path: &str,
    options: PersistentNodeOptions,
) -> Result<Held, Failure> {
    let node = PersistentNode::start(session, path, "data", options)?;
    unless_problem(node.ready(), || node.problem()).await?;
    Ok(Held::new(&format!("{node:?}"), async move {
        Ok(node.remove().await?)
    }))
}

/// Waits for what is tried again without end, or until there is a problem.
pub(crate) async fn unless_problem<T, E: Into<Failure>, P: std::error::Error>(
    wanted: impl Future<Output = Result<T, E>>,
    problem: impl Fn() -> Option<P>,
) -> Result<T, Failure> {
    let mut wanted = pin!(wanted);
    loop {
        if let Ok(value) = tokio::time::timeout(Duration::from_millis(20), &mut wanted).await {
            return value.map_err(Into::into);
        }
        if let Some(problem) = problem() {
            return Err(Failure::new(&problem, ErrorClass::Outcome));
        }
    }
}
