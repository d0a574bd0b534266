//! Claims that are settled while the ensemble is away for longer than the operation timeout.

use std::time::Duration;

use zk_core::Session;
use zk_queue::{SettleError, WorkQueue};
use zk_sim::{Ensemble, matching};

use crate::{children, ephemerals, pass, soon, text, triggered, work};

/// A queue with an operation timeout of a second, and a session timeout of a minute.
async fn quick(ensemble: &Ensemble) -> (Session, WorkQueue<String>) {
    let session = ensemble.connect().timeout(Duration::from_secs(60)).await;
    let queue = work(&session.with_operation_timeout(Duration::from_secs(1)));
    (session, queue)
}

const ACTS: [&str; 4] = ["acknowledge", "reject", "reject later", "bury"];

async fn settle(claim: zk_queue::Claim<String>, act: &str) -> Result<(), SettleError> {
    match act {
        "acknowledge" => claim.acknowledge().await?,
        "reject" => claim.reject(Duration::ZERO, "no").await?,
        "reject later" => claim.reject(Duration::from_secs(5), "no").await?,
        _ => claim.bury("no").await?,
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_settled_when_the_servers_are_back() {
    for act in ACTS {
        let ensemble = Ensemble::new(3);
        let (session, queue) = quick(&ensemble).await;
        queue.offer(&text(1)).await.unwrap();
        let claim = queue.claim().await.unwrap();
        // Long enough for the known leader time to be too old.
        pass(Duration::from_secs(20)).await;
        ensemble
            .session(session.id())
            .cut_for(Duration::from_secs(25));
        let settled = soon(act, settle(claim, act)).await;
        settled.unwrap_or_else(|error| panic!("{act}: {error:?}"));
        let left = queue.len().await.unwrap();
        assert_eq!(left, usize::from(act.starts_with("reject")), "{act}");
        assert_eq!(children(&ensemble, "/queues/a/claims"), [""; 0], "{act}");
        assert_eq!(
            children(&ensemble, "/queues/a/dead").len(),
            usize::from(act == "bury")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_session_ended_is_not_settled() {
    for act in ACTS {
        let ensemble = Ensemble::new(3);
        let (session, queue) = quick(&ensemble).await;
        queue.offer(&text(1)).await.unwrap();
        let claim = queue.claim().await.unwrap();
        ensemble.session(session.id()).partition();
        let error = soon(act, settle(claim, act)).await.unwrap_err();
        assert_eq!(
            error.class(),
            zk_core::ErrorClass::Fatal,
            "{act}: {error:?}"
        );
        pass(Duration::from_secs(120)).await;
        assert_eq!(ephemerals(&ensemble), [""; 0], "{act}");
        assert_eq!(children(&ensemble, "/queues/a/items").len(), 1, "{act}");
    }
}

/// The item is gone, so a request of its own deletes the claim's node, and that request is repeated.
#[tokio::test(start_paused = true)]
async fn deleting_the_node_of_a_claim_ends_with_the_session() {
    let ensemble = Ensemble::new(3);
    let (session, queue) = quick(&ensemble).await;
    let other = ensemble.connect().await;
    queue.offer(&text(1)).await.unwrap();
    let claim = queue.claim().await.unwrap();
    other.delete(claim.path()).await.unwrap();
    let deleting = ensemble
        .on(matching::deletes("/queues/a/claims/*"))
        .session(session.id())
        .hold();
    let rejecting = tokio::spawn(claim.reject(Duration::ZERO, "no"));
    triggered(&deleting).await;
    ensemble.session(session.id()).partition();
    soon("it ends", rejecting).await.unwrap().unwrap();
    soon("the session ends", session.lost()).await;
    pass(Duration::from_secs(60)).await;
    assert_eq!(ephemerals(&ensemble), [""; 0]);
}
