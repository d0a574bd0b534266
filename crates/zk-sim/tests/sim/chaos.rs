//! Chaos by seed: the same seed repeats a run, and replies are correct under all disturbances.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_core::Session;
use zk_sim::wait::pass;
use zk_sim::{Chaos, Check, Disturbance, Ensemble, LoggedRequest, Tree};

/// Everything observable of a run.
#[derive(Debug, Clone, PartialEq)]
struct Trace {
    requests: Vec<LoggedRequest>,
    trees: Vec<Tree>,
    zxid: i64,
    end: Duration,
    injected: Vec<zk_sim::InjectedDisturbance>,
}

/// A chaos with all disturbances, including expired sessions.
fn everything() -> Chaos {
    Chaos::default()
        .every(Duration::from_millis(80))
        .weight(Disturbance::Expire, 1)
}

async fn work(session: Session) {
    for round in 0..40 {
        let path = format!("/dir/n{}", round % 7);
        let create = session.create("/dir/s-", "").parents().ephemeral();
        drop(create.sequential().protected().await);
        drop(session.create(&path, "").parents().idempotent().await);
        drop(session.set(&path, "x").idempotent().await);
        drop(session.delete(&path).await);
        drop(session.list("/dir").await);
        pass(Duration::from_millis(fastrand::u64(0..250))).await;
    }
}

async fn traced(sim: Ensemble) -> Trace {
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(tokio::spawn(work(sim.connect().await)));
    }
    let injected = everything().run(&sim).await;
    for task in tasks {
        task.await.unwrap();
    }
    let servers = 1..=sim.servers();
    Trace {
        requests: sim.requests(),
        trees: servers.map(|server| sim.server(server).tree()).collect(),
        zxid: sim.zxid(),
        end: sim.now(),
        injected,
    }
}

fn traces(seeds: std::ops::Range<u64>) -> Vec<Trace> {
    let traces = Mutex::new(Vec::new());
    Check::new(seeds).run(async |sim, _| {
        let trace = traced(sim).await;
        traces.lock().unwrap().push(trace);
    });
    traces.into_inner().unwrap()
}

#[test]
fn the_same_seed_is_the_same_run_and_another_seed_is_another() {
    let (first, second) = (traces(0..30), traces(0..30));
    for (seed, (first, second)) in first.iter().zip(&second).enumerate() {
        for (number, (one, other)) in first.requests.iter().zip(&second.requests).enumerate() {
            assert_eq!(one, other, "request {number} of seed {seed}");
        }
        assert!(first == second, "seed {seed} has two ends");
    }
    let requests: usize = first.iter().map(|trace| trace.requests.len()).sum();
    assert!(requests > 5_000, "{requests} requests are too few");
    for (seed, trace) in first.iter().enumerate() {
        let same = first.iter().filter(|other| *other == trace).count();
        assert_eq!(same, 1, "seed {seed}");
    }
}

#[test]
fn every_disturbance_happens_and_everything_is_healed_at_the_end() {
    let injected = Mutex::new(std::collections::BTreeMap::<_, usize>::new());
    Check::new(0..40).run(async |sim, seed| {
        let trace = traced(sim.clone()).await;
        for one in trace.injected {
            *injected.lock().unwrap().entry(one.what).or_default() += 1;
        }
        let session = tokio::time::timeout(Duration::from_secs(30), sim.connect().into_future());
        let session = session.await.expect("a server grants a session again");
        session.create("/end", "").await.unwrap();
        session.close().await.unwrap();
        pass(Duration::from_secs(1)).await;
        for server in 1..=3 {
            assert!(
                sim.server(server).is_serving(),
                "seed {seed}: server {server}"
            );
            assert_eq!(
                sim.server(server).tree(),
                sim.tree(),
                "seed {seed}: server {server}"
            );
        }
    });
    let injected = injected.into_inner().unwrap();
    for what in Disturbance::ALL {
        assert!(
            injected.contains_key(&what),
            "{what:?} never happened: {injected:?}"
        );
    }
}

#[test]
fn a_failure_tells_the_seed_the_last_requests_and_how_to_run_it_again() {
    if std::env::var_os("SEED").is_some() {
        return;
    }
    let ran = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ran);
    let failing = move || {
        Check::new(0..10).show(2).run(async |sim, seed| {
            seen.lock().unwrap().push(seed);
            let session = sim.connect().await;
            session.create("/a", "").await.unwrap();
            session.sync("/").await.unwrap();
            session.get("/a").await.unwrap();
            if seed == 3 {
                Err("three is too many")
            } else {
                Ok(())
            }
        })
    };
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(failing)).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert_eq!(*ran.lock().unwrap(), [0, 1, 2, 3]);
    for part in [
        "seed 3: \"three is too many\"",
        "the last 2 of ",
        "GetData { path: \"/a\"",
        "SEED=3 cargo test -p zk-sim --test sim",
        "chaos::a_failure_tells_the_seed",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert!(!text.contains("Create2("), "{text}");
}

#[test]
fn a_test_that_waits_for_ever_fails_after_an_hour_of_its_own_time() {
    let waiting = || {
        zk_sim::check(0..1, async |_, _| {
            std::future::pending::<()>().await;
        })
    };
    let panic = std::panic::catch_unwind(waiting).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains("the test did not end within 3600s"), "{text}");
}
