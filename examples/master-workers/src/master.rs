//! The master: turns submissions into tasks, and assigns them to workers.
//!
//! Each change is a transaction that starts with a check of its leadership.
//! A master that was paused and replaced changes nothing afterwards: the ensemble rejects its transactions, whether or
//! not it knows that it was replaced.
//! Moving a task deletes it in one place and creates it in the other in one transaction, so a crash never leaves a task
//! in two places or in none.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::sync::watch;
use zk_core::{Error, ErrorClass, Transaction};
use zk_id::SequenceIds;
use zk_leader::LeaderLease;
use zk_queue::SettleError;

use crate::assignment_view::{AssignmentView, Move};
use crate::member::Member;
use crate::pause::{RETRY_PAUSE, pause};
use crate::plan::{Step, plan};
use crate::reporter::Reporter;
use crate::settings;
use crate::submit::inbox;
use crate::tree::{TaskId, WorkerName};

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was carried out.
    Done,
    /// The step no longer applies, and nothing was changed: the task is gone, or the worker is gone or has returned.
    TooLate,
    /// The outcome is unknown, because the reply was lost.
    ///
    /// It need not be determined: if the step was applied, the next read shows its task in the other place, and a
    /// second attempt is [`TooLate`](Self::TooLate).
    Unknown,
    /// One of the [base nodes](crate::tree::Tree::base_nodes) was deleted, and nothing was changed.
    BaseNodeMissing,
    /// The leadership was over, and nothing was changed.
    Deposed,
}

impl Member {
    /// Leads until it is asked to resign, or the leadership is over.
    ///
    /// # Errors
    ///
    /// What will not pass, such as a missing permission, and the loss of the session.
    pub async fn lead(&self, lease: &LeaderLease) -> anyhow::Result<()> {
        self.reporter.report(format_args!(
            "is the master, with token {}",
            lease.fencing_token()
        ));
        let _last = ReportEnd(&self.reporter);
        // Nothing is admitted before the number of waiting tasks is known.
        let waiting = watch::Sender::new(usize::MAX);
        tokio::select! {
            biased;
            () = lease.asked_to_resign() => Ok(()),
            admitted = self.admit(lease, waiting.subscribe()) => admitted,
            assigned = self.assign(lease, &waiting) => assigned,
            never = self.count_inbox() => match never {},
        }
    }

    /// Turns each text in the inbox into a task.
    ///
    /// One transaction takes the text from the queue and creates the task, so each text becomes one task, however many
    /// masters crash. The number is reserved before; an unused number is skipped.
    ///
    /// While the maximum number of tasks is `waiting`, texts stay in the inbox; once that is full too, submitting
    /// fails.
    async fn admit(
        &self,
        lease: &LeaderLease,
        mut waiting: watch::Receiver<usize>,
    ) -> anyhow::Result<()> {
        let inbox = inbox(&self.session, &self.tree);
        let numbers = SequenceIds::new(&self.session, &self.tree.task_numbers)?;
        loop {
            drop(waiting.wait_for(|tasks| *tasks < MOST_WAITING).await?);
            let task = match numbers.next().await {
                // Sequence numbers have 31 bits and start at zero.
                Ok(number) => TaskId::new(number.try_into()?),
                Err(error) if error.class() == ErrorClass::Recoverable => {
                    self.session.pause(RETRY_PAUSE).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let claim = match inbox.claim().await {
                Ok(claim) => claim,
                Err(error) if error.class() == ErrorClass::Recoverable => {
                    self.session.pause(RETRY_PAUSE).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let text = claim.item().clone();
            let (leader, node) = (lease.path().clone(), self.tree.task(task));
            let number = task.number();
            let accepted = claim
                .acknowledge_with({
                    let text = text.clone();
                    move |txn| txn.check(&leader).create(&node, text.as_str())
                })
                .await
                .map_err(SettleError::from);
            match accepted {
                Ok(()) => self
                    .reporter
                    .report(format_args!("master makes task {number} of {text:?}")),
                // In each of these cases the text goes back to the inbox.
                Err(SettleError::Refused(error)) if error.is_no_node() => {
                    if error.path() == Some(lease.path()) {
                        // The lease is about to report the same.
                        return Ok(());
                    }
                    self.recreate_deleted().await?;
                }
                Err(SettleError::Refused(error)) if error.is_node_exists() => {
                    self.reporter.report(format_args!(
                        "master passes number {number} over, as there is a task {number}"
                    ));
                }
                // Another consumer has the item, or will get it.
                Err(SettleError::Lost { .. }) => {}
                Err(error) if error.class() == ErrorClass::Recoverable => {
                    self.session.pause(RETRY_PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// On each change assigns tasks, takes back those of workers that are gone, and updates the number of `waiting`
    /// tasks.
    async fn assign(
        &self,
        lease: &LeaderLease,
        waiting: &watch::Sender<usize>,
    ) -> anyhow::Result<()> {
        let mut assignments = AssignmentView::new(self);
        let mut settings = self.settings.clone();
        loop {
            let (mut is_settled, mut has_base_nodes) = (true, true);
            if let Some(view) = assignments.view() {
                waiting.send_replace(view.waiting.len());
                let most = settings::current(&settings).tasks_per_worker;
                let moves: Vec<Move> = plan(&view, most)
                    .into_iter()
                    .filter_map(|step| assignments.find(step))
                    .collect();
                let mut outcomes = stream::iter(moves)
                    .map(|it| async move { (self.carry_out(lease, it.step, &it.data).await, it) })
                    .buffered(IN_FLIGHT);
                while let Some((outcome, it)) = outcomes.next().await {
                    let outcome = outcome?;
                    is_settled &= outcome == Outcome::Done;
                    match outcome {
                        Outcome::Done => {
                            self.report(it.step);
                            assignments.note(it);
                        }
                        Outcome::TooLate | Outcome::Unknown => {}
                        Outcome::BaseNodeMissing => has_base_nodes = false,
                        Outcome::Deposed => return Ok(()),
                    }
                }
                drop(outcomes);
            }
            if !has_base_nodes {
                self.recreate_deleted().await?;
            }
            tokio::select! {
                biased;
                changed = assignments.changed() => changed?,
                _ = settings.changed() => {}
                // A step that was not carried out may cause no event of the caches.
                () = pause(AGAIN), if !is_settled => {}
            }
        }
    }

    /// Carries out one step as one transaction, which fails unless `lease` is still held.
    ///
    /// # Errors
    ///
    /// A permanent error, or the loss of the session.
    ///
    /// # Session loss
    ///
    /// A fatal error; the outcome of the step is unknown.
    ///
    /// # Cost
    ///
    /// One round trip.
    pub async fn carry_out(
        &self,
        lease: &LeaderLease,
        step: Step,
        data: &[u8],
    ) -> Result<Outcome, Error> {
        let committed = self.transaction(lease.txn(), step, data).commit().await;
        let Err(error) = committed else {
            return Ok(Outcome::Done);
        };
        match (error.failed_part(), error.class()) {
            (Some(0), _) if error.is_no_node() => Ok(Outcome::Deposed),
            (Some(part), _) if error.is_no_node() && is_below_base_node(step, part) => {
                Ok(Outcome::BaseNodeMissing)
            }
            (Some(_), _) if error.is_no_node() || error.is_node_exists() => Ok(Outcome::TooLate),
            // The worker has another task.
            (Some(_), _) if error.kind() == zk_core::ErrorKind::NotEmpty => Ok(Outcome::TooLate),
            (_, ErrorClass::Recoverable) => Ok(Outcome::Unknown),
            _ => Err(error),
        }
    }

    /// Adds a step to a transaction.
    fn transaction(&self, leading: Transaction, step: Step, data: &[u8]) -> Transaction {
        let tree = &self.tree;
        match step {
            Step::Assign { task, to } => leading
                .check(tree.worker(to))
                .delete(tree.task(task))
                .create(tree.assignment(to, task), data),
            Step::TakeBack { task, from } => self
                .check_absent(leading, from)
                .delete(tree.assignment(from, task))
                .create(tree.task(task), data),
            Step::Forget { worker } => self
                .check_absent(leading, worker)
                .delete(tree.assigned_to(worker)),
        }
    }

    /// Makes a transaction fail if the worker is registered.
    ///
    /// ZooKeeper has no check for absence; creating and deleting the node in the transaction has the same effect. The
    /// caches are not sufficient: the one of the workers and the one of their tasks may show different moments.
    fn check_absent(&self, transaction: Transaction, worker: WorkerName) -> Transaction {
        let registration = self.tree.worker(worker);
        transaction.create(&registration, "").delete(&registration)
    }

    fn report(&self, step: Step) {
        let reporter = &self.reporter;
        match step {
            Step::Assign { task, to } => reporter.report(format_args!(
                "master assigns task {} to worker {}",
                task.number(),
                to.number()
            )),
            Step::TakeBack { task, from } => reporter.report(format_args!(
                "master takes task {} back from worker {}, which is gone",
                task.number(),
                from.number()
            )),
            Step::Forget { worker } => {
                reporter.report(format_args!("master forgets worker {}", worker.number()));
            }
        }
    }
}

/// Reports the end of the leadership, however it ends.
struct ReportEnd<'a>(&'a Reporter);

impl Drop for ReportEnd<'_> {
    fn drop(&mut self) {
        self.0.report(format_args!("is the master no longer"));
    }
}

/// Returns whether a part of a step's transaction creates a direct child of a base node.
const fn is_below_base_node(step: Step, part: usize) -> bool {
    matches!(
        (step, part),
        (Step::TakeBack { .. }, 1 | 4) | (Step::Forget { .. }, 1)
    )
}

/// The maximum number of transactions in flight.
const IN_FLIGHT: usize = 64;
/// The maximum number of waiting tasks. It may be exceeded slightly, because the caches lag.
const MOST_WAITING: usize = 1_000;
/// How long the master waits for events if some steps were not carried out.
const AGAIN: Duration = Duration::from_secs(1);
