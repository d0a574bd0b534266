//! Joins calls that wait while others are in flight into one transaction; [`backlog`](super::backlog) decides which.

use std::fmt;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use zk_core::{Error, NodePath};

use super::backlog::Backlog;
use super::context::QueueContext;
use crate::deadline::Deadline;
use crate::mutex::lock;

/// What joined calls do.
pub(crate) trait JoinedWork: fmt::Debug + Send + Sync + 'static {
    type Call: Send + Sync + 'static;
    type Output: Clone + Send + 'static;

    /// Returns how many bytes a call adds to a request.
    fn size_of(&self, call: &Self::Call) -> usize;

    /// Makes one or more calls in one transaction.
    fn commit(
        &self,
        calls: &[Self::Call],
        deadline: Deadline,
    ) -> impl Future<Output = JoinedOutcome<Self::Output>> + Send;

    /// Returns the output of a call whose outcome is unknown, because the session and its tasks have ended.
    fn unknown(&self, error: Error) -> Self::Output;
}

/// The outcome of a transaction of one or more calls.
#[derive(Debug)]
pub(crate) enum JoinedOutcome<T> {
    /// They have these outputs, in their order.
    Outputs(Vec<T>),
    /// This is the output of each of them.
    SameOutput(T),
    /// The servers refused this one of them, counted from zero, and changed nothing.
    Refused(usize, T),
    /// The transaction was too large, and nothing was changed.
    TooLarge(T),
}

/// Calls of one kind.
#[derive(Debug)]
pub(crate) struct JoinedCalls<W: JoinedWork> {
    context: Arc<QueueContext>,
    pub(crate) work: Arc<W>,
    backlog: Mutex<Backlog<PendingCall<W>>>,
}

/// A call that waits, or is in flight.
struct PendingCall<W: JoinedWork> {
    call: W::Call,
    deadline: Deadline,
    reply: oneshot::Sender<W::Output>,
}

impl<W: JoinedWork> JoinedCalls<W> {
    pub(crate) fn new(context: &Arc<QueueContext>, work: &Arc<W>) -> Self {
        Self {
            context: Arc::clone(context),
            work: Arc::clone(work),
            backlog: Mutex::default(),
        }
    }

    /// Makes a call, alone if nothing is in flight, otherwise together with others that wait.
    ///
    /// If this is dropped while the call waits, the call is not made. If it is dropped later, the call may be made, once.
    pub(crate) async fn call(self: &Arc<Self>, call: W::Call, deadline: Deadline) -> W::Output {
        if lock(&self.backlog).begin_alone() {
            let _alone = AloneInFlight(self);
            return self.work.commit(&[call], deadline).await.of_one();
        }
        let (reply, replied) = oneshot::channel();
        let size = self.work.size_of(&call);
        let pending = PendingCall {
            call,
            deadline,
            reply,
        };
        if lock(&self.backlog).push(pending, size, self.context.moment()) {
            self.start_sender();
        }
        match replied.await {
            Ok(output) => output,
            // No sender will take it: the runtime of the session has ended, and the session with it, or a sender has
            // panicked.
            Err(_) => match self.context.sync(&NodePath::root(), deadline).await {
                Err(error) => self.work.unknown(error),
                Ok(()) => panic!("the task that sends joined calls has panicked"),
            },
        }
    }

    /// Starts a task that sends what waits. Closing the session waits for it.
    fn start_sender(self: &Arc<Self>) {
        let session = &self.context.session;
        let (sending, ended) = oneshot::channel::<()>();
        session.finish(async { drop(ended.await) });
        let sender = Sender {
            calls: Arc::clone(self),
            has_ended: false,
        };
        // Not dropped when the session is lost: each call gets the error then.
        drop(session.spawn(async move {
            // The last handle removes its tokens, which closing the session waits for, too.
            sender.send_all().await;
            drop(sending);
        }));
    }

    /// Sends transactions until no call waits.
    async fn send_all(self: &Arc<Self>) {
        loop {
            let is_awaited = |pending: &PendingCall<W>| !pending.reply.is_closed();
            let (batch, starts_sender) = lock(&self.backlog).take(is_awaited);
            if starts_sender {
                self.start_sender();
            }
            if batch.is_empty() {
                return;
            }
            let deadline = batch.iter().map(|pending| pending.deadline).max();
            let deadline = deadline.unwrap_or_else(Deadline::never);
            let (calls, replies) = batch
                .into_iter()
                .map(|pending| (pending.call, pending.reply))
                .unzip();
            self.send(calls, replies, deadline).await;
        }
    }

    /// Makes calls in one transaction, or in as few as possible if some of them are refused.
    ///
    /// A reply names the part that was refused. That call gets the error, and the others are sent again without it. So
    /// refused calls never cost more transactions than one for each, as if they had not been joined, and one for the
    /// others. Only a transaction that is too large as a whole is halved.
    async fn send(
        &self,
        calls: Vec<W::Call>,
        replies: Vec<oneshot::Sender<W::Output>>,
        deadline: Deadline,
    ) {
        let mut left = vec![(calls, replies)];
        while let Some((mut calls, mut replies)) = left.pop() {
            // Dropped callers are not replied to.
            match self.work.commit(&calls, deadline).await {
                JoinedOutcome::TooLarge(_) if calls.len() > 1 => {
                    let middle = calls.len() / 2;
                    left.push((calls.split_off(middle), replies.split_off(middle)));
                    left.push((calls, replies));
                }
                JoinedOutcome::Refused(refused, output) if calls.len() > 1 => {
                    drop(calls.remove(refused));
                    drop(replies.remove(refused).send(output));
                    left.push((calls, replies));
                }
                JoinedOutcome::Outputs(outputs) => {
                    for (reply, output) in replies.into_iter().zip(outputs) {
                        drop(reply.send(output));
                    }
                }
                outcome => {
                    let output = outcome.of_one();
                    for reply in replies {
                        drop(reply.send(output.clone()));
                    }
                }
            }
        }
    }
}

impl<T> JoinedOutcome<T> {
    /// Returns the output of the only call.
    fn of_one(self) -> T {
        match self {
            Self::Outputs(mut outputs) => outputs.pop().expect("each call has an output"),
            Self::SameOutput(output) | Self::Refused(_, output) | Self::TooLarge(output) => output,
        }
    }
}

/// The task of a sender.
///
/// If it is dropped before it has ended, with its runtime or by a panic, the calls that no other one will take are not
/// made.
struct Sender<W: JoinedWork> {
    calls: Arc<JoinedCalls<W>>,
    has_ended: bool,
}

impl<W: JoinedWork> Sender<W> {
    async fn send_all(mut self) {
        self.calls.send_all().await;
        self.has_ended = true;
    }
}

impl<W: JoinedWork> Drop for Sender<W> {
    fn drop(&mut self) {
        if !self.has_ended {
            let unsent = lock(&self.calls.backlog).on_dropped_sender();
            drop(unsent);
        }
    }
}

/// A call that is sent by its caller.
struct AloneInFlight<'a, W: JoinedWork>(&'a JoinedCalls<W>);

impl<W: JoinedWork> Drop for AloneInFlight<'_, W> {
    fn drop(&mut self) {
        lock(&self.0.backlog).end_alone();
    }
}

impl<W: JoinedWork> fmt::Debug for PendingCall<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCall").finish_non_exhaustive()
    }
}
