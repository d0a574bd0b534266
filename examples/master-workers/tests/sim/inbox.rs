//! Texts on their way to be tasks: none is put aside, too large or too many.

use std::error::Error as _;
use std::ops::Range;
use std::time::Duration;

use master_workers::TaskId;
use master_workers::status::Status;
use master_workers::submit::{Reason, submit};
use zk_core::codec::Raw;
use zk_core::{Acl, ErrorClass, Session};
use zk_queue::WorkQueue;
use zk_sim::Ensemble;
use zk_sim::wait::{pass, soon};

use crate::master::{leader, master};
use crate::{Process, count, places, texts, tree, until, working_for};

async fn foundations(session: &Session) {
    for path in tree().base_nodes() {
        session.create(path, "").parents().await.unwrap();
    }
}

/// Creates unassigned tasks.
async fn tasks(session: &Session, numbers: Range<u32>) {
    let numbers: Vec<u32> = numbers.collect();
    for numbers in numbers.chunks(500) {
        let all = numbers.iter().fold(session.transaction(), |txn, number| {
            txn.create(tree().task(TaskId::new(*number)), "old")
        });
        all.commit().await.unwrap();
    }
}

fn items(ensemble: &Ensemble) -> usize {
    count(ensemble, &tree().inbox.join("items").unwrap())
}

/// Somebody has deleted the node of the numbers, so that they begin anew. Each try is a delivery.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn numbers_of_tasks_that_are_there_are_passed_over_and_no_text_is_put_aside() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    foundations(&session).await;
    tasks(&session, 0..40).await;
    submit(&session, &tree(), ["new".to_owned()]).await.unwrap();
    let (_participant, lease) = leader(&session).await;
    let master = master(&session);
    let leading = tokio::spawn(async move { master.lead(&lease).await });
    until("it is a task", || items(&ensemble) == 0).await;
    let (text, _) = session.get(tree().task(TaskId::new(40))).await.unwrap();
    assert_eq!(text, "new");
    let status = Status::read(&session, &tree()).await.unwrap();
    assert_eq!((status.waiting, status.unreadable), (41, 0));
    assert!(!leading.is_finished());
    leading.abort();
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn what_is_no_text_is_put_aside_and_the_status_tells_of_it() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    foundations(&session).await;
    let raw = WorkQueue::new(&session, tree().inbox, Raw).unwrap();
    raw.offer(&vec![0xff]).await.unwrap();
    submit(&session, &tree(), texts(1)).await.unwrap();
    let (_participant, lease) = leader(&session).await;
    let master = master(&session);
    let leading = tokio::spawn(async move { master.lead(&lease).await });
    until("the text is a task", || places(&ensemble).len() == 1).await;
    let read = async || {
        let status = Status::read(&session, &tree()).await.unwrap();
        (status.submitted, status.waiting, status.unreadable)
    };
    // Another master may read it: it comes back with growing delays before it is given up.
    assert_eq!(read().await, (1, 1, 0));
    let given_up = tokio::time::timeout(Duration::from_secs(3 * 3600), async {
        while items(&ensemble) > 0 {
            pass(Duration::from_secs(1)).await;
        }
    });
    given_up.await.expect("it is given up within three hours");
    assert_eq!(read().await, (0, 1, 1));
    leading.abort();
}

/// What is made of it is larger: in the result each of these letters is six.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn the_largest_text_gets_a_result_and_a_larger_one_is_refused() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    working_for(&session, Duration::from_millis(20)).await;
    let largest = "\u{1}".repeat(64 * 1024);
    let larger = format!("{largest}!");
    let refused = submit(
        &session,
        &tree(),
        [largest, larger.clone(), "not tried".to_owned()],
    )
    .await
    .unwrap_err();
    assert!(matches!(refused.reason, Reason::TooLarge { bytes } if bytes == larger.len()));
    assert_eq!(refused.submitted.accepted, 1);
    assert_eq!(refused.class(), ErrorClass::Outcome);
    assert_eq!(refused.to_string(), "1 submitted, and not the next one");
    let why = refused.source().unwrap().to_string();
    assert_eq!(
        why,
        "the text has 65537 bytes, more than the limit of 65536"
    );
    let process = Process::start(&ensemble, "anna");
    until("it is done", || count(&ensemble, &tree().done) == 1).await;
    process.end().await;
    assert_eq!(places(&ensemble).len(), 1);
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn while_many_tasks_wait_texts_stay_in_the_inbox() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    foundations(&session).await;
    tasks(&session, 1_000..2_000).await;
    submit(&session, &tree(), texts(2)).await.unwrap();
    let (_participant, lease) = leader(&session).await;
    let master = master(&session);
    let leading = tokio::spawn(async move { master.lead(&lease).await });
    pass(Duration::from_secs(60)).await;
    assert_eq!(items(&ensemble), 2);
    for number in [1_000, 1_001] {
        let waits = tree().task(TaskId::new(number));
        session.delete(waits).await.unwrap();
    }
    until("there is room for them", || items(&ensemble) == 0).await;
    assert!(!leading.is_finished());
    leading.abort();
}

/// A master that cannot list the tasks would do nothing and never say so.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn tasks_that_may_not_be_listed_end_the_master_and_it_says_why() {
    let ensemble = Ensemble::new(3);
    let operator = ensemble.connect().digest("operator", "secret").await;
    foundations(&operator).await;
    let hide = operator.set_acl(tree().tasks, Acl::creator_only());
    hide.await.unwrap();
    let session = ensemble.connect().await;
    let (_participant, lease) = leader(&session).await;
    let led = soon("it ends", master(&session).lead(&lease)).await;
    let why = format!("{:#}", led.unwrap_err());
    assert!(
        why.starts_with("/app/tasks cannot be followed: ") && why.contains("READ"),
        "{why}"
    );
}
