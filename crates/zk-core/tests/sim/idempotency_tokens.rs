//! Transactions that are committed once with a pool of idempotency tokens.

use std::time::Duration;

use zk_core::transport::Request;
use zk_core::{
    CommitError, Committed, CreateMode, ErrorKind, IdempotencyTokens, MultiResult, NodePath,
    Session, Transaction,
};
use zk_sim::{Check, Ensemble, Script, Scripted};
use zk_testkit::sim::lose;

use crate::{assert_committed_as_reported, pass, polled, soon};

type Inject = fn(Script) -> Scripted;

const SEQUENTIAL: CreateMode = CreateMode::PersistentSequential;

const RECONNECT_AFTER: Duration = Duration::from_secs(2);

fn is_transaction(request: &Request) -> bool {
    matches!(request, Request::Multi(_))
}

fn pool(session: &Session) -> IdempotencyTokens {
    IdempotencyTokens::new(session, NodePath::parse("/tokens/token").unwrap())
}

/// A change that can be applied any number of times.
fn add(session: &Session) -> Transaction {
    let transaction = session.transaction();
    transaction.create_as("/a/x-", "", SEQUENTIAL, None)
}

fn children(sim: &Ensemble, parent: &str) -> Vec<String> {
    let tree = sim.tree();
    let parent = format!("{parent}/");
    let paths = tree.nodes().map(|(path, _)| path.to_string());
    paths.filter(|path| path.starts_with(&parent)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_pool_commits_once_whatever_is_lost() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    session.create("/a", "").await.unwrap();
    let tokens = pool(&session);
    let faults: [Option<Inject>; 5] = [
        None,
        Some(Script::lose_request),
        Some(Script::lose_reply),
        Some(|script| script.stall_then_move(2)),
        Some(|script| script.stall_then_move(3)),
    ];
    for (before, fault) in faults.into_iter().enumerate() {
        let _injected = fault.map(|inject| inject(sim.on(is_transaction)));
        let committed = tokens.commit(add(&session)).await.unwrap();
        match before {
            0 | 1 => assert!(matches!(committed.results(), [MultiResult::Created { .. }])),
            _ => assert_eq!(committed, Committed::Applied),
        }
        assert_eq!(children(&sim, "/a").len(), before + 1, "{committed:?}");
        let token = tokens.current_fence().unwrap();
        assert_eq!(children(&sim, "/tokens"), [token.as_str()]);
        let node = session.stat(&token).await.unwrap();
        assert_eq!(usize::try_from(node.version), Ok(before + 1));
        let newest = tokens.timestamp().unwrap();
        assert!(newest.sent <= newest.received && newest.time <= node.mtime);
    }
    // Of two at once, each needs a token of its own, which stays for later ones.
    for _ in 0..2 {
        let both = tokio::join!(tokens.commit(add(&session)), tokens.commit(add(&session)));
        assert!(both.0.is_ok() && both.1.is_ok());
        assert_eq!(children(&sim, "/tokens").len(), 2);
    }
    drop(tokens);
    soon("the tokens are removed", session.settled()).await;
    assert_eq!(children(&sim, "/tokens"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_part_is_counted_without_the_token() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await.with_namespace("/ns").unwrap();
    session.create("/a", "").parents().await.unwrap();
    let tokens = pool(&session);
    for is_lost in [false, true] {
        if is_lost {
            sim.on(is_transaction).lose_request();
        }
        let wrong = session.transaction().set("/a", "x").delete("/none");
        let failure = tokens.commit(wrong).await.unwrap_err();
        let error = &failure.error;
        assert_eq!(
            (
                error.kind(),
                error.failed_part(),
                error.is_outcome_unknown()
            ),
            (ErrorKind::NoNode, Some(1), false)
        );
        assert!(error.to_string().contains("(part 2 of 2)"), "{error}");
        // It is certain already.
        let resolved = failure.resolve().await.unwrap_err();
        assert_eq!(resolved.failed_part(), Some(1));
    }
    let invalid = session.transaction().set("a", "x");
    let failure = tokens.commit(invalid).await.unwrap_err();
    assert_eq!(
        (failure.error.kind(), failure.error.failed_part()),
        (ErrorKind::InvalidPath, Some(0))
    );
    assert_eq!(children(&sim, "/ns/tokens").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_token_is_replaced_unless_it_is_in_doubt() {
    let pause = RECONNECT_AFTER;
    let sim = Ensemble::builder().reconnect_after(pause).build();
    let (session, other) = (sim.connect().await, sim.connect().await);
    session.create("/a", "").await.unwrap();
    let tokens = pool(&session);
    let fence = tokens.fence(pause).await.unwrap();
    other.delete(&fence).await.unwrap();
    tokens.commit(add(&session)).await.unwrap();
    let next = tokens.current_fence().unwrap();
    assert_ne!(next, fence);
    assert_eq!(tokens.fence(pause).await.unwrap(), next);
    for is_applied in [true, false] {
        let before = children(&sim, "/a").len();
        let script = sim.on(is_transaction).session(session.id());
        let lost = lose(script, is_applied);
        let deleting = async {
            soon("it is lost", lost.happened()).await;
            other.sync("/").await.unwrap();
            let token = tokens.current_fence().unwrap();
            other.delete(&token).await.unwrap();
            tokens.forget_fence(&token);
        };
        let (committed, ()) = tokio::join!(biased; tokens.commit(add(&session)), deleting);
        let failure = committed.unwrap_err();
        assert!(failure.error.is_outcome_unknown(), "{failure:?}");
        let resolved = soon("it ends", failure.resolve()).await.unwrap_err();
        assert!(resolved.is_outcome_unknown(), "{resolved}");
        let after = children(&sim, "/a").len();
        assert_eq!(after, before + usize::from(is_applied));
        tokens.commit(add(&session)).await.unwrap();
    }
}

/// A transaction whose time limit passes before the session has a connection again.
async fn in_doubt(
    sim: &Ensemble,
    session: &Session,
    transaction: Transaction,
    inject: Inject,
) -> CommitError {
    let tokens = pool(session);
    tokens.fence(Duration::from_secs(5)).await.unwrap();
    inject(sim.on(is_transaction).session(session.id()));
    let transaction = transaction.timeout(RECONNECT_AFTER / 2);
    let failure = tokens.commit(transaction).await.unwrap_err();
    assert!(failure.error.is_outcome_unknown(), "{failure:?}");
    failure
}

#[tokio::test(start_paused = true)]
async fn a_doubt_is_resolved_when_there_is_a_connection_again() {
    for (inject, is_applied) in [
        (Script::lose_reply as Inject, true),
        (Script::lose_request, false),
    ] {
        let sim = Ensemble::builder().reconnect_after(RECONNECT_AFTER).build();
        let (session, other) = (sim.connect().await, sim.connect().await);
        session.create("/a", "").await.unwrap();
        let failure = in_doubt(&sim, &session, add(&session), inject).await;
        let resolved = soon("it is resolved", failure.resolve()).await.unwrap();
        assert_eq!(resolved == Committed::Applied, is_applied, "{resolved:?}");
        assert_eq!(children(&sim, "/a").len(), 1);

        // It can no longer be committed, or was.
        let delete = session.transaction().delete("/a").create("/b", "");
        session.delete("/a/x-0000000000").await.unwrap();
        let failure = in_doubt(&sim, &session, delete, inject).await;
        other.sync("/").await.unwrap();
        let taken = other.delete("/a").await;
        assert_eq!(taken.is_ok(), !is_applied);
        match soon("it is resolved", failure.resolve()).await {
            Ok(committed) => assert!(is_applied && committed == Committed::Applied),
            Err(error) => {
                assert!(!is_applied && !error.is_outcome_unknown(), "{error}");
                assert_eq!(error.failed_part(), Some(0));
            }
        }
        // The session ends: nothing can be found out any more.
        let create = session.transaction().create("/c", "");
        let failure = in_doubt(&sim, &session, create, inject).await;
        sim.expire(session.id());
        let error = soon("it ends", failure.resolve()).await.unwrap_err();
        assert!(error.is_fatal() && error.is_outcome_unknown(), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_dropped_anywhere_leaves_no_token_behind() {
    for times in 0..12 {
        let sim = Ensemble::new(3);
        let session = sim.connect().await;
        session.create("/a", "").await.unwrap();
        let tokens = pool(&session);
        let done = polled(times, tokens.commit(add(&session))).await;
        drop(tokens);
        soon("the token is removed", session.settled()).await;
        pass(Duration::from_secs(1)).await;
        assert_eq!(children(&sim, "/tokens"), [""; 0], "{times}");
        assert!(children(&sim, "/a").len() <= 1);
        assert!(times < 11 || done.is_some());
    }
}

#[test]
fn transactions_of_a_pool_are_committed_once_under_chaos() {
    Check::new(0..60).run(async |sim, _seed| {
        let session = sim.connect().timeout(Duration::from_secs(30)).await;
        session.create("/a", "").await?;
        let tokens = pool(&session);
        assert_committed_as_reported(&sim, &session, async |_round| {
            Ok(tokens.commit(add(&session)).await?)
        })
        .await
    });
}
