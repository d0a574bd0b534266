//! Uses each recipe so that all kinds of its nodes exist, and ends it as its page says.

use std::fmt::Debug;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::pin::pin;
use std::time::Duration;

use zk_barrier::Barrier;
use zk_barrier::DoubleBarrier;
use zk_cache::TreeCache;
use zk_config::PublishOptions;
use zk_config::Publisher;
use zk_core::ErrorClass;
use zk_core::PersistentNode;
use zk_core::PersistentNodeOptions;
use zk_core::Session;
use zk_core::codec::Text;
use zk_counter::AtomicCounter;
use zk_counter::CounterOptions;
use zk_counter::SharedCount;
use zk_counter::SharedValue;
use zk_discovery::Dubbo;
use zk_discovery::DubboProvider;
use zk_discovery::Instance;
use zk_discovery::Registry;
use zk_discovery::Serverset;
use zk_discovery::ServersetMember;
use zk_group::Membership;
use zk_group::partitioner::Partitioner;
use zk_group::partitioner::PartitionerOptions;
use zk_id::BlockIds;
use zk_id::Layout;
use zk_id::SequenceIds;
use zk_id::Snowflakes;
use zk_id::WorkerIds;
use zk_id::ZxidIds;
use zk_leader::Breadcrumb;
use zk_leader::ElectionOptions;
use zk_leader::LeaderLatch;
use zk_leader::Selector;
use zk_leader::StepDownPolicy;
use zk_lock::CohortLock;
use zk_lock::FairLock;
use zk_lock::MultiLock;
use zk_lock::OneShotLease;
use zk_lock::OneShotOptions;
use zk_lock::RaceLock;
use zk_lock::ReentrantLock;
use zk_lock::RwLock;
use zk_lock::Semaphore;
use zk_queue::Queue;
use zk_queue::QueueOptions;
use zk_queue::WorkLayout;
use zk_queue::WorkOptions;
use zk_queue::WorkQueue;

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
pub(crate) const RECIPES: [(&str, &str, &str); 39] = [
    ("AtomicCounter", "crw", ""),
    ("Barrier", "cd", ""),
    ("BlockIds", "crw", ""),
    ("Breadcrumb", "cdr", ""),
    ("CohortLock", "cdr", ""),
    ("DoubleBarrier", "cdrw", ""),
    ("FairLock", "cdr", ""),
    ("LeaderLatch", "cdr", ""),
    ("Membership", "cdr", ""),
    ("MultiLock", "cdr", ""),
    (
        "OneShotLease",
        "cdrw",
        "delete: its lock stays until the session ends, and the next lease waits for it",
    ),
    (
        "Partitioner",
        "cdr",
        "read: the view of the group stays empty, and it waits without end",
    ),
    ("PersistentNode, container", "cdr", ""),
    ("PersistentNode, ephemeral", "cdr", ""),
    ("PersistentNode, ttl", "cdr", ""),
    ("Publisher", "crw", ""),
    ("Publisher, history", "crwa", ""),
    ("Queue", "cdrw", ""),
    ("Queue, priority and delay", "cdrw", ""),
    ("RaceLock", "cdr", ""),
    ("ReentrantLock", "cdr", ""),
    ("Registry", "cdr", ""),
    ("Registry, Dubbo", "cdr", ""),
    ("Registry, serverset", "cdr", ""),
    ("RwLock, reader", "cdr", ""),
    ("RwLock, writer", "cdr", ""),
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
    ("ZxidIds", "cw", ""),
];

/// Uses a recipe at `path`, whose parent exists.
pub(crate) async fn hold(recipe: &str, session: &Session, path: &str) -> Result<Held, Failure> {
    const ONE: NonZeroU32 = NonZeroU32::MIN;
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
            let latch = LeaderLatch::new(session, path)?.join();
            let lease = latch.leading().await?;
            let fence = async |_| Ok::<_, std::convert::Infallible>(());
            let breadcrumb = Breadcrumb::take_over(&lease, "this process", fence).await?;
            Held::new(&format!("{latch:?} {lease:?} {breadcrumb:?}"), async move {
                breadcrumb.remove().await?;
                latch.leave().await;
                Ok(())
            })
        }
        "CohortLock" => release!(CohortLock::new(session, path)?.acquire().await?),
        "DoubleBarrier" => {
            let member = DoubleBarrier::new(session, path, ONE)?.enter().await?;
            Held::new(
                &format!("{member:?}"),
                async move { Ok(member.leave().await?) },
            )
        }
        "FairLock" => release!(FairLock::new(session, path)?.acquire().await?),
        "LeaderLatch" => {
            let options = ElectionOptions::default().with_step_down(StepDownPolicy::Application);
            let latch = LeaderLatch::with_options(session, path, &options)?.join();
            let lease = latch.leading().await?;
            Held::new(&format!("{latch:?} {lease:?}"), async move {
                latch.handle().resign().await?;
                drop(latch.leave().await);
                Ok(())
            })
        }
        "Membership" => {
            let member = Membership::join(session, path, "one", "payload")?;
            unless_problem(member.ready(), || member.problem()).await?;
            Held::new(
                &format!("{member:?}"),
                async move { Ok(member.leave().await?) },
            )
        }
        "MultiLock" => {
            let locks = ["one", "two"].map(|name| FairLock::new(session, format!("{path}/{name}")));
            let [one, two] = locks;
            release!(MultiLock::new([one?, two?])?.acquire().await?)
        }
        "OneShotLease" => {
            let options = OneShotOptions::new("this process", Duration::from_secs(60));
            OneShotLease::try_take(session, path, &options).await?;
            // Longer, by its holder.
            Held::done(&OneShotLease::try_take(session, path, &options).await?)
        }
        "Partitioner" => {
            let options =
                PartitionerOptions::default().with_settle_time(Duration::from_millis(100));
            let partitioner = Partitioner::start_with(session, path, "one", ["item"], options)?;
            let next = unless_problem(async { Ok::<_, Failure>(partitioner.next().await) }, || {
                partitioner.problem()
            });
            let item = next.await?;
            Held::new(&format!("{partitioner:?} {item:?}"), async move {
                drop(item);
                Ok(partitioner.leave().await?)
            })
        }
        "PersistentNode, container" => {
            persistent_node(session, path, PersistentNodeOptions::container()).await?
        }
        "PersistentNode, ephemeral" => {
            let options = PersistentNodeOptions::ephemeral_sequential().with_protection();
            persistent_node(session, &format!("{path}-"), options).await?
        }
        "PersistentNode, ttl" => {
            let options = PersistentNodeOptions::ttl(Duration::from_secs(60));
            persistent_node(session, path, options).await?
        }
        "Publisher" | "Publisher, history" => {
            let revisions = if recipe == "Publisher" { 0 } else { 2 };
            let options = PublishOptions::default().with_history(revisions);
            let publisher = Publisher::with_options(session, Text, options);
            publisher.publish(path, &"first".to_owned()).await?;
            publisher.publish(path, &"second".to_owned()).await?;
            Held::done(&publisher)
        }
        "Queue" => {
            let queue = Queue::new(session, path, Text)?;
            queue.offer(&"item".to_owned()).await?;
            Held::new(&format!("{queue:?}"), async move {
                queue.remove().await?;
                Ok(())
            })
        }
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
        "RaceLock" => release!(RaceLock::new(session, path)?.acquire().await?),
        "ReentrantLock" => release!(ReentrantLock::new(session, path)?.acquire().await?),
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
        "RwLock, reader" => release!(RwLock::new(session, path)?.reader().acquire().await?),
        "RwLock, writer" => release!(RwLock::new(session, path)?.writer().acquire().await?),
        "Selector" => {
            let selector = Selector::new(session, path)?;
            let debug = format!("{selector:?}");
            Held::done(
                &selector
                    .run_once(async |lease| format!("{debug} {lease:?}"))
                    .await?,
            )
        }
        "Semaphore" => release!(Semaphore::new(session, path, 3)?.acquire().await?),
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
            if let Some((_, unread)) = snapshot.partial_reads().next() {
                return Err(Failure::new(&unread, ErrorClass::Outcome));
            }
            Held::done(&cache)
        }
        "WorkQueue" => {
            let queue = WorkQueue::new(session, path, Text)?;
            for item in ["buried", "claimed", "waiting"] {
                queue.offer(&item.to_owned()).await?;
            }
            let buried = queue.try_claim().await?.expect("it was offered");
            buried.bury("for the test").await?;
            let claim = queue.try_claim().await?.expect("it was offered");
            Held::new(&format!("{queue:?} {claim:?}"), async move {
                Ok(claim.acknowledge().await?)
            })
        }
        "WorkQueue, Curator" => {
            let lock_path = format!("{path}-claims").parse().expect("it is a path");
            let options = WorkOptions::default().with_layout(WorkLayout::Curator { lock_path });
            let queue = WorkQueue::with_options(session, path, Text, &options)?;
            queue.offer(&"item".to_owned()).await?;
            let claim = queue.try_claim().await?.expect("it was offered");
            Held::new(&format!("{queue:?} {claim:?}"), async move {
                Ok(claim.acknowledge().await?)
            })
        }
        "WorkerIds" => release!(WorkerIds::new(session, path, 2)?.claim().await?),
        "ZxidIds" => {
            let ids = ZxidIds::new(session, path)?;
            for _ in 0..2 {
                ids.next().await?;
            }
            Held::done(&ids)
        }
        unknown => panic!("no recipe {unknown}"),
    })
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
async fn unless_problem<T, E: Into<Failure>, P: std::error::Error>(
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
