//! Processes that go on whatever somebody does to their nodes, and whatever servers answer for a while.

use std::time::Duration;

use master_workers::settings::Settings;
use master_workers::submit::submit;
use master_workers::{TaskId, WorkerName};
use zk_core::transport::TransportError;
use zk_core::{Acl, ErrorKind};
use zk_sim::Ensemble;
use zk_sim::matching::{creates, gets, lists};
use zk_sim::wait::pass;

use crate::{Process, count, places, set, texts, tree, until, working_for};

/// The only worker that is registered.
fn worker(ensemble: &Ensemble) -> WorkerName {
    let nodes = ensemble.tree();
    let workers = nodes.node(tree().workers.as_str()).unwrap();
    let names: Vec<String> = workers.children().map(ToString::to_string).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    names[0].parse().unwrap()
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_result_that_somebody_else_has_made_stays_and_ends_no_process() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    working_for(&session, Duration::from_secs(3)).await;
    let process = Process::start(&ensemble, "anna");
    submit(&session, &tree(), texts(1)).await.unwrap();
    until("it works", || process.said(" begins task 0") > 0).await;
    let result = tree().result(TaskId::new(0));
    session.create(&result, "by hand").await.unwrap();
    until("it is through", || {
        places(&ensemble).values().all(|it| it.len() == 1)
    })
    .await;
    assert_eq!(process.said(" finds that task 0 has a result already"), 1);
    let (data, _) = session.get(&result).await.unwrap();
    assert_eq!(data, "by hand");
    submit(&session, &tree(), texts(1)).await.unwrap();
    until("it goes on", || count(&ensemble, &tree().done) == 2).await;
    process.end().await;
    ensemble.assert_nothing_left([session]).await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn whichever_foundation_is_deleted_is_made_again_and_work_goes_on() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    working_for(&session, Duration::from_millis(40)).await;
    let process = Process::start(&ensemble, "anna");
    until("it is there", || count(&ensemble, &tree().workers) == 1).await;
    for (number, path) in tree().base_nodes().into_iter().enumerate() {
        session.delete(path).recursive().await.unwrap();
        submit(&session, &tree(), texts(1)).await.unwrap();
        until(&format!("it is done without {path}"), || {
            process.said("has done task") == number + 1
        })
        .await;
        assert_eq!(process.said("makes nodes again"), number + 1, "{path}");
    }
    assert!(!process.running.is_finished());
    process.end().await;
    ensemble.assert_nothing_left([session]).await;
}

/// While it works, while it has nothing to do, and before it has seen that node.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_worker_whose_node_for_tasks_is_deleted_begins_anew_under_another_name() {
    for when in ["working", "idle", "new"] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        working_for(&session, Duration::from_secs(3)).await;
        let unseen = (when == "new").then(|| {
            let (gets, lists) = (gets("/app/assigned/*"), lists("/app/assigned/*"));
            let reads = ensemble.on(move |request| gets(request) || lists(request));
            reads.every().lose_request()
        });
        let process = Process::start(&ensemble, "anna");
        until("it is there", || count(&ensemble, &tree().assigned) == 1).await;
        let first = worker(&ensemble);
        if when == "working" {
            submit(&session, &tree(), texts(1)).await.unwrap();
            until("it works", || process.said(" begins task 0") > 0).await;
        }
        if let Some(unseen) = &unseen {
            until("it looks for its node", || unseen.count() > 0).await;
        }
        let node = tree().assigned_to(first);
        if when == "working" {
            let task = tree().assignment(first, TaskId::new(0));
            session.delete(task).await.unwrap();
        }
        session.delete(node).await.unwrap();
        if let Some(unseen) = unseen {
            unseen.withdraw();
        }
        until("it begins anew", || {
            process.said(", which somebody has removed") > 0
        })
        .await;
        submit(&session, &tree(), texts(1)).await.unwrap();
        until("it works again", || count(&ensemble, &tree().done) == 1).await;
        assert_ne!(worker(&ensemble), first, "{when}");
        process.end().await;
        ensemble.assert_nothing_left([session]).await;
    }
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn servers_that_are_too_busy_for_long_cost_a_session_and_not_the_process() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let busy = ensemble
        .on(creates("/app/tasks"))
        .every()
        .refuse(TransportError::Later(ErrorKind::Throttled));
    let process = Process::start(&ensemble, "anna");
    until("it begins anew", || process.said("begins anew with") > 1).await;
    busy.withdraw();
    submit(&session, &tree(), texts(1)).await.unwrap();
    until("it works", || count(&ensemble, &tree().done) == 1).await;
    process.end().await;
    ensemble.assert_nothing_left([session]).await;
}

/// The tasks that it works at take an hour: nothing else would make it look.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn how_many_at_once_is_followed_while_all_that_may_be_are_worked_at() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let hour = Settings {
        work: Duration::from_secs(3600),
        at_once: 1,
        ..Settings::default()
    };
    set(&session, &hour).await;
    let process = Process::start(&ensemble, "anna");
    submit(&session, &tree(), texts(4)).await.unwrap();
    let begun = || process.said(" begins task ");
    until("it has all of them", || {
        let all = places(&ensemble);
        all.len() == 4 && all.values().all(|it| it[0].starts_with("/app/assigned/"))
    })
    .await;
    pass(Duration::from_secs(5)).await;
    assert_eq!(begun(), 1);
    set(&session, &Settings { at_once: 3, ..hour }).await;
    until("it works at three", || begun() == 3).await;
    process.running.abort();
}

/// What another client has put among the nodes, and hidden, is left alone: the rest of the work goes on.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn nodes_that_cannot_be_read_end_no_master() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let owner = ensemble.connect().digest("operator", "secret").await;
    working_for(&session, Duration::from_millis(40)).await;
    let process = Process::start(&ensemble, "anna");
    until("it is there", || count(&ensemble, &tree().assigned) == 1).await;
    let task = TaskId::new(1_000);
    let (own, gone) = (worker(&ensemble), WorkerName::new(7, 7));
    let hidden = [
        tree().task(task),
        tree().worker(gone),
        tree().assigned_to(gone),
        tree().assignment(own, task),
    ];
    let foreign = ["/app/tasks/\u{e9}", "/app/workers/x", "/app/assigned/x"];
    for path in foreign {
        session.create(path, b"\xff").await.unwrap();
    }
    for path in &hidden {
        let create = owner.create(path, b"\xff").acl(Acl::creator_only());
        create.await.unwrap();
    }
    // Servers tell nothing of a hidden node until it is listed.
    for session in ensemble.sessions() {
        ensemble.session(session).cut();
    }
    pass(Duration::from_secs(5)).await;
    submit(&session, &tree(), texts(3)).await.unwrap();
    until("the others are done", || {
        count(&ensemble, &tree().done) == 3
    })
    .await;
    assert!(!process.running.is_finished());
    assert_eq!(process.said("is the master, with"), 1);
    for path in &hidden {
        assert!(process.said(&format!("leaves {path} alone")) > 0, "{path}");
        owner.delete(path).await.unwrap();
    }
    for path in foreign {
        session.delete(path).await.unwrap();
    }
    process.end().await;
    ensemble.assert_nothing_left([session, owner]).await;
}
