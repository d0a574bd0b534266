//! Curator's `LeaderLatch` and `LeaderSelector`, and ours, on one path.

use std::time::Duration;

use tokio::task::JoinSet;
use zk_core::Session;
use zk_harness::Ensemble;
use zk_leader::{
    ElectionOptions, LatchParticipant, LeaderLatch, LeaderLease, Participant, ParticipantState,
    Selector,
};
use zk_tests::peers::{Curator, PeerContender, Recipe, monotonic};

use crate::lock::{LONG, SOON, names, observer, three_servers, until_empty, until_enlisted};

const SHORT: Duration = Duration::from_millis(500);

fn latch(session: &Session, id: &str) -> LeaderLatch {
    let options = ElectionOptions::default().with_id(id);
    LeaderLatch::with_options(session, "/leader", &options).unwrap()
}

fn selector(session: &Session, id: &str) -> Selector {
    let options = ElectionOptions::default().with_id(id);
    Selector::with_options(session, "/leader", &options).unwrap()
}

async fn leading(participant: &LatchParticipant) -> LeaderLease {
    let leading = tokio::time::timeout(SOON, participant.leading()).await;
    leading.expect("it is our turn").unwrap()
}

/// Starts a participant that leads.
async fn leads(ensemble: &Ensemble, recipe: Recipe<'_>) -> PeerContender {
    let theirs = PeerContender::start(recipe, &ensemble.connect_string(), "/leader").await;
    let mut theirs = theirs.unwrap();
    let acquired = theirs.acquire(SOON).await.unwrap();
    acquired.expect("there is no other participant");
    theirs
}

/// Waits until the other client lists exactly these: its server may lag behind ours.
async fn they_see(theirs: &mut PeerContender, expected: &[&str]) {
    let mut seen = Vec::new();
    let looking = async {
        while seen != expected {
            seen = theirs.participants().await.unwrap();
        }
    };
    let looked = tokio::time::timeout(SOON, looking).await;
    assert!(looked.is_ok(), "waited {SOON:?} for {expected:?}: {seen:?}");
}

fn shown(all: &[Participant]) -> Vec<String> {
    all.iter()
        .map(|one| format!("{}{}", one.id(), if one.is_leader() { "*" } else { "" }))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_latch_waits_for_ours_and_ours_for_curators() {
    let ensemble = three_servers().await;
    let curator = Curator::find().await.unwrap();
    let session = observer(&ensemble).await;
    let mut theirs = leads(&ensemble, Recipe::CuratorLatch(&curator, "curator")).await;
    let latch = latch(&session, "ours");
    let ours = latch.join();
    until_enlisted(&session, "/leader", 2).await;
    for name in names(&session, "/leader").await {
        let (id, number) = name.split_once("-latch-").unwrap();
        assert_eq!((id.len(), number.len()), (3 + 36, 10), "{name}");
    }
    let together = ["curator*", "ours"];
    assert_eq!(shown(&latch.participants().await.unwrap()), together);
    they_see(&mut theirs, &together).await;
    assert!(!ours.is_leader());

    theirs.release().await.unwrap();
    let lease = leading(&ours).await;
    assert_eq!(theirs.acquire(SHORT).await.unwrap(), None, "we lead");
    they_see(&mut theirs, &["ours*", "curator"]).await;
    ours.resign().await.unwrap();
    theirs.acquire(SOON).await.unwrap().expect("we resigned");
    assert!(!lease.is_valid() && !ours.is_leader());
    let successor = latch
        .leader_after(Some(lease.fencing_token()))
        .await
        .unwrap();
    assert_eq!(successor.id(), "curator");
    // In line again, behind them; and there when their session expires.
    until_enlisted(&session, "/leader", 2).await;
    ensemble.expire(theirs.session_id()).await.unwrap();
    let again = leading(&ours).await;
    assert!(again.fencing_token() > lease.fencing_token());
    theirs.quit().await.unwrap();
    ours.leave().await;
    until_empty(&session, "/leader").await;
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_selector_waits_for_ours_and_ours_for_curators() {
    let ensemble = three_servers().await;
    let curator = Curator::find().await.unwrap();
    let session = observer(&ensemble).await;
    let mut theirs = leads(&ensemble, Recipe::CuratorSelector(&curator, "curator")).await;
    let ours = selector(&session, "ours");
    let handle = ours.handle().clone();
    let running =
        tokio::spawn(ours.run_once(async |lease: LeaderLease| lease.asked_to_resign().await));
    until_enlisted(&session, "/leader", 2).await;
    let together = ["curator*", "ours"];
    let observer = selector(&session, "");
    assert_eq!(shown(&observer.participants().await.unwrap()), together);
    they_see(&mut theirs, &together).await;
    let mut changes = handle.changes();
    let waits =
        async { while !matches!(changes.next().await, Some(ParticipantState::Waiting { .. })) {} };
    let waits = tokio::time::timeout(SOON, waits).await;
    waits.expect("it waits, and knows that");

    theirs.release().await.unwrap();
    let leads = tokio::time::timeout(SOON, handle.leading()).await;
    leads.expect("it is our turn").unwrap();
    assert_eq!(theirs.acquire(SHORT).await.unwrap(), None, "we lead");
    they_see(&mut theirs, &["ours*", "curator"]).await;
    handle.resign().await.unwrap();
    theirs.acquire(SOON).await.unwrap().expect("we resigned");
    running.await.unwrap().unwrap();
    theirs.quit().await.unwrap();
    until_empty(&session, "/leader").await;
    ensemble.down().await.unwrap();
}

/// A time in which somebody led, by the clock of the machine.
type Term = (Duration, Duration);

async fn our_latch_contends(session: Session, times: u32, hold: Duration) -> Vec<Term> {
    let mut terms = Vec::new();
    for _ in 0..times {
        let ours = latch(&session, "ours").join();
        let lease = leading(&ours).await;
        let from = monotonic();
        drop(tokio::time::timeout(hold, lease.lost()).await);
        let to = monotonic();
        assert!(lease.is_valid());
        terms.push((from, to));
        ours.leave().await;
    }
    terms
}

async fn our_selector_contends(session: Session, times: u32, hold: Duration) -> Vec<Term> {
    let mut terms = Vec::new();
    for _ in 0..times {
        let term = selector(&session, "ours").run_once(async |lease: LeaderLease| {
            let from = monotonic();
            drop(tokio::time::timeout(hold, lease.lost()).await);
            (from, monotonic())
        });
        terms.push(term.await.unwrap());
    }
    terms
}

async fn contend<F>(
    theirs: for<'a> fn(&'a Curator, &'a str) -> Recipe<'a>,
    ours: impl Fn(Session, u32, Duration) -> F,
) where
    F: Future<Output = Vec<Term>> + Send + 'static,
{
    const EACH: usize = 2;
    const TIMES: u32 = 10;
    let hold = Duration::from_millis(3);
    let ensemble = three_servers().await;
    let curator = Curator::find().await.unwrap();
    let session = observer(&ensemble).await;
    session.create("/leader", "").await.unwrap();
    let connect = ensemble.connect_string();
    let mut contending = JoinSet::new();
    for at in 0..EACH {
        let id = format!("curator {at}");
        let theirs = PeerContender::start(theirs(&curator, &id), &connect, "/leader").await;
        let mut theirs = theirs.unwrap();
        contending.spawn(ours(observer(&ensemble).await, TIMES, hold));
        contending.spawn(async move {
            let held = theirs.contend(TIMES, hold, LONG).await.unwrap();
            theirs.quit().await.unwrap();
            held.iter().map(|it| (it.acquired, it.released)).collect()
        });
    }
    let all = tokio::time::timeout(LONG, contending.join_all()).await;
    let mut all = all.expect("all have their turns").concat();
    all.sort_unstable();
    assert_eq!(all.len(), 2 * EACH * TIMES as usize);
    for pair in all.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "two led at the same time: {pair:?}");
    }
    until_empty(&session, "/leader").await;
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_of_curators_latches_and_two_of_ours_never_lead_at_the_same_time() {
    contend(
        |curator, id| Recipe::CuratorLatch(curator, id),
        our_latch_contends,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_of_curators_selectors_and_two_of_ours_never_lead_at_the_same_time() {
    contend(
        |curator, id| Recipe::CuratorSelector(curator, id),
        our_selector_contends,
    )
    .await;
}
