//! The limit that all clients share, in the data of the semaphore's node.

use std::sync::atomic::Ordering;

use zk_core::Error;
use zk_core::ErrorKind;

use super::AcquireLeaseError;
use super::BadLimit;
use super::Semaphore;
use super::capacity;

impl Semaphore {
    /// Reads the limit that counts; `None` for a semaphore that was never used.
    ///
    /// # Errors
    ///
    /// [`AcquireLeaseError::BadLimit`] when something else is stored at the path, and when it cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// One round trip.
    pub async fn limit(&self) -> Result<Option<u32>, AcquireLeaseError> {
        match self.session().get(self.path()).await {
            Ok((data, _)) => self.parsed(&data),
            Err(error) if error.is_no_node() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Changes the limit for all clients, and answers the one before it.
    ///
    /// A raised limit wakes the first waiter.
    /// A lowered one takes no lease from anybody: the leases above it run out as they are given back, and none is granted
    /// until there are fewer than the limit. A limit of zero lets nobody in.
    /// It counts for every lease whose node is made after it; one made before may still be granted by the old limit.
    ///
    /// # Errors
    ///
    /// When the node cannot be read or written, or others change it all the time.
    ///
    /// # Cancel safety
    ///
    /// Not safe once it was polled: the limit may still change. Read it afterwards.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// Two round trips.
    pub async fn set_limit(&self, limit: u32) -> Result<Option<u32>, Error> {
        let data = capacity::data_of(limit);
        let mut rounds = 0;
        loop {
            rounds += 1;
            let written = match self.session().get(self.path()).await {
                Ok((before, stat)) => {
                    let set = self.session().set(self.path(), data.clone());
                    // Who else wrote the same limit has done what was asked for.
                    let set = set.version(stat.version).idempotent();
                    set.await
                        .map(|_| capacity::limit_in(&before).unwrap_or(None))
                }
                Err(error) if error.is_no_node() => self.store(limit).await.map(|()| None),
                Err(error) => return Err(error),
            };
            match written {
                Err(error) if is_beaten(&error) && rounds < MOST_ROUNDS => {}
                written => return written,
            }
        }
    }

    /// Makes sure that there is a limit, and that it is ours unless we adopt whatever it is; answers it.
    pub(super) async fn agree(&self) -> Result<u32, AcquireLeaseError> {
        let mut rounds = 0;
        loop {
            rounds += 1;
            let stored = match self.session().get(self.path()).await {
                Ok((data, stat)) => {
                    if let Some(stored) = self.parsed(&data)? {
                        return self.agreed(stored);
                    }
                    // Made as a parent of something, maybe by another client.
                    let set = self.session().set(self.path(), capacity::data_of(self.own));
                    set.version(stat.version).idempotent().await.map(|_| ())
                }
                Err(error) if error.is_no_node() => self.store(self.own).await,
                Err(error) => return Err(error.into()),
            };
            match stored {
                Ok(()) => return self.agreed(self.own),
                Err(error) if is_beaten(&error) && rounds < MOST_ROUNDS => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Makes the node together with its limit: nobody ever sees it without.
    async fn store(&self, limit: u32) -> Result<(), Error> {
        let create = self.session().create(self.path(), capacity::data_of(limit));
        // Who else stored the same limit has done what was asked for.
        let mut create = create.container_parents().idempotent();
        if let Some(acl) = self.acl() {
            create = create.acl(acl.clone());
        }
        create.await.map(|_| ())
    }

    pub(super) fn has_agreed(&self) -> bool {
        self.agreed.load(Ordering::Relaxed)
    }

    fn agreed(&self, stored: u32) -> Result<u32, AcquireLeaseError> {
        if stored != self.own && !self.adopts && !self.has_agreed() {
            return Err(AcquireLeaseError::LimitDiffers {
                path: self.path().clone(),
                stored,
                own: self.own,
            });
        }
        self.agreed.store(true, Ordering::Relaxed);
        Ok(stored)
    }

    pub(super) fn parsed(&self, data: &[u8]) -> Result<Option<u32>, AcquireLeaseError> {
        capacity::limit_in(data).map_err(|capacity::NotALimit| {
            AcquireLeaseError::BadLimit(BadLimit {
                path: self.path().clone(),
            })
        })
    }
}

/// Whether somebody else was faster: look again.
fn is_beaten(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BadVersion | ErrorKind::NodeExists | ErrorKind::NoNode
    )
}

/// How often it is tried again when others write as well.
const MOST_ROUNDS: usize = 16;
