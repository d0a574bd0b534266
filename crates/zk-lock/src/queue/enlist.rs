//! Joins the queue: creates a contender's node and lists the queue.

use futures_util::future;
use zk_core::Create;
use zk_core::Error;
use zk_core::OwnedNode;

use super::Enlisted;
use super::Queue;
use crate::error::AcquireError;

impl Queue {
    /// Creates our node, with missing parents, and lists the queue behind it.
    ///
    /// The name contains an id that is chosen before the request leaves. By it the node is found again, or removed, if
    /// the reply is lost, the connection breaks or this future is dropped.
    pub(crate) async fn enlist(&self) -> Result<Enlisted, AcquireError> {
        let standby = self.session.stand_by();
        // The list leaves directly behind the create, and servers execute them in this order.
        let list = self.session.list(&self.path);
        let (created, listed) = future::join(self.create_node(), list.into_future()).await;
        let mut enlisted = Enlisted {
            node: created?,
            children: listed
                .map(|(names, _)| self.without_ignored(names))
                .unwrap_or_default(),
            _standby: standby,
        };
        if !enlisted.is_listed() {
            // The list was not executed after the create: the parents were missing, or the connection broke
            // and one of the two requests was repeated.
            self.relist(&mut enlisted).await?;
        }
        Ok(enlisted)
    }

    /// Creates one of our nodes, with missing parents. The server numbers it.
    pub(crate) async fn create_node(&self) -> Result<OwnedNode, Error> {
        let create = self.start_create().sequential().container_parents();
        create.owned().await
    }

    /// Creates one of our nodes with the number of another one of ours, which exists.
    ///
    /// From then on it is a child of the queue, at the position of the other node.
    pub(crate) async fn create_with_number_of(
        &self,
        name: &str,
    ) -> Result<OwnedNode, AcquireError> {
        let number = self.layout().sequence_of(name);
        let number = number.expect("the name of a granted node has a number");
        Ok(self.start_create().numbered(number).owned().await?)
    }

    /// Starts a create with the settings that all our nodes share.
    fn start_create(&self) -> Create {
        let create = self
            .session
            .create(&self.prefix_path, self.options.owner())
            .id_place(self.id_place)
            .ephemeral();
        match self.acl() {
            Some(acl) => create.acl(acl.clone()),
            None => create,
        }
    }
}
