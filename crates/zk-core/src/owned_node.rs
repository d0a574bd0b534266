//! Nodes that are removed when their handle is dropped.

use std::time::Duration;

use zk_wire::{NodePath, Stat};

use crate::engine::cleanup::Job;
use crate::error::{Error, ErrorClass, ErrorKind, Operation};
use crate::operation::{Create, OperationFuture};
use crate::session::Session;

impl Create {
    /// Like [`protected`](Self::protected), and returns a handle that removes the node when it is dropped.
    pub fn owned(self) -> CreateOwned {
        CreateOwned {
            create: self.protected(),
        }
    }

    /// Creates an ephemeral node under the given name and returns a handle that removes it, or `None` if another node
    /// exists there.
    ///
    /// The data must be different for each call of this session with the same path: if a reply is lost, only the data
    /// shows which call created the node.
    pub fn claimed(self) -> CreateClaimed {
        CreateClaimed {
            create: self.ephemeral(),
        }
    }
}

/// Creates a node and returns a handle that removes it; created by [`Create::owned`].
///
/// # Errors
///
/// Those of [`Create`], which costs the same.
#[derive(Debug, Clone)]
#[must_use = "nothing is created until it is awaited"]
pub struct CreateOwned {
    create: Create,
}

impl CreateOwned {
    /// Bounds the whole call; the default is the operation timeout of the session's view.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.create = self.create.timeout(timeout);
        self
    }
}

impl IntoFuture for CreateOwned {
    type Output = Result<OwnedNode, Error>;
    type IntoFuture = OperationFuture<OwnedNode>;

    fn into_future(self) -> Self::IntoFuture {
        let session = Session::new(self.create.session().clone());
        let is_ephemeral = self.create.is_ephemeral();
        let create = self.create.into_future();
        Box::pin(async move {
            let (path, stat) = create.await?;
            Ok(OwnedNode {
                session,
                path,
                stat,
                is_ephemeral,
                is_unique: true,
                is_there: true,
            })
        })
    }
}

/// Creates an ephemeral node unless one exists, and returns a handle that removes it; created by [`Create::claimed`].
///
/// # Errors
///
/// Those of [`Create`], which costs the same, except [`NodeExists`](ErrorKind::NodeExists), which is no error here.
///
/// # Cancel safety
///
/// Safe: a node that was created, or will be by a request in flight, is removed in the background. A node of another
/// client is not.
#[derive(Debug, Clone)]
#[must_use = "nothing is created until it is awaited"]
pub struct CreateClaimed {
    create: Create,
}

impl CreateClaimed {
    /// Bounds the whole call; the default is the operation timeout of the session's view.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.create = self.create.timeout(timeout);
        self
    }
}

impl IntoFuture for CreateClaimed {
    type Output = Result<Option<OwnedNode>, Error>;
    type IntoFuture = OperationFuture<Option<OwnedNode>>;

    fn into_future(self) -> Self::IntoFuture {
        let session = Session::new(self.create.session().clone());
        let claim = self.create.claim();
        Box::pin(async move {
            let claimed = claim.await?;
            Ok(claimed.map(|(path, stat)| OwnedNode {
                session,
                path,
                stat,
                is_ephemeral: true,
                is_unique: false,
                is_there: true,
            }))
        })
    }
}

/// A node that is removed when this handle is dropped.
///
/// # Dropping
///
/// If there is a connection, the request to remove the node has been sent when the drop returns, and the ensemble
/// executes later requests of this session after it.
/// (A [claimed](Create::claimed) node is read first, because another one may have replaced it.)
/// A background task of the session repeats the removal whenever there is a connection, until the server has confirmed
/// it or the session is over.
/// [`Session::settled`] and [`Session::close`] wait for this, [`Session::settled_at`] for the nodes of one parent.
/// A drop never blocks and needs no runtime.
#[derive(Debug)]
#[must_use = "the node is removed when this is dropped"]
pub struct OwnedNode {
    session: Session,
    path: NodePath,
    stat: Stat,
    is_ephemeral: bool,
    /// Whether its name is unique.
    is_unique: bool,
    is_there: bool,
}

impl OwnedNode {
    /// Returns the path of the node, below the namespace of the view that made it.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Returns the stat of the node when it was created.
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Returns the view of the session that made the node.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns whether the name of the node is unique, so that any node with this name is this node.
    ///
    /// This is true for nodes created with [`owned`](Create::owned) and false for those created with
    /// [`claimed`](Create::claimed).
    pub fn is_unique(&self) -> bool {
        self.is_unique
    }

    /// Removes the node and waits for the server's reply, at most for the operation timeout.
    ///
    /// It is no error if another client has removed the node.
    ///
    /// # Errors
    ///
    /// Those of [`Delete`](crate::Delete). The removal then continues in the background while the session is alive.
    pub async fn delete(mut self) -> Result<(), Error> {
        // Dropped at any point of this, it removes the node itself.
        let mut delete = self.session.delete(&self.path);
        if !self.is_unique {
            delete = delete.created_by(self.stat.czxid);
        }
        match delete.await {
            Err(error) if !error.is_no_node() => Err(error),
            _ => {
                self.is_there = false;
                Ok(())
            }
        }
    }

    /// Replaces the node with another one, in one transaction: the ensemble deletes this node and creates the other one, or
    /// does neither.
    ///
    /// The new node has a unique name, as with [`owned`](Create::owned). It may be sequential and have another parent,
    /// which must exist.
    /// If the reply is lost, the unique name shows whether the transaction was committed. It is repeated if it was not;
    /// at most one of all attempts is committed, since each deletes the node.
    ///
    /// # Errors
    ///
    /// - [`ReplaceError::NotReplaced`] if the server refused the transaction, with the path of the node that it is about,
    ///   or if there was no connection until the deadline of `with`. The error has this node.
    /// - [`ReplaceError::Unknown`] if no reply arrived by the deadline.
    ///
    /// # Cancel safety
    ///
    /// Safe: both nodes are removed in the background, if they exist or a request in flight will create them.
    ///
    /// # Cost
    ///
    /// One round trip; two with servers before 3.8.1, which do not report the stat of the new node.
    pub async fn replace_with(mut self, with: Create) -> Result<Self, ReplaceError> {
        let session = Session::new(with.session().clone());
        let is_ephemeral = with.is_ephemeral();
        if !self.is_unique {
            let source = Error::new(
                Operation::Create,
                Some(&self.path),
                ErrorKind::InvalidArgument,
            )
            .detail("only a node with a unique name can be replaced");
            return Err(ReplaceError::NotReplaced { node: self, source });
        }
        let old = self.session.handle().defaults().wire(&self.path);
        match with.replacing(old).await {
            Ok((path, stat)) => {
                self.is_there = false;
                Ok(Self {
                    session,
                    path,
                    stat,
                    is_ephemeral,
                    is_unique: true,
                    is_there: true,
                })
            }
            Err(source) if source.is_outcome_unknown() => Err(ReplaceError::Unknown { source }),
            Err(source) => {
                let source = match source.failed_part() {
                    Some(0) => source.about(Operation::Delete, &self.path, "the node to replace"),
                    _ => source,
                };
                Err(ReplaceError::NotReplaced { node: self, source })
            }
        }
    }

    /// Lets the node stay.
    pub fn keep(mut self) -> (NodePath, Stat) {
        self.is_there = false;
        (self.path.clone(), self.stat)
    }
}

/// A node was not replaced, or the outcome is unknown; returned by [`OwnedNode::replace_with`].
#[derive(Debug, thiserror::Error)]
#[expect(
    clippy::exhaustive_enums,
    reason = "callers decide differently for each of these"
)]
pub enum ReplaceError {
    /// Nothing was changed.
    ///
    /// If the source is [`NoNode`](ErrorKind::NoNode) and its [path](Error::path) is that of the node, another client
    /// has deleted the node.
    #[error("node {} was not replaced", node.path())]
    NotReplaced {
        /// The node, as before.
        node: OwnedNode,
        /// Why.
        source: Error,
    },
    /// The node may have been replaced. Both nodes are removed in the background.
    #[error("a node may have been replaced; both nodes are removed in the background")]
    Unknown {
        /// Why the outcome is unknown.
        source: Error,
    },
}

impl ReplaceError {
    /// Returns the class of the error: what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NotReplaced { source, .. } | Self::Unknown { source } => source.class(),
        }
    }
}

impl Drop for OwnedNode {
    fn drop(&mut self) {
        if self.is_there {
            let session = self.session.handle();
            let path = session.defaults().wire(&self.path);
            let is_ephemeral = self.is_ephemeral;
            session.cleanup().add(if self.is_unique {
                Job::Unique { path, is_ephemeral }
            } else {
                Job::Exact {
                    path,
                    czxid: self.stat.czxid,
                    version: None,
                    is_ephemeral,
                }
            });
        }
    }
}
