//! Servers that are killed, and processes that are killed and paused.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;
use zk_core::{Session, Update};
use zk_discovery::{InstanceChange, InstanceChanges, Random};
use zk_harness::Ensemble;

use crate::{connect, example, instance, registry, soon};

async fn until(
    what: &str,
    changes: &mut InstanceChanges<String>,
    is_it: impl Fn(&InstanceChange<String>) -> bool,
) {
    soon(what, async {
        loop {
            let change = changes.next().await.expect("it goes on");
            assert!(
                !matches!(change, InstanceChange::Ended(_)),
                "it ended before {what}"
            );
            if is_it(&change) {
                return;
            }
        }
    })
    .await;
}

/// The session moves to another server, and no consumer sees its instance removed or added.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_does_not_flap_when_its_server_is_killed() {
    let ensemble = Ensemble::builder().servers(3).start().await.unwrap();
    let (session, watching) = (connect(&ensemble).await, connect(&ensemble).await);
    let registration = registry(&session).register(instance("a")).await.unwrap();
    // Its server may lag, and would report the creation later.
    watching.sync("/").with_quorum().await.unwrap();
    let providers = registry(&watching).providers::<String>("orders").unwrap();
    soon("it is read", providers.synchronized()).await.unwrap();
    let czxid = session.stat(registration.path()).await.unwrap().czxid;
    let mut events = watching.subscribe("/services").recursive().await.unwrap();
    for server in 1..=3 {
        let server = ensemble.server(server).unwrap();
        server.kill().await.unwrap();
        ensemble.wait_quorum().await.unwrap();
        soon(
            "the session is there again",
            session.sync("/").with_quorum().into_future(),
        )
        .await
        .unwrap();
        registration
            .update(|one| one.payload_mut().push('x'))
            .await
            .unwrap();
        server.start().unwrap();
        ensemble.wait_serving().await.unwrap();
    }
    let stat = session.stat(registration.path()).await.unwrap();
    assert_eq!((stat.czxid, stat.version), (czxid, 3));
    assert!(registration.is_registered());
    watching.sync("/").with_quorum().await.unwrap();
    registration.unregister().await.unwrap();
    // What was seen of it is its updates, and at last its end.
    let mut gone = 0;
    soon("its end is seen", async {
        while gone == 0 {
            if let Some(Update::Changed { event, .. }) = events.next().await {
                assert_ne!(event, zk_core::WatchEvent::Created);
                gone += usize::from(event == zk_core::WatchEvent::Deleted);
            }
        }
    })
    .await;
    ensemble.down().await.unwrap();
}

/// No server until the session of a consumer is over: it goes on picking what it knew, and its next session takes over.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_picked_from_through_an_outage_of_all_servers() {
    let ensemble = Ensemble::builder().servers(1).start().await.unwrap();
    let serving = connect(&ensemble).await;
    let _registration = registry(&serving).register(instance("a")).await.unwrap();
    let short = || {
        Session::builder(ensemble.connect_string())
            .session_timeout(Duration::from_secs(10))
            .connect_timeout(Duration::from_secs(60))
            .connect()
    };
    let session = short().await.unwrap();
    let providers = registry(&session).providers::<String>("orders").unwrap();
    soon("it is read", providers.synchronized()).await.unwrap();
    let mut changes = providers.changes();
    ensemble.kill_all().await.unwrap();
    soon("the session is over", async {
        while !matches!(changes.next().await, Some(InstanceChange::Ended(_)) | None) {
            assert_eq!(providers.pick(&Random).unwrap().id(), "a");
        }
    })
    .await;
    let picked = providers.pick(&Random).unwrap();
    assert_eq!((picked.id(), picked.is_stale()), ("a", true));
    ensemble.start_stopped().unwrap();
    let next = short().await.unwrap();
    providers.follow(&next);
    assert_eq!(providers.pick(&Random).unwrap().id(), "a");
    soon("the next session takes over", providers.synchronized())
        .await
        .unwrap();
    let picked = providers.pick(&Random).unwrap();
    assert_eq!((picked.id(), picked.is_stale()), ("a", false));
    ensemble.down().await.unwrap();
}

/// A process that keeps its instance registered is killed: its consumers see it go within its session timeout, and some.
/// One that is paused past its session registers anew when it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn instances_of_processes_that_are_killed_or_paused_go_and_come_back_with_the_process() {
    let ensemble = Ensemble::builder().servers(1).start().await.unwrap();
    let session = connect(&ensemble).await;
    let providers = registry(&session).providers::<String>("orders").unwrap();
    let mut changes = providers.changes();
    let start = || {
        Command::new(example("serve"))
            .args([&ensemble.connect_string(), "/services", "orders", "one"])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    };
    let is_added = |change: &InstanceChange<String>| matches!(change, InstanceChange::Added(_));
    let is_removed = |change: &InstanceChange<String>| matches!(change, InstanceChange::Removed(_));
    let mut child = start();
    until("it is registered", &mut changes, is_added).await;
    assert_eq!(providers.pick(&Random).unwrap().id(), "one");
    child.kill().await.unwrap();
    // The same instance, started anew at once, waits until its last session is over.
    let mut child = start();
    until("it goes", &mut changes, is_removed).await;
    until("it comes", &mut changes, is_added).await;

    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    until("it goes", &mut changes, is_removed).await;
    kill_process(pid, Signal::CONT).unwrap();
    until("it comes back", &mut changes, is_added).await;
    child.kill().await.unwrap();
    ensemble.down().await.unwrap();
}
