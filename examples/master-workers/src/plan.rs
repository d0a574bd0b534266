//! Decides the next steps of the master, deterministically.
//!
//! It runs after each change, on a view that may already be out of date.
//! That is safe: each [`Step`] is one transaction, which the ensemble rejects as a whole if it no longer applies, and
//! the next view leads to the next decision.
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{TaskId, WorkerName};

/// The known tasks, workers and assignments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// The unassigned tasks.
    pub waiting: BTreeSet<TaskId>,
    /// The workers that are registered.
    pub workers: BTreeSet<WorkerName>,
    /// The tasks of each worker that has a node for them, including workers that are gone.
    pub assigned: BTreeMap<WorkerName, BTreeSet<TaskId>>,
}

/// One transaction of the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Assigns a waiting task to a worker.
    Assign {
        /// The task.
        task: TaskId,
        /// Its new worker.
        to: WorkerName,
    },
    /// Returns a task of a worker that is gone to the waiting tasks.
    TakeBack {
        /// The task.
        task: TaskId,
        /// Its previous worker.
        from: WorkerName,
    },
    /// Deletes the empty node of a worker that is gone.
    Forget {
        /// The worker.
        worker: WorkerName,
    },
}

/// Returns the next steps.
///
/// - Each task of an unregistered worker is taken back; an unregistered worker without tasks is forgotten.
/// - Waiting tasks are assigned in the order of their numbers, each to the registered worker with the fewest tasks,
///   while a worker has fewer than `most`. A worker without a node for its tasks gets none: it is about to register
///   again.
/// - A task that appears in two places is in transit, and is skipped.
pub fn plan(view: &View, most: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut loads = BTreeMap::new();
    for (worker, tasks) in &view.assigned {
        if view.workers.contains(worker) {
            loads.insert(*worker, tasks.len());
            continue;
        }
        if tasks.is_empty() {
            steps.push(Step::Forget { worker: *worker });
        }
        let settled = tasks.iter().filter(|task| !view.waiting.contains(task));
        steps.extend(settled.map(|task| Step::TakeBack {
            task: *task,
            from: *worker,
        }));
    }
    let in_transit: BTreeSet<TaskId> = view.assigned.values().flatten().copied().collect();
    for task in view.waiting.difference(&in_transit) {
        let Some((load, to)) = loads.iter().map(|(name, load)| (*load, *name)).min() else {
            break;
        };
        if load >= most {
            break;
        }
        loads.insert(to, load + 1);
        steps.push(Step::Assign { task: *task, to });
    }
    steps
}

#[cfg(test)]
mod tests;
