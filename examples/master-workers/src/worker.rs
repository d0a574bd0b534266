//! A worker: leases a number, registers, and does the tasks that it is assigned.
//!
//! Finishing a task is one transaction: it checks that the worker is still registered, deletes the assignment, and
//! creates the result.
//! Each task therefore has one result. The work itself is done *at least* once: if a worker dies, or is considered
//! dead, between the work and that transaction, another worker repeats it.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use zk_cache::{ChildrenCache, Event};
use zk_core::codec::{Codec as _, Toml};
use zk_core::{Error, ErrorClass, ErrorKind};
use zk_id::{WorkerId, WorkerIds};

use crate::assignment_view::check_event;
use crate::member::Member;
use crate::pause::RETRY_PAUSE;
use crate::settings;
use crate::stop::Stop;
use crate::tree::{TaskId, WorkerName};

/// The result of a task, in TOML.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskResult {
    /// What the task was.
    pub text: String,
    /// The process that did it.
    pub by: String,
    /// The name of the worker.
    pub worker: String,
    /// How many attempts the worker needed.
    pub attempts: u32,
}

/// Why a worker stops working under its name.
enum End {
    /// It was asked to stop.
    Stopped,
    /// Its registration or the node for its tasks was deleted: the tasks go to other workers.
    Unregistered,
}

/// The outcome of finishing a task.
enum Finished {
    Done,
    /// The task is no longer assigned to this worker.
    Gone,
    Unregistered,
}

impl Member {
    /// Works until asked to stop; then finishes the tasks in progress and leaves the rest to other workers.
    ///
    /// # Errors
    ///
    /// If no worker number is free, on a permanent error, and on the loss of the session.
    pub async fn work(&self, stop: &Stop) -> anyhow::Result<()> {
        loop {
            let numbers = WorkerIds::new(&self.session, &self.tree.worker_numbers, WORKERS)?
                .with_description(self.reporter.name());
            let number = tokio::select! {
                biased;
                () = stop.asked() => return Ok(()),
                number = numbers.claim_timeout(NUMBER_TIMEOUT) => number?,
            };
            let name = WorkerName::new(number.number(), number.fencing_token());
            self.register(name).await?;
            self.reporter
                .report(format_args!("is worker {}", name.number()));
            let end = self.work_as(name, stop).await?;
            self.leave(name, number).await?;
            match end {
                End::Stopped => return Ok(()),
                End::Unregistered => self.reporter.report(format_args!(
                    "was worker {}, which somebody has removed",
                    name.number()
                )),
            }
        }
    }

    /// Creates the registration and the node for the tasks in one transaction, so that both exist unless the worker is
    /// gone.
    async fn register(&self, name: WorkerName) -> Result<(), Error> {
        loop {
            let registered = self
                .session
                .transaction()
                .create_ephemeral(self.tree.worker(name), self.reporter.name())
                .create(self.tree.assigned_to(name), self.reporter.name())
                .commit()
                .await;
            match registered {
                Ok(_) => return Ok(()),
                // The name is unique: an earlier transaction whose reply was lost created the nodes.
                Err(error) if error.is_node_exists() => return Ok(()),
                Err(error) if error.is_no_node() => {
                    self.recreate_deleted().await?;
                }
                Err(error) if error.class() == ErrorClass::Recoverable => {
                    self.session.pause(RETRY_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Ends the registration, by which others know the worker, and then the lease of the number.
    async fn leave(&self, name: WorkerName, number: WorkerId) -> Result<(), Error> {
        let registration = self.tree.worker(name);
        loop {
            let whole = self
                .session
                .transaction()
                .delete(&registration)
                .delete(self.tree.assigned_to(name))
                .commit();
            match whole.await {
                Ok(_) => break,
                // With tasks left, their node has to stay until the master has taken them back. A node may also be
                // gone:
                // another client removed it, or an earlier transaction whose reply was lost removed both.
                Err(error) if error.kind() == ErrorKind::NotEmpty || error.is_no_node() => {
                    match self.session.delete(&registration).await {
                        Err(error) if !error.is_no_node() => return Err(error),
                        _ => break,
                    }
                }
                Err(error) if error.class() == ErrorClass::Recoverable => {
                    self.session.pause(RETRY_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
        number.release().await
    }

    /// Does the tasks that are assigned to this name.
    async fn work_as(&self, name: WorkerName, stop: &Stop) -> anyhow::Result<End> {
        let assigned = ChildrenCache::start(&self.session, self.tree.assigned_to(name))?;
        let mut events = assigned.events();
        let registration = self.tree.worker(name);
        let mut unregistered = pin!(self.session.wait_for_deletion(registration).into_future());
        let mut asked = pin!(stop.asked());
        let mut settings = self.settings.clone();
        let mut waiting: BTreeMap<TaskId, String> = BTreeMap::new();
        let mut working = FuturesUnordered::new();
        let mut is_stopping = false;
        loop {
            while !is_stopping
                && working.len() < settings::current(&settings).at_once
                && let Some((task, text)) = waiting.pop_first()
            {
                working.push(self.do_task(name, task, text));
            }
            if is_stopping && working.is_empty() {
                return Ok(End::Stopped);
            }
            tokio::select! {
                biased;
                gone = &mut unregistered => {
                    gone?;
                    return Ok(End::Unregistered);
                }
                () = &mut asked, if !is_stopping => {
                    is_stopping = true;
                    self.reporter.report(format_args!(
                        "worker {} stops: it finishes {} tasks and leaves {} to others",
                        name.number(),
                        working.len(),
                        waiting.len()
                    ));
                }
                Some(finished) = working.next() => {
                    if matches!(finished?, Finished::Unregistered) {
                        return Ok(End::Unregistered);
                    }
                }
                // The limit of parallel tasks may have grown.
                _ = settings.changed() => {}
                event = events.next() => match check_event(event, assigned.path(), &self.reporter)? {
                    Event::Created(node) => {
                        if let Some(Ok(task)) = node.name().map(str::parse) {
                            let text = node.data().unwrap_or_default();
                            waiting.insert(task, String::from_utf8_lossy(text).into_owned());
                        }
                    }
                    Event::Deleted(node) => {
                        if node.path() == assigned.path().as_str() {
                            return Ok(End::Unregistered);
                        }
                        if let Some(Ok(task)) = node.name().map(str::parse) {
                            waiting.remove(&task);
                        }
                    }
                    // It was deleted before it was seen.
                    Event::Synchronized { .. } if assigned.parent().is_none() => {
                        return Ok(End::Unregistered);
                    }
                    _ => {}
                },
            }
        }
    }

    /// Attempts a task until it succeeds, and creates the result.
    async fn do_task(
        &self,
        name: WorkerName,
        task: TaskId,
        text: String,
    ) -> Result<Finished, Error> {
        let (worker, number) = (name.number(), task.number());
        self.reporter.report(format_args!(
            "worker {worker} begins task {number}: {text:?}"
        ));
        let mut attempts = 1;
        loop {
            let settings = settings::current(&self.settings);
            pretend(settings.work).await;
            if settings.failure_rate == 0.0 || fastrand::f64() >= settings.failure_rate {
                break;
            }
            self.reporter.report(format_args!(
                "worker {worker} failed at task {number}, attempt {attempts}, and tries again"
            ));
            attempts += 1;
        }
        let result = TaskResult {
            text,
            by: self.reporter.name().to_owned(),
            worker: name.to_string(),
            attempts,
        };
        let finished = self.finish(name, task, &result).await?;
        let what = match finished {
            Finished::Done => "has done task",
            Finished::Gone => "was done with what is no longer its task:",
            Finished::Unregistered => "was removed while it worked at task",
        };
        self.reporter
            .report(format_args!("worker {worker} {what} {number}"));
        Ok(finished)
    }

    /// Replaces the task by its result, unless another worker has the task by now.
    async fn finish(
        &self,
        name: WorkerName,
        task: TaskId,
        result: &TaskResult,
    ) -> Result<Finished, Error> {
        let data = Toml.encode(result).expect("texts and numbers");
        let mut is_first = true;
        loop {
            // A retry after a lost reply would find the task gone: finished by the first attempt, or taken away? The
            // token of the transaction distinguishes the two.
            let mut finishing = self
                .session
                .transaction()
                .check(self.tree.worker(name))
                .delete(self.tree.assignment(name, task));
            if is_first {
                finishing = finishing.create(self.tree.result(task), data.clone());
            }
            let Err(error) = finishing.commit_marked(&self.tree.markers).await else {
                return Ok(if is_first {
                    Finished::Done
                } else {
                    Finished::Gone
                });
            };
            match error.failed_part() {
                Some(0) if error.is_no_node() => return Ok(Finished::Unregistered),
                Some(1) if error.is_no_node() => return Ok(Finished::Gone),
                Some(2) if error.is_node_exists() => {
                    // The application never creates two results; an operator created this one, and the first counts.
                    is_first = false;
                    self.reporter.report(format_args!(
                        "worker {} finds that task {} has a result already",
                        name.number(),
                        task.number()
                    ));
                }
                _ if error.is_no_node() => {
                    self.recreate_deleted().await?;
                }
                _ if error.class() == ErrorClass::Recoverable => {
                    self.session.pause(RETRY_PAUSE).await;
                }
                _ => return Err(error),
            }
        }
    }
}

/// Simulates work by waiting.
///
/// Real work has to consider:
///
/// - It runs on the thread that keeps the session alive. Work that computes or blocks belongs on
///   [`spawn_blocking`](tokio::task::spawn_blocking) or in another process, or the session is lost while it works.
/// - It is dropped in the middle when the session is lost or the worker removed, and another worker may begin while
///   something that it has started outside still goes on. Whatever it changes elsewhere has to bear being done twice,
///   and by two at once.
/// - It is retried without a limit: a task that never succeeds occupies a slot forever. Give it up after some attempts,
///   with a result that says so.
/// - A panic in it ends the process, and then that of the next worker.
#[expect(
    clippy::disallowed_methods,
    reason = "the sleep is the simulated work, not a wait for a condition"
)]
async fn pretend(time: Duration) {
    tokio::time::sleep(time).await;
}

/// The maximum number of workers.
const WORKERS: u32 = 256;
/// How long a worker waits for a free number.
const NUMBER_TIMEOUT: Duration = Duration::from_secs(60);
