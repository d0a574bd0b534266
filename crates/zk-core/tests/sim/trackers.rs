//! Following the data of one node.

use std::time::Duration;

use futures_util::FutureExt;
use zk_core::{Acl, ErrorKind, Tracked};
use zk_sim::matching::gets;
use zk_sim::{Chaos, Check, Ensemble, Release};

use crate::{pass, polled, soon};

fn data(tracked: &Tracked) -> Option<&[u8]> {
    tracked.node.as_ref().map(|node| &*node.data)
}

#[tokio::test(start_paused = true)]
async fn a_tracker_knows_the_newest_data_of_a_recreated_node() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await.with_namespace("/ns").unwrap();
    let other = sim.connect().await;
    let mut tracker = session.track("/a").await.unwrap();
    assert!(tracker.now().node.is_none());
    let mut second = tracker.clone();
    let available = tokio::spawn(async move { second.available().await });
    pass(Duration::from_secs(1)).await;
    assert!(!available.is_finished());
    other.create("/ns/a", "1").parents().await.unwrap();
    let node = soon("it comes", available).await.unwrap().unwrap();
    assert_eq!((&*node.data, node.stat.version), (&b"1"[..], 0));
    assert_eq!(
        data(&soon("told", tracker.changed()).await.unwrap()),
        Some(&b"1"[..])
    );
    other.set("/ns/a", "2").await.unwrap();
    assert_eq!(
        data(&soon("told", tracker.changed()).await.unwrap()),
        Some(&b"2"[..])
    );
    assert!(
        tracker.changed().now_or_never().is_none(),
        "nothing has happened"
    );
    // Another node with the same data is another value.
    let before = tracker.now().node.unwrap().stat.czxid;
    sim.session(session.id()).silence();
    other.delete("/ns/a").await.unwrap();
    other.create("/ns/a", "2").await.unwrap();
    let stale = soon("it is stale", tracker.changed()).await.unwrap();
    assert!(stale.is_stale);
    sim.session(session.id()).heal();
    let now = soon("it is fresh", tracker.changed()).await.unwrap();
    assert!(!now.is_stale && now.node.unwrap().stat.czxid > before);
    other.delete("/ns/a").await.unwrap();
    assert_eq!(data(&soon("told", tracker.changed()).await.unwrap()), None);

    sim.expire(session.id());
    loop {
        let now = soon("the end", tracker.changed()).await.unwrap();
        if now.is_over {
            assert!(now.is_stale);
            break;
        }
    }
    assert!(tracker.changed().await.is_none());
    assert!(tracker.available().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_tracker_that_is_dropped_anywhere_leaves_nothing() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let mut times = 0;
    loop {
        times += 1;
        let made = polled(times, session.track("/a").into_future()).await;
        let is_made = made.is_some();
        if let Some(made) = made {
            drop(made.unwrap());
        }
        pass(Duration::from_millis(20)).await;
        session.sync("/").await.unwrap();
        assert_eq!(sim.watch_count(), 0);
        if is_made {
            break;
        }
    }
    let error = session.track("c").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidPath);
}

/// An outage that begins while it reads what has changed is seen when it begins, not when it ends.
#[tokio::test(start_paused = true)]
async fn a_tracker_is_stale_during_an_outage_that_cuts_its_read_short() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let other = sim.connect().await;
    other.create("/a", "1").await.unwrap();
    let mut tracker = session.track("/a").await.unwrap();
    assert!(!tracker.now().is_stale);
    let reads = sim.on(gets("/a")).session(session.id()).hold();
    other.set("/a", "2").await.unwrap();
    soon("it reads what changed", reads.happened()).await;
    sim.session(session.id()).cut_for(Duration::from_secs(3));
    pass(Duration::from_secs(1)).await;
    let now = tracker.now();
    assert!(now.is_stale, "there is no connection");
    assert_eq!(data(&now), Some(&b"1"[..]));
    let now = soon("it is fresh", tracker.changed()).await.unwrap();
    assert!(!now.is_stale);
    assert_eq!(data(&now), Some(&b"2"[..]));
}

/// Changes faster than a round trip do not keep it from knowing one of them.
#[tokio::test(start_paused = true)]
async fn a_tracker_of_a_node_that_changes_all_the_time_keeps_up() {
    let sim = Ensemble::builder()
        .latency(Duration::from_millis(20))
        .build();
    let session = sim.connect().await;
    let other = sim.connect().await;
    other.create("/a", "0").await.unwrap();
    let mut tracker = session.track("/a").await.unwrap();
    let changes = async {
        let writes = (1..=100).map(|round| {
            let other = other.clone();
            async move {
                pass(Duration::from_millis(5 * round)).await;
                other.set("/a", round.to_string()).await.unwrap();
            }
        });
        futures_util::future::join_all(writes).await;
    };
    let mut seen = 0;
    tokio::select! {
        biased;
        () = changes => {}
        () = async { while tracker.changed().await.is_some() { seen += 1; } } => {}
    }
    assert!(seen > 5, "seen {seen}");
    pass(Duration::from_secs(1)).await;
    assert_eq!(tracker.now().node.unwrap().stat.version, 100);
}

#[test]
fn a_tracker_knows_the_truth_in_the_end() {
    Check::new(0..40).run(async |sim, seed| {
        let session = sim.connect().timeout(Duration::from_secs(20)).await;
        let writer = sim.connect().timeout(Duration::from_secs(20)).await;
        let mut tracker = session.track("/a").await?;
        let mut random = fastrand::Rng::with_seed(seed);
        let chaos = tokio::spawn(Chaos::default().run(&sim));
        let mut newest = 0;
        let mut results = 0;
        for round in 0..40 {
            let limit = Duration::from_millis(random.u64(0..500));
            let made = match random.u8(0..3) {
                0 => writer
                    .create("/a", round.to_string())
                    .timeout(limit)
                    .await
                    .is_ok(),
                1 => writer
                    .set("/a", round.to_string())
                    .timeout(limit)
                    .await
                    .is_ok(),
                _ => writer.delete("/a").timeout(limit).await.is_ok(),
            };
            results += usize::from(made);
            if let Some(node) = tracker.now().node {
                assert!(node.stat.mzxid >= newest, "a tracker does not go back");
                newest = node.stat.mzxid;
            }
            pass(Duration::from_millis(random.u64(0..500))).await;
        }
        chaos.await.expect("nothing panics there");
        pass(Duration::from_secs(120)).await;
        let now = tracker.now();
        if now.is_over {
            return Ok(());
        }
        let truth = sim
            .tree()
            .node("/a")
            .map(|node| (node.stat().mzxid, node.data().to_vec()));
        let known = now.node.map(|node| (node.stat.mzxid, node.data.to_vec()));
        assert_eq!(known, truth);
        assert!(!now.is_stale && results > 0);
        Ok::<(), zk_core::Error>(())
    });
}

#[tokio::test(start_paused = true)]
async fn a_tracker_notices_that_it_may_not_read_and_that_it_may() {
    for release in [Release::V3_8, Release::V3_9] {
        let sim = Ensemble::builder().release(release).build();
        let bob = sim.connect().digest("bob", "secret").await;
        let alice = sim.connect().await;
        let mut tracker = alice.track("/a").await.unwrap();
        let private = bob.create("/a", "1").acl(Acl::creator_only());
        private.await.unwrap();
        let refused = soon("the refusal", tracker.changed()).await.unwrap();
        let problem = refused.problem.map(|problem| problem.kind());
        assert_eq!(problem, Some(ErrorKind::NoAuth), "{release:?}");
        bob.set_acl("/a", Acl::open()).await.unwrap();
        let node = soon("the node", tracker.available()).await.unwrap();
        assert_eq!(&*node.data, b"1");
    }
}
