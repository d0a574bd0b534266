//! Many processes that count while servers are killed, and requests and replies are lost.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::Instant;
use zk_harness::nemesis::{Fault, Nemesis, fault_time, tally};
use zk_harness::{DataStore, Ensemble, program_of_next_process};
use zk_history::check::Counter;
use zk_history::{Op, ReturnValue, Run};

use crate::lock::observer;

const PATH: &str = "/counted";
const PROCESSES: usize = 8;
const TASKS: usize = 4;
/// Longer than any fault, so that no session is lost, and every outcome is known.
const SESSION_TIMEOUT: Duration = Duration::from_secs(60);
const FAULTS: [Fault; 4] = [
    Fault::Kill,
    Fault::Cut,
    Fault::LoseReply,
    Fault::LoseRequest,
];
/// For what takes moments on an idle machine.
const MAX_WAIT: Duration = Duration::from_secs(240);

/// Starts a process that increments at least so many times.
fn start(run: &Run, connect: &str, number: usize, count: u64, pause: Duration) -> Child {
    let name = format!("counter{number}");
    let program = Path::new(env!("CARGO_BIN_EXE_counter-worker"));
    Command::new(program_of_next_process(program))
        .args([name.as_str(), connect, PATH])
        .arg(SESSION_TIMEOUT.as_millis().to_string())
        .arg(run.history_file(&name))
        .args([TASKS.to_string(), count.to_string()])
        .arg(pause.as_millis().to_string())
        // It ends with this process, whatever becomes of it.
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the program is there")
}

/// Lets processes count under faults; each of them at least so many times, if there is a number.
async fn count_exactly(name: &str, count: u64, pause: Duration, faults: Duration) {
    let ensemble = Ensemble::builder()
        .servers(3)
        .data(DataStore::Memory)
        .sync_limit(5)
        .proxied(true)
        .start_timeout(Duration::from_secs(180))
        .start()
        .await
        .expect("the servers start");
    let run = Run::seeded(name).unwrap();
    let run = run.judged_by(Counter::default()).unwrap();
    run.keep_with(ensemble.directories());
    let connect = ensemble.connect_string();
    let began = Instant::now();
    let mut workers: Vec<Child> = (1..=PROCESSES)
        .map(|number| start(&run, &connect, number, count, pause))
        .collect();
    let recorder = run.recorder("nemesis").unwrap();
    let mut struck = Vec::new();
    for round in 0.. {
        let nemesis = Nemesis::new(run.seed().wrapping_add(round))
            .faults(FAULTS)
            .recorder(recorder.clone());
        let injected = nemesis.run(&ensemble, fault_time(faults)).await;
        struck.extend(injected.expect("faults can be made and undone"));
        for worker in &mut workers {
            drop(worker.stdin.take());
        }
        let is_busy = |worker: &mut Child| worker.try_wait().is_ok_and(|ended| ended.is_none());
        if count == 0 || began.elapsed() > 4 * MAX_WAIT || !workers.iter_mut().any(is_busy) {
            break;
        }
    }
    for worker in &mut workers {
        let ended = tokio::time::timeout(MAX_WAIT, worker.wait()).await;
        let status = ended.expect("it ends on command").expect("it ran");
        assert!(status.success(), "a worker ended with {status}");
    }
    let took = began.elapsed();
    drop(recorder);

    let session = observer(&ensemble).await;
    let recorder = run.recorder("finisher").unwrap();
    let pending = recorder.invoke(Op::read(PATH));
    session.sync(PATH).with_quorum().await.unwrap();
    let (data, stat) = session.get(PATH).await.unwrap();
    let total = i64::from_be_bytes((&*data).try_into().unwrap());
    pending.ok(ReturnValue::value(total));
    drop(recorder);
    assert_eq!(stat.num_children, 0, "each process has removed its token");

    let seed = run.seed();
    let report = run.finish().unwrap_or_else(|error| panic!("{error}"));
    let counts = &report.verdicts[0].counts;
    println!(
        "seed {seed}: {total} in {took:.1?} and {} writes; {counts:?}; {:?}",
        stat.version,
        tally(&struck)
    );
    assert!(!struck.is_empty(), "without faults it proves nothing");
    // No session was lost, so that each outcome is known and the sum is exact.
    assert_eq!(counts.get("updates unknown"), None, "{counts:?}");
    assert_eq!(counts.get("updates failed"), None, "{counts:?}");
    assert_eq!(u64::try_from(total), Ok(counts["updates"]));
    let expected = 200.max(count * PROCESSES as u64);
    assert!(counts["updates"] >= expected, "{counts:?}");
    ensemble.down().await.unwrap();
}

/// The sum of all acknowledged increments is the number.
#[tokio::test(flavor = "multi_thread")]
async fn increments_of_many_processes_are_exact_under_faults() {
    let pause = Duration::from_millis(40);
    count_exactly("counter", 25, pause, Duration::from_secs(5)).await;
}

mod deep {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn ten_thousand_increments_of_eight_processes_are_exact() {
        let faults = Duration::from_secs(10);
        count_exactly("counter-deep", 10_000, Duration::ZERO, faults).await;
    }
}
