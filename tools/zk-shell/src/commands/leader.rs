//! Prints who leads in an election, and who will lead next.

use std::time::SystemTime;

use clap::Args;
use serde_json::{Value, json};
use zk_core::{NodePath, Session};
use zk_leader::{LeaderLatch, Participant, Selector};

use super::queue::missing;
use crate::context::Context;
use crate::escape;
use crate::failure::Failure;
use crate::output::millis;
use crate::table::{age, columns};

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Leader {
    /// The path of the election
    path: String,
}

impl Leader {
    /// Prints the participants; it does not become one.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path(&self.path)?;
        let session = context.session().await?;
        let elections = context.within(participants(&session, &path)).await?;
        // By this machine's clock: to ask the leader for its own would take a write.
        let now = SystemTime::now();
        context
            .output()
            .result(
                || text(&path, &elections, now),
                || document(&path, &elections),
            )
            .await
    }
}

/// Reads the participants of each kind of election; those of different kinds do not wait for each other.
async fn participants(
    session: &Session,
    path: &NodePath,
) -> Result<Vec<Vec<Participant>>, Failure> {
    session.sync(path).await?;
    if session.exists(path).await?.is_none() {
        return Err(missing(path));
    }
    let mut elections = Vec::new();
    let of_selectors = Selector::new(session, path)?.participants().await?;
    let of_latches = LeaderLatch::new(session, path)?.participants().await?;
    elections.extend(
        [of_selectors, of_latches]
            .into_iter()
            .filter(|one| !one.is_empty()),
    );
    Ok(elections)
}

fn text(path: &NodePath, elections: &[Vec<Participant>], now: SystemTime) -> String {
    let path = escape::line(path.as_str());
    let mut lines = Vec::new();
    for participants in elections {
        let rows = participants.iter().map(|participant| {
            let role = if participant.is_leader() {
                "leader"
            } else {
                "waiter"
            };
            [
                role.to_owned(),
                age(participant.since(), now),
                participant.id().into_owned(),
                String::from_utf8_lossy(participant.metadata()).into_owned(),
                participant
                    .session()
                    .map_or_else(|| "none".to_owned(), |session| session.to_string()),
                participant.fencing_token().to_string(),
                participant.node_name().to_owned(),
            ]
        });
        let rows: Vec<_> = rows.collect();
        let header = [
            "ROLE", "JOINED", "ID", "METADATA", "SESSION", "TOKEN", "NODE",
        ];
        lines.push(columns(header, &rows));
    }
    match lines.len() {
        0 => format!("{path} has no leader: no session takes part in the election\n"),
        1 => lines.concat(),
        _ => format!(
            "{path} has two leaders: clients with different layouts take part, and do not see each other\n\n{}",
            lines.join("\n")
        ),
    }
}

fn document(path: &NodePath, elections: &[Vec<Participant>]) -> Value {
    let participants = elections.iter().flatten().map(|participant| {
        json!({
            "is_leader": participant.is_leader(),
            "id": participant.id(),
            "metadata": String::from_utf8_lossy(participant.metadata()),
            "session": participant.session().map(|session| session.to_string()),
            "token": participant.fencing_token().to_string(),
            "joined": millis(participant.since()),
            "node": participant.node_name(),
        })
    });
    json!({"path": path.as_str(), "participants": participants.collect::<Vec<_>>()})
}
