//! The nodes of the application: where they are, and how they are named.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::str::FromStr;

use zk_core::NodePath;

/// Where everything is, below one root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// The root.
    pub root: NodePath,
    /// The [settings](crate::settings::Settings), in TOML; absent means the defaults.
    pub settings: NodePath,
    /// The election of the master.
    pub election: NodePath,
    /// The queue of what was submitted and is no task yet.
    pub inbox: NodePath,
    /// The node whose sequence gives tasks their numbers.
    pub task_numbers: NodePath,
    /// The node below which workers lease their numbers.
    pub worker_numbers: NodePath,
    /// The node below which processes are found.
    pub services: NodePath,
    /// The lock of those who clear away old results.
    pub prune_lock: NodePath,
    /// The parent of the unassigned tasks.
    pub tasks: NodePath,
    /// The node below which workers are registered.
    pub workers: NodePath,
    /// The node below which each worker has a node.
    pub assigned: NodePath,
    /// The node below which results are.
    pub done: NodePath,
    /// The node below which transactions leave the markers by which they are known after a lost answer.
    pub markers: NodePath,
}

impl Tree {
    /// Puts everything below `root`.
    pub fn new(root: NodePath) -> Self {
        let at = |name| below(&root, name);
        Self {
            settings: at("config"),
            election: at("election"),
            inbox: at("inbox"),
            task_numbers: at("task-numbers"),
            worker_numbers: at("worker-numbers"),
            services: at("services"),
            prune_lock: at("prune-lock"),
            tasks: at("tasks"),
            workers: at("workers"),
            assigned: at("assigned"),
            done: at("done"),
            markers: at("markers"),
            root,
        }
    }

    /// Returns the node of an unassigned task.
    pub fn task(&self, task: TaskId) -> NodePath {
        below(&self.tasks, task)
    }

    /// Returns the registration of a worker: ephemeral, and there as long as it may finish tasks.
    pub fn worker(&self, worker: WorkerName) -> NodePath {
        below(&self.workers, worker)
    }

    /// Returns the node below which the tasks of a worker are.
    pub fn assigned_to(&self, worker: WorkerName) -> NodePath {
        below(&self.assigned, worker)
    }

    /// Returns the node of a task that a worker has.
    pub fn assignment(&self, worker: WorkerName, task: TaskId) -> NodePath {
        below(&self.assigned_to(worker), task)
    }

    /// Returns the result of a task.
    pub fn result(&self, task: TaskId) -> NodePath {
        below(&self.done, task)
    }

    /// Returns the nodes that have to be there before anything is done. They are persistent and never deleted.
    pub fn base_nodes(&self) -> [&NodePath; 5] {
        [
            &self.tasks,
            &self.workers,
            &self.assigned,
            &self.done,
            &self.markers,
        ]
    }
}

/// The number of a task, given out once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u32);

impl TaskId {
    /// Makes one of its number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the number, which is how people call the task.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// The name of its nodes, in the order of the numbers.
impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task-{:010}", self.0)
    }
}

impl FromStr for TaskId {
    type Err = ForeignName;

    fn from_str(name: &str) -> Result<Self, ForeignName> {
        let digits = name.strip_prefix("task-").ok_or(ForeignName)?;
        let number: u32 = digits.parse().map_err(|_| ForeignName)?;
        same(name, Self(number))
    }
}

/// The name of a worker, given out once: its number, which others may have after it, and the transaction that leased
/// it.
///
/// That a name never comes again is what lets the master be certain: a worker that is gone stays gone, and one that was
/// taken for dead cannot finish what was its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerName {
    number: u32,
    lease: u64,
}

impl WorkerName {
    /// Makes one of a worker number and the fencing token of its lease.
    pub const fn new(number: u32, lease: u64) -> Self {
        Self { number, lease }
    }

    /// Returns the number, which is how people call the worker.
    pub const fn number(self) -> u32 {
        self.number
    }
}

/// The name of its nodes.
impl fmt::Display for WorkerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker-{}-{:x}", self.number, self.lease)
    }
}

impl FromStr for WorkerName {
    type Err = ForeignName;

    fn from_str(name: &str) -> Result<Self, ForeignName> {
        let rest = name.strip_prefix("worker-").ok_or(ForeignName)?;
        let (number, lease) = rest.split_once('-').ok_or(ForeignName)?;
        let worker = Self {
            number: number.parse().map_err(|_| ForeignName)?,
            lease: u64::from_str_radix(lease, 16).map_err(|_| ForeignName)?,
        };
        same(name, worker)
    }
}

/// A node that is none of ours, and is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForeignName;

/// Refuses a second way to write a name.
fn same<T: fmt::Display>(name: &str, read: T) -> Result<T, ForeignName> {
    if read.to_string() == name {
        Ok(read)
    } else {
        Err(ForeignName)
    }
}

fn below(path: &NodePath, name: impl fmt::Display) -> NodePath {
    path.join(&name.to_string())
        .expect("a name of letters, digits and hyphens")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for number in [0, 17, 2_147_483_647, u32::MAX] {
            let task = TaskId::new(number);
            assert_eq!(task.to_string().parse(), Ok(task));
        }
        for (number, lease) in [(0, 0), (3, 0x1_0000_0002), (u32::MAX, u64::MAX)] {
            let worker = WorkerName::new(number, lease);
            assert_eq!(worker.to_string().parse(), Ok(worker));
        }
    }

    #[test]
    fn foreign_names_are_none_of_ours() {
        for name in [
            "",
            "task-",
            "task-1",
            "task-00000000001",
            "task--000000001",
            "task-+000000001",
            "_c_7-marker",
            "task-000000000x",
        ] {
            assert_eq!(name.parse::<TaskId>(), Err(ForeignName), "{name}");
        }
        for name in [
            "worker-1",
            "worker-1-",
            "worker--1",
            "worker-01-2",
            "worker-1-0A",
            "worker-1-+2",
            "worker-x-1",
        ] {
            assert_eq!(name.parse::<WorkerName>(), Err(ForeignName), "{name}");
        }
    }

    #[test]
    fn tasks_are_listed_in_the_order_of_their_numbers() {
        let mut names: Vec<String> = [9, 10, 100, 1].map(|it| TaskId::new(it).to_string()).into();
        names.sort();
        assert_eq!(names, [1, 9, 10, 100].map(|it| TaskId::new(it).to_string()));
    }
}
