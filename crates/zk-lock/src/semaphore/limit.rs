//! The limit that all clients share, stored in the data of the semaphore's node.

use std::sync::atomic::Ordering;

use zk_core::{Error, ErrorKind};

use super::{Semaphore, capacity};
use crate::error::AcquireError;
use crate::limit_error::LimitError;

impl Semaphore {
    /// Reads the stored limit; `None` for a semaphore that was never used.
    ///
    /// # Errors
    ///
    /// [`LimitError::NotANumber`] if the data at the path is not a limit, or an error of the read.
    ///
    /// # Cost
    ///
    /// One round trip.
    pub async fn limit(&self) -> Result<Option<u32>, AcquireError> {
        match self.session().get(self.path()).await {
            Ok((data, _)) => self.parse_limit(&data),
            Err(error) if error.is_no_node() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Changes the limit for all clients and returns the previous one.
    ///
    /// A raised limit wakes the first waiter.
    /// A lowered limit revokes no lease: no lease is granted until enough of them are released. A limit of zero blocks
    /// all acquires.
    /// The limit applies to each lease whose node is created after the change. A lease whose node was created before
    /// may still be granted under the old limit.
    ///
    /// # Errors
    ///
    /// If the node cannot be read or written, or concurrent changes defeat all attempts.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe once polled: the limit may or may not change. Read it afterwards.
    ///
    /// # Cost
    ///
    /// Two round trips.
    pub async fn set_limit(&self, limit: u32) -> Result<Option<u32>, Error> {
        let data = capacity::format_limit(limit);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let written = match self.session().get(self.path()).await {
                Ok((before, stat)) => {
                    let set = self.session().set(self.path(), data.clone());
                    // A concurrent write of the same limit has the same effect.
                    let set = set.version(stat.version).idempotent();
                    set.await
                        .map(|_| capacity::parse_limit(&before).unwrap_or(None))
                }
                Err(error) if error.is_no_node() => {
                    self.create_with_limit(limit).await.map(|()| None)
                }
                Err(error) => return Err(error),
            };
            match written {
                Err(error) if is_conflict(&error) && attempts < MAX_ATTEMPTS => {}
                written => return written,
            }
        }
    }

    /// Stores our limit if there is none; returns the stored limit if this handle accepts it.
    pub(super) async fn ensure_limit(&self) -> Result<u32, AcquireError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let stored = match self.session().get(self.path()).await {
                Ok((data, stat)) => {
                    if let Some(stored) = self.parse_limit(&data)? {
                        return self.accept_limit(stored);
                    }
                    // The node was created as a parent, maybe by another client.
                    let set = self
                        .session()
                        .set(self.path(), capacity::format_limit(self.own_limit));
                    set.version(stat.version).idempotent().await.map(|_| ())
                }
                Err(error) if error.is_no_node() => self.create_with_limit(self.own_limit).await,
                Err(error) => return Err(error.into()),
            };
            match stored {
                Ok(()) => return self.accept_limit(self.own_limit),
                Err(error) if is_conflict(&error) && attempts < MAX_ATTEMPTS => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Creates the node together with its limit, so that it is never visible without one.
    async fn create_with_limit(&self, limit: u32) -> Result<(), Error> {
        let create = self
            .session()
            .create(self.path(), capacity::format_limit(limit));
        // A concurrent create with the same limit has the same effect.
        let mut create = create.container_parents().idempotent();
        if let Some(acl) = self.queue.acl() {
            create = create.acl(acl.clone());
        }
        create.await.map(|_| ())
    }

    pub(super) fn has_confirmed_limit(&self) -> bool {
        self.limit_confirmed.load(Ordering::Relaxed)
    }

    fn accept_limit(&self, stored: u32) -> Result<u32, AcquireError> {
        if stored != self.own_limit && !self.adopts && !self.has_confirmed_limit() {
            return Err(AcquireError::Limit(LimitError::Differs {
                path: self.path().clone(),
                stored,
                own: self.own_limit,
            }));
        }
        self.limit_confirmed.store(true, Ordering::Relaxed);
        Ok(stored)
    }

    pub(super) fn parse_limit(&self, data: &[u8]) -> Result<Option<u32>, AcquireError> {
        capacity::parse_limit(data).map_err(|capacity::NotALimit| {
            AcquireError::Limit(LimitError::NotANumber {
                path: self.path().clone(),
            })
        })
    }
}

/// Returns whether a concurrent change caused the error, so that the node has to be read again.
fn is_conflict(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BadVersion | ErrorKind::NodeExists | ErrorKind::NoNode
    )
}

/// The number of attempts under concurrent changes.
const MAX_ATTEMPTS: usize = 16;
