//! Items and batches at the size limit of a request.

use std::time::Duration;

use zk_core::transport::TransportError;
use zk_core::{Acl, AclEntry, ErrorKind, Permissions, Session};
use zk_queue::{ItemId, OfferError};
use zk_sim::{Ensemble, matching};

use crate::{PATH, all, children, data, nodes_read, queue, soon, text, texts, triggered, work};

const CLAIMS: &str = "/queues/a/claims";

/// The largest size of an item, from the error for a larger one.
fn max_size(refused: Result<Option<ItemId>, OfferError>) -> usize {
    match refused {
        Err(OfferError::TooLarge { bytes, max, .. }) if bytes > max => max,
        other => panic!("it is too large: {other:?}"),
    }
}

/// Takes an item, and drops the call before its reply arrives.
async fn take_and_drop(ensemble: &Ensemble, session: &Session) {
    let ours = queue(session);
    let held = ensemble
        .on(matching::transactions("/queues/a/*"))
        .session(session.id())
        .hold();
    let mut taking = Box::pin(ours.poll());
    tokio::select! {
        taken = &mut taking => panic!("its answer is held: {:?}", taken.map(|item| item.is_some())),
        () = triggered(&held) => {}
    }
    drop(taking);
    held.release();
    soon("it is put back", session.settled()).await;
}

/// Putting it back needs its full name, and so a larger request than offering it.
#[tokio::test(start_paused = true)]
async fn the_largest_possible_item_is_put_back_to_its_place() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let ours = queue(&session);
    let most = max_size(ours.offer(&"x".repeat(1 << 20)).await);
    assert!(most > 1_000_000, "{most}");
    assert_eq!(max_size(ours.offer(&"x".repeat(most + 1)).await), most);
    let refused = ours.offer_all([text(1), "x".repeat(most + 1)]).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.offered, 1);
    assert_eq!(max_size(Err(refused.source)), most);
    assert_eq!(all(&ours).await, ["1"]);
    ours.offer(&"x".repeat(most)).await.unwrap();
    ours.offer(&text("next")).await.unwrap();
    take_and_drop(&ensemble, &session).await;
    let lengths: Vec<_> = data(&ensemble, PATH).iter().map(String::len).collect();
    assert_eq!(lengths, [most, 4]);
}

/// Other clients of the recipe offer items that fill a whole request.
#[tokio::test(start_paused = true)]
async fn an_item_that_cannot_be_put_back_to_its_place_goes_to_the_end() {
    let mut were_first = Vec::new();
    for size in (1_048_000..1_048_230).step_by(20) {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        session.create(PATH, "").parents().await.unwrap();
        for item in ["x".repeat(size), text("next")] {
            let create = session.create(format!("{PATH}/qn-"), item);
            create.sequential().await.unwrap();
        }
        take_and_drop(&ensemble, &session).await;
        let lengths: Vec<_> = data(&ensemble, PATH).iter().map(String::len).collect();
        let is_first = lengths == [size, 4];
        assert!(is_first || lengths == [4, size], "{size}: {lengths:?}");
        were_first.push(is_first);
    }
    assert_eq!(
        (were_first.first(), were_first.last()),
        (Some(&true), Some(&false))
    );
}

/// An item that could be offered but not claimed would never be processed.
#[tokio::test(start_paused = true)]
async fn the_largest_possible_item_is_claimed_rejected_and_buried() {
    for namespace in ["/".to_owned(), format!("/{}", "long".repeat(700))] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let session = session.with_namespace(namespace.as_str()).unwrap();
        let ours = work(&session);
        let most = max_size(ours.offer(&"x".repeat(1 << 20)).await);
        ours.offer(&"x".repeat(most)).await.unwrap();
        let claim = ours.try_claim().await.unwrap();
        let delay = Duration::from_secs(1);
        let claim = claim.expect("it is not left alone");
        claim.reject(delay, "later").await.unwrap();
        let claim = soon("it is due", ours.claim()).await.unwrap();
        claim.bury("no").await.unwrap();
        let letters = ours.dead_letters().await.unwrap();
        assert_eq!(letters.len(), 1);
        ours.redrive(&letters[0]).await.unwrap();
        let claim = soon("it is back", ours.claim()).await.unwrap();
        assert_eq!(claim.item().len(), most);
        claim.acknowledge().await.unwrap();
        assert!(ours.is_empty().await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_reads_only_a_few_items_more_than_fit() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let ours = work(&session);
    ours.offer_all((10..50).map(|at| text(at).repeat(100_000)))
        .await
        .unwrap();
    let reads = || nodes_read(&ensemble, "/queues/a/items/*");
    let claims = ours.try_claim_batch(40).await.unwrap();
    assert_eq!(claims.len(), 2);
    assert!((2..=17).contains(&reads()), "{}", reads());
    let mut items: Vec<_> = claims
        .iter()
        .map(|claim| claim.item()[..2].to_owned())
        .collect();
    let mut held = claims;
    while let Some(claim) = ours.try_claim().await.unwrap() {
        items.push(claim.item()[..2].to_owned());
        held.push(claim);
    }
    assert_eq!(items, texts(10..50));
    // Two megabytes of the items that did not fit were kept; the others are read again.
    assert!((42..=46).contains(&reads()), "{}", reads());
}

#[tokio::test(start_paused = true)]
async fn a_failed_read_only_shortens_the_batch() {
    // These servers have no multi-reads, so that each item is read by itself.
    let ensemble = Ensemble::builder().without_persistent_watches().build();
    let session = ensemble.connect().await;
    let ours = work(&session);
    ours.offer_all(texts(10..40)).await.unwrap();
    let refused = ensemble
        .on(matching::gets("/queues/a/items/*"))
        .session(session.id())
        .nth(5)
        .refuse(TransportError::Refused(ErrorKind::Unsupported, None));
    let mut claims = ours.try_claim_batch(30).await.unwrap();
    assert_eq!((claims.len(), refused.count()), (4, 1));
    assert_eq!(ensemble.arrived(matching::multi_reads("**")), 0);
    claims.extend(ours.try_claim_batch(30).await.unwrap());
    let items: Vec<_> = claims.iter().map(|claim| claim.item().clone()).collect();
    assert_eq!(items, texts(10..40));
}

/// The size of the ACL in a request is not known in advance.
#[tokio::test(start_paused = true)]
async fn batches_under_a_long_acl_go_in_smaller_requests() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let rules = (0..100).map(|at| AclEntry::new(Permissions::ALL, "ip", format!("10.0.0.{at}")));
    let open = Acl::open();
    let rules = Acl::new(open.entries().iter().cloned().chain(rules));
    let ours = work(&session.with_acl(rules));
    ours.offer_all(texts(1000..1500)).await.unwrap();
    let mut items = Vec::new();
    while items.len() < 500 {
        let claims = ours.try_claim_batch(500).await.unwrap();
        assert!(claims.len() > 100, "{}", claims.len());
        for claim in claims {
            items.push(claim.item().clone());
            claim.acknowledge().await.unwrap();
        }
    }
    assert_eq!(items, texts(1000..1500));
    assert_eq!(children(&ensemble, CLAIMS), [""; 0]);
}
