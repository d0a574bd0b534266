//! The names and data of all nodes, compared with `tests/golden/layout.txt`.

use std::fmt::Write as _;

use zk_group::Layout;
use zk_sim::{Ensemble, Kind};

use crate::{join, join_with, joined};

#[tokio::test(start_paused = true)]
async fn nodes_and_their_data_are_those_of_the_golden_file() {
    let mut actual = String::new();
    for layout in [
        Layout::Curator,
        Layout::KazooParty,
        Layout::KazooShallowParty,
    ] {
        let sim = Ensemble::new(1);
        let session = sim.connect().await;
        let member = match layout {
            Layout::Curator => join(&session, "host-7", "payload"),
            _ => join_with(&session, "host-7", layout),
        };
        joined(&member).await;
        writeln!(actual, "== {layout:?}").unwrap();
        for (path, node) in sim.tree().nodes().filter(|(path, _)| !path.is_root()) {
            let kind = match node.kind() {
                Kind::Ephemeral(_) => "ephemeral",
                Kind::Container => "container",
                Kind::Persistent => "persistent",
                kind => panic!("unexpected kind of node: {kind:?}"),
            };
            let path = without_id(path.as_str());
            let data = node.data().escape_ascii();
            writeln!(actual, "{path} {kind} \"{data}\"").unwrap();
        }
    }
    let expected = include_str!("../golden/layout.txt");
    assert!(
        actual == expected,
        "the nodes differ from tests/golden/layout.txt\n-- expected\n{expected}-- actual\n{actual}"
    );
}

/// Replaces the unique part of a name.
fn without_id(path: &str) -> String {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut parts = (0..path.len()).filter_map(|at| path.get(at..at + 32));
    match parts.find(|part| is_hex(part)) {
        Some(id) => path.replace(id, "<hex32>"),
        None => path.to_owned(),
    }
}
