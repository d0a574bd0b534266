//! Everything at once, at random, by seed.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use master_workers::settings::Settings;
use master_workers::submit::submit;
use master_workers::worker::TaskResult;
use master_workers::{Node, Stopper};
use zk_core::codec::{Codec as _, Toml};
use zk_sim::wait::{pass, soon};
use zk_sim::{Chaos, Check, Disturbance, Ensemble};

use crate::{count, deaf, places, run, set, tree, until};

/// Sessions are lost here as well: the application is meant to get over it.
fn chaos() -> Chaos {
    Chaos::default()
        .lasting(Duration::from_secs(12))
        .every(Duration::from_millis(150))
        .longest(Duration::from_secs(14))
        .weight(Disturbance::Expire, 2)
}

/// Submits from one session after the other. Returns the accepted tasks and those with an unknown outcome.
async fn submit_all(ensemble: Ensemble) -> (Vec<String>, Vec<String>) {
    let (mut accepted, mut unknown) = (Vec::new(), Vec::new());
    let mut number = 0;
    while number < TASKS {
        let session = ensemble.connect().within(Duration::from_secs(600)).await;
        while number < TASKS {
            let text = format!("paint {number}");
            number += 1;
            match submit(&session, &tree(), [text.clone()]).await {
                Ok(submitted) if submitted.accepted == 1 => accepted.push(text),
                Ok(_) => unknown.push(text),
                Err(error) => {
                    unknown.push(text);
                    if error.class() == zk_core::ErrorClass::Fatal {
                        break;
                    }
                }
            }
            pass(Duration::from_millis(50)).await;
        }
    }
    (accepted, unknown)
}

/// Looks at every moment that a task is in one place.
async fn watch(ensemble: Ensemble) {
    loop {
        for (task, places) in places(&ensemble) {
            assert_eq!(places.len(), 1, "{task} is at {places:?}");
        }
        pass(Duration::from_millis(3)).await;
    }
}

async fn play(ensemble: Ensemble) -> usize {
    let session = ensemble.connect().await;
    let settings = Settings {
        work: Duration::from_millis(40),
        failure_rate: 0.1,
        ..Settings::default()
    };
    set(&session, &settings).await;
    session.close().await.unwrap();

    let (stopper, stop) = Stopper::new();
    let mut processes = Vec::new();
    for name in ["anna", "ben", "cleo"] {
        let node = Node::new(tree(), deaf(name));
        processes.push(tokio::spawn(run(ensemble.clone(), node, stop.clone())));
    }
    let submitting = tokio::spawn(submit_all(ensemble.clone()));
    let watching = tokio::spawn(watch(ensemble.clone()));
    chaos().run(&ensemble).await;
    let (accepted, unknown) = soon("all is submitted", submitting).await.unwrap();
    until("nothing is left to do", || {
        let all = [tree().tasks, tree().inbox.join("items").unwrap()];
        let assigned = ensemble.tree();
        let assigned = assigned.nodes().any(|(path, _)| {
            path.as_str().starts_with("/app/assigned/") && path.as_str().contains("/task-")
        });
        all.iter().all(|path| count(&ensemble, path) == 0) && !assigned
    })
    .await;
    stopper.stop();
    for process in processes {
        soon("it ends", process).await.unwrap();
    }
    assert!(!watching.is_finished(), "{:?}", watching.await);
    watching.abort();

    let mut done: BTreeMap<String, usize> = BTreeMap::new();
    for (path, node) in ensemble.tree().nodes() {
        if path.parent() == Some(tree().done) {
            let result: TaskResult = Toml.decode(node.data()).unwrap();
            *done.entry(result.text).or_default() += 1;
        }
    }
    for text in &accepted {
        assert_eq!(done.get(text), Some(&1), "{text} was accepted");
    }
    for text in &unknown {
        assert!(done.get(text).is_none_or(|times| *times == 1), "{text}");
    }
    assert!(done.len() <= accepted.len() + unknown.len());
    // What the dead had is forgotten by a master; what the last ones had stays for the next.
    ensemble.assert_nothing_left([]).await;
    assert_eq!(count(&ensemble, &tree().markers), 0, "markers are left");
    done.len()
}

#[test]
fn whatever_happens_each_task_is_in_one_place_and_is_done_once() {
    let done = Cell::new(0);
    let checked = Check::new(0..SEEDS)
        .seeds_from_env()
        .run(async |ensemble, _| {
            done.set(done.get() + play(ensemble).await);
        });
    println!("{} tasks done in {checked}", done.get());
    assert!(done.get() > 20 * checked.seeds, "{} tasks", done.get());
}

const SEEDS: u64 = 15;
const TASKS: usize = 40;
