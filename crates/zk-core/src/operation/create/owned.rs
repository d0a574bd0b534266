//! Nodes that go when their handle does.

use std::time::Duration;

use super::Create;
use crate::engine::cleanup::Job;
use crate::error::Error;
use crate::operation::OperationFuture;
use crate::path::NodePath;
use crate::session::Session;
use crate::stat::Stat;

/// Creates a node and answers a handle that removes it; made by [`Create::owned`].
///
/// # Errors
///
/// As [`Create`] has them.
///
/// # Cancel safety
///
/// Safe: what was made, or will be by a request that has left, is removed in the background.
///
/// # Session loss
///
/// A fatal error.
///
/// # Cost
///
/// As [`Create`] has it.
#[derive(Debug, Clone)]
#[must_use = "nothing is created until it is awaited"]
pub struct CreateOwned {
    create: Create,
}

impl CreateOwned {
    pub(super) fn new(create: Create) -> Self {
        Self { create }
    }

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
        let session = self.create.target.session().clone();
        let is_ephemeral = self.create.options.ephemeral;
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

/// A node that goes when this handle does.
///
/// # Dropping
///
/// If there is a connection, the request to remove the node has been sent when the drop is over, and what this session
/// asks for later is carried out after it.
/// (A [claimed](Create::claimed) node is looked at first, since another one may have taken its place.)
/// The session's own task goes on with it: as soon as there is a connection, again and again until the server has said
/// so or the session is over.
/// [`Session::settled`] and [`Session::close`] wait for that, [`Session::settled_at`] for the nodes of one parent.
/// A drop never blocks, and needs no runtime.
#[derive(Debug)]
#[must_use = "the node is removed when this is dropped"]
pub struct OwnedNode {
    session: Session,
    path: NodePath,
    stat: Stat,
    is_ephemeral: bool,
    /// Whether nobody else uses its name.
    is_unique: bool,
    is_there: bool,
}

impl OwnedNode {
    /// Makes a handle of an ephemeral node under a name that others use, too.
    pub(super) fn claimed(session: Session, path: NodePath, stat: Stat) -> Self {
        Self {
            session,
            path,
            stat,
            is_ephemeral: true,
            is_unique: false,
            is_there: true,
        }
    }

    /// Returns the path of the node, below the namespace of the view that made it.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Returns the stat of the node when it was made.
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Returns the view of the session that made the node.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns whether nobody else uses the name of the node, so that whatever is found under it is this node.
    ///
    /// It is so of a node made with [`owned`](Create::owned), and not of one made with [`claimed`](Create::claimed).
    pub fn is_unique(&self) -> bool {
        self.is_unique
    }

    /// Removes the node and waits until the server has done it, at most for the operation timeout.
    ///
    /// That somebody else has removed it is no error.
    ///
    /// # Errors
    ///
    /// [`Delete`](crate::Delete) has them; but the removal then continues in the background, while the session lives.
    ///
    /// # Cancel safety
    ///
    /// Safe: the removal continues in the background.
    ///
    /// # Session loss
    ///
    /// A fatal error; an ephemeral node goes with its session.
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

    /// Lets the node stay.
    pub fn keep(mut self) -> (NodePath, Stat) {
        self.is_there = false;
        (self.path.clone(), self.stat)
    }
}

impl Drop for OwnedNode {
    fn drop(&mut self) {
        if self.is_there {
            let path = self.session.view().wire(&self.path);
            let is_ephemeral = self.is_ephemeral;
            self.session.engine().clean_up(if self.is_unique {
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
