//! The format of the nodes: every name and payload that the crate writes, compared with `tests/golden/layout.txt`.
//!
//! Unique ids, due times and zxids are masked.

use std::fmt::Write as _;
use std::time::Duration;

use zk_core::Session;
use zk_core::codec::Text;
use zk_queue::{Layout, QueueOptions, WorkLayout, WorkOptions, WorkQueue};
use zk_sim::Ensemble;

use crate::other_client::layouts;
use crate::{LAYOUTS, PATH, queue_of, queue_with, text, texts};

const GOLDEN: &str = include_str!("../golden/layout.txt");

#[tokio::test(start_paused = true)]
async fn names_and_payloads_are_those_of_the_golden_file() {
    let mut actual = String::new();
    for layout in LAYOUTS {
        let ensemble = Ensemble::new(1);
        let session = ensemble.connect().await;
        offer_each_kind(&session, layout).await;
        write_section(&mut actual, &format!("{layout:?}"), &ensemble);
    }
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let options = QueueOptions::default().with_segment_size(2);
    let queue = queue_with(&session, &options);
    for item in 0..5 {
        queue.offer(&text(item)).await.unwrap();
    }
    write_section(&mut actual, "segments", &ensemble);
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let claim = use_work_queue(&session).await;
    write_section(&mut actual, "work queue", &ensemble);
    drop(claim);
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let queue = queue_of(&session, Layout::CuratorId);
    queue.offer(&text("plain")).id("order 7/b|c").await.unwrap();
    write_section(&mut actual, "CuratorId", &ensemble);
    for layout in layouts() {
        let ensemble = Ensemble::new(1);
        let session = ensemble.connect().await;
        let claim = use_shared_work_queue(&session, &layout).await;
        let title = format!("work queue, {} and claims of its clients", layout.items());
        write_section(&mut actual, &title, &ensemble);
        drop(claim);
    }
    compare(&actual);
}

/// Offers an item with each combination of options that the layout has.
async fn offer_each_kind(session: &Session, layout: Layout) {
    let queue = queue_of(session, layout);
    queue.offer(&text("plain")).await.unwrap();
    let hour = Duration::from_secs(3600);
    if layout.has_priorities() {
        queue.offer(&text("priority")).priority(7).await.unwrap();
    }
    if layout.has_priorities() && layout != Layout::Kazoo {
        queue.offer(&text("urgent")).priority(-7).await.unwrap();
    }
    if layout.has_delays() {
        queue.offer(&text("delayed")).delay(hour).await.unwrap();
    }
}

/// Leaves a claimed item, a rejected one, a buried one, one that is left to other consumers, and an unclaimed one.
async fn use_work_queue(session: &Session) -> zk_queue::Claim<String> {
    let options = WorkOptions::default()
        .with_max_deliveries(2)
        .with_owner("the owner");
    let queue = WorkQueue::with_options(session, PATH, Text, &options).unwrap();
    queue
        .offer_all(texts(["claimed", "rejected", "buried"]))
        .await
        .unwrap();
    let path = format!("{PATH}/items/w-0-0-0-");
    let undecodable = session.create(path, b"\xff".to_vec()).sequential();
    undecodable.await.unwrap();
    queue.offer(&text("unclaimed")).await.unwrap();
    let mut claims = queue.try_claim_batch(4).await.unwrap();
    let rest: Vec<_> = claims.split_off(1);
    for claim in rest {
        let hour = Duration::from_secs(3600);
        match claim.item().as_str() {
            "rejected" => claim.reject(hour, "later").await.unwrap(),
            _ => claim.bury("it is broken").await.unwrap(),
        }
    }
    claims.remove(0)
}

/// Leaves a claimed item, a rejected one and a buried one.
async fn use_shared_work_queue(session: &Session, layout: &WorkLayout) -> zk_queue::Claim<String> {
    let options = WorkOptions::default()
        .with_layout(layout.clone())
        .with_owner("the owner");
    let queue = WorkQueue::with_options(session, PATH, Text, &options).unwrap();
    let items = texts(["claimed", "rejected", "buried"]);
    queue.offer_all(items).await.unwrap();
    let mut claims = queue.try_claim_batch(3).await.unwrap();
    let buried = claims.remove(2);
    buried.bury("it is broken").await.unwrap();
    let hour = Duration::from_secs(3600);
    claims.remove(1).reject(hour, "later").await.unwrap();
    claims.remove(0)
}

/// Adds the kind, the path and the data of each node of the queue, in the order of the masked paths.
fn write_section(text: &mut String, title: &str, ensemble: &Ensemble) {
    writeln!(text, "# {title}").unwrap();
    let tree = ensemble.tree();
    let of_queue = tree
        .nodes()
        .filter(|(path, _)| path.as_str().starts_with("/queues"));
    let mut nodes: Vec<_> = of_queue
        .map(|(path, node)| (masked(path.as_str()), node))
        .collect();
    nodes.sort_by_key(|(path, node)| (path.clone(), node.data().to_vec()));
    for (path, node) in nodes {
        let kind = if node.owner().is_some() {
            "ephemeral".to_owned()
        } else {
            format!("{:?}", node.kind()).to_lowercase()
        };
        let data = node.data().escape_ascii();
        writeln!(text, "{kind} {path} \"{data}\"").unwrap();
    }
}

/// Replaces unique ids, due times and zxids.
fn masked(path: &str) -> String {
    let mut masked = Vec::new();
    let mut parent = "";
    for name in path.split('/') {
        masked.push(match name.strip_prefix("_c_") {
            Some(rest) => format!("_c_<uuid>{}", rest.get(UUID_LENGTH..).unwrap_or_default()),
            None if parent == "dead" || parent.ends_with("-dead") => {
                let (item, _) = name.rsplit_once('-').unwrap();
                format!("{}-<czxid>", masked_due(item))
            }
            None => masked_due(name),
        });
        parent = name;
    }
    masked.join("/")
}

/// Replaces the due time, which is the only field of eleven hexadecimal digits.
fn masked_due(name: &str) -> String {
    let is_due = |field: &str| {
        field.len() == DUE_LENGTH && field.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let mask = |field| if is_due(field) { "<due>" } else { field };
    let by_bar: Vec<_> = name.split('|').map(mask).collect();
    let name = by_bar.join("|");
    let by_dash: Vec<_> = name.split('-').map(mask).collect();
    by_dash.join("-")
}

fn compare(actual: &str) {
    if actual == GOLDEN {
        return;
    }
    let (actual_lines, golden_lines) = (actual.lines(), GOLDEN.lines());
    let removed = golden_lines.filter(|line| !actual.lines().any(|other| other == *line));
    let added = actual_lines.filter(|line| !GOLDEN.lines().any(|other| other == *line));
    let removed: Vec<_> = removed.map(|line| format!("- {line}")).collect();
    let added: Vec<_> = added.map(|line| format!("+ {line}")).collect();
    panic!(
        "the format of the nodes differs from tests/golden/layout.txt:\n{}\n{}\nit is now:\n{actual}",
        removed.join("\n"),
        added.join("\n")
    );
}

const UUID_LENGTH: usize = 36;
const DUE_LENGTH: usize = 11;
