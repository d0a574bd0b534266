//! Prints how full a queue is, who works on its items, and which items failed.

use std::time::SystemTime;

use clap::Args;
use serde_json::{Value, json};
use zk_core::NodePath;
use zk_queue::{Inspector, QueueSnapshot};

use crate::context::Context;
use crate::escape;
use crate::failure::Failure;
use crate::output::millis;
use crate::table::{age, columns};

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Queue {
    /// Where consumers of Curator's queues have their claims, if they have any
    #[arg(long, value_name = "PATH")]
    lock_path: Option<String>,
    /// The path of the queue
    path: String,
}

impl Queue {
    /// Prints the queue; it takes nothing out of it.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path(&self.path)?;
        let lock_path = self
            .lock_path
            .as_deref()
            .map(|lock_path| context.path(lock_path));
        let lock_path = lock_path.transpose()?;
        let session = context.session().await?;
        let inspector = Inspector::new(&session, &path).map_err(|error| {
            Failure::usage(error.to_string(), "give the path of the queue's node")
        })?;
        let inspector = match lock_path {
            Some(lock_path) => inspector.with_lock_path(lock_path),
            None => inspector,
        };
        // By this machine's clock: to ask the leader for its own would take a write.
        let now = SystemTime::now();
        let snapshot = context
            .within(async {
                session.sync(&path).await?;
                Ok(inspector.snapshot(now).await?)
            })
            .await?;
        let Some(snapshot) = snapshot else {
            return Err(missing(&path));
        };
        context
            .output()
            .result(
                || text(&path, &snapshot, now),
                || document(&path, &snapshot),
            )
            .await
    }
}

/// There is no node at the path.
pub(super) fn missing(path: &NodePath) -> Failure {
    Failure::operation(
        format!("{path} does not exist"),
        Some("`zk ls` shows which nodes there are"),
    )
}

fn text(path: &NodePath, snapshot: &QueueSnapshot, now: SystemTime) -> String {
    let path = escape::line(path.as_str());
    let Some(layout) = snapshot.layout else {
        return match snapshot.foreign {
            0 => format!(
                "{path} has no items and does not say which queue it is: it is an empty queue, or none\n"
            ),
            others => format!(
                "{path} is no queue: none of its {others} children has the name of an item\n"
            ),
        };
    };
    let kind = if snapshot.is_work_queue {
        "work queue"
    } else {
        "queue"
    };
    let mut lines = format!(
        "{path} is a {kind} with the layout {layout}\n{} ready, {} delayed, {} claimed, {} dead letters\n",
        snapshot.ready,
        snapshot.delayed,
        snapshot.claimed,
        snapshot.dead_letters.len()
    );
    if let Some(oldest) = snapshot.oldest {
        lines = format!("{lines}the oldest item is {} old\n", age(oldest, now));
    }
    if snapshot.foreign > 0 {
        lines = format!("{lines}{} children are not items\n", snapshot.foreign);
    }
    for item in &snapshot.stuck {
        let item = escape::line(item.as_str());
        lines = format!(
            "{lines}{item} is stuck: it has children, so no consumer can settle it; `zk rm -r` deletes it\n"
        );
    }
    if !snapshot.claims.is_empty() {
        let rows = snapshot.claims.iter().map(|claim| {
            let session = claim
                .session
                .map_or_else(|| "none".to_owned(), |session| session.to_string());
            let item = claim.item.name().unwrap_or_default().to_owned();
            [age(claim.since, now), claim.owner.clone(), session, item]
        });
        let rows: Vec<_> = rows.collect();
        lines.push('\n');
        lines.push_str(&columns(["CLAIMED FOR", "OWNER", "SESSION", "ITEM"], &rows));
    }
    if !snapshot.dead_letters.is_empty() {
        let rows = snapshot.dead_letters.iter().map(|letter| {
            [
                age(letter.since, now),
                letter.deliveries.to_string(),
                letter.reason.clone(),
                letter.name.clone(),
            ]
        });
        let rows: Vec<_> = rows.collect();
        lines.push('\n');
        lines.push_str(&columns(
            ["DEAD FOR", "DELIVERIES", "REASON", "DEAD LETTER"],
            &rows,
        ));
    }
    lines
}

fn document(path: &NodePath, snapshot: &QueueSnapshot) -> Value {
    let claims = snapshot.claims.iter().map(|claim| {
        json!({
            "item": claim.item.as_str(),
            "owner": claim.owner,
            "session": claim.session.map(|session| session.to_string()),
            "since": millis(claim.since),
        })
    });
    let letters = snapshot.dead_letters.iter().map(|letter| {
        json!({
            "name": letter.name,
            "deliveries": letter.deliveries,
            "reason": letter.reason,
            "since": millis(letter.since),
        })
    });
    json!({
        "path": path.as_str(),
        "layout": snapshot.layout.map(|layout| layout.to_string()),
        "is_work_queue": snapshot.is_work_queue,
        "ready": snapshot.ready,
        "delayed": snapshot.delayed,
        "claimed": snapshot.claimed,
        "oldest": snapshot.oldest.map(millis),
        "claims": claims.collect::<Vec<_>>(),
        "dead_letters": letters.collect::<Vec<_>>(),
        "not_items": snapshot.foreign,
        "stuck": snapshot.stuck.iter().map(NodePath::as_str).collect::<Vec<_>>(),
    })
}
