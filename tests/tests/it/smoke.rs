//! Every recipe once, on one ensemble: what `cargo xtask test quick` runs on real servers.

use std::time::Duration;

use zk_cache::TreeCache;
use zk_config::Publisher;
use zk_core::codec::Text;
use zk_core::{NodePath, Session};
use zk_discovery::{Instance, Registry, RoundRobin};
use zk_harness::{DataStore, Ensemble};
use zk_id::WorkerIds;
use zk_leader::Selector;
use zk_lock::FairLock;
use zk_queue::WorkQueue;
use zk_sim::wait::soon;

/// For what takes moments on an idle machine.
const SOON: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn every_recipe_works_on_real_servers() {
    let ensemble = Ensemble::builder()
        .servers(3)
        .data(DataStore::Memory)
        .start()
        .await
        .expect("the servers start");
    let connecting = Session::builder(ensemble.connect_string()).connect();
    let session = connecting.await.expect("a session is granted");
    soon("the lock is used", lock(&session)).await;
    soon("the election is held", leader(&session)).await;
    soon("the work is done", queue(&session)).await;
    soon("numbers are given", id(&session)).await;
    soon("a publication is seen", config_and_cache(&session)).await;
    soon("an instance is picked", discovery(&session)).await;
    session.close().await.unwrap();
    ensemble.down().await.unwrap();
}

async fn lock(session: &Session) {
    let lock = FairLock::new(session, "/smoke/lock").unwrap();
    let first = lock.acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    let token = first.fencing_token();
    first.release().await.unwrap();
    let second = lock.acquire().await.unwrap();
    assert!(second.fencing_token() > token);
    second.release().await.unwrap();
}

async fn leader(session: &Session) {
    let selector = Selector::new(session, "/smoke/leader").unwrap();
    let led = selector
        .run(async |lease| std::ops::ControlFlow::Break(lease.is_valid()))
        .await;
    assert!(led.unwrap());
}

async fn queue(session: &Session) {
    let queue = WorkQueue::new(session, "/smoke/queue", Text).unwrap();
    queue.offer(&"work".to_owned()).await.unwrap();
    let claim = queue.try_claim().await.unwrap().expect("it was offered");
    assert_eq!(claim.item(), "work");
    claim.acknowledge().await.unwrap();
    assert!(queue.is_empty().await.unwrap());
}

async fn id(session: &Session) {
    let workers = WorkerIds::new(session, "/smoke/workers", 2).unwrap();
    let (one, other) = (
        workers.claim().await.unwrap(),
        workers.claim().await.unwrap(),
    );
    assert_ne!(one.number(), other.number());
    one.release().await.unwrap();
    other.release().await.unwrap();
}

async fn config_and_cache(session: &Session) {
    session.create("/smoke/config", "").parents().await.unwrap();
    let cache = TreeCache::start(session, "/smoke/config").unwrap();
    let mut events = cache.events();
    let publisher = Publisher::new(session, Text);
    publisher
        .publish("/smoke/config/limit", &"7".to_owned())
        .await
        .unwrap();
    let path: NodePath = "/smoke/config/limit".parse().unwrap();
    while cache
        .get(&path)
        .is_none_or(|node| node.data() != Some(b"7"))
    {
        events.next().await.expect("the cache goes on");
    }
}

async fn discovery(session: &Session) {
    let registry = Registry::new(session, "/smoke/services").unwrap();
    let providers = registry.providers::<String>("mail").unwrap();
    let instance = Instance::builder("mail", "payload".to_owned()).id("one");
    let instance = instance.address("127.0.0.1").build().unwrap();
    let registration = registry.register(instance).await.unwrap();
    let picked = providers.pick_timeout(&RoundRobin::anywhere(), SOON).await;
    assert_eq!(picked.unwrap().id(), "one");
    registration.unregister().await.unwrap();
}
