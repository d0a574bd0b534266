//! Revocation on real servers, across a failover between the request and the answer.

use zk_lock::{CohortLock, Revocation, Semaphore};
use zk_sim::wait::polled;

use crate::{LONG, connect, soon, with_servers};

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_of_leases_hears_a_request_and_answers_after_a_failover() {
    with_servers(3, async |ensemble| {
        let (one, admin) = (connect(ensemble).await, connect(ensemble).await);
        let semaphore = |session| Semaphore::new(session, "/semaphores/a", 2).unwrap();
        let leases = semaphore(&one).with_count(2).acquire().await.unwrap();
        let inspector = semaphore(&admin).inspector();
        admin.sync("/").with_quorum().await.unwrap();
        let snapshot = inspector.snapshot().await.unwrap();
        let held: Vec<_> = snapshot.holders().collect();
        assert_eq!(held.len(), 2);

        let asked = async || {
            let asking = inspector.revoke(held[1].contender()).reason("maintenance");
            let asking = asking.limit(2 * LONG);
            let asking = tokio::spawn(asking.into_future());
            let request = soon("it is asked", leases.revocation_requested()).await;
            let request = request.unwrap();
            assert_eq!(request.reason(), Some("maintenance"));
            let leader = ensemble.wait_leader(LONG).await.unwrap();
            leader.kill().await.unwrap();
            leader.start().unwrap();
            (asking, request)
        };
        let (asking, request) = asked().await;
        request.refuse("not now").await.unwrap();
        let answered = soon("the requester is answered", asking).await.unwrap();
        let reason = "not now".to_owned();
        assert_eq!(answered.unwrap(), Revocation::Refused { reason });

        ensemble.wait_serving().await.unwrap();
        let (asking, request) = asked().await;
        request.accept().await.unwrap();
        leases.release().await.unwrap();
        let answered = soon("the requester is answered", asking).await.unwrap();
        assert_eq!(answered.unwrap(), Revocation::Released);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cohort_that_accepts_gives_the_lock_to_the_next_session() {
    with_servers(3, async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        let admin = connect(ensemble).await;
        let cohort = |session| CohortLock::new(session, "/cohort").unwrap();
        let (ours, theirs) = (cohort(&one), cohort(&other));
        let first = ours.acquire().await.unwrap();
        // A task of the same process, which would get the lock next without the request.
        let mut beside = Box::pin(ours.acquire());
        assert!(polled(1, &mut beside).await.is_none());
        let next = tokio::spawn(async move { theirs.acquire().await.unwrap() });
        crate::until_enlisted(&admin, "/cohort", 2).await;
        let inspector = cohort(&admin).inspector();
        let holder = inspector.first_contender().await.unwrap().unwrap();
        let asking = tokio::spawn(inspector.revoke(&holder).into_future());
        let request = soon("it is asked", first.revocation_requested()).await;
        request.unwrap().accept().await.unwrap();
        first.release().await.unwrap();
        let next = soon("the other session has it", next).await.unwrap();
        assert!(polled(1, &mut beside).await.is_none());
        let answered = soon("the requester is answered", asking).await.unwrap();
        assert_eq!(answered.unwrap(), Revocation::Released);
        next.release().await.unwrap();
        let beside = soon("the task has it", beside).await.unwrap();
        beside.release().await.unwrap();
    })
    .await;
}
