//! Transactions whose answer is lost.

use std::time::Duration;

use zk_core::transport::Request;
use zk_core::{Committed, ErrorKind, IdempotencyTokens, MultiResult, NodePath, Session};
use zk_sim::{Check, Ensemble};

use crate::{assert_committed_as_reported, pass, polled, soon};

fn is_transaction(request: &Request) -> bool {
    matches!(request, Request::Multi(parts) if parts.len() > 1)
}

async fn markers(sim: &Ensemble, session: &Session) -> Vec<String> {
    soon("all is cleaned up", session.settled()).await;
    let tree = sim.tree();
    tree.nodes()
        .map(|(path, _)| path.to_string())
        .filter(|path| path.contains("marker"))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_marked_transaction_is_made_once_whatever_is_lost() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    session.create("/a", "").await.unwrap();
    session.create("/m", "").await.unwrap();
    for round in 0..4 {
        let on = sim.on(is_transaction);
        match round {
            0 => None,
            1 => Some(on.lose_request()),
            2 => Some(on.lose_reply()),
            _ => Some(on.stall_then_move(2)),
        };
        let version = session.get("/a").await.unwrap().1.version;
        let transaction = session
            .transaction()
            .set_version("/a", round.to_string(), version)
            .create(format!("/a/{round}"), "");
        let done = transaction.commit_marked("/m").await.unwrap();
        match done {
            Committed::Answered(changed) => {
                assert!(round < 2);
                assert!(matches!(
                    changed[..],
                    [MultiResult::Set(_), MultiResult::Created { .. }]
                ));
            }
            Committed::Applied => assert!(round >= 2),
        }
        session.sync("/a").await.unwrap();
        let (data, stat) = session.get("/a").await.unwrap();
        assert_eq!(
            (data, stat.version),
            (round.to_string().into(), version + 1)
        );
        assert_eq!(markers(&sim, &session).await, [""; 0]);
    }
    // Without a marker the outcome is unknown.
    sim.on(is_transaction).lose_reply();
    let unmarked = session.transaction().delete("/a/0").delete("/a/1");
    let error = unmarked.commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
}

#[tokio::test(start_paused = true)]
async fn a_marked_transaction_that_is_refused_names_its_own_part() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await.with_namespace("/ns").unwrap();
    session.create("/a", "").parents().await.unwrap();
    for is_lost in [false, true] {
        if is_lost {
            sim.on(is_transaction).lose_request();
        }
        let wrong = session.transaction().set("/a", "x").delete("/none");
        let error = wrong.commit_marked("/").await.unwrap_err();
        assert_eq!(
            (error.kind(), error.failed_part()),
            (ErrorKind::NoNode, Some(1))
        );
        assert!(
            !error.is_outcome_unknown(),
            "the marker says that it was not applied"
        );
        assert!(
            error
                .to_string()
                .contains("/none: the node does not exist (part 2 of 2)"),
            "{error}"
        );
    }
    let error = session
        .transaction()
        .set("/a", "x")
        .commit_marked("/no")
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.failed_part()),
        (ErrorKind::NoNode, None)
    );
    assert!(
        error.to_string().contains("the idempotency token"),
        "{error}"
    );
    let error = session
        .transaction()
        .set("a", "x")
        .commit_marked("/")
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.failed_part()),
        (ErrorKind::InvalidPath, Some(0))
    );
    assert_eq!(
        session.transaction().commit_marked("/").await.unwrap(),
        Committed::Answered(vec![])
    );
    for times in 0..4 {
        let set = session.transaction().set("/a", "y");
        drop(polled(times, set.commit_marked("/")).await);
        pass(Duration::from_millis(5)).await;
    }
    assert_eq!(markers(&sim, &session).await, [""; 0]);
}

#[test]
fn a_marked_transaction_says_what_became_of_it() {
    Check::new(0..60).run(async |sim, _seed| {
        let session = sim.connect().timeout(Duration::from_secs(30)).await;
        session.create("/a", "").await?;
        assert_committed_as_reported(&sim, &session, async |round| {
            let one = session.transaction().create(format!("/a/{round:03}"), "");
            one.commit_marked("/").await
        })
        .await?;
        assert_eq!(markers(&sim, &session).await, [""; 0]);
        Ok::<(), zk_core::Error>(())
    });
}

#[tokio::test(start_paused = true)]
async fn results_that_fit_no_operation_are_an_unknown_outcome() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    for path in ["/a", "/m", "/b"] {
        session.create(path, "").await.unwrap();
    }
    let tokens = IdempotencyTokens::new(&session, NodePath::parse("/m/token").unwrap());
    let none = vec![];
    let fewer = vec![MultiResult::Deleted];
    let more = vec![MultiResult::Checked; 4];
    let others = vec![MultiResult::Deleted; 2];
    for results in [none, fewer, more, others] {
        let misreport = || sim.on(is_transaction).misreport_results(results.clone());
        let creating = |name| session.transaction().create(format!("/b/{name}"), "");

        misreport();
        let plain = creating("plain").delete("/b/plain");
        let error = plain.commit().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{results:?}");

        // The nodes show that the first attempt was applied.
        misreport();
        let marked = creating("marked").commit_marked("/m").await;
        assert_eq!(marked.unwrap(), Committed::Applied, "{results:?}");

        misreport();
        let tokened = tokens.commit(creating("tokened")).await;
        assert_eq!(tokened.unwrap(), Committed::Applied, "{results:?}");

        misreport();
        let set = session.transaction().set("/a", "x").check("/a");
        let set = set.commit().await.unwrap();
        assert!(matches!(
            set[..],
            [MultiResult::Set(_), MultiResult::Checked]
        ));

        let again = session.transaction();
        let again = again.delete("/b/marked").delete("/b/tokened");
        again.commit().await.unwrap();
    }
}
