//! Prints how far the ids of a path have come, and who holds its worker numbers.

use std::time::SystemTime;

use clap::Args;
use serde_json::{Value, json};
use zk_core::NodePath;
use zk_id::{IdsSnapshot, Inspector, Mark, WorkerHolder};

use super::queue::missing;
use crate::context::Context;
use crate::date::java_date;
use crate::escape;
use crate::failure::Failure;
use crate::output::millis;
use crate::table::{age, columns};

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Ids {
    /// The path of the counter, worker numbers or sequence
    path: String,
}

impl Ids {
    /// Prints the ids; it takes none.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path(&self.path)?;
        let session = context.session().await?;
        let inspector = Inspector::new(&session, &path)?;
        let snapshot = context
            .within(async {
                session.sync(&path).await?;
                Ok(inspector.snapshot().await?)
            })
            .await?;
        let Some(snapshot) = snapshot else {
            return Err(missing(&path));
        };
        // By this machine's clock: to ask the leader for its own would take a write.
        let now = SystemTime::now();
        context
            .output()
            .result(
                || text(&path, &snapshot, now),
                || document(&path, &snapshot),
            )
            .await
    }
}

fn text(path: &NodePath, snapshot: &IdsSnapshot, now: SystemTime) -> String {
    let path = escape::line(path.as_str());
    match snapshot {
        IdsSnapshot::Counter { taken, changed } => {
            format!(
                "{path} is a counter: ids up to {taken} are taken, the last block {} ago\n",
                age(*changed, now)
            )
        }
        IdsSnapshot::Zxids { last, changed } => {
            format!(
                "{path} issues zxids: the last one is {last} ({last:#x}), {} ago\n",
                age(*changed, now)
            )
        }
        IdsSnapshot::Sequence { next } => {
            format!(
                "{path} has no ids of its own: its next sequential child gets the number {next:010}\n"
            )
        }
        IdsSnapshot::Workers {
            description,
            holders,
            marks,
        } => {
            let described = escape::line(description);
            let head = format!(
                "{path}: {described}\n{} of its worker numbers are held\n",
                holders.len()
            );
            format!("{head}{}", table(holders, marks, now))
        }
        _ => format!("{path} has ids that this program does not know\n"),
    }
}

/// One line for each worker number that is held or has a mark.
fn table(holders: &[WorkerHolder], marks: &[Mark], now: SystemTime) -> String {
    let mut numbers: Vec<u32> = holders.iter().map(|holder| holder.number).collect();
    numbers.extend(marks.iter().map(|mark| mark.number));
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.is_empty() {
        return String::new();
    }
    let rows = numbers.into_iter().map(|number| {
        let holder = holders.iter().find(|holder| holder.number == number);
        let mark = marks.iter().find(|mark| mark.number == number);
        [
            number.to_string(),
            holder.map_or_else(|| "free".to_owned(), |holder| age(holder.since, now)),
            holder
                .map(|holder| holder.description.clone())
                .unwrap_or_default(),
            holder
                .and_then(|holder| holder.session)
                .map(|session| session.to_string())
                .unwrap_or_default(),
            match mark.map(|mark| mark.reserved) {
                Some(Some(reserved)) => java_date(reserved),
                Some(None) => "not readable".to_owned(),
                None => String::new(),
            },
        ]
    });
    let rows: Vec<_> = rows.collect();
    columns(
        [
            "NUMBER",
            "HELD FOR",
            "HOLDER",
            "SESSION",
            "IDS ISSUED UP TO",
        ],
        &rows,
    )
}

fn document(path: &NodePath, snapshot: &IdsSnapshot) -> Value {
    let mut document = match snapshot {
        IdsSnapshot::Counter { taken, changed } => {
            json!({"kind": "counter", "taken": taken, "changed": millis(*changed)})
        }
        IdsSnapshot::Zxids { last, changed } => {
            json!({"kind": "zxids", "last": format!("{last:#x}"), "changed": millis(*changed)})
        }
        IdsSnapshot::Sequence { next } => json!({"kind": "sequence", "next": next}),
        IdsSnapshot::Workers {
            description,
            holders,
            marks,
        } => {
            let holders = holders.iter().map(|holder| {
                json!({
                    "number": holder.number,
                    "holder": holder.description,
                    "session": holder.session.map(|session| session.to_string()),
                    "since": millis(holder.since),
                })
            });
            let marks = marks
                .iter()
                .map(|mark| json!({"number": mark.number, "reserved": mark.reserved.map(millis)}));
            json!({
                "kind": "workers",
                "description": description,
                "holders": holders.collect::<Vec<_>>(),
                "marks": marks.collect::<Vec<_>>(),
            })
        }
        _ => json!({"kind": "unknown"}),
    };
    document["path"] = path.as_str().into();
    document
}
