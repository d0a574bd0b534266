//! Worker numbers: each is held by one process, and claimed again after its release.

use std::collections::BTreeSet;
use std::time::Duration;

use zk_core::Session;
use zk_id::{ClaimError, WorkerIds, WorkerLoss};
use zk_sim::{Ensemble, matching};

use crate::{PATH, pass, soon, taken};

fn workers(session: &Session, count: u32) -> WorkerIds {
    WorkerIds::new(session, PATH, count).unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_process_has_a_number_of_its_own_within_the_range() {
    let ensemble = Ensemble::new(3);
    let mut claims = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let session = ensemble.connect().await;
        claims.spawn(async move { workers(&session, 16).claim().await });
    }
    let claims = soon("all have an answer", claims.join_all()).await;
    let (got, not): (Vec<_>, Vec<_>) = claims.into_iter().partition(Result::is_ok);
    assert_eq!((got.len(), not.len()), (16, 4));
    let got: Vec<_> = got.into_iter().map(Result::unwrap).collect();
    let numbers: BTreeSet<u32> = got.iter().map(zk_id::WorkerId::number).collect();
    assert_eq!(numbers, (0..16).collect());
    assert!(got.iter().all(zk_id::WorkerId::is_valid));
    for error in not {
        let error = error.unwrap_err();
        assert_eq!(
            error.to_string(),
            "all 16 worker numbers below /ids/a are taken; use a layout with more, or stop a process"
        );
    }
    for worker in got {
        worker.release().await.unwrap();
    }
    assert_eq!(taken(&ensemble), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn released_number_is_used_again() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let first = workers(&one, 1).claim().await.unwrap();
    assert!(matches!(
        workers(&other, 1).claim().await,
        Err(ClaimError::AllTaken { workers: 1, .. })
    ));
    let others = workers(&other, 1);
    let waiting = tokio::spawn(async move { others.claim_timeout(Duration::from_secs(60)).await });
    pass(Duration::from_secs(30)).await;
    assert!(!waiting.is_finished());
    let token = first.fencing_token();
    first.release().await.unwrap();
    let second = soon("it is free", waiting).await.unwrap().unwrap();
    assert_eq!(second.number(), 0);
    assert!(second.fencing_token() > token);
    // And when its session is over.
    ensemble.session(other.id()).expire();
    assert_eq!(
        soon("the loss is reported", second.lost()).await,
        WorkerLoss::SessionLost
    );
    assert!(!second.is_valid());
    let third = workers(&one, 1).claim().await.unwrap();
    let since = tokio::time::Instant::now();
    let waited = workers(&ensemble.connect().await, 1)
        .claim_timeout(Duration::from_secs(5))
        .await;
    assert!(matches!(waited, Err(ClaimError::AllTaken { .. })));
    assert!(since.elapsed() < Duration::from_secs(6));
    drop(third);
    one.settled().await;
    assert_eq!(taken(&ensemble), [""; 0]);
}

/// A list of all numbers would take 16 GiB.
#[tokio::test(start_paused = true)]
async fn a_claim_among_all_possible_numbers_lists_none_of_them() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let all = workers(&session, u32::MAX);
    let (first, second) = (all.claim().await.unwrap(), all.claim().await.unwrap());
    assert_ne!(first.number(), second.number());
    first.release().await.unwrap();
    second.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_free_preferred_number_is_claimed_and_holders_are_listed() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let all = workers(&session, 100);
    assert_eq!(all.holders().await.unwrap(), []);
    let like_seven = all
        .clone()
        .with_preferred(7)
        .with_description("anna\n10.0.0.1");
    let first = like_seven.claim().await.unwrap();
    assert_eq!(first.number(), 7);
    let second = like_seven
        .clone()
        .with_preferred(8)
        .with_description("")
        .claim()
        .await
        .unwrap();
    let third = like_seven.claim().await.unwrap();
    assert!(![7, 8].contains(&third.number()));
    session.create("/ids/a/stranger", "").await.unwrap();
    let mut holders = vec![
        (7, "anna\n10.0.0.1".to_owned()),
        (8, String::new()),
        (third.number(), "anna\n10.0.0.1".to_owned()),
    ];
    holders.sort();
    assert_eq!(all.holders().await.unwrap(), holders);
    let error = workers(&session, 0).claim().await.unwrap_err();
    assert!(
        matches!(error, ClaimError::SchemaMismatch { .. }),
        "{error}"
    );
    drop((first, second, third));
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_reported_before_another_process_claims_the_number() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let worker = workers(&one, 1).claim().await.unwrap();
    ensemble.session(one.id()).partition();
    let others = workers(&other, 1);
    let next = async {
        let next = others.claim_timeout(Duration::from_secs(60)).await.unwrap();
        assert!(!worker.is_valid(), "two have the number");
        next
    };
    let (loss, next) = soon("it changes hands", async {
        tokio::join!(worker.lost(), next)
    })
    .await;
    assert_eq!(loss, WorkerLoss::SessionLeaseExpired);
    // An operator deletes the node.
    let operator = ensemble.connect().await;
    let lost = tokio::spawn(async move { next.lost().await });
    pass(Duration::from_secs(1)).await;
    operator.set("/ids/a/worker-00000", "a note").await.unwrap();
    pass(Duration::from_secs(1)).await;
    assert!(!lost.is_finished());
    operator.delete("/ids/a/worker-00000").await.unwrap();
    assert_eq!(
        soon("the loss is reported", lost).await.unwrap(),
        WorkerLoss::NodeDeleted
    );
}

#[tokio::test(start_paused = true)]
async fn claim_whose_request_or_reply_is_lost_takes_one_number() {
    for nth in 1..12 {
        for lose_reply in [false, true] {
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().await;
            let script = ensemble
                .on(matching::anything())
                .session(session.id())
                .nth(nth);
            if lose_reply {
                script.lose_reply();
            } else {
                script.lose_request();
            }
            let all = workers(&session, 4);
            let worker = soon("it is claimed", all.claim()).await.unwrap();
            assert_eq!(taken(&ensemble).len(), 1, "{nth} {lose_reply}");
            worker.release().await.unwrap();
            session.settled().await;
            assert_eq!(taken(&ensemble), [""; 0]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_path_that_is_deleted_meanwhile_is_created_again() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let all = workers(&session, 4);
    all.claim().await.unwrap().release().await.unwrap();
    // Between the list and the create.
    let operator = ensemble.connect().await;
    let held = ensemble.on(matching::lists(PATH)).hold();
    let claiming = tokio::spawn(async move { all.claim().await });
    pass(Duration::from_millis(20)).await;
    operator.delete(PATH).await.unwrap();
    held.release();
    let worker = soon("it is claimed", claiming).await.unwrap().unwrap();
    worker.release().await.unwrap();
    let data = ensemble.tree().node(PATH).unwrap().data().to_vec();
    assert_eq!(data, b"zk-id 4 workers");
}
