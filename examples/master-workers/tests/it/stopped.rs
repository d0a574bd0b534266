//! A master that is stopped for longer than its session lives, and goes on.

use master_workers::submit::submit;
use rustix::process::Signal;
use zk_harness::Ensemble;

use crate::{Process, children, observer, signal, tree, until};

/// That what it sends is refused as well, `sim` shows: here it does not even come to that.
#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_was_stopped_changes_nothing_when_it_goes_on() {
    let ensemble = Ensemble::builder().servers(1).start().await.unwrap();
    let connect = ensemble.connect_string();
    let session = observer(&ensemble).await;
    let mut anna = Process::start("anna", &connect);
    anna.says(" is the master, with token ").await;
    let mut ben = Process::start("ben", &connect);
    ben.says(" is worker ").await;
    let texts = |from: usize| (from..from + 40).map(|number| format!("paint {number}"));
    submit(&session, &tree(), texts(0)).await.unwrap();
    ben.says(" begins task ").await;

    signal(&anna.child, Signal::STOP);
    anna.drain().await;
    ben.says("ben: is the master, with token ").await;
    ben.says("which is gone").await;
    // There is something for a master to do when it goes on.
    submit(&session, &tree(), texts(40)).await.unwrap();
    signal(&anna.child, Signal::CONT);
    let said = anna.says(" is the master no longer").await;
    let deeds: Vec<_> = said.iter().filter(|it| it.contains(": master ")).collect();
    assert!(deeds.is_empty(), "{deeds:?}");
    // With its next session it is another worker.
    let said = anna.says(" begins task ").await;
    assert!(
        said.iter().any(|it| it.contains(" has session ")),
        "{said:?}"
    );

    until("all is done", async || {
        let done = children(&session, &tree().done).await.len();
        assert!(done <= 80, "{done} results of 80 tasks");
        (done == 80).then_some(())
    })
    .await;
    anna.end().await;
    ben.end().await;
    assert_eq!(children(&session, &tree().assigned).await.len(), 0);
    ensemble.down().await.unwrap();
}
