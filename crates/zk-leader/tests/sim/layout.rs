//! The names and data of all nodes, compared with `tests/golden/layout.txt`.

use zk_leader::{LeaderLatch, Selector};
use zk_sim::Ensemble;

use crate::{PATH, options, soon, until_waiting};

#[tokio::test(start_paused = true)]
async fn nodes_and_their_data_are_those_of_the_golden_file() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let plain = options().with_id("anna");
    let described = options()
        .with_id("ben")
        .with_metadata("10.0.0.1:80\nrack 7");

    let leader = LeaderLatch::with_options(&session, PATH, &plain).unwrap();
    let leader = leader.join();
    soon("it leads", leader.leading()).await.unwrap();
    let waiter = LeaderLatch::with_options(&session, PATH, &described).unwrap();
    let waiter = waiter.join();
    until_waiting(waiter.handle()).await;
    let mut actual = section(
        "LeaderLatch: a leader, and a waiter with metadata",
        &ensemble,
    );
    leader.leave().await;
    waiter.leave().await;

    let selector = Selector::with_options(&session, PATH, &described).unwrap();
    let handle = selector.handle().clone();
    let running = tokio::spawn(selector.run_once(async |_| std::future::pending::<()>().await));
    soon("it leads", handle.leading()).await.unwrap();
    actual += &section("Selector with metadata", &ensemble);
    running.abort();

    let expected = include_str!("../golden/layout.txt");
    assert!(
        actual == expected,
        "the nodes differ from tests/golden/layout.txt\n-- expected\n{expected}-- actual\n{actual}"
    );
}

fn section(title: &str, ensemble: &Ensemble) -> String {
    format!("== {title}\n{}", ensemble.tree().describe())
}
