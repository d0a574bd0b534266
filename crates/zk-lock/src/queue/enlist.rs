//! Joining the queue.

use futures_util::future;
use zk_core::Error;
use zk_core::OwnedNode;

use super::Enlisted;
use super::Queue;
use crate::error::AcquireError;

impl Queue {
    /// Creates our node, with the parents it needs, and lists the queue as it is after that.
    ///
    /// The node is known by an id in its name before the request leaves, so that whatever becomes of the answer, of
    /// the connection or of this future, it is found again or removed.
    pub(crate) async fn enlist(&self) -> Result<Enlisted, AcquireError> {
        let mut create = self
            .session
            .create(&self.stem, self.options.owner())
            .ephemeral()
            .sequential()
            .container_parents();
        if let Some(acl) = self.options.acl() {
            create = create.acl(acl.clone());
        }
        // The second request leaves right behind the first one, and is carried out after it.
        let list = self.session.list(&self.path);
        let (created, listed) =
            future::join(create.owned().into_future(), list.into_future()).await;
        let node = created?;
        self.check_owner(&node)?;
        let mut enlisted = Enlisted {
            node,
            children: listed.map(|(names, _)| names).unwrap_or_default(),
        };
        if !enlisted.is_listed() {
            // The list was not carried out after the create: the parents were missing, or the connection broke and
            // one of the two was repeated.
            enlisted.children = self.list().await?;
        }
        Ok(enlisted)
    }

    /// Lists the children, however long it takes.
    pub(super) async fn list(&self) -> Result<Vec<String>, Error> {
        let listed = self
            .patiently(|| self.session.list(&self.path).into_future())
            .await;
        match listed {
            Ok((names, _)) => Ok(names),
            // Then our node is gone, too, and so is everyone else's.
            Err(error) if error.is_no_node() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// A node that belongs to another session, even to an earlier one of this process, may vanish any moment.
    fn check_owner(&self, node: &OwnedNode) -> Result<(), AcquireError> {
        if node.stat().ephemeral_owner == Some(self.session.id()) {
            Ok(())
        } else {
            Err(AcquireError::NodeLost {
                path: node.path().clone(),
            })
        }
    }
}

impl Enlisted {
    fn is_listed(&self) -> bool {
        self.children.iter().any(|child| child == self.name())
    }
}
