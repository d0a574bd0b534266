//! The names and data of all nodes that a publisher writes, compared with a file.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use zk_config::Publisher;
use zk_core::SessionId;
use zk_core::codec::{Json, Toml};
use zk_sim::Ensemble;

use crate::{text, with_history};

#[derive(Serialize, Deserialize)]
struct Pool {
    size: u16,
    host: String,
}

#[tokio::test(start_paused = true)]
async fn nodes_and_data_are_those_of_the_golden_file() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let publisher = with_history(&session, 2);
    let mut revisions = Vec::new();
    for value in ["one", "two", "three", "four"] {
        let published = publisher.publish("/app/motto", &text(value)).await;
        revisions.push(published.unwrap().stat.unwrap().mzxid);
    }
    let removed = publisher.publish("/app/removed", &text("kept")).await;
    revisions.push(removed.unwrap().stat.unwrap().mzxid);
    publisher.remove("/app/removed").await.unwrap();
    let pool = Pool {
        size: 8,
        host: "db".to_owned(),
    };
    let json = Publisher::new(&session, Json);
    json.publish("/app/pool.json", &pool).await.unwrap();
    let toml = Publisher::new(&session, Toml);
    toml.publish("/app/pool.toml", &pool).await.unwrap();

    let mut actual = String::new();
    for (path, node) in ensemble.tree().nodes() {
        let path = without_ids(path.as_str(), &revisions, session.id());
        let kind = format!("{:?}", node.kind()).to_lowercase();
        let data = String::from_utf8_lossy(node.data());
        writeln!(actual, "{path} {kind} {data:?}").unwrap();
    }
    let expected = include_str!("../golden/layout.txt");
    for (number, (actual, expected)) in (1..).zip(actual.lines().zip(expected.lines())) {
        assert_eq!(actual, expected, "line {number} of tests/golden/layout.txt");
    }
    assert!(
        actual == expected,
        "tests/golden/layout.txt has another number of lines; a change of the layout belongs in CHANGELOG.md:\n{actual}"
    );
}

/// Replaces the parts of an entry's name that differ between runs, and checks their form.
fn without_ids(path: &str, revisions: &[i64], session: SessionId) -> String {
    let Some((directory, name)) = path.rsplit_once('/') else {
        return path.to_owned();
    };
    let parts: Vec<_> = name.split('-').collect();
    let [revision, by, number] = parts[..] else {
        return path.to_owned();
    };
    let nth = revisions
        .iter()
        .position(|it| format!("{it:016x}") == revision);
    let nth = nth.expect("the first part is a revision") + 1;
    assert_eq!(by, format!("{:016x}", session.as_i64()), "{name}");
    assert!(
        number.len() == 8 && u32::from_str_radix(number, 16).is_ok(),
        "{name}"
    );
    format!("{directory}/<revision {nth}>-<session>-<number>")
}
