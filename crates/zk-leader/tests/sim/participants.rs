//! Listing participants and following leaders.

use std::time::Duration;

use zk_core::Session;
use zk_leader::LeaderLatch;
use zk_lock::FencingToken;
use zk_sim::{Ensemble, matching};

use crate::{PATH, latch, left, options, pass, selector, soon, until_waiting};

fn named(session: &Session, id: &str, metadata: &str) -> LeaderLatch {
    let options = options().with_id(id).with_metadata(metadata);
    LeaderLatch::with_options(session, PATH, &options).expect("a good path")
}

#[tokio::test(start_paused = true)]
async fn participants_are_listed_in_order_with_their_metadata() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let latch = latch(&one);
    assert!(latch.participants().await.unwrap().is_empty());
    assert_eq!(latch.leader().await.unwrap(), None);

    let first = named(&one, "anna", "10.0.0.1:80\nrack 7").join();
    let lease = soon("it leads", first.leading()).await.unwrap();
    let second = named(&other, "ben", "").join();
    until_waiting(second.handle()).await;
    let third = latch.join();
    until_waiting(third.handle()).await;

    let all = latch.participants().await.unwrap();
    let shown: Vec<_> = all
        .iter()
        .map(|it| {
            (
                it.id().into_owned(),
                it.metadata(),
                it.is_leader(),
                it.session(),
            )
        })
        .collect();
    let (one_id, other_id) = (Some(one.id()), Some(other.id()));
    assert_eq!(
        shown[0],
        ("anna".to_owned(), &b"10.0.0.1:80\nrack 7"[..], true, one_id)
    );
    assert_eq!(shown[1], ("ben".to_owned(), &b""[..], false, other_id));
    let process = format!("/{}", std::process::id());
    assert!(shown[2].0.ends_with(&process) && !shown[2].2, "{shown:?}");
    assert!(
        all.is_sorted_by(|a, b| a.fencing_token() < b.fencing_token() && a.since() <= b.since())
    );
    assert_eq!(all[0].fencing_token(), lease.fencing_token());
    assert_eq!(Some(all[0].node_name()), lease.path().name());
    assert_eq!(
        all[1].to_string(),
        format!("ben waits, token {}", all[1].fencing_token())
    );
    assert_eq!(latch.leader().await.unwrap().as_ref(), Some(&all[0]));
    // The data of one without metadata is its id and nothing else, as of Curator's.
    let path = format!("{PATH}/{}", all[1].node_name());
    assert_eq!(one.get(&path).await.unwrap().0, "ben");
}

#[tokio::test(start_paused = true)]
async fn the_leaders_are_followed_one_after_the_other() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let observer = ensemble.connect().await;
    let watched = latch(&observer);
    let following = tokio::spawn(async move {
        let mut seen: Vec<(String, FencingToken)> = Vec::new();
        while seen.len() < 4 {
            let last = seen.last().map(|it| it.1);
            let leader = watched.leader_after(last).await.unwrap();
            seen.push((leader.id().into_owned(), leader.fencing_token()));
        }
        seen
    });
    // At first the path does not exist, then it has no participants.
    pass(Duration::from_secs(1)).await;
    one.create("/leaders", "").await.unwrap();
    one.create(PATH, "").await.unwrap();
    one.create(format!("{PATH}/foreign"), "").await.unwrap();
    pass(Duration::from_secs(1)).await;
    let first = named(&one, "anna", "").join();
    soon("anna leads", first.leading()).await.unwrap();
    let second = named(&other, "ben", "").join();
    until_waiting(second.handle()).await;
    pass(Duration::from_secs(1)).await;
    for one in [&first, &second, &first] {
        soon("it leads", one.leading()).await.unwrap();
        // Long enough to be seen.
        pass(Duration::from_millis(100)).await;
        one.resign().await.unwrap();
    }
    let seen = soon("all are seen", following).await.unwrap();
    let ids: Vec<_> = seen.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(ids, ["anna", "ben", "anna", "ben"]);
    assert!(seen.is_sorted_by(|a, b| a.1 < b.1));
}

/// A follower of leaders wakes when a leader leaves, not when others join.
#[tokio::test(start_paused = true)]
async fn a_follower_of_leaders_reads_nothing_while_others_join() {
    let ensemble = Ensemble::new(3);
    let (one, observer) = (ensemble.connect().await, ensemble.connect().await);
    let first = latch(&one).join();
    let lease = soon("it leads", first.leading()).await.unwrap();
    let watched = latch(&observer);
    let token = Some(lease.fencing_token());
    let following = tokio::spawn(async move { watched.leader_after(token).await });
    pass(Duration::from_secs(1)).await;
    let lists = || ensemble.arrived(matching::lists(PATH));
    let before = lists();
    for _ in 0..5 {
        let waiting = latch(&one).join();
        until_waiting(waiting.handle()).await;
        waiting.leave().await;
    }
    pass(Duration::from_secs(1)).await;
    assert_eq!(lists(), before + 5, "one for each that joined");
    observer.close().await.unwrap();
    let error = soon("the end of the session is reported", following)
        .await
        .unwrap()
        .unwrap_err();
    assert!(error.is_fatal(), "{error}");
    assert_eq!(left(&ensemble).len(), 1);
}

/// The cost that the documentation states.
#[tokio::test(start_paused = true)]
async fn naming_the_leader_reads_one_participant_of_many() {
    let ensemble = Ensemble::new(3);
    let (session, observer) = (ensemble.connect().await, ensemble.connect().await);
    let first = latch(&session).join();
    let lease = soon("it leads", first.leading()).await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..20 {
        let participant = latch(&session).join();
        until_waiting(participant.handle()).await;
        waiting.push(participant);
    }
    let gets = || {
        let is_ours = matching::gets(&format!("{PATH}/**"));
        let seen = ensemble.requests().into_iter();
        seen.filter(|seen| seen.session == observer.id() && is_ours(&seen.request))
            .count()
    };
    let leader = latch(&observer).leader().await.unwrap().unwrap();
    assert_eq!(leader.fencing_token(), lease.fencing_token());
    assert!(leader.is_leader());
    assert_eq!(gets(), 1);
    let participants = latch(&observer).participants().await.unwrap();
    assert_eq!(participants.len(), 21);
    assert_eq!(gets(), 1 + 21);
}

/// The latch and the selector have layouts of their own, as Curator's have, and see no participants in each other's.
#[tokio::test(start_paused = true)]
async fn a_latch_and_a_selector_on_one_path_are_two_elections() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let participant = latch(&session).join();
    soon("it leads", participant.leading()).await.unwrap();
    let selector = selector(&session);
    assert_eq!(selector.leader().await.unwrap(), None);
    let handle = selector.handle().clone();
    let running = tokio::spawn(selector.run_once(async |_| std::future::pending::<()>().await));
    soon("it leads, too", handle.leading()).await.unwrap();
    assert_eq!(latch(&session).participants().await.unwrap().len(), 1);
    running.abort();
}
