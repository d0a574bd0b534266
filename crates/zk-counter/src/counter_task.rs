//! The task of a counter: takes the calls that wait, and applies them with one write.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zk_core::{
    Bytes, Error, ErrorClass, IdempotencyTokens, NodePath, Session, SessionSource, Updated,
};

use crate::batch::Batch;
use crate::call_queue::CallQueue;
use crate::format::Format;

/// The node of a counter, and the calls that wait for it.
#[derive(Debug)]
pub(crate) struct CounterTask {
    pub(crate) path: NodePath,
    /// The path of an idempotency token without its unique id.
    pub(crate) token: NodePath,
    pub(crate) format: Format,
    /// The data that a missing node is created with.
    pub(crate) initial: Vec<u8>,
    pub(crate) queue: Arc<CallQueue>,
}

/// Applies calls with one session after the other, until there is none.
pub(crate) async fn run(task: CounterTask, mut source: SessionSource) {
    let _end = EndOnDrop(Arc::clone(&task.queue));
    while let Some(session) = source.next().await {
        task.serve(&session).await;
    }
}

/// Ends the queue, also if the task is dropped.
struct EndOnDrop(Arc<CallQueue>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl CounterTask {
    /// Applies calls until the session is lost.
    async fn serve(&self, session: &Session) {
        let tokens = IdempotencyTokens::below_existing(session, self.token.clone());
        let mut known = None;
        loop {
            tokio::select! {
                biased;
                _ = session.lost() => return,
                () = self.queue.arrived() => {}
            }
            // Until there is a connection, calls can still be withdrawn.
            tokio::select! {
                biased;
                _ = session.lost() => return,
                _ = session.connected() => {}
            }
            let batch = Batch::new(&self.queue, self.format);
            if batch.is_empty() {
                continue;
            }
            let is_read_only = batch.is_read_only();
            let batch = Arc::new(Mutex::new(batch));
            let result = if is_read_only {
                self.read(session, &batch).await
            } else {
                self.write(session, &tokens, &batch, known.take())
                    .await
                    .map(|updated| known = known_after(updated))
            };
            let Err(error) = result else {
                lock(&batch).done(&self.path);
                continue;
            };
            if error.is_outcome_unknown() || error.class() == ErrorClass::Outcome {
                lock(&batch).failed(&error);
                continue;
            }
            tracing::debug!(path = %self.path, %error, "the counter was not reached, trying again");
            lock(&batch).put_back();
            session.pause(TRY_AGAIN).await;
        }
    }

    /// Reads from a server that has caught up with the leader. A node that does not exist counts as if it was created.
    async fn read(&self, session: &Session, batch: &Mutex<Batch>) -> Result<(), Error> {
        session.sync(&self.path).await?;
        let data = match session.get(&self.path).await {
            Ok((data, _)) => data,
            Err(error) if error.is_no_node() => self.initial.clone().into(),
            Err(error) => return Err(error),
        };
        lock(batch).decide(&data);
        Ok(())
    }

    /// Writes the calls that wait, and those that arrive before the last attempt.
    async fn write(
        &self,
        session: &Session,
        tokens: &IdempotencyTokens,
        batch: &Arc<Mutex<Batch>>,
        known: Option<(Bytes, i32)>,
    ) -> Result<Updated, Error> {
        let batch = Arc::clone(batch);
        let change = move |data: &[u8]| lock(&batch).change(data);
        let update = session.update(&self.path, change);
        let update = match known {
            Some((data, version)) => update.known(data, version),
            None => update,
        };
        // The callers have deadlines of their own. What is in doubt is found out as long as the session lives.
        let update = update
            .or_create(self.initial.clone())
            .timeout(Duration::MAX);
        update.exactly_once(tokens).await
    }
}

/// Returns what the next write begins with instead of a read, unless other processes write, too.
fn known_after(updated: Updated) -> Option<(Bytes, i32)> {
    let stat = updated.stat.filter(|_| updated.conflicts == 0)?;
    Some((updated.data, stat.version))
}

fn lock(batch: &Mutex<Batch>) -> MutexGuard<'_, Batch> {
    batch.lock().unwrap_or_else(PoisonError::into_inner)
}

const TRY_AGAIN: Duration = Duration::from_millis(100);
