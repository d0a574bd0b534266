//! Compares the names and data of all nodes with `tests/golden/layout.txt`.

use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

use zk_id::{BlockIds, Layout, SequenceIds, Snowflakes, WorkerIds, ZxidIds};
use zk_sim::{Ensemble, matching};

#[tokio::test(start_paused = true)]
async fn nodes_and_their_data_are_those_of_the_golden_file() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;

    let snowflakes = Snowflakes::new(&session, "/ids/orders", Layout::TWITTER).unwrap();
    let snowflakes = snowflakes
        .with_clock(|| SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000))
        .with_reserve(Duration::from_secs(10))
        .with_preferred(7)
        .with_description("anna\n10.0.0.1:80");
    let snowflake = snowflakes.claim().await.unwrap();
    let workers = WorkerIds::new(&session, "/ids/crawlers", 16).unwrap();
    let worker = workers.with_preferred(3).claim().await.unwrap();
    let block = NonZeroU32::new(1_000).unwrap();
    let blocks = BlockIds::new(&session, "/ids/invoices", block).unwrap();
    blocks.next().await.unwrap();
    let revisions = ZxidIds::new(&session, "/ids/revisions").unwrap();
    revisions.next().await.unwrap();
    let seconds = Layout::SONYFLAKE.with_time_unit(Duration::from_secs(1));
    let seconds = Snowflakes::new(&session, "/ids/seconds", seconds).unwrap();
    let seconds = seconds
        .with_clock(|| SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000))
        .with_reserve(Duration::from_secs(10))
        .with_preferred(1);
    let seconds = seconds.claim().await.unwrap();
    // The node of a sequence is deleted at once.
    let deletion = ensemble.on(matching::deletes("/ids/tickets/**")).hold();
    let tickets = SequenceIds::new(&session, "/ids/tickets").unwrap();
    tickets.next().await.unwrap();

    let caller = format!("{}-", session.id());
    let nodes = ensemble.tree().describe();
    let lines = nodes.lines().map(|line| match line.split_once(&caller) {
        Some((before, after)) => {
            let after = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
            format!("{before}<session>-<call>{after}\n")
        }
        None => format!("{line}\n"),
    });
    let actual: String = lines.collect();
    deletion.release();
    drop((snowflake, seconds, worker));

    let expected = include_str!("../golden/layout.txt");
    assert!(
        actual == expected,
        "the nodes differ from tests/golden/layout.txt\n-- expected\n{expected}-- actual\n{actual}"
    );
}
