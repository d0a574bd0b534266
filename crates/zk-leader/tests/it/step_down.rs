//! Leaders that are asked to step down.

use std::ops::ControlFlow;
use std::time::Duration;

use zk_core::{Acl, AclEntry, Permissions, Session};
use zk_leader::{
    ElectionOptions, LeaderLatch, LeaderLease, LeadershipLoss, Selector, StepDown, StepDownError,
    StepDownPolicy,
};
use zk_sim::wait::until;

use crate::{connect, leading, soon, until_waiting, with_servers};

const PATH: &str = "/leaders/a";
const INBOXES: &str = "/leaders/a-step-down";

fn options(policy: StepDownPolicy) -> ElectionOptions {
    ElectionOptions::default().with_step_down(policy)
}

fn latch(session: &Session, policy: StepDownPolicy) -> LeaderLatch {
    LeaderLatch::with_options(session, PATH, &options(policy)).unwrap()
}

async fn inboxes(session: &Session) -> Vec<String> {
    synced(session).await;
    match session.list(INBOXES).await {
        Ok((names, _)) => names,
        Err(error) if error.is_no_node() => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}

/// Waits until the session's server shows what was done through others.
async fn synced(session: &Session) {
    session.sync("/").with_quorum().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_accepts_or_refuses_and_the_requester_is_answered() {
    with_servers(3, async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        let asking = LeaderLatch::new(&connect(ensemble).await, PATH).unwrap();
        assert_eq!(
            asking.request_step_down().await.unwrap(),
            StepDown::NoLeader
        );

        let first = latch(&one, StepDownPolicy::Application).join();
        let lease = leading(&first).await;
        let second = latch(&other, StepDownPolicy::Resign).join();
        until_waiting(&second).await;
        synced(asking.session()).await;

        let asked = tokio::spawn(asking.request_step_down().reason("a restart").into_future());
        let request = soon("it is asked", lease.step_down_requested())
            .await
            .unwrap();
        assert_eq!(request.reason(), Some("a restart"));
        assert!(request.by().is_some() && request.deadline().is_some());
        request.refuse("not now").await.unwrap();
        let refused = soon("it is answered", asked).await.unwrap().unwrap();
        let reason = "not now".to_owned();
        assert_eq!(refused, StepDown::Refused { reason });
        assert!(lease.is_valid());

        // Without an answer, nothing happens.
        let limit = Duration::from_secs(10);
        let asked = tokio::spawn(asking.request_step_down().limit(limit).into_future());
        let request = soon("it is asked", lease.step_down_requested()).await;
        let unanswered = soon("it gives up", asked).await.unwrap().unwrap();
        assert_eq!(unanswered, StepDown::Unanswered);
        assert!(lease.is_valid());
        drop(request.unwrap());

        let asked = tokio::spawn(asking.request_step_down().into_future());
        let request = soon("it is asked", lease.step_down_requested())
            .await
            .unwrap();
        request.accept().await.unwrap();
        let resigned = soon("it resigns", asked).await.unwrap().unwrap();
        assert_eq!(resigned, StepDown::Resigned);
        assert!(!lease.is_valid());
        assert_eq!(
            soon("it is over", lease.step_down_requested())
                .await
                .unwrap_err(),
            LeadershipLoss::Resigned
        );

        // The next leader resigns by itself.
        let lease = leading(&second).await;
        until_waiting(&first).await;
        let resigned = soon("it resigns", asking.request_step_down().into_future()).await;
        assert_eq!(resigned.unwrap(), StepDown::Resigned);
        assert!(!lease.is_valid());
        leading(&first).await;
        drop(second);
        first.leave().await;
        soon("nothing is left", one.settled()).await;
        soon("nothing is left", other.settled()).await;
        assert_eq!(inboxes(&one).await, [""; 0]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn selector_that_is_asked_ends_its_task_first() {
    with_servers(1, async |ensemble| {
        let session = connect(ensemble).await;
        let options = options(StepDownPolicy::Resign);
        let selector = Selector::with_options(&session, PATH, &options).unwrap();
        let asking = Selector::new(&connect(ensemble).await, PATH).unwrap();
        let running = tokio::spawn(selector.run(async |lease: LeaderLease| {
            lease.asked_to_resign().await;
            assert!(lease.is_valid());
            zk_sim::wait::pass(Duration::from_millis(100)).await;
            assert!(lease.is_valid());
            ControlFlow::Break(7)
        }));
        until("there is a leader", async || {
            asking.leader().await.unwrap().is_some()
        })
        .await;
        let resigned = soon("it resigns", asking.request_step_down().into_future()).await;
        assert_eq!(resigned.unwrap(), StepDown::Resigned);
        assert_eq!(soon("it ends", running).await.unwrap().unwrap(), 7);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_that_dies_while_it_is_asked_no_longer_leads() {
    with_servers(3, async |ensemble| {
        let one = connect(ensemble).await;
        let asking = LeaderLatch::new(&connect(ensemble).await, PATH).unwrap();
        let first = latch(&one, StepDownPolicy::Application).join();
        let lease = leading(&first).await;
        synced(asking.session()).await;
        let asked = tokio::spawn(asking.request_step_down().into_future());
        let request = soon("it is asked", lease.step_down_requested())
            .await
            .unwrap();
        ensemble.expire(one.id().as_i64()).await.unwrap();
        let resigned = soon("its end is noticed", asked).await.unwrap().unwrap();
        assert_eq!(resigned, StepDown::Resigned);
        let late = request.accept().await;
        assert!(late.is_ok() || late.is_err_and(|error| error.is_fatal()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_without_the_right_to_write_is_a_clear_error() {
    with_servers(1, async |ensemble| {
        let session = connect(ensemble).await;
        session.add_digest_auth("leader", "secret").await.unwrap();
        let acl = Acl::new([
            AclEntry::new(Permissions::ALL, "auth", ""),
            AclEntry::new(Permissions::READ, "world", "anyone"),
        ]);
        let options = options(StepDownPolicy::Resign).with_acl(acl);
        let latch = LeaderLatch::with_options(&session, PATH, &options).unwrap();
        let leader = latch.join();
        let lease = leading(&leader).await;
        let asking = LeaderLatch::new(&connect(ensemble).await, PATH).unwrap();
        let asked = soon("it fails", asking.request_step_down().into_future()).await;
        let error = asked.unwrap_err();
        assert!(
            matches!(&error, StepDownError::NotPermitted { path, .. } if path.as_str().starts_with(INBOXES)),
            "{error:?}"
        );
        assert!(error.to_string().contains("READ and WRITE on /leaders/a-step-down/_c_"));
        assert!(lease.is_valid());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inbox_of_an_earlier_leader_is_ignored() {
    with_servers(1, async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        let asking = LeaderLatch::new(&connect(ensemble).await, PATH).unwrap();
        let first = latch(&one, StepDownPolicy::Application).join();
        let lease = leading(&first).await;
        until("it has an inbox", async || inboxes(&other).await.len() == 1).await;
        let second = latch(&other, StepDownPolicy::Application).join();
        until_waiting(&second).await;
        // The first leader cannot remove its inbox: it is cut off, and only its leadership's node is deleted.
        let stale = inboxes(&other).await;
        let proxy = ensemble.proxy().unwrap();
        let clients = zk_fault_proxy::Clients::Session(one.id().as_i64());
        proxy.route(clients, zk_fault_proxy::Route::Refuse).unwrap();
        proxy.cut(clients, zk_fault_proxy::Close::Rst).await;
        other.delete(lease.path()).await.unwrap();
        let next = leading(&second).await;
        until("it has an inbox", async || inboxes(&other).await.len() == 2).await;
        assert!(inboxes(&other).await.contains(&stale[0]));
        let asked = tokio::spawn(asking.request_step_down().into_future());
        let request = soon("it is asked", next.step_down_requested())
            .await
            .unwrap();
        request.accept().await.unwrap();
        let resigned = soon("it resigns", asked).await.unwrap().unwrap();
        assert_eq!(resigned, StepDown::Resigned);
        proxy
            .route(clients, zk_fault_proxy::Route::SameServer)
            .unwrap();
    })
    .await;
}
