//! Which crates have logged: a search in the log says nothing about one that has not.

use std::future::pending;
use std::path::Path;
use std::time::Duration;

use zk_config::Typed;
use zk_core::codec::Text;
use zk_core::{Acl, Session};
use zk_counter::SharedValue;
use zk_discovery::Registry;
use zk_group::partitioner::{Partitioner, PartitionerOptions, PartitionerProblem};
use zk_id::{Layout, Snowflakes};

use super::soon;

/// Fails unless each crate that can log has done so.
pub(super) fn assert_each_crate_is_in(logged: &str) {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let crates = crates.read_dir().expect("the crates can be listed");
    let names = crates.filter_map(|entry| {
        let entry = entry.expect("the crates can be listed");
        let manifest = std::fs::read_to_string(entry.path().join("Cargo.toml"));
        let manifest = manifest.expect("a crate has a manifest");
        let can_log = manifest.lines().any(|line| line.starts_with("tracing"));
        let name = entry.file_name().into_string().expect("it is ASCII");
        can_log.then_some(name)
    });
    let names: Vec<_> = names
        .filter(|name| !WITHOUT_A_PART.contains(&name.as_str()))
        .collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let target = format!(" {}::", name.replace('-', "_"));
        assert!(logged.contains(&target), "{name} has logged nothing");
    }
}

/// They start and judge servers, and have no session. The last one has sessions over another client.
const WITHOUT_A_PART: [&str; 5] = [
    "zk-fault-proxy",
    "zk-harness",
    "zk-history",
    "zk-provision",
    "zk-zookeeper-client",
];

/// Lets the crates log that have nothing to say while everything succeeds.
pub(super) async fn provoke(session: &Session) {
    session.create("/undecodable", b"\xff").await.unwrap();
    let value: Typed<String> = Typed::node("/undecodable", Text).unwrap().build();
    let _following = value.follow(session);
    let mut problems = value.problems();
    let problem = problems.wait_for(Option::is_some);
    drop(soon("a problem with a value", problem).await.unwrap());

    let create = session.create("/services/mail/one", "no instance");
    create.parents().await.unwrap();
    let registry = Registry::new(session, "/services").unwrap();
    let providers = registry.providers::<String>("mail").unwrap();
    let instances = soon("a list of instances", providers.synchronized()).await;
    assert_eq!(instances.unwrap().len(), 0, "the node is no instance");

    let snowflakes = Snowflakes::new(session, "/snowflakes", Layout::TWITTER).unwrap();
    let snowflakes = snowflakes.with_preferred(0);
    let first = soon("a worker number", snowflakes.claim()).await.unwrap();
    soon("its release", first.release()).await.unwrap();
    let far_ahead = "99999999999999 another";
    session
        .set("/snowflakes/mark-00000", far_ahead)
        .await
        .unwrap();
    let second = soon("a worker number", snowflakes.claim()).await.unwrap();
    soon("its release", second.release()).await.unwrap();

    let closed = session.create("/closed", "").acl(Acl::read_only());
    closed.await.unwrap();
    let value = SharedValue::start(session, "/closed/value", "first").unwrap();
    let refused = soon("a refusal", value.set("second")).await;
    refused.expect_err("the node cannot be created");

    // No place in the queue of this lock can be created.
    let locks = session.create("/items/locks", "").parents();
    locks.await.unwrap();
    let lock = session.create("/items/locks/item", "");
    lock.acl(Acl::read_only()).await.unwrap();
    let options = PartitionerOptions::default().with_settle_time(MOMENT);
    let partitioner = Partitioner::start_with(session, "/items", "one", ["item"], options);
    let partitioner = partitioner.unwrap();
    let failed = async {
        // At first it may only not see itself yet.
        while !matches!(partitioner.problem(), Some(PartitionerProblem::Item { .. })) {
            drop(tokio::time::timeout(MOMENT, pending::<()>()).await);
        }
    };
    soon("a problem with an item", failed).await;
    soon("its end", partitioner.leave()).await.unwrap();
}

const MOMENT: Duration = Duration::from_millis(20);
