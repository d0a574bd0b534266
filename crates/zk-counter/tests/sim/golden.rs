//! Compares the names and data of all nodes with `tests/golden/layout.txt`.

use std::time::Duration;

use zk_counter::{AtomicCounter, CounterOptions, Format, SharedCount, SharedValue};
use zk_sim::Ensemble;

use crate::pass;

#[tokio::test(start_paused = true)]
async fn nodes_and_their_data_are_those_of_the_golden_file() {
    let sim = Ensemble::new(1);
    let session = sim.connect().await;
    for (path, format) in [
        ("/n/integer", Format::Integer),
        ("/n/long", Format::Long),
        ("/n/text", Format::Text),
    ] {
        let options = CounterOptions::default().with_format(format);
        let counter = AtomicCounter::new(&session, path, &options).unwrap();
        counter.add(-258).await.unwrap();
        drop(counter);
    }
    let count = SharedCount::start(&session, "/n/shared-count", 7).unwrap();
    count.synchronized().await.unwrap();
    let value = SharedValue::start(&session, "/n/shared-value", "a text").unwrap();
    value.set("another").await.unwrap();
    pass(Duration::from_secs(1)).await;

    let actual = sim.tree().describe();
    let expected = include_str!("../golden/layout.txt");
    assert!(
        actual == expected,
        "the nodes differ from tests/golden/layout.txt\n-- expected\n{expected}-- actual\n{actual}"
    );
}
