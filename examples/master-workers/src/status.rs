//! Reads the current state of the application and prints it as a table.

use std::collections::BTreeMap;
use std::fmt;

use futures_util::future::try_join_all;
use zk_core::{Error, NodePath, Session};
use zk_leader::Selector;

use crate::submit::inbox;
use crate::tree::{Tree, WorkerName};

/// The current state of the application. Several requests read it at different moments, so the numbers may not add up
/// while tasks move.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// The name of the process that is the master.
    pub master: Option<String>,
    /// How many texts are not yet tasks.
    pub submitted: usize,
    /// How many texts cannot be decoded: the dead letters of the inbox.
    pub unreadable: usize,
    /// How many tasks are unassigned.
    pub waiting: usize,
    /// The workers.
    pub workers: BTreeMap<WorkerName, WorkerStatus>,
    /// How many tasks are done.
    pub done: usize,
}

/// The state of a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerStatus {
    /// The name of its process; `None` if the worker is gone and its tasks are about to be taken back.
    pub process: Option<String>,
    /// How many tasks it has.
    pub tasks: usize,
}

impl Status {
    /// Reads the state.
    ///
    /// # Errors
    ///
    /// If a read fails. A missing node counts as empty.
    pub async fn read(session: &Session, tree: &Tree) -> Result<Self, Error> {
        session.sync(&tree.root).await?;
        let election = Selector::new(session, &tree.election).expect("the path is one");
        let inbox = inbox(session, tree);
        let leader = election.leader().await?;
        let submitted = inbox.len().await?;
        let unreadable = inbox.dead_letters().await?.len();
        let waiting = names(session, &tree.tasks).await?.len();
        let registered = names(session, &tree.workers).await?;
        let assigned = names(session, &tree.assigned).await?;
        let workers = registered.iter().chain(&assigned);
        let workers = workers.filter_map(|name| name.parse().ok());
        let workers = workers.map(async |worker: WorkerName| {
            let process = match session.get(tree.worker(worker)).await {
                Ok((data, _)) => Some(String::from_utf8_lossy(&data).into_owned()),
                Err(error) if error.is_no_node() => None,
                Err(error) => return Err(error),
            };
            let tasks = names(session, &tree.assigned_to(worker)).await?.len();
            Ok((worker, WorkerStatus { process, tasks }))
        });
        Ok(Self {
            master: leader.map(|leader| leader.id().into_owned()),
            submitted,
            unreadable,
            waiting,
            workers: try_join_all(workers).await?.into_iter().collect(),
            done: names(session, &tree.done).await?.len(),
        })
    }
}

/// The table.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let master = self.master.as_deref().unwrap_or("none");
        writeln!(f, "{:<10} {:>6}", "master", master)?;
        writeln!(f, "{:<10} {:>6}", "submitted", self.submitted)?;
        if self.unreadable > 0 {
            writeln!(f, "{:<10} {:>6}", "unreadable", self.unreadable)?;
        }
        writeln!(f, "{:<10} {:>6}", "waiting", self.waiting)?;
        for (worker, status) in &self.workers {
            let process = status.process.as_deref().unwrap_or("gone");
            let name = format!("worker {}", worker.number());
            writeln!(f, "{name:<10} {:>6}  {process}", status.tasks)?;
        }
        write!(f, "{:<10} {:>6}", "done", self.done)
    }
}

/// Returns the children of a node; empty if the node does not exist.
pub(crate) async fn names(session: &Session, path: &NodePath) -> Result<Vec<String>, Error> {
    match session.list(path).await {
        Ok((names, _)) => Ok(names),
        Err(error) if error.is_no_node() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_tells_the_living_from_the_gone() {
        let worker = |process: Option<&str>, tasks| WorkerStatus {
            process: process.map(str::to_owned),
            tasks,
        };
        let status = Status {
            master: Some("anna".to_owned()),
            submitted: 3,
            unreadable: 1,
            waiting: 12,
            workers: BTreeMap::from([
                (WorkerName::new(7, 1), worker(Some("ben"), 4)),
                (WorkerName::new(31, 1), worker(None, 2)),
            ]),
            done: 1000,
        };
        let table = "\
master       anna
submitted       3
unreadable      1
waiting        12
worker 7        4  ben
worker 31       2  gone
done         1000";
        assert_eq!(status.to_string(), table);
    }
}
