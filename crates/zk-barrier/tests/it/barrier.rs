//! The barrier on real servers, with connections that are cut.

use zk_barrier::Barrier;
use zk_fault_proxy::{Clients, Close, Match};

use crate::{connect, soon, with_servers};

#[tokio::test(flavor = "multi_thread")]
async fn waiters_pass_when_the_barrier_is_removed_over_cuts() {
    with_servers(3, async |ensemble| {
        let proxy = ensemble.proxy().expect("the ensemble has a proxy");
        let setter = connect(ensemble).await;
        let barrier = Barrier::new(&setter, "/app/migration").unwrap();
        let its = setter.id().as_i64();
        let lost = proxy.on(Match::writes().session(its)).once().cut_on_reply();
        assert!(barrier.set().await.unwrap());
        assert_eq!(lost.count(), 1);
        assert!(!barrier.set().await.unwrap());
        let mut waits = tokio::task::JoinSet::new();
        let mut sessions = Vec::new();
        for _ in 0..5 {
            let session = connect(ensemble).await;
            let barrier = Barrier::new(&session, "/app/migration").unwrap();
            waits.spawn(async move { barrier.wait().await });
            sessions.push(session);
        }
        for session in &sessions {
            let its = session.id().as_i64();
            proxy.cut(Clients::Session(its), Close::Rst).await;
            assert!(barrier.is_set().await.unwrap());
        }
        assert!(waits.try_join_next().is_none());
        assert!(barrier.remove().await.unwrap());
        for passed in soon("all pass", waits.join_all()).await {
            passed.unwrap();
        }
        assert!(!barrier.remove().await.unwrap());
    })
    .await;
}
