//! What a process does when nothing is wrong, and at its end.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use master_workers::prune::{Pruned, prune};
use master_workers::settings::Settings;
use master_workers::status::Status;
use master_workers::submit::submit;
use master_workers::worker::TaskResult;
use master_workers::{Member, Stopper, TaskId};
use zk_core::codec::{Codec as _, Toml};
use zk_lock::FairLock;
use zk_sim::matching::{transactions, writes};
use zk_sim::{Check, Ensemble};

use crate::{Process, count, heard, places, said, texts, tree, until, working_for};

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn who_is_told_to_end_finishes_what_it_works_at_and_leaves_the_rest() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    working_for(&session, Duration::from_secs(3)).await;
    let process = Process::start(&ensemble, "anna");
    submit(&session, &tree(), texts(6)).await.unwrap();
    until("it works", || process.said(" begins task ") == 2).await;
    until("all are tasks", || places(&ensemble).len() == 6).await;
    process.end().await;

    let status = Status::read(&session, &tree()).await.unwrap();
    assert_eq!((status.master, status.done), (None, 2));
    // The worker that has it is dead; the next master takes it back.
    assert!(
        status
            .workers
            .values()
            .all(|worker| worker.process.is_none())
    );
    let process = Process::start(&ensemble, "ben");
    until("all is done", || count(&ensemble, &tree().done) == 6).await;
    let status = Status::read(&session, &tree()).await.unwrap();
    assert_eq!(status.master.as_deref(), Some("ben"));
    assert_eq!((status.submitted, status.waiting, status.done), (0, 0, 6));
    assert_eq!(status.workers.len(), 1, "the dead are forgotten: {status}");
    process.end().await;
    ensemble.assert_nothing_left([session]).await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn results_are_cleared_away_by_one_at_a_time() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    for number in 0..250 {
        let task = TaskId::new(number);
        let create = session.create(tree().result(task), "").parents();
        create.await.unwrap();
    }
    let lock = FairLock::new(&other, tree().prune_lock).unwrap();
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

/// Whichever answer to a worker is lost, it is one worker, and what it has done is done.
#[test]
fn lost_answers_make_no_second_worker_and_no_second_result() {
    let lost = |which: usize, ensemble: &Ensemble| match which {
        0 => ensemble.on(transactions("/app/workers/**")).lose_reply(),
        1 => ensemble.on(transactions("/app/workers/**")).lose_request(),
        2 => ensemble.on(transactions("/app/done/**")).lose_reply(),
        3 => ensemble.on(transactions("/app/done/**")).lose_request(),
        4 => ensemble.on(transactions("/app/tasks/**")).lose_reply(),
        _ => ensemble.on(transactions("/app/tasks/**")).lose_request(),
    };
    let checked = Check::new(0..6).run(async |ensemble, seed| {
        let which = usize::try_from(seed).expect("it is small");
        let scripted = lost(which, &ensemble);
        let session = ensemble.connect().await;
        let process = Process::start(&ensemble, "anna");
        submit(&session, &tree(), texts(3)).await.unwrap();
        until("all is done", || count(&ensemble, &tree().done) == 3).await;
        assert_eq!(scripted.count(), 1, "nothing was lost");
        let status = Status::read(&session, &tree()).await.unwrap();
        assert_eq!(status.workers.len(), 1, "{status}");
        let lines = Arc::clone(&process.lines);
        process.end().await;
        let times = |what: &str| said(&lines, what);
        assert_eq!((times("is worker "), times("has done task ")), (1, 3));
        assert_eq!(times("no longer its task"), 0);
        ensemble.assert_nothing_left([session]).await;
    });
    assert!(checked.seeds > 0);
}

/// An operator takes a worker out while it works.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_worker_that_is_removed_finishes_nothing_and_begins_anew_under_another_name() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    working_for(&session, Duration::from_secs(3)).await;
    let process = Process::start(&ensemble, "anna");
    submit(&session, &tree(), texts(1)).await.unwrap();
    until("it works", || process.said(" begins task 0") > 0).await;
    let status = Status::read(&session, &tree()).await.unwrap();
    let (first, _) = status.workers.first_key_value().unwrap();
    session.delete(tree().worker(*first)).await.unwrap();
    until("it is done", || count(&ensemble, &tree().done) == 1).await;
    assert_eq!(process.said(", which somebody has removed"), 1);
    let (data, _) = session.get(tree().result(TaskId::new(0))).await.unwrap();
    let result: TaskResult = Toml.decode(&data).unwrap();
    assert_ne!(result.worker, first.to_string());
    // One that has nothing to do notices it as well.
    let status = Status::read(&session, &tree()).await.unwrap();
    let (second, _) = status.workers.first_key_value().unwrap();
    session.delete(tree().worker(*second)).await.unwrap();
    until("it is there again", || {
        count(&ensemble, &tree().workers) == 1
    })
    .await;
    process.end().await;
    assert_eq!(count(&ensemble, &tree().assigned), 0);
    ensemble.assert_nothing_left([session]).await;
}

/// Its server lags, so it is not notified.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_worker_that_does_not_know_that_it_was_removed_finishes_nothing() {
    let ensemble = Ensemble::new(3);
    let operator = ensemble.connect().await;
    for path in tree().base_nodes() {
        operator.create(path, "").parents().await.unwrap();
    }
    working_for(&operator, Duration::from_secs(1)).await;
    let session = ensemble.connect().server(1).await;
    let live = Settings::live(&tree());
    let _following = live.follow(&session);
    let (anna, lines) = heard("anna");
    let worker = Member {
        session,
        tree: tree(),
        settings: live,
        reporter: anna,
    };
    let (_stopper, stop) = Stopper::new();
    let working = tokio::spawn(async move { worker.work(&stop).await });
    until("it is there", || count(&ensemble, &tree().workers) == 1).await;
    let status = Status::read(&operator, &tree()).await.unwrap();
    let (name, _) = status.workers.first_key_value().unwrap();
    let assignment = tree().assignment(*name, TaskId::new(0));
    operator.create(&assignment, "paint").await.unwrap();
    until("it works", || said(&lines, " begins task 0") > 0).await;
    ensemble.server(1).lag_for(Duration::from_secs(3));
    operator.delete(tree().worker(*name)).await.unwrap();
    until("it has begun anew", || {
        said(&lines, ", which somebody has removed") > 0
    })
    .await;
    assert_eq!(places(&ensemble)[&TaskId::new(0)], [assignment.to_string()]);
    working.abort();
}

/// A process may die after any of its writes, its answer being on its way.
#[test]
fn after_whichever_write_a_process_dies_each_text_is_one_result() {
    let died = Cell::new(0);
    Check::new(0..WRITES).run(async |ensemble, seed| {
        let watcher = ensemble.connect().await;
        let process = Process::start(&ensemble, "anna");
        let others = [watcher.id()];
        until("anna has a session", || ensemble.sessions().len() == 2).await;
        let mut sessions = ensemble.sessions().into_iter();
        let session = sessions.find(|session| !others.contains(session)).unwrap();
        until("anna is there", || count(&ensemble, &tree().workers) == 1).await;
        let nth = usize::try_from(seed).expect("it is small");
        let last = ensemble.on(writes()).session(session).nth(nth + 1).hold();
        submit(&watcher, &tree(), texts(2)).await.unwrap();
        until("all is done, or it is dead", || {
            last.count() == 1 || count(&ensemble, &tree().done) == 2
        })
        .await;
        died.set(died.get() + last.count());
        ensemble.expire(session);
        last.release();
        until("all is done", || count(&ensemble, &tree().done) >= 2).await;
        process.end().await;
        let places = places(&ensemble);
        assert_eq!(places.len(), 2, "{places:?}");
        assert!(
            places.values().all(|places| places.len() == 1),
            "{places:?}"
        );
        assert_eq!(count(&ensemble, &tree().done), 2);
    });
    let (died, writes) = (died.get() as u64, WRITES);
    assert!(
        died > 10 && died < writes,
        "{died} of {writes}: all writes are to be had, and no more"
    );
}

/// More than a process makes for two texts.
const WRITES: u64 = 40;
