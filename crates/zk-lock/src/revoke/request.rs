//! Being asked to give up a lock.

use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use zk_core::Error;
use zk_core::ErrorKind;

use super::CURATORS_MESSAGE;
use super::wire_format;
use super::wire_format::Answer;
use crate::error::Loss;
use crate::guard::Guard;
use crate::guard::Held;

/// Somebody asks the holder of a lock to give it up; made by [`Guard::revocation_requested`].
///
/// # Dropping
///
/// Dropped, it stays unanswered: whoever asked waits for the end of its time, and may break the lock then.
#[must_use = "whoever asked waits for an answer"]
pub struct RevocationRequest {
    held: Arc<Held>,
    /// What it is known by in the data; `None` for one of Curator's.
    id: Option<String>,
    by: Option<String>,
    reason: Option<String>,
    deadline: Option<Instant>,
}

/// What the holder of a lock knows of the requests to give it up.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Those that the holder was told of, as far as they are still there.
    told: Vec<String>,
    /// What the owner says of itself, for when somebody writes over it.
    owner: Option<Vec<u8>>,
}

impl Guard {
    /// Returns a future that resolves when somebody asks for the lock to be given up, with who, why and until when.
    ///
    /// Each request is told once; call it again for the next one.
    /// Requests of our own [`Revoke`](super::Revoke) and of Apache Curator's `Revoker` are understood.
    /// The future owns what it needs, as that of [`lost`](Self::lost) does, and ends with an error when the lock is
    /// lost for good or released. While the connection is broken it waits.
    /// Dropping it is safe, nothing is missed.
    ///
    /// A holder that does not call it hears of no request. One that does should look for an answer that keeps to the
    /// time, since whoever asks may break the lock afterwards.
    ///
    /// Nobody is made to prove who they are: whoever may write the lock's node may ask, under any name.
    ///
    /// # Errors
    ///
    /// The loss, once the lock is lost for good or released.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn step() -> bool { true }
    /// # async fn demo(guard: zk_lock::Guard) -> Result<(), Box<dyn std::error::Error>> {
    /// loop {
    ///     tokio::select! {
    ///         is_done = step() => if is_done { break },
    ///         asked = guard.revocation_requested() => {
    ///             if let Ok(request) = asked {
    ///                 request.accept().await?;
    ///             }
    ///             break;
    ///         }
    ///     }
    /// }
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn revocation_requested(
        &self,
    ) -> impl Future<Output = Result<RevocationRequest, Loss>> + Send + use<> {
        let held = Arc::clone(self.held());
        async move {
            tokio::select! {
                biased;
                loss = held.ended() => Err(loss),
                _ = held.session.lost() => Err(Loss::SessionLost),
                asked = asked(&held) => asked,
            }
        }
    }
}

/// Waits for a request that was not told yet.
async fn asked(held: &Arc<Held>) -> Result<RevocationRequest, Loss> {
    loop {
        match held.session.get(&held.path).watched().await {
            Ok((data, stat, mut watch)) => {
                if let Some(request) = held.revocations.next(held, &data, stat.mzxid) {
                    return Ok(request);
                }
                watch.changed().await;
            }
            Err(error) if error.is_no_node() => return Err(Loss::NodeDeleted),
            Err(error) if error.is_fatal() => return Err(Loss::SessionLost),
            Err(error) => {
                tracing::warn!(path = %held.path, %error, "a request to release this lock would not be noticed now");
                let pause = held.session.session_timeout() / 10;
                drop(tokio::time::timeout(pause, held.session.lost()).await);
            }
        }
    }
}

impl Memory {
    /// Finds a request in the data of the node that was not told yet, and takes it for told.
    fn next(&self, held: &Arc<Held>, data: &[u8], mzxid: i64) -> Option<RevocationRequest> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let empty = RevocationRequest {
            held: Arc::clone(held),
            id: None,
            by: None,
            reason: None,
            deadline: None,
        };
        if data == CURATORS_MESSAGE {
            let id = format!("curator {mzxid}");
            let is_new = !known.told.contains(&id);
            known.told = vec![id];
            return is_new.then_some(empty);
        }
        known.owner = Some(data.to_vec());
        let requests = wire_format::requests(data);
        known
            .told
            .retain(|id| requests.iter().any(|request| request.id == *id));
        let request = requests
            .into_iter()
            .find(|request| !known.told.contains(&request.id))?;
        known.told.push(request.id.clone());
        Some(RevocationRequest {
            id: Some(request.id),
            by: Some(request.by),
            reason: Some(request.reason).filter(|reason| !reason.is_empty()),
            deadline: in_time(request.within),
            ..empty
        })
    }

    fn owner(&self) -> Option<Vec<u8>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.owner.clone()
    }
}

impl RevocationRequest {
    /// Returns who asks, by its own account; `None` when a client of Curator does, which does not say.
    pub fn by(&self) -> Option<&str> {
        self.by.as_deref()
    }

    /// Returns why, if it was said.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Returns until when whoever asks waits, counted from when the request was seen here, which is a little later than
    /// it was made; `None` if it was not said.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Tells whoever asks that the lock will be released, which is left to do.
    ///
    /// A request of Curator's needs no such answer.
    /// That whoever asked has given up meanwhile is no error.
    ///
    /// # Errors
    ///
    /// When the answer cannot be written, for instance because the lock is lost.
    ///
    /// # Cancel safety
    ///
    /// Safe: the answer is written, or it is not.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// A read and a write; nothing for a request of Curator's.
    pub async fn accept(self) -> Result<(), Error> {
        match &self.id {
            Some(id) => self.answer(id, &Answer::Accepted).await,
            None => Ok(()),
        }
    }

    /// Tells whoever asks that the lock will not be released now, and why.
    ///
    /// Nobody tells a client of Curator; but what the owner says of itself is written back in the place of its request,
    /// if it had been seen before.
    /// That whoever asked has given up meanwhile is no error.
    ///
    /// # Errors
    ///
    /// When the answer cannot be written, for instance because the lock is lost.
    ///
    /// # Cancel safety
    ///
    /// Safe: the answer is written, or it is not.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// A read and a write.
    pub async fn refuse(self, reason: &str) -> Result<(), Error> {
        let reason = reason.to_owned();
        match &self.id {
            Some(id) => self.answer(id, &Answer::Refused { reason }).await,
            None => self.restore().await,
        }
    }

    async fn answer(&self, id: &str, answer: &Answer) -> Result<(), Error> {
        self.rewrite(|data| wire_format::answered(data, id, answer))
            .await
    }

    async fn restore(&self) -> Result<(), Error> {
        let owner = self.held.revocations.owner();
        self.rewrite(|data| owner.clone().filter(|_| data == CURATORS_MESSAGE))
            .await
    }

    /// Changes the data of the lock's node, whoever else does at the same time.
    async fn rewrite(&self, change: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Result<(), Error> {
        let Held { session, path, .. } = &*self.held;
        loop {
            let (data, stat) = session.get(path).await?;
            let Some(changed) = change(&data) else {
                return Ok(());
            };
            match session.set(path, changed).version(stat.version).await {
                Ok(_) => return Ok(()),
                // Somebody else was quicker, or an answer was lost and it was written: look again.
                Err(error) if error.kind() == ErrorKind::BadVersion => {}
                Err(error) if error.is_outcome_unknown() && !error.is_fatal() => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl fmt::Debug for RevocationRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RevocationRequest")
            .field("path", &self.held.path)
            .field("by", &self.by)
            .field("reason", &self.reason)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// By Tokio's clock, which tests may pause.
fn in_time(within: Duration) -> Option<Instant> {
    let now = tokio::time::Instant::now().into_std();
    now.checked_add(within)
}
