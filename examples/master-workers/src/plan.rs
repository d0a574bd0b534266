//! What the master does next: a decision about names, without a server, a clock or chance.
//!
//! It is asked whenever something has changed, with what is known at the moment, which may be old already.
//! That is no danger: each [`Step`] is one transaction that the ensemble refuses as a whole where it does not fit, and
//! the next look brings the next decision.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::tree::TaskId;
use crate::tree::WorkerName;

/// What is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// The tasks that nobody has.
    pub waiting: BTreeSet<TaskId>,
    /// The workers that are registered.
    pub workers: BTreeSet<WorkerName>,
    /// The tasks of each worker that has a node for them, also of those that are gone.
    pub assigned: BTreeMap<WorkerName, BTreeSet<TaskId>>,
}

/// One transaction of the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// A waiting task becomes that of a worker.
    Assign {
        /// Which.
        task: TaskId,
        /// Whose it will be.
        to: WorkerName,
    },
    /// A task of a worker that is gone waits again.
    TakeBack {
        /// Which.
        task: TaskId,
        /// Whose it was.
        from: WorkerName,
    },
    /// The empty node of a worker that is gone is deleted.
    Forget {
        /// Who was it.
        worker: WorkerName,
    },
}

/// Decides what is to be done.
///
/// - Every task of a worker that is not registered is taken back, and when there is none the worker is forgotten.
/// - Waiting tasks are assigned, those with the lowest numbers first, each to the registered worker that has the fewest,
///   as long as one has fewer than `most`. A worker without a node for its tasks can have none: it is about to register
///   anew.
/// - A task that seems to be in two places is on its way from one to the other, and is left alone.
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
    let on_their_way: BTreeSet<TaskId> = view.assigned.values().flatten().copied().collect();
    for task in view.waiting.difference(&on_their_way) {
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
