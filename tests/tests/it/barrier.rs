//! Barriers of Curator and kazoo and ours, on one path.

use std::num::NonZeroU32;

use zk_barrier::{Barrier, DoubleBarrier, Layout};
use zk_core::Session;
use zk_harness::Ensemble;
use zk_sim::wait::soon;
use zk_tests::peers::{BarrierAct, BarrierPaths, BarrierPeer, Curator, Kazoo};

use crate::lock::{SOON, names, observer, three_servers, until, watches};

const PATHS: BarrierPaths<'_> = BarrierPaths {
    barrier: "/app/migration",
    double_barrier: "/app/steps",
    members: 3,
};

async fn peers(ensemble: &Ensemble) -> [BarrierPeer; 2] {
    let connect = ensemble.connect_string();
    let (curator, kazoo) = (Curator::find().await.unwrap(), Kazoo::find().await.unwrap());
    let curator = BarrierPeer::curator(&curator, &connect, PATHS).await;
    let kazoo = BarrierPeer::kazoo(&kazoo, &connect, PATHS).await;
    [curator.unwrap(), kazoo.unwrap()]
}

/// Waits until the path has so many children.
async fn has_children(session: &Session, path: &str, count: usize) {
    let what = format!("{path} has {count} children");
    until(&what, SOON, async || {
        names(session, path).await.len() == count
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_kazoo_share_our_barrier() {
    let ensemble = three_servers().await;
    let session = observer(&ensemble).await;
    let barrier = Barrier::new(&session, PATHS.barrier).unwrap();
    for mut peer in peers(&ensemble).await {
        // They set it and remove it, we wait.
        peer.does(BarrierAct::Set).await.unwrap();
        assert!(barrier.is_set().await.unwrap());
        assert!(!barrier.set().await.unwrap());
        let before = watches(&ensemble).await;
        let waiter = barrier.clone();
        let waiting = tokio::spawn(async move { waiter.wait().await });
        until("we wait", SOON, async || watches(&ensemble).await > before).await;
        peer.does(BarrierAct::Remove).await.unwrap();
        soon("it is removed", waiting).await.unwrap().unwrap();
        // We set it and remove it, they wait.
        assert!(barrier.set().await.unwrap());
        let before = watches(&ensemble).await;
        peer.begin(BarrierAct::Wait).await.unwrap();
        until("they wait", SOON, async || {
            watches(&ensemble).await > before
        })
        .await;
        assert!(barrier.remove().await.unwrap());
        peer.has_done(BarrierAct::Wait).await.unwrap();
        peer.does(BarrierAct::Remove).await.unwrap();
        assert!(!barrier.is_set().await.unwrap());
    }
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_kazoo_share_our_double_barrier() {
    let ensemble = three_servers().await;
    let session = observer(&ensemble).await;
    let threshold = NonZeroU32::new(PATHS.members).unwrap();
    let barrier = DoubleBarrier::new(&session, PATHS.double_barrier, threshold).unwrap();
    let barrier = barrier.with_layout(Layout::Recipe);
    let [mut curator, mut kazoo] = peers(&ensemble).await;
    for ours_is_last in [false, true, false] {
        let enter = {
            let barrier = barrier.clone();
            async move { barrier.enter().await }
        };
        let member = if ours_is_last {
            curator.begin(BarrierAct::Enter).await.unwrap();
            kazoo.begin(BarrierAct::Enter).await.unwrap();
            has_children(&session, PATHS.double_barrier, 2).await;
            soon("all are there", enter).await.unwrap()
        } else {
            let entering = tokio::spawn(enter);
            has_children(&session, PATHS.double_barrier, 1).await;
            kazoo.begin(BarrierAct::Enter).await.unwrap();
            has_children(&session, PATHS.double_barrier, 2).await;
            assert!(!entering.is_finished());
            curator.begin(BarrierAct::Enter).await.unwrap();
            soon("all are there", entering).await.unwrap().unwrap()
        };
        curator.has_done(BarrierAct::Enter).await.unwrap();
        kazoo.has_done(BarrierAct::Enter).await.unwrap();
        let leaving = tokio::spawn(member.leave());
        curator.begin(BarrierAct::Leave).await.unwrap();
        kazoo.does(BarrierAct::Leave).await.unwrap();
        curator.has_done(BarrierAct::Leave).await.unwrap();
        soon("all have left", leaving).await.unwrap().unwrap();
        has_children(&session, PATHS.double_barrier, 0).await;
    }
    ensemble.down().await.unwrap();
}
