//! Issues the transaction numbers that the ensemble gives to writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;
use zk_core::{Error, ErrorClass, IntoNodePath, NodePath, ParsePathError, Session};

use crate::error::excerpt;
use crate::path_schema::is_conflict;
use crate::worker::unique_writer;

/// Numbers of 63 bits, ordered over all processes: the zxids of writes to one node.
///
/// The ensemble numbers all its transactions, and returns the number of a write as the node's `mzxid`.
/// Each call writes once, so that its number belongs to no other call. Servers of all versions return it.
/// Unlike the numbers of [`SequenceIds`](crate::SequenceIds) they do not restart if the node is deleted, and they do
/// not run out: the upper bits count the leaders, and the lower 32 the transactions of one leader, which resigns when
/// these are used up (ZOOKEEPER-1277).
///
/// There are gaps of any size, since all writes to the ensemble take numbers. A number reveals how many there were.
///
/// # Restored ensembles
///
/// An ensemble that loses transactions uses their numbers again: after it was restored from a backup or created anew,
/// and after a quorum lost its disks, or lost power with `forceSync=no`.
/// These ids then repeat, which no client can notice. Keep them with the data that is restored from the same backup,
/// or use [`Snowflakes`](crate::Snowflakes).
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_id::ZxidIds;
///
/// let revisions = ZxidIds::new(&session, "/ids/revisions")?;
/// println!("revision {}", revisions.next().await?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ZxidIds {
    session: Session,
    path: NodePath,
    /// Whether the node was found to exist and to be ours.
    is_checked: Arc<AtomicBool>,
}

/// No number was issued.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ZxidError {
    /// The path is used for something else, whose data a write would destroy.
    #[error("{path} is used for {found:?}; use another path")]
    SchemaMismatch {
        /// The node.
        path: NodePath,
        /// Its data, or the beginning of its data.
        found: String,
    },
    /// A request failed. A number may be skipped.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl ZxidError {
    /// Returns what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::SchemaMismatch { .. } => ErrorClass::Outcome,
            Self::Failed(error) => error.class(),
        }
    }
}

impl ZxidIds {
    /// Creates a handle to the numbers of the node at `path`.
    ///
    /// The node, and its parents, are created on first use. Use the path for nothing else.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn new(session: &Session, path: impl IntoNodePath) -> Result<Self, ParsePathError> {
        Ok(Self {
            session: session.clone(),
            path: path.into_node_path()?,
            is_checked: Arc::default(),
        })
    }

    /// Requests the next number from the ensemble.
    ///
    /// It is greater than the numbers of all calls, of any process and any path of the ensemble, that had returned
    /// before this call. A dropped call, and a lost reply, may skip a number.
    ///
    /// # Errors
    ///
    /// [`ZxidError::SchemaMismatch`] if the node has foreign data, and [`ZxidError::Failed`] if the requests did not succeed
    /// within the session's operation timeout.
    ///
    /// # Cost
    ///
    /// One round trip and a write; two more round trips at the first call of a handle.
    pub async fn next(&self) -> Result<i64, ZxidError> {
        let since = Instant::now();
        let limit = self.session.operation_timeout();
        loop {
            if !self.is_checked.load(Ordering::Relaxed) {
                match self.check().await {
                    // Another client has deleted the node that was found or created.
                    Err(ZxidError::Failed(error))
                        if error.is_no_node() && since.elapsed() < limit =>
                    {
                        continue;
                    }
                    checked => checked?,
                }
                self.is_checked.store(true, Ordering::Relaxed);
            }
            // After a lost reply the data shows whose write the node's `mzxid` belongs to. With the same data for all
            // calls, the session would return the `mzxid` of another call.
            let data = format!("{PURPOSE} {}", unique_writer(&self.session));
            match self.session.set(&self.path, data).await {
                Ok(stat) => return Ok(stat.mzxid),
                // The number of that write is skipped.
                Err(error) if error.is_outcome_unknown() && since.elapsed() < limit => {}
                Err(error) if error.is_no_node() && since.elapsed() < limit => {
                    self.is_checked.store(false, Ordering::Relaxed);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Creates the node if it does not exist, and checks that it is used for numbers.
    async fn check(&self) -> Result<(), ZxidError> {
        let path = &self.path;
        let found = match self.session.get(path).await {
            Err(error) if error.is_no_node() => {
                match self.session.create(path, PURPOSE).parents().await {
                    Ok(_) => return Ok(()),
                    // Another process was faster, or the reply was lost: read the data, once the server has it.
                    Err(error) if is_conflict(error.kind()) => {
                        self.session.sync(path).with_quorum().await?;
                    }
                    Err(error) => return Err(error.into()),
                }
                self.session.get(path).await
            }
            found => found,
        };
        let (data, _) = found?;
        // A node without data may be an operator's, for example to set its ACL.
        if data.is_empty() || data.starts_with(PURPOSE.as_bytes()) {
            return Ok(());
        }
        Err(ZxidError::SchemaMismatch {
            path: path.clone(),
            found: excerpt(&data),
        })
    }

    /// Returns the path of the node that is written.
    pub fn path(&self) -> &NodePath {
        &self.path
    }
}

/// The data of the node until it is written, and the beginning of its data afterwards.
const PURPOSE: &str = "zk-id zxids";
