//! Lists the holder and the waiters of a lock, and breaks the lock of a holder.

use std::io::BufRead;
use std::io::IsTerminal;
use std::time::Duration;
use std::time::SystemTime;

use clap::Args;
use zk_core::NodePath;
use zk_core::Session;
use zk_lock::Contender;
use zk_lock::ContenderStatus;
use zk_lock::Inspector;
use zk_lock::Layout;
use zk_lock::LockSnapshot;
use zk_lock::Removal;
use zk_lock::Role;

use crate::context::Context;
use crate::escape;
use crate::failure::Failure;
use crate::failure::tell;
use crate::output::print;

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
        let working = carry_out(&session, &path, &self);
        // The limit does not include the time of a confirmation: each operation has its own limit instead.
        if self.broken.is_some() && !self.yes {
            let worked = working.await;
            context.restart_clock();
            return worked;
        }
        context.within(working).await
    }
}

/// Prints the lock and, if that was asked for and confirmed, breaks it.
async fn carry_out(session: &Session, path: &NodePath, command: &Locks) -> Result<(), Failure> {
    let mut queues = Vec::new();
    for layout in LAYOUTS {
        let inspector = Inspector::with_layout(session, path, layout)?;
        let snapshot = inspector.snapshot().await?;
        if !snapshot.exists() {
            if command.broken.is_some() {
                return Err(nobody(path));
            }
            return print(format!("{path} does not exist: the lock has no holder\n").as_bytes());
        }
        queues.push((inspector, snapshot));
    }
    let snapshots: Vec<&LockSnapshot> = queues.iter().map(|(_, snapshot)| snapshot).collect();
    // By this machine's clock: to ask the leader for its own would take a write.
    let now = SystemTime::now();
    print(table(path, &snapshots, now).as_bytes())?;
    let Some(name) = &command.broken else {
        return Ok(());
    };
    let (inspector, status) = victim(path, &queues, name)?;
    let contender = status.contender();
    if !command.yes {
        confirm(path, status).await?;
    }
    let removal = inspector.remove(contender).await?;
    let said = match removal {
        Removal::Deleted => "Deleted",
        Removal::Gone => "Gone before it was deleted:",
    };
    print(format!("{said} {path}/{}\n", contender.name()).as_bytes())
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
        [] => Err(nobody(path)),
        _ => Err(Failure::operation(
            format!("{} contenders hold {path}", holders.len()),
            Some("say which one is to be deleted: --break=NAME"),
        )),
    }
}

fn nobody(path: &NodePath) -> Failure {
    Failure::operation(
        format!("{path} has no holder, so there is nothing to break"),
        None,
    )
}

/// Asks on the terminal.
async fn confirm(path: &NodePath, status: &ContenderStatus) -> Result<(), Failure> {
    let contender = status.contender();
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(
            format!(
                "{path}/{} was not deleted: there is no terminal to ask on",
                contender.name()
            ),
            "add --yes to delete it without a question",
        ));
    }
    let consequence = match status.role() {
        Role::Holder => {
            "The lock goes to the next one at once, while its holder may be in the middle of something."
        }
        Role::Waiter => "It loses its place in the queue.",
    };
    tell(&format!(
        "This deletes {path}/{}, czxid {:#x}, of {}.\n{consequence}\nDelete it? [y/N] ",
        contender.name(),
        contender.fencing_token().as_u64(),
        owner(contender)
    ));
    // The session is kept while the person thinks.
    let answer = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        let read = std::io::stdin().lock().read_line(&mut answer);
        read.map(|_| answer)
    });
    match answer.await {
        Ok(Ok(answer)) if matches!(answer.trim(), "y" | "Y" | "yes") => Ok(()),
        _ => Err(Failure::operation("nothing was deleted", None)),
    }
}

/// One line for each contender, first come first, and what else is there.
fn table(path: &NodePath, snapshots: &[&LockSnapshot], now: SystemTime) -> String {
    let mut rows = vec![
        [
            "ROLE", "KIND", "IN LINE", "OWNER", "SESSION", "TOKEN", "NODE",
        ]
        .map(str::to_owned),
    ];
    for snapshot in snapshots {
        rows.extend(snapshot.contenders().iter().map(|status| row(status, now)));
    }
    let text = if rows.len() == 1 {
        format!("{path} has no holder and no waiter\n")
    } else {
        aligned(&rows)
    };
    // What no layout knows.
    let others = snapshots
        .first()
        .map_or(&[][..], |snapshot| snapshot.foreign_children());
    let others: Vec<_> = others
        .iter()
        .filter(|name| {
            snapshots
                .iter()
                .all(|snapshot| snapshot.foreign_children().contains(name))
        })
        .map(|name| escape::line(name))
        .collect();
    if others.is_empty() {
        text
    } else {
        format!("{text}not contenders: {}\n", others.join(", "))
    }
}

fn row(status: &ContenderStatus, now: SystemTime) -> [String; 7] {
    let contender = status.contender();
    let role = match status.role() {
        Role::Holder => "holder",
        Role::Waiter => "waiter",
    };
    let kind = if contender.is_shared() {
        "shared"
    } else {
        "exclusive"
    };
    // The leader's clock may be ahead of ours.
    let since = now.duration_since(contender.since()).unwrap_or_default();
    [
        role.to_owned(),
        kind.to_owned(),
        age(since),
        owner(contender),
        contender
            .session()
            .map_or_else(|| "none".to_owned(), |session| session.to_string()),
        contender.fencing_token().to_string(),
        escape::line(contender.name()).into_owned(),
    ]
}

/// What the owner says of itself, on a line and without what a terminal would act upon.
fn owner(contender: &Contender) -> String {
    let said = contender.owner_info().map_or_else(
        || contender.owner_text().into_owned(),
        |owner| owner.to_string(),
    );
    let mut shown: String = said.chars().take(MOST_SHOWN).flat_map(plain).collect();
    if said.chars().nth(MOST_SHOWN).is_some() {
        shown.push('…');
    }
    if shown.is_empty() {
        shown.push('-');
    }
    shown
}

fn plain(c: char) -> Vec<char> {
    if c.is_control() {
        c.escape_default().collect()
    } else {
        vec![c]
    }
}

/// The two largest units of a time.
fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m {}s", seconds % 60),
        (0, hours, minutes) => format!("{hours}h {minutes}m"),
        (days, hours, _) => format!("{days}d {hours}h"),
    }
}

fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: [usize; N] = std::array::from_fn(|at| {
        rows.iter()
            .map(|row| row[at].chars().count())
            .max()
            .unwrap_or(0)
    });
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(widths);
        let cells: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        format!("{}\n", cells.join("  ").trim_end())
    });
    lines.collect()
}

/// Those that do not wait for each other, together with those that they know.
const LAYOUTS: [Layout; 3] = [Layout::curator(), Layout::hbase(), Layout::curator_latch()];

/// How much of an owner's data is shown, in characters.
const MOST_SHOWN: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_units() {
        for (seconds, expected) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m 0s"),
            (3599, "59m 59s"),
            (3600, "1h 0m"),
            (90_061, "1d 1h"),
        ] {
            assert_eq!(age(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let rows = [["a", "bb", "c"], ["aaa", "b", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(aligned(&rows), "a    bb  c\naaa  b\n");
    }
}
