//! Fail-over with a breadcrumb on real servers.

use std::convert::Infallible;
use std::sync::Mutex;

use zk_core::Session;
use zk_fault_proxy::{Clients, Close, Match, Route, Rule, RuleBuilder};
use zk_leader::{Breadcrumb, LeaderLatch, LeaderLease, TakeOverError};

use crate::{connect, leading, soon, until_waiting, with_servers};

const NODE: &str = "/a/ActiveBreadCrumb";

fn latch(session: &Session) -> LeaderLatch {
    LeaderLatch::new(session, "/a").unwrap()
}

/// Takes over, and returns whom it fences.
async fn take_over(lease: &LeaderLease, data: &str) -> (Breadcrumb, Vec<String>) {
    let fenced = Mutex::new(Vec::new());
    let taking_over = Breadcrumb::take_over(lease, data, async |old| {
        fenced.lock().unwrap().push(String::from_utf8(old).unwrap());
        Ok::<_, Infallible>(())
    });
    let breadcrumb = soon("it takes over", taking_over).await.unwrap();
    (breadcrumb, fenced.into_inner().unwrap())
}

/// The active is cut off and never notices; the standby fences it, and resigns in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_fences_an_active_that_is_cut_off() {
    with_servers(3, async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        let first = latch(&one).join();
        let lease = leading(&first).await;
        let (stale, fenced) = take_over(&lease, "one").await;
        assert_eq!(fenced, [""; 0]);
        let second = latch(&other).join();
        until_waiting(&second).await;
        let proxy = ensemble.proxy().unwrap();
        let session = Clients::Session(one.id().as_i64());
        proxy.route(session, Route::Refuse).unwrap();
        proxy.cut(session, Close::Rst).await;

        let next = leading(&second).await;
        let (breadcrumb, fenced) = take_over(&next, "other").await;
        assert_eq!(fenced, ["one"]);
        proxy.heal();
        // The former active comes back, and its breadcrumb is not its own any more.
        soon("it is refused", stale.remove()).await.unwrap_err();
        let fence = async |_| Ok::<_, Infallible>(());
        let late = soon("it fails", Breadcrumb::take_over(&lease, "one", fence)).await;
        assert!(matches!(late, Err(TakeOverError::Lost(_))), "{late:?}");
        let (data, _) = other.get(NODE).await.unwrap();
        assert_eq!(data.to_vec(), b"other");

        soon("it is removed", breadcrumb.remove()).await.unwrap();
        soon("it leaves", second.leave()).await;
        let third = latch(&connect(ensemble).await).join();
        let (_, fenced) = take_over(&leading(&third).await, "third").await;
        assert_eq!(fenced, [""; 0]);
    })
    .await;
}

/// The request is lost, or the reply.
#[tokio::test(flavor = "multi_thread")]
async fn lost_replies_neither_fence_twice_nor_lose_the_breadcrumb() {
    with_servers(3, async |ensemble| {
        let proxy = ensemble.proxy().unwrap();
        let old = latch(&connect(ensemble).await).join();
        drop(take_over(&leading(&old).await, "old").await);
        soon("it leaves", old.leave()).await;

        let mut to_fence = "old".to_owned();
        for (what, cut) in CUTS {
            // The quorum and the breadcrumb are read twice, and the breadcrumb is written.
            for nth in 1..=5 {
                let session = connect(ensemble).await;
                let participant = latch(&session).join();
                let lease = leading(&participant).await;
                let its = Match::requests().session(session.id().as_i64());
                let rule = cut(proxy.on(its).nth(nth));
                let data = format!("{what}, request {nth}");
                let (breadcrumb, fenced) = take_over(&lease, &data).await;
                assert_eq!((fenced, rule.count()), (vec![to_fence], 1), "{data}");
                let (found, _) = session.get(NODE).await.unwrap();
                assert_eq!(found.to_vec(), data.as_bytes());
                to_fence = data;
                drop(breadcrumb);
                soon("it leaves", participant.leave()).await;
            }
        }
        for (what, cut) in CUTS {
            let session = connect(ensemble).await;
            let participant = latch(&session).join();
            let (breadcrumb, _) = take_over(&leading(&participant).await, what).await;
            let its = Match::multi(NODE).session(session.id().as_i64());
            let rule = cut(proxy.on(its).once());
            soon("it is removed", breadcrumb.remove()).await.unwrap();
            assert_eq!(rule.count(), 1, "{what}");
            assert_eq!(session.exists(NODE).await.unwrap(), None, "{what}");
            soon("it leaves", participant.leave()).await;
        }
    })
    .await;
}

type Cut = (&'static str, fn(RuleBuilder) -> Rule);

const CUTS: [Cut; 2] = [
    ("request lost", RuleBuilder::drop_then_cut),
    ("reply lost", RuleBuilder::cut_on_reply),
];
