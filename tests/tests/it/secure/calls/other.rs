//! Calls of the other crates.

use std::num::NonZeroU32;
use std::sync::Arc;

use zk_barrier::{Barrier, DoubleBarrier};
use zk_cache::{ChildrenCache, NodeCache};
use zk_config::{Event, Expected, Listener, Problem, PublishOptions, Publisher, Typed};
use zk_core::codec::Text;
use zk_core::{PersistentNode, PersistentNodeOptions};
use zk_counter::{AtomicCounter, CounterOptions, SharedValue};
use zk_discovery::{Instance, Registration, Registry, RoundRobin};
use zk_group::{Group, Membership};
use zk_id::{BlockIds, Inspector, SequenceIds, WorkerIds, ZxidIds};

use super::{Call, Users, both, call};
use crate::secure::failure::Failure;
use crate::secure::recipes::{all_read, unless_problem};

pub(super) const CORE: &[Call] = &[
    Call::new("`Session::update`", "rw", |users| {
        Box::pin(async move {
            users.other.create(&users.path, "old").await?;
            let update = users.session.update(&users.path, |_| Some(b"new".to_vec()));
            call(update.into_future())
        })
    }),
    Call::new("`Session::delete`, recursive", "dr", |users| {
        Box::pin(async move {
            users.other.create(&users.path, "").await?;
            users
                .other
                .create(format!("{}/child", users.path), "")
                .await?;
            call(users.session.delete(&users.path).recursive().into_future())
        })
    }),
    Call::new("`OwnedNode::delete`", "d", |users| {
        Box::pin(async move {
            let node = users.session.create(&users.path, "").ephemeral();
            call(node.owned().await?.delete())
        })
    }),
    Call::new("`PersistentNode::set_data`", "rw", |users| {
        Box::pin(async move {
            let node = users.persistent_node().await?;
            call(async move { node.set_data("new").await })
        })
    }),
    Call::new("`PersistentNode::remove`", "dr", |users| {
        Box::pin(async move {
            let node = users.persistent_node().await?;
            call(async move { node.remove().await })
        })
    }),
];

pub(super) const CALLS: &[Call] = &[
    Call::new("`SequenceIds::next`", "c", |users| {
        Box::pin(async move {
            SequenceIds::new(&users.other, &users.path)?.next().await?;
            let ids = SequenceIds::new(&users.session, &users.path)?;
            call(async move { ids.next().await })
        })
    }),
    Call::new("`ZxidIds::next`", "rw", |users| {
        Box::pin(async move {
            ZxidIds::new(&users.other, &users.path)?.next().await?;
            let ids = ZxidIds::new(&users.session, &users.path)?;
            call(async move { ids.next().await })
        })
    }),
    Call::new("`BlockIds::next`", "rw", |users| {
        Box::pin(async move {
            let ids = |session| BlockIds::new(session, &users.path, NonZeroU32::MIN);
            ids(&users.other)?.next().await?;
            let ids = ids(&users.session)?;
            call(async move { ids.next().await })
        })
    }),
    Call::new("`WorkerIds::holders`", "r", |users| {
        Box::pin(async move {
            let worker = WorkerIds::new(&users.other, &users.path, 2)?
                .claim()
                .await?;
            let ids = WorkerIds::new(&users.session, &users.path, 2)?;
            call(async move {
                assert_eq!(ids.holders().await?.len(), 1, "{worker:?}");
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`WorkerId::release`", "dr", |users| {
        Box::pin(async move {
            let ids = WorkerIds::new(&users.session, &users.path, 2)?;
            call(ids.claim().await?.release())
        })
    }),
    Call::new("`zk_id::Inspector::snapshot`", "r", |users| {
        Box::pin(async move {
            let worker = WorkerIds::new(&users.other, &users.path, 2)?
                .claim()
                .await?;
            let inspector = Inspector::new(&users.session, &users.path)?;
            call(async move {
                let snapshot = inspector.snapshot().await?;
                assert!(snapshot.is_some(), "{worker:?}");
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`NodeCache`", "r", |users| {
        Box::pin(async move {
            users.other.create(&users.path, "data").await?;
            call(async move {
                let cache = NodeCache::start(&users.session, &users.path)?;
                all_read(&cache.synchronized().await?)
            })
        })
    }),
    Call::new("`ChildrenCache`", "r", |users| {
        Box::pin(async move {
            users.other.create(&users.path, "").await?;
            users
                .other
                .create(format!("{}/child", users.path), "")
                .await?;
            call(async move {
                let cache = ChildrenCache::start(&users.session, &users.path)?;
                all_read(&cache.synchronized().await?)
            })
        })
    }),
    Call::new(
        "`Publisher::publish`, of a key that exists",
        "rw",
        |users| {
            Box::pin(async move {
                users.published(0).await?;
                let publisher = Publisher::new(&users.session, Text);
                call(async move { publisher.publish(&users.path, &"new".to_owned()).await })
            })
        },
    ),
    Call::new(
        "`Publisher::publish`, with a full history",
        "cdrwa",
        |users| {
            Box::pin(async move {
                users.published(1).await?;
                let options = PublishOptions::default().with_history(1);
                let publisher = Publisher::with_options(&users.session, Text, options);
                call(async move { publisher.publish(&users.path, &"new".to_owned()).await })
            })
        },
    ),
    Call::new("`Publisher::remove`", "dr", |users| {
        Box::pin(async move {
            users.published(0).await?;
            let publisher = Publisher::new(&users.session, Text);
            call(async move { publisher.remove(&users.path).await })
        })
    }),
    Call::new("`Publisher::history`", "r", |users| {
        Box::pin(async move {
            users.published(1).await?;
            let publisher = Publisher::new(&users.session, Text);
            call(async move {
                assert_eq!(publisher.history(&users.path).await?.len(), 1);
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`Publisher::purge_history`", "dr", |users| {
        Box::pin(async move {
            users.published(1).await?;
            let publisher = Publisher::new(&users.session, Text);
            call(async move { publisher.purge_history(&users.path).await })
        })
    }),
    Call::new("`Publisher::roll_back`", "rw", |users| {
        Box::pin(async move {
            users.published(1).await?;
            let publisher = Publisher::new(&users.session, Text);
            let revision = publisher.history(&users.path).await?[0].revision;
            call(async move {
                publisher
                    .roll_back(&users.path, revision, Expected::Any)
                    .await
            })
        })
    }),
    Call::new("`Listener::events`", "r", |users| {
        Box::pin(async move {
            users.published(0).await?;
            let listener = Listener::new(&users.session, &users.path, Text)?;
            call(async move {
                match listener.events::<String>().next().await {
                    Some(Event::Present(_)) => Ok(()),
                    Some(Event::Failed(error)) => Err(Failure::from(error)),
                    other => panic!("{other:?}"),
                }
            })
        })
    }),
    Call::new("`Typed::follow`", "r", |users| {
        Box::pin(async move {
            users.published(0).await?;
            call(async move {
                let typed = Typed::<String>::node(&users.path, Text)?.build();
                let following = typed.follow(&users.session);
                let ready = async { Ok::<_, Failure>(typed.ready().await) };
                let is_read =
                    |problem: &Arc<Problem>| !matches!(**problem, Problem::NotRead { .. });
                unless_problem(ready, || typed.problem().filter(is_read)).await?;
                drop(following);
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`Registry::query`", "r", |users| {
        Box::pin(async move {
            let registration = users.others_registration().await?;
            let registry = Registry::new(&users.session, &users.path)?;
            call(async move {
                let list = registry.query::<String>("mail").await?;
                assert_eq!(list.instances().len(), 1, "{registration:?}");
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`Registry::services`", "r", |users| {
        Box::pin(async move {
            let registration = users.others_registration().await?;
            let registry = Registry::new(&users.session, &users.path)?;
            call(async move {
                assert_eq!(registry.services().await?, ["mail"], "{registration:?}");
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`Registry::providers`", "r", |users| {
        Box::pin(async move {
            let registration = users.others_registration().await?;
            let registry = Registry::new(&users.session, &users.path)?;
            call(async move {
                let providers = registry.providers::<String>("mail")?;
                let strategy = RoundRobin::anywhere();
                providers.synchronized().await?;
                let picked = providers.pick(&strategy)?;
                drop((picked, registration));
                Ok::<_, Failure>(())
            })
        })
    })
    .without("read: `pick` returns `PickError::Incomplete`, which names the service"),
    Call::new("`Registration::update`", "rw", |users| {
        Box::pin(async move {
            let registration = users.registration().await?;
            call(async move { registration.set_payload("new".to_owned()).await })
        })
    }),
    Call::new("`Registration::unregister`", "dr", |users| {
        Box::pin(async move {
            let registration = users.registration().await?;
            call(async move { registration.unregister().await })
        })
    }),
    Call::new("`Group::synchronized`", "r", |users| {
        Box::pin(async move {
            let member = Membership::join(&users.other, &users.path, "one", "payload")?;
            member.ready().await?;
            call(async move {
                let group = Group::start(&users.session, &users.path)?;
                let members = group.synchronized().await?;
                assert_eq!(members.len(), 1, "{member:?}");
                Ok::<_, Failure>(())
            })
        })
    })
    .without("read: it waits until the group can be read, and `partial_read` says so"),
    Call::new("`Membership::set_payload`", "rw", |users| {
        Box::pin(async move {
            let member = Membership::join(&users.session, &users.path, "one", "payload")?;
            member.ready().await?;
            call(async move { member.set_payload("new").await })
        })
    }),
    Call::new("`Membership::leave`", "dr", |users| {
        Box::pin(async move {
            let member = Membership::join(&users.session, &users.path, "one", "payload")?;
            member.ready().await?;
            call(member.leave())
        })
    }),
    Call::new("`Barrier::wait`", "", |users| {
        Box::pin(async move {
            let others = Barrier::new(&users.other, &users.path)?;
            others.set().await?;
            let barrier = Barrier::new(&users.session, &users.path)?;
            call(async move { both(barrier.wait(), others.remove()).await })
        })
    }),
    Call::new(
        "`DoubleBarrier::enter`, and leave with another one",
        "cdrw",
        |users| {
            Box::pin(async move {
                let two = NonZeroU32::new(2).expect("it is two");
                // So that the nodes of rounds exist.
                let alone = DoubleBarrier::new(&users.other, &users.path, NonZeroU32::MIN)?;
                alone.enter().await?.leave().await?;
                let barrier = DoubleBarrier::new(&users.session, &users.path, two)?;
                let others = DoubleBarrier::new(&users.other, &users.path, two)?;
                call(async move {
                    let (own, other) = both(barrier.enter(), others.enter()).await?;
                    both(own.leave(), other.leave()).await
                })
            })
        },
    )
    .without("write: a member that may write opens the round"),
    Call::new("`AtomicCounter::get`", "r", |users| {
        Box::pin(async move {
            let counter = users.counter().await?;
            call(async move { counter.get().await })
        })
    }),
    Call::new("`AtomicCounter::increment`", "crw", |users| {
        Box::pin(async move {
            let counter = users.counter().await?;
            call(async move { counter.increment().await })
        })
    }),
    Call::new("`AtomicCounter::compare_and_set`", "crw", |users| {
        Box::pin(async move {
            let counter = users.counter().await?;
            call(async move { counter.compare_and_set(1, 5).await })
        })
    }),
    Call::new("`SharedValue::synchronized`", "r", |users| {
        Box::pin(async move {
            let others = SharedValue::start(&users.other, &users.path, "first")?;
            others.synchronized().await?;
            call(async move {
                let value = SharedValue::start(&users.session, &users.path, "first")?;
                value.synchronized().await?;
                Ok::<_, Failure>(())
            })
        })
    })
    .without("read: it waits until the node can be read, and logs a warning"),
    Call::new("`SharedValue::set`", "crw", |users| {
        Box::pin(async move {
            let others = SharedValue::start(&users.other, &users.path, "first")?;
            others.synchronized().await?;
            call(async move {
                let value = SharedValue::start(&users.session, &users.path, "first")?;
                value.set("second").await?;
                Ok::<_, Failure>(())
            })
        })
    }),
];

impl Users {
    async fn persistent_node(&self) -> Result<PersistentNode, Failure> {
        let options = PersistentNodeOptions::ephemeral();
        let node = PersistentNode::start(&self.session, &self.path, "data", options)?;
        node.ready().await?;
        Ok(node)
    }

    /// Publishes a key, twice if it has a history.
    async fn published(&self, history: usize) -> Result<(), Failure> {
        let options = PublishOptions::default().with_history(history);
        let publisher = Publisher::with_options(&self.other, Text, options);
        for value in 0..=history {
            publisher.publish(&self.path, &value.to_string()).await?;
        }
        Ok(())
    }

    async fn registration(&self) -> Result<Registration<String>, Failure> {
        register(Registry::new(&self.session, &self.path)?).await
    }

    async fn others_registration(&self) -> Result<Registration<String>, Failure> {
        register(Registry::new(&self.other, &self.path)?).await
    }

    /// Returns a counter that the other user has created.
    async fn counter(&self) -> Result<AtomicCounter, Failure> {
        let options = CounterOptions::default();
        let others = AtomicCounter::new(&self.other, &self.path, &options)?;
        others.increment().await?;
        Ok(AtomicCounter::new(&self.session, &self.path, &options)?)
    }
}

async fn register(registry: Registry) -> Result<Registration<String>, Failure> {
    let instance = Instance::builder("mail", "payload".to_owned()).id("one");
    let instance = instance.address("127.0.0.1").build()?;
    Ok(registry.register(instance).await?)
}
