//! The master: makes tasks of what was submitted, and assigns them.
//!
//! Whatever it changes it changes in transactions that begin with a check of its own leadership.
//! One that was stopped, and has been followed by another master while it did not look, changes nothing any more: not
//! because it knows, but because the ensemble refuses it.
//! And what moves a task deletes it in one place and makes it in the other, at once: there is no moment in which a
//! process could die with a task in two places or in none.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::sync::watch;
use zk_config::Typed;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::Session;
use zk_core::Transaction;
use zk_id::SequenceIds;
use zk_leader::LeaderLease;
use zk_queue::SettleError;

use crate::assignment_view::AssignmentView;
use crate::assignment_view::Move;
use crate::bootstrap::recreate_deleted;
use crate::pause::A_MOMENT;
use crate::pause::pause;
use crate::plan::Step;
use crate::plan::plan;
use crate::reporter::Reporter;
use crate::settings;
use crate::settings::Settings;
use crate::submit::inbox;
use crate::tree::TaskId;
use crate::tree::Tree;
use crate::tree::WorkerName;

/// What a process does while it leads.
#[derive(Debug, Clone)]
pub struct Master {
    session: Session,
    tree: Tree,
    settings: Typed<Settings>,
    reporter: Reporter,
}

/// What became of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was carried out.
    Done,
    /// It does not fit any more, and nothing was changed: the task has gone, or the worker, or has come back.
    TooLate,
    /// Nobody knows: the answer was lost.
    ///
    /// It needs no finding out: if it was carried out, its task is in the other place, as the next look shows; and a step
    /// that is tried twice is [`TooLate`](Self::TooLate) the second time.
    Unknown,
    /// The node that everything of its kind is below is gone, and nothing was changed: somebody has deleted one of the
    /// [base nodes](Tree::base_nodes).
    Unfounded,
    /// The leadership was over, and nothing was changed.
    Deposed,
}

impl Master {
    /// Makes a master of a session. The nodes of [`Tree::base_nodes`] have to be there.
    pub fn new(
        session: &Session,
        tree: &Tree,
        settings: &Typed<Settings>,
        reporter: &Reporter,
    ) -> Self {
        Self {
            session: session.clone(),
            tree: tree.clone(),
            settings: settings.clone(),
            reporter: reporter.clone(),
        }
    }

    /// Leads until it is asked to resign, or the leadership is over.
    ///
    /// # Errors
    ///
    /// What will not pass, such as a missing permission, and the loss of the session.
    ///
    /// # Cancel safety
    ///
    /// Safe: what has left may be carried out, as a whole or not at all.
    ///
    /// # Session loss
    ///
    /// An error.
    pub async fn lead(&self, lease: &Lease) -> anyhow::Result<()> {
        self.reporter.report(format_args!(
            "is the master, with token {}",
            lease.fencing_token()
        ));
        let _last = Last(&self.reporter);
        // Nothing is admitted before the first look at how many wait.
        let waiting = watch::Sender::new(usize::MAX);
        tokio::select! {
            biased;
            () = lease.asked_to_resign() => Ok(()),
            admitted = self.admit(lease, waiting.subscribe()) => admitted,
            assigned = self.assign(lease, &waiting) => assigned,
        }
    }

    /// Makes a task of each text in the inbox.
    ///
    /// The text leaves the queue and the task appears in one transaction, so that each text becomes one task, however
    /// many masters die over it. Its number is asked for before; one that is not used is skipped.
    ///
    /// While as many tasks are `waiting` as may be, texts stay in the inbox, until that is full as well: then whoever
    /// submits is told.
    async fn admit(
        &self,
        lease: &LeaderLease,
        mut waiting: watch::Receiver<usize>,
    ) -> anyhow::Result<()> {
        let inbox = inbox(&self.session, &self.tree);
        let numbers = SequenceIds::new(&self.session, self.tree.task_numbers())?;
        loop {
            drop(waiting.wait_for(|tasks| *tasks < MOST_WAITING).await?);
            let task = match numbers.next().await {
                // They have 31 bits, from zero on.
                Ok(number) => TaskId::new(number.try_into()?),
                Err(error) if error.class() == ErrorClass::Recoverable => {
                    pause(A_MOMENT).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let claim = match inbox.claim().await {
                Ok(claim) => claim,
                Err(error) if error.class() == ErrorClass::Recoverable => {
                    pause(A_MOMENT).await;
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
                .await;
            match accepted {
                Ok(()) => self
                    .reporter
                    .report(format_args!("master makes task {number} of {text:?}")),
                // In each of these cases the text goes back to the inbox.
                Err(SettleError::Refused(error)) if error.is_no_node() => {
                    if error.path() == Some(lease.path()) {
                        // The lease is about to say the same.
                        return Ok(());
                    }
                    recreate_deleted(&self.session, &self.tree, &self.reporter).await?;
                }
                Err(SettleError::Refused(error)) if error.is_node_exists() => {
                    self.reporter.report(format_args!(
                        "master passes number {number} over, as there is a task {number}"
                    ));
                }
                // Somebody else has it, or will have it again.
                Err(SettleError::Lost { .. }) => {}
                Err(error) if error.class() == ErrorClass::Recoverable => pause(A_MOMENT).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Assigns tasks, and takes back those of workers that are gone, whenever something changes; says how many wait.
    async fn assign(&self, lease: &Lease, waiting: &watch::Sender<usize>) -> anyhow::Result<()> {
        let mut assignments = AssignmentView::new(&self.session, &self.tree, &self.reporter);
        let mut settings = self.settings.clone();
        loop {
            let (mut is_settled, mut is_founded) = (true, true);
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
                        Outcome::Unfounded => is_founded = false,
                        Outcome::Deposed => return Ok(()),
                    }
                }
                drop(outcomes);
            }
            if !is_founded {
                recreate_deleted(&self.session, &self.tree, &self.reporter).await?;
            }
            tokio::select! {
                biased;
                changed = assignments.changed() => changed?,
                _ = settings.changed() => {}
                // Whatever was not done may have left nothing that the caches would tell of.
                () = pause(AGAIN), if !is_settled => {}
            }
        }
    }

    /// Carries out one step, as one transaction that is refused unless `lease` lasts.
    ///
    /// # Errors
    ///
    /// What is no matter of time, and the loss of the session.
    ///
    /// # Cancel safety
    ///
    /// Safe: it may be carried out, as a whole or not at all.
    ///
    /// # Session loss
    ///
    /// A fatal error; nobody knows then whether it was carried out.
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
            (Some(part), _) if error.is_no_node() && is_on_foundation(step, part) => {
                Ok(Outcome::Unfounded)
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

    /// Lets a transaction fail if the worker is registered.
    ///
    /// There is no check for that, but whoever can make a node knows that there was none. The caches may not have shown it
    /// yet: that of the workers and that of their tasks may be of different moments.
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

/// Tells that the master is none any more, in whichever way that ends.
struct Last<'a>(&'a Reporter);

impl Drop for Last<'_> {
    fn drop(&mut self) {
        self.0.report(format_args!("is the master no longer"));
    }
}

/// Tells whether a part of a step's transaction makes a node right below one of the base nodes.
const fn is_on_foundation(step: Step, part: usize) -> bool {
    matches!(
        (step, part),
        (Step::TakeBack { .. }, 1 | 4) | (Step::Forget { .. }, 1)
    )
}

/// How many transactions are on their way at once.
const IN_FLIGHT: usize = 64;
/// How many tasks may wait. It may be exceeded by a few: the caches show a moment ago.
const MOST_WAITING: usize = 1_000;
/// How long the master waits for news when not all of its steps were carried out.
const AGAIN: Duration = Duration::from_secs(1);
