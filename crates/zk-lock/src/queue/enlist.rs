//! Joining the queue.

use futures_util::future;
use zk_core::Create;
use zk_core::Error;
use zk_core::OwnedNode;
use zk_core::Sequence;

use super::Enlisted;
use super::Queue;
use crate::error::AcquireError;

impl Queue {
    /// Creates our node, with the parents it needs, and lists the queue as it is after that.
    ///
    /// The node is known by an id in its name before the request leaves, so that whatever becomes of the answer, of
    /// the connection or of this future, it is found again or removed.
    pub(crate) async fn enlist(&self) -> Result<Enlisted, AcquireError> {
        let standby = self.session.stand_by();
        // The second request leaves right behind the first one, and is carried out after it.
        let list = self.session.list(&self.path);
        let (created, listed) = future::join(self.create_node(), list.into_future()).await;
        let node = created?;
        let mut enlisted = Enlisted {
            node,
            children: listed
                .map(|(names, _)| self.counted(names))
                .unwrap_or_default(),
            _standby: standby,
        };
        if !enlisted.is_listed() {
            // The list was not carried out after the create: the parents were missing, or the connection broke and
            // one of the two was repeated.
            enlisted.children = self.list().await?;
        }
        Ok(enlisted)
    }

    /// Lists the queue again for one who joined it a while ago.
    pub(crate) async fn look_again(&self, enlisted: &mut Enlisted) -> Result<(), AcquireError> {
        enlisted.children = self.list().await?;
        Ok(())
    }

    /// Creates a node of ours, with the parents it needs.
    pub(crate) async fn create_node(&self) -> Result<OwnedNode, AcquireError> {
        let create = self.create().sequential().container_parents();
        let node = create.owned().await?;
        self.check_owner(&node)?;
        Ok(node)
    }

    /// Creates a node of ours that has the number of another one of ours, which exists.
    ///
    /// It is among the children from then on, at the place of the other one.
    pub(crate) async fn enlist_as(&self, number: Sequence) -> Result<OwnedNode, AcquireError> {
        let node = self.create().numbered(number).owned().await?;
        self.check_owner(&node)?;
        Ok(node)
    }

    /// What all nodes of ours have in common.
    fn create(&self) -> Create {
        let create = self
            .session
            .create(&self.stem_path, self.options.owner())
            .id_place(self.stem.id)
            .ephemeral();
        match self.options.acl() {
            Some(acl) => create.acl(acl.clone()),
            None => create,
        }
    }

    /// Lists the children, however long it takes.
    pub(crate) async fn list(&self) -> Result<Vec<String>, Error> {
        let listed = self
            .patiently(|| self.session.list(&self.path).into_future())
            .await;
        match listed {
            Ok((names, _)) => Ok(self.counted(names)),
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
