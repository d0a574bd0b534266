//! The names and data of all nodes that this crate names itself, compared with `tests/golden/layout.txt`.

use std::sync::{Arc, Mutex};

use zk_core::transport::{MultiOp, Request};
use zk_core::{CreateMode, IdPlace, Sequence};
use zk_sim::{Ensemble, Kind};

use crate::soon;

#[tokio::test(start_paused = true)]
async fn nodes_and_their_data_are_those_of_the_golden_file() {
    let mut actual = nodes().await;
    actual += &marker().await;
    let expected = include_str!("../golden/layout.txt");
    assert!(
        actual == expected,
        "the nodes differ from tests/golden/layout.txt\n-- expected\n{expected}-- actual\n{actual}"
    );
}

/// The nodes of creates with a unique id, and of parents.
async fn nodes() -> String {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let create = |path: &str| session.create(path, "data");
    create("/plain/parents/x").parents().await.unwrap();
    create("/plain/containers/x")
        .container_parents()
        .await
        .unwrap();
    let nodes = ["/protected", "/after", "/owned", "/claimed"];
    for parent in nodes {
        session.create(parent, "").await.unwrap();
    }
    create("/protected/x").protected().await.unwrap();
    let sequential = create("/protected/sequential-").sequential();
    sequential.protected().await.unwrap();
    let numbered = create("/protected/numbered-").numbered(Sequence::new(7));
    numbered.protected().await.unwrap();
    let after = create("/after/x-").protected();
    after.id_place(IdPlace::After("-end")).await.unwrap();
    let owned = create("/owned/x").ephemeral().owned().await.unwrap();
    let claimed = create("/claimed/x").claimed().await.unwrap();
    let text = section("creates", &ensemble);
    drop((owned, claimed));
    text
}

/// The marker of a transaction, which exists only until the outcome of the transaction is known.
async fn marker() -> String {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    session.create("/marked", "").await.unwrap();
    let created = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&created);
    // It matches no request, and so holds none.
    let script = ensemble.on(move |request| {
        if let Request::Multi(parts) = request {
            let creates = parts.iter().filter_map(|part| match part {
                MultiOp::Create2(create) => Some(create.clone()),
                _ => None,
            });
            seen.lock().unwrap().extend(creates);
        }
        false
    });
    script.hold();
    let transaction = session.transaction().set("/marked", "1");
    transaction.commit_marked("/marked").await.unwrap();
    soon("the marker is deleted", session.settled()).await;
    let created = created.lock().unwrap();
    let lines = created.iter().map(|create| {
        let kind = match create.mode {
            CreateMode::Ephemeral => "ephemeral",
            mode => panic!("unexpected mode: {mode:?}"),
        };
        line(create.path.as_str(), kind, create.data.as_slice())
    });
    format!(
        "== Transaction::commit_marked\n{}",
        lines.collect::<String>()
    )
}

/// The nodes of an ensemble, one per line. Unique ids are replaced.
fn section(title: &str, ensemble: &Ensemble) -> String {
    let tree = ensemble.tree();
    let nodes = tree.nodes();
    let nodes = nodes.filter(|(path, _)| !path.is_root());
    let mut lines: Vec<_> = nodes
        .map(|(path, node)| {
            let kind = match node.kind() {
                Kind::Persistent => "persistent",
                Kind::Ephemeral(_) => "ephemeral",
                Kind::Container => "container",
                kind => panic!("unexpected kind of node: {kind:?}"),
            };
            line(path.as_str(), kind, node.data())
        })
        .collect();
    // The order of the paths is that of their unique ids.
    lines.sort();
    format!("== {title}\n{}", lines.concat())
}

fn line(path: &str, kind: &str, data: &[u8]) -> String {
    let path = without_id(path);
    format!("{path} {kind} \"{}\"\n", data.escape_ascii())
}

/// Replaces the first unique id, in either of its forms.
fn without_id(path: &str) -> String {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_uuid = |text: &str| text.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    for at in 0..path.len() {
        if let Some(id) = path.get(at..at + 36)
            && is_uuid(id)
            && is_hex(&id.replace('-', ""))
        {
            return path.replace(id, "<uuid>");
        }
        if let Some(id) = path.get(at..at + 32)
            && is_hex(id)
        {
            return path.replace(id, "<hex32>");
        }
    }
    path.to_owned()
}
