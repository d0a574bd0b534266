//! Lists the holder and the waiters of a lock, and breaks the lock of a holder.

use std::borrow::Cow;
use std::time::SystemTime;

use clap::Args;
use serde_json::{Value, json};
use zk_core::{Error, NodePath, Session};
use zk_lock::{
    Contender, ContenderStatus, Inspector, Layout, LockSnapshot, Removal, Role, Semaphore,
};

use crate::confirm::confirm;
use crate::context::Context;
use crate::escape;
use crate::failure::Failure;
use crate::output::millis;
use crate::table::{age, cell, columns};

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Locks {
    /// Delete the node of the holder, or of the contender NAME, once it was confirmed
    #[arg(long = "break", value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    broken: Option<String>,
    /// Do not ask before it is broken
    #[arg(short, long, requires = "broken")]
    yes: bool,
    /// The path of the lock
    path: String,
}

impl Locks {
    /// Prints a lock, and breaks it if that was asked for.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path(&self.path)?;
        let session = context.session().await?;
        let queues = context.within(read(&session, &path)).await?;
        let snapshots: Vec<&LockSnapshot> = queues.iter().map(|(_, snapshot)| snapshot).collect();
        let is_missing = queues.iter().any(|(_, snapshot)| !snapshot.exists());
        if is_missing && self.broken.is_some() {
            return Err(not_held(&path));
        }
        // By this machine's clock: to ask the leader for its own would take a write.
        let now = SystemTime::now();
        context
            .output()
            .result(
                || {
                    if is_missing {
                        let path = escape::line(path.as_str());
                        format!("{path} does not exist: the lock has no holder\n")
                    } else {
                        text(&path, &snapshots, now)
                    }
                },
                || document(&path, &snapshots),
            )
            .await?;
        let Some(name) = &self.broken else {
            return Ok(());
        };
        let (inspector, status) = victim(&path, &queues, name)?;
        let contender = status.contender();
        let node = path.join(contender.name())?;
        if !self.yes {
            let refusal = format!("{node} was not deleted");
            confirm(context, &question(&node, status), &refusal).await?;
        }
        // Without the limit of the command, which would hide whether it was deleted; each request has its own.
        let removal = inspector.remove(contender).await;
        let removal = removal.map_err(|error| not_removed(error, &self.path, contender.name()))?;
        let said = match removal {
            Removal::Deleted => "Deleted",
            Removal::Gone => "Gone before it was deleted:",
        };
        context
            .output()
            .result(
                || format!("{said} {}\n", escape::line(node.as_str())),
                || json!({"path": node.as_str(), "deleted": removal == Removal::Deleted}),
            )
            .await
    }
}

/// Reads the contenders of each layout.
async fn read(
    session: &Session,
    path: &NodePath,
) -> Result<Vec<(Inspector, LockSnapshot)>, Failure> {
    let mut queues = Vec::new();
    for layout in LAYOUTS {
        let inspector = Inspector::with_layout(session, path, layout)?;
        let snapshot = inspector.snapshot().await?;
        queues.push((inspector, snapshot));
    }
    if path.name() == Some("leases")
        && let Some(semaphore) = path.parent()
    {
        // The limit is not used.
        let inspector = Semaphore::new(session, semaphore, 1)?.inspector();
        let snapshot = inspector.snapshot().await?;
        queues.push((inspector, snapshot));
    }
    Ok(queues)
}

/// Says which contender to name when it is tried again: the holder may be another one by then.
fn not_removed(error: Error, path: &str, name: &str) -> Failure {
    let again = [format!("--break={name}"), path.to_owned()];
    let again = again.map(|word| quoted(&word));
    let help = format!(
        "the holder may be another one by now; to try again, name this one: `zk locks {}`",
        again.join(" ")
    );
    Failure::from(error).with_help(help)
}

/// Returns a word as a shell takes it.
fn quoted(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), Cow::into_owned)
}

/// Which contender is to be removed.
fn victim<'a>(
    path: &NodePath,
    queues: &'a [(Inspector, LockSnapshot)],
    name: &str,
) -> Result<(&'a Inspector, &'a ContenderStatus), Failure> {
    let all = queues.iter().flat_map(|(inspector, snapshot)| {
        let statuses = snapshot.contenders().iter();
        statuses.map(move |status| (inspector, status))
    });
    if !name.is_empty() {
        let mut named = all.filter(|(_, status)| status.contender().name() == name);
        return named.next().ok_or_else(|| {
            Failure::operation(
                format!("{path} has no contender {name:?}"),
                Some("give a name as `zk locks` prints it, or leave it out for the holder"),
            )
        });
    }
    let holders: Vec<_> = all
        .filter(|(_, status)| status.role() == Role::Holder)
        .collect();
    match holders[..] {
        [holder] => Ok(holder),
        [] => Err(not_held(path)),
        _ => Err(Failure::operation(
            format!("{} contenders hold {path}", holders.len()),
            Some("say which one is to be deleted: --break=NAME"),
        )),
    }
}

fn not_held(path: &NodePath) -> Failure {
    Failure::operation(
        format!("{path} has no holder, so there is nothing to break"),
        None,
    )
}

fn question(node: &NodePath, status: &ContenderStatus) -> String {
    let contender = status.contender();
    let consequence = match status.role() {
        Role::Holder => {
            "The lock goes to the next one at once, while its holder may be in the middle of something."
        }
        Role::Waiter => "It loses its place in the queue.",
    };
    format!(
        "This deletes {}, czxid {:#x}, of {}.\n{consequence}\nDelete it? [y/N] ",
        escape::line(node.as_str()),
        contender.fencing_token().as_u64(),
        cell(&owner(contender))
    )
}

/// One line for each contender, first come first, and what else is there.
fn text(path: &NodePath, snapshots: &[&LockSnapshot], now: SystemTime) -> String {
    let statuses = snapshots.iter().flat_map(|snapshot| snapshot.contenders());
    let rows: Vec<_> = statuses.map(|status| row(status, now)).collect();
    let text = if rows.is_empty() {
        let path = escape::line(path.as_str());
        format!("{path} has no holder and no waiter\n")
    } else {
        let header = [
            "ROLE", "KIND", "IN LINE", "OWNER", "SESSION", "TOKEN", "NODE",
        ];
        columns(header, &rows)
    };
    let others: Vec<_> = others(snapshots)
        .into_iter()
        .map(|name| escape::line(name))
        .collect();
    let text = if others.is_empty() {
        text
    } else {
        format!("{text}not contenders: {}\n", others.join(", "))
    };
    let statuses = snapshots.iter().flat_map(|snapshot| snapshot.contenders());
    let stays = statuses.filter(|status| status.contender().session().is_none());
    stays.fold(text, |text, status| {
        let name = status.contender().name();
        let shown = escape::line(name);
        let again = quoted(&format!("--break={name}"));
        let again = escape::line(&again);
        format!(
            "{text}{shown} belongs to no session and stays until it is deleted: `zk locks {again}`\n"
        )
    })
}

fn row(status: &ContenderStatus, now: SystemTime) -> [String; 7] {
    let contender = status.contender();
    [
        role(status).to_owned(),
        kind(contender).to_owned(),
        age(contender.since(), now),
        owner(contender),
        contender
            .session()
            .map_or_else(|| "none".to_owned(), |session| session.to_string()),
        contender.fencing_token().to_string(),
        contender.name().to_owned(),
    ]
}

fn document(path: &NodePath, snapshots: &[&LockSnapshot]) -> Value {
    let statuses = snapshots.iter().flat_map(|snapshot| snapshot.contenders());
    let contenders = statuses.map(|status| {
        let contender = status.contender();
        json!({
            "role": role(status),
            "kind": kind(contender),
            "since": millis(contender.since()),
            "owner": owner(contender),
            "session": contender.session().map(|session| session.to_string()),
            "token": contender.fencing_token().to_string(),
            "node": contender.name(),
        })
    });
    json!({
        "path": path.as_str(),
        "exists": snapshots.iter().all(|snapshot| snapshot.exists()),
        "contenders": contenders.collect::<Vec<_>>(),
        "not_contenders": others(snapshots),
    })
}

/// The children that no layout knows.
fn others<'a>(snapshots: &[&'a LockSnapshot]) -> Vec<&'a String> {
    let first = snapshots.first();
    let others = first.map_or(&[][..], |snapshot| snapshot.foreign_children());
    let is_foreign = |name: &&String| {
        snapshots
            .iter()
            .all(|snapshot| snapshot.foreign_children().contains(name))
    };
    others.iter().filter(is_foreign).collect()
}

fn role(status: &ContenderStatus) -> &'static str {
    match status.role() {
        Role::Holder => "holder",
        Role::Waiter => "waiter",
    }
}

fn kind(contender: &Contender) -> &'static str {
    if contender.is_shared() {
        "shared"
    } else {
        "exclusive"
    }
}

/// What the owner says of itself.
fn owner(contender: &Contender) -> String {
    contender.owner_info().map_or_else(
        || contender.owner_text().into_owned(),
        |owner| owner.to_string(),
    )
}

/// Those that do not wait for each other, together with those that they know.
const LAYOUTS: [Layout; 3] = [Layout::curator(), Layout::hbase(), Layout::curator_latch()];
