//! What a process does when nothing is wrong, and at its end.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use master_workers::Node;
use master_workers::Stopper;
use master_workers::Teller;
use master_workers::prune::Pruned;
use master_workers::prune::prune;
use master_workers::settings::Settings;
use master_workers::status::Status;
use master_workers::submit::submit;
use zk_lock::FairLock;
use zk_sim::Ensemble;
use zk_sim::wait::soon;

use crate::count;
use crate::deaf;
use crate::places;
use crate::run;
use crate::set;
use crate::tree;
use crate::until;

fn texts(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("paint {number}"))
}

// covers: E1 E3 Q4
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn who_is_told_to_end_finishes_what_it_works_at_and_leaves_the_rest() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let settings = Settings {
        work: Duration::from_secs(3),
        ..Settings::default()
    };
    set(&session, &settings).await;
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&lines);
    let teller = Teller::new("anna", move |line| {
        noted.lock().unwrap().push(line.to_owned());
    });
    let (stopper, stop) = Stopper::new();
    let process = tokio::spawn(run(ensemble.clone(), Node::new(tree(), teller), stop));
    submit(&session, &tree(), texts(6)).await.unwrap();
    until("it works", || {
        let lines = lines.lock().unwrap();
        lines
            .iter()
            .filter(|it| it.contains(" begins task "))
            .count()
            == 2
    })
    .await;
    until("all are tasks", || places(&ensemble).len() == 6).await;
    stopper.stop();
    soon("it ends", process).await.unwrap();

    let status = Status::read(&session, &tree()).await.unwrap();
    assert_eq!((status.master, status.done), (None, 2));
    // What was left is with nobody that lives; the next master takes it back.
    assert!(
        status
            .workers
            .values()
            .all(|worker| worker.process.is_none())
    );
    let (stopper, stop) = Stopper::new();
    let process = tokio::spawn(run(ensemble.clone(), Node::new(tree(), deaf("ben")), stop));
    until("all is done", || count(&ensemble, &tree().done()) == 6).await;
    let status = Status::read(&session, &tree()).await.unwrap();
    assert_eq!(status.master.as_deref(), Some("ben"));
    assert_eq!((status.submitted, status.waiting, status.done), (0, 0, 6));
    assert_eq!(status.workers.len(), 1, "the dead are forgotten: {status}");
    stopper.stop();
    soon("it ends", process).await.unwrap();
    ensemble.assert_nothing_left([session]).await;
}

// covers: L3 L12
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn results_are_cleared_away_by_one_at_a_time() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    for number in 0..250 {
        let task = master_workers::TaskId::new(number);
        let create = session.create(tree().result(task), "").parents();
        create.await.unwrap();
    }
    let lock = FairLock::new(&other, tree().prune_lock()).unwrap();
    let guard = lock.acquire().await.unwrap();
    let pruned = prune(&session, &tree(), 10).await.unwrap();
    assert!(matches!(pruned, Pruned::Busy { .. }), "{pruned:?}");
    assert_eq!(places(&ensemble).len(), 250);
    guard.release().await.unwrap();
    let pruned = prune(&session, &tree(), 10).await.unwrap();
    assert_eq!(pruned, Pruned::Deleted(240));
    let left: Vec<u32> = places(&ensemble).keys().map(|it| it.number()).collect();
    assert_eq!(left, (240..250).collect::<Vec<_>>());
    ensemble.assert_nothing_left([session, other]).await;
}
