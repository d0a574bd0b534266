//! Many processes and one number that only the lock protects.

use std::time::Duration;

use zk_tests::contention::{Event, Worker, turns};

use super::{contend, judged, observer, three_servers, until_empty, workers};

const PROCESSES: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn twenty_processes_count_in_a_file_without_losing_an_update() {
    count(15).await;
}

mod deep {
    #[tokio::test(flavor = "multi_thread")]
    async fn twenty_processes_count_to_a_thousand_without_losing_an_update() {
        super::count(50).await;
    }
}

/// Each of the processes counts `times` times.
async fn count(times: usize) {
    let run = judged("count");
    let ensemble = three_servers().await;
    run.keep_with(ensemble.directories());
    let session = observer(&ensemble).await;
    // Not a container, which could be removed between the last two turns and begin a new row of numbers.
    session.create("/count", "").await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("count");
    std::fs::write(&file, "0").unwrap();

    let connect = ensemble.connect_string();
    let workers = workers(&run, PROCESSES, &connect, "/count", Duration::from_secs(30)).await;
    let command = format!("contend {times} 0 {}", file.display());
    let workers = contend(workers, command).await;

    let records: Vec<_> = workers.iter().flat_map(Worker::journal).collect();
    let failures: Vec<_> = records
        .iter()
        .filter(|record| matches!(record.event, Event::Retried { .. } | Event::Lost { .. }))
        .collect();
    assert!(failures.is_empty(), "{failures:#?}");
    let turns = turns(records);
    assert_eq!(turns.len(), PROCESSES * times);
    // Nothing was lost, so each relied on it for all of its turn.
    assert!(turns.iter().all(|turn| turn.kept), "{turns:#?}");
    let count = std::fs::read_to_string(&file).unwrap();
    assert_eq!(count, (PROCESSES * times).to_string());
    for worker in workers {
        worker.quit().await.unwrap();
    }
    until_empty(&session, "/count").await;
    let report = run.finish().unwrap();
    assert_eq!(report.verdicts[0].counts["grants"], turns.len() as u64);
    ensemble.down().await.unwrap();
}
