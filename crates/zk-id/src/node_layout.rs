//! Compares the names and data of all nodes with `tests/golden/layout.txt`.

use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::time::Duration;
use std::time::SystemTime;

use zk_core::Session;
use zk_sim::Ensemble;
use zk_sim::Kind;
use zk_sim::matching;

use crate::BlockIds;
use crate::Layout;
use crate::SequenceIds;
use crate::Snowflakes;
use crate::WorkerIds;
use crate::block::marker_name;

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
    // The node of a sequence is deleted at once.
    let deletion = ensemble.on(matching::deletes("/ids/tickets/**")).hold();
    let tickets = SequenceIds::new(&session, "/ids/tickets").unwrap();
    tickets.next().await.unwrap();

    let mut actual = nodes(&ensemble, &session);
    let marker = marker_name(0x0001_0000_01f3);
    writeln!(actual, "/ids/invoices/{marker} persistent \"\"").unwrap();
    deletion.release();
    drop((snowflake, worker));

    let expected = include_str!("../tests/golden/layout.txt");
    assert!(
        actual == expected,
        "the nodes differ from tests/golden/layout.txt\n-- expected\n{expected}-- actual\n{actual}"
    );
}

/// The nodes, one a line: the path, the kind, and the data. Unique ids are replaced.
fn nodes(ensemble: &Ensemble, session: &Session) -> String {
    let mut text = String::new();
    let tree = ensemble.tree();
    for (path, node) in tree.nodes() {
        let path = path.to_string();
        if !path.starts_with("/ids") {
            continue;
        }
        let path = match path.split_once("_c_") {
            Some((parent, name)) => format!("{parent}_c_<uuid>{}", &name[UUID_LENGTH..]),
            None => path,
        };
        let kind = match node.kind() {
            Kind::Persistent => "persistent",
            Kind::Ephemeral(_) => "ephemeral",
            Kind::Container => "container",
            kind => panic!("unexpected kind of node: {kind:?}"),
        };
        let data = node.data().escape_ascii().to_string();
        let data = match data.split_once(&format!("{}-", session.id())) {
            Some((before, after)) => {
                let after = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
                format!("{before}<session>-<call>{after}")
            }
            None => data,
        };
        writeln!(text, "{path} {kind} \"{data}\"").unwrap();
    }
    text
}

const UUID_LENGTH: usize = 36;
