//! The master: makes tasks of what was submitted, and assigns them.
//!
//! Whatever it changes it changes in transactions that begin with a check of its own leadership.
//! One that was stopped, and has been followed by another master while it did not look, changes nothing any more: not
//! because it knows, but because the ensemble refuses it.
//! And what moves a task deletes it in one place and makes it in the other, at once: there is no moment in which a
//! process could die with a task in two places or in none.

use futures_util::StreamExt as _;
use futures_util::stream;
use zk_config::Typed;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::Session;
use zk_core::Transaction;
use zk_core::codec::Text;
use zk_id::SequenceIds;
use zk_leader::Lease;
use zk_queue::SettleError;
use zk_queue::WorkQueue;

use crate::desk::Desk;
use crate::desk::Move;
use crate::plan::Step;
use crate::plan::plan;
use crate::settings;
use crate::settings::Settings;
use crate::tell::Teller;
use crate::tree::TaskId;
use crate::tree::Tree;

/// What a process does while it leads.
#[derive(Debug, Clone)]
pub struct Master {
    session: Session,
    tree: Tree,
    settings: Typed<Settings>,
    teller: Teller,
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
    /// The leadership was over, and nothing was changed.
    Deposed,
}

impl Master {
    /// Makes a master of a session. The nodes of [`Tree::foundations`] have to be there.
    pub fn new(
        session: &Session,
        tree: &Tree,
        settings: &Typed<Settings>,
        teller: &Teller,
    ) -> Self {
        Self {
            session: session.clone(),
            tree: tree.clone(),
            settings: settings.clone(),
            teller: teller.clone(),
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
        self.teller.say(format_args!(
            "is the master, with token {}",
            lease.fencing_token()
        ));
        let _last = Last(&self.teller);
        tokio::select! {
            biased;
            () = lease.asked_to_resign() => Ok(()),
            admitted = self.admit(lease) => admitted,
            assigned = self.assign(lease) => assigned,
        }
    }

    /// Makes a task of each text in the inbox.
    ///
    /// The text leaves the queue and the task appears in one transaction, so that each text becomes one task, however
    /// many masters die over it. Its number is asked for before; one that is not used is skipped.
    async fn admit(&self, lease: &Lease) -> anyhow::Result<()> {
        let inbox = WorkQueue::<String>::new(&self.session, self.tree.inbox(), Text)?;
        let numbers = SequenceIds::new(&self.session, self.tree.task_numbers())?;
        loop {
            let claim = match inbox.claim().await {
                Ok(claim) => claim,
                Err(error) if error.class() == ErrorClass::Recoverable => continue,
                Err(error) => return Err(error.into()),
            };
            let task = match numbers.next().await {
                // They have 31 bits, from zero on.
                Ok(number) => TaskId::new(number.try_into()?),
                Err(error) if error.class() == ErrorClass::Recoverable => continue,
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
                    .teller
                    .say(format_args!("master makes task {number} of {text:?}")),
                Err(SettleError::Refused(error)) if error.is_no_node() => {
                    // The lease is about to say the same.
                    return Ok(());
                }
                // Somebody else has it, or will have it again.
                Err(SettleError::Lost { .. }) => {}
                Err(error) if error.class() == ErrorClass::Recoverable => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Assigns tasks, and takes back those of workers that are gone, whenever something changes.
    async fn assign(&self, lease: &Lease) -> anyhow::Result<()> {
        let mut desk = Desk::new(&self.session, &self.tree);
        let mut settings = self.settings.clone();
        loop {
            if let Some(view) = desk.view() {
                let most = settings::current(&settings).tasks_per_worker;
                let moves: Vec<Move> = plan(&view, most)
                    .into_iter()
                    .filter_map(|step| desk.find(step))
                    .collect();
                let mut outcomes = stream::iter(moves)
                    .map(|it| async move { (self.carry_out(lease, it.step, &it.data).await, it) })
                    .buffered(IN_FLIGHT);
                while let Some((outcome, it)) = outcomes.next().await {
                    match outcome? {
                        Outcome::Done => {
                            self.tell(it.step);
                            desk.note(it);
                        }
                        Outcome::TooLate | Outcome::Unknown => {}
                        Outcome::Deposed => return Ok(()),
                    }
                }
                drop(outcomes);
            }
            tokio::select! {
                biased;
                goes_on = desk.changed() => anyhow::ensure!(goes_on, "the caches have ended"),
                _ = settings.changed() => {}
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
        lease: &Lease,
        step: Step,
        data: &[u8],
    ) -> Result<Outcome, Error> {
        let committed = self.transaction(lease.txn(), step, data).commit().await;
        let Err(error) = committed else {
            return Ok(Outcome::Done);
        };
        match (error.failed_part(), error.class()) {
            (Some(0), _) if error.is_no_node() => Ok(Outcome::Deposed),
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
    fn check_absent(
        &self,
        transaction: Transaction,
        worker: crate::tree::WorkerName,
    ) -> Transaction {
        let registration = self.tree.worker(worker);
        transaction.create(&registration, "").delete(&registration)
    }

    fn tell(&self, step: Step) {
        let teller = &self.teller;
        match step {
            Step::Assign { task, to } => teller.say(format_args!(
                "master assigns task {} to worker {}",
                task.number(),
                to.number()
            )),
            Step::TakeBack { task, from } => teller.say(format_args!(
                "master takes task {} back from worker {}, which is gone",
                task.number(),
                from.number()
            )),
            Step::Forget { worker } => {
                teller.say(format_args!("master forgets worker {}", worker.number()));
            }
        }
    }
}

/// Tells that the master is none any more, in whichever way that ends.
struct Last<'a>(&'a Teller);

impl Drop for Last<'_> {
    fn drop(&mut self) {
        self.0.say(format_args!("is the master no longer"));
    }
}

/// How many transactions are on their way at once.
const IN_FLIGHT: usize = 64;
