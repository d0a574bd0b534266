//! Processes that are killed and stopped at random, the master more often, over servers that are broken at random.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use master_workers::TaskId;
use master_workers::settings::Settings;
use master_workers::submit::submit;
use master_workers::worker::TaskResult;
use rustix::process::Signal;
use tokio::process::Child;
use tokio::time::Instant;
use zk_config::{Publisher, Subtree, Typed};
use zk_core::codec::{Codec as _, DecodeError, DecodeErrorKind, Toml};
use zk_core::{ErrorClass, Session};
use zk_harness::nemesis::{Fault, Nemesis, fault_time, tally};
use zk_harness::{DataStore, Ensemble};
use zk_history::check::TotalQueue;
use zk_history::{Op, Recorder, ReturnValue, Run};
use zk_leader::Selector;

use crate::{children, ended, observer, program_with, signal, tree, until};

const PROCESSES: usize = 4;
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// The processes, of which one after the other is replaced.
struct Crew {
    directory: PathBuf,
    connect: String,
    running: Vec<(String, Child)>,
    started: usize,
}

impl Crew {
    fn start(&mut self) -> (String, Child) {
        self.started += 1;
        let name = format!("p{}", self.started);
        let lines = File::create(self.directory.join(format!("{name}.txt")));
        let child = program_with(&self.connect, SESSION_TIMEOUT)
            .args(["node", "--name", &name])
            .stdout(Stdio::from(lines.expect("a file can be made")))
            .spawn();
        (name, child.expect("the program is there"))
    }

    /// Kills or pauses one after the other until then, and at least four; answers how often each was done, and how often to the master.
    async fn disturb(
        &mut self,
        session: &Session,
        until: Instant,
        mut random: fastrand::Rng,
    ) -> (usize, usize, usize) {
        let election = Selector::new(session, tree().election).expect("the path is one");
        let (mut killed, mut paused, mut masters) = (0, 0, 0);
        while Instant::now() < until || killed + paused < 4 {
            pass(Duration::from_millis(random.u64(500..2500))).await;
            // The master of that moment.
            let master = match election.leader().await {
                Ok(Some(leader)) => leader.id().into_owned(),
                _ => String::new(),
            };
            let master = self.running.iter().position(|(name, _)| *name == master);
            let at = match master {
                Some(master) if random.bool() => master,
                _ => random.usize(..self.running.len()),
            };
            masters += usize::from(master == Some(at));
            if random.bool() {
                let killing = self.running[at].1.kill();
                killing.await.expect("it runs");
                self.running[at] = self.start();
                killed += 1;
            } else {
                signal(&self.running[at].1, Signal::STOP);
                // Now and then longer than its session lives.
                pass(Duration::from_millis(random.u64(200..7000))).await;
                signal(&self.running[at].1, Signal::CONT);
                paused += 1;
            }
        }
        (killed, paused, masters)
    }
}

async fn pass(time: Duration) {
    drop(tokio::time::timeout(time, std::future::pending::<()>()).await);
}

/// Submits one text after the other until then.
async fn submit_until(connect: String, recorder: Recorder, until: Instant) {
    let mut number = 0;
    while Instant::now() < until {
        let opened = Session::builder(&connect)
            .session_timeout(SESSION_TIMEOUT)
            .operation_timeout(Duration::from_secs(20))
            .connect();
        let Ok(session) = opened.await else {
            continue;
        };
        while Instant::now() < until {
            let text = format!("paint {number}");
            number += 1;
            let pending = recorder.invoke(Op::offer("/app", text.as_str()));
            let submitted = submit(&session, &tree(), [text]).await;
            match submitted {
                Ok(submitted) if submitted.accepted == 1 => pending.ok(()),
                Ok(_) => pending.unknown("unknown"),
                Err(error) => {
                    let class = error.class();
                    pending.unknown(error.to_string());
                    if class == ErrorClass::Fatal {
                        break;
                    }
                }
            }
            pass(Duration::from_millis(60)).await;
        }
        drop(session.close().await);
    }
}

/// Follows what is assigned, each snapshot of one moment; counts the snapshots, and refuses those in which two workers have
/// one task.
fn snapshot(looks: Arc<AtomicUsize>) -> Typed<usize> {
    let make = move |assigned: &Subtree| {
        let mut places: BTreeMap<TaskId, &str> = BTreeMap::new();
        for (name, _) in assigned.iter() {
            let Some((worker, Ok(task))) =
                name.split_once('/').map(|(it, task)| (it, task.parse()))
            else {
                continue;
            };
            if let Some(other) = places.insert(task, worker) {
                let message = format!("{task} is of {other} and of {worker}");
                return Err(DecodeError::new(
                    "assignments",
                    DecodeErrorKind::Shape,
                    message,
                ));
            }
        }
        looks.fetch_add(1, Ordering::Relaxed);
        Ok(places.len())
    };
    let builder = Typed::subtree(tree().assigned, make);
    builder.expect("the path is one").build()
}

/// The text of every result.
async fn results(session: &Session) -> Vec<String> {
    let mut texts = Vec::new();
    for name in children(session, &tree().done).await {
        let task: TaskId = name.parse().expect("results have names of tasks");
        let (data, _) = session.get(tree().result(task)).await.unwrap();
        let result: TaskResult = Toml.decode(&data).unwrap();
        texts.push(result.text);
    }
    texts
}

#[tokio::test(flavor = "multi_thread")]
async fn every_task_is_done_once_whoever_is_killed_or_stopped() {
    let ensemble = Ensemble::builder()
        .servers(3)
        .data(DataStore::Memory)
        .sync_limit(5)
        .proxied(true)
        .start_timeout(Duration::from_secs(180))
        .start()
        .await
        .expect("the servers start");
    let run = Run::seeded("master-workers").unwrap();
    // A result is what the application delivers: exactly once for each text.
    let run = run.judged_by(TotalQueue::default()).unwrap();
    run.keep_with(ensemble.directories());
    let mut random = fastrand::Rng::with_seed(run.seed());
    let session = observer(&ensemble).await;
    let settings = Settings {
        work: Duration::from_millis(100),
        failure_rate: 0.05,
        ..Settings::default()
    };
    let publisher = Publisher::new(&session, Toml);
    let publish = publisher.publish(tree().settings, &settings);
    publish.await.unwrap();

    let mut crew = Crew {
        directory: run.directory().to_owned(),
        connect: ensemble.connect_string(),
        running: Vec::new(),
        started: 0,
    };
    for _ in 0..PROCESSES {
        let process = crew.start();
        crew.running.push(process);
    }
    let looks = Arc::new(AtomicUsize::new(0));
    let seen = snapshot(Arc::clone(&looks));
    let following = seen.follow(&session);
    let problems = seen.problems();
    let refused = tokio::spawn(async move {
        let mut problems = problems;
        let is_bad = |it: &Option<Arc<zk_config::Problem>>| {
            matches!(it.as_deref(), Some(zk_config::Problem::Invalid(_)))
        };
        let found = problems.wait_for(is_bad).await.map(|it| format!("{it:?}"));
        found.unwrap_or_default()
    });

    let lasts = fault_time(Duration::from_secs(8));
    let end = Instant::now() + lasts;
    let nemesis = Nemesis::new(run.seed())
        .faults([
            Fault::Kill,
            Fault::Pause,
            Fault::Cut,
            Fault::LoseReply,
            Fault::LoseRequest,
        ])
        .pausing(Duration::from_secs(1), Duration::from_secs(3))
        .recorder(run.recorder("nemesis").unwrap());
    let submitting = submit_until(
        ensemble.connect_string(),
        run.recorder("submitter").unwrap(),
        end,
    );
    let (struck, (killed, paused, masters), ()) = tokio::join!(
        nemesis.run(&ensemble, lasts),
        crew.disturb(&session, end, random.fork()),
        submitting,
    );
    let struck = struck.expect("faults can be made and undone");

    let mut running: Vec<_> = crew.running.iter().map(|(name, _)| name.clone()).collect();
    running.sort_unstable();
    let items = tree().inbox.join("items").unwrap();
    until("nothing is left to do", async || {
        for path in [&items, &tree().tasks] {
            if !children(&session, path).await.is_empty() {
                return None;
            }
        }
        // Those that were killed are forgotten by the master, too, and those that run now are the ones that are left:
        // a worker that is registered when the last master stops is forgotten by the next one only.
        let mut names = Vec::new();
        for worker in children(&session, &tree().assigned).await {
            let assigned = tree().assigned.join(&worker).unwrap();
            if !children(&session, &assigned).await.is_empty() {
                return None;
            }
            let (name, _) = session.get(&assigned).await.ok()?;
            names.push(String::from_utf8_lossy(&name).into_owned());
        }
        names.sort_unstable();
        (names == running).then_some(())
    })
    .await;
    for (_, child) in &crew.running {
        signal(child, Signal::TERM);
    }
    for (_, child) in &mut crew.running {
        ended(child).await;
    }
    assert!(!refused.is_finished(), "{}", refused.await.unwrap());
    refused.abort();
    drop(following);

    // What the killed had ends with their sessions.
    for path in [
        tree().workers,
        tree().assigned,
        tree().markers,
        tree().worker_numbers,
    ] {
        until(&format!("nothing is left below {path}"), async || {
            children(&session, &path).await.is_empty().then_some(())
        })
        .await;
    }
    let recorder = run.recorder("results").unwrap();
    let results = results(&session).await;
    for text in &results {
        let take = recorder.invoke(Op::take("/app"));
        take.ok(ReturnValue::items([text.as_str()]));
    }
    let take = recorder.invoke(Op::take("/app"));
    take.ok(ReturnValue::items::<&str>([]));
    drop(recorder);

    let (seed, looks) = (run.seed(), looks.load(Ordering::Relaxed));
    let report = run.finish().unwrap_or_else(|error| panic!("{error}"));
    println!(
        "seed {seed}: {} tasks done; {killed} processes killed, {paused} stopped, {masters} of them the master; {looks} \
         snapshots; {:?}; servers: {:?}",
        results.len(),
        report.verdicts[0].counts,
        tally(&struck)
    );
    // How many it is depends on the machine, and on how long the servers are down.
    assert!(
        results.len() > 10,
        "{} tasks in {lasts:?} prove nothing",
        results.len()
    );
    assert!(looks > 10, "{looks} snapshots prove nothing");
    ensemble.down().await.unwrap();
}
