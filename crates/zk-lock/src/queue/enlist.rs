//! Joins the queue: creates a contender's node and lists the queue.

use std::time::Duration;

use futures_util::future;
use zk_core::{Create, Error, OwnedNode, ReplaceError};

use super::uncontended::{LastTurn, PathWatch};
use super::{Enlisted, Queue};
use crate::error::AcquireError;
use crate::order;

impl Queue {
    /// Creates our node, with missing parents, and lists the queue behind it, unless it is known to be empty.
    ///
    /// The name contains an id that is chosen before the request leaves. By it the node is found again, or removed, if
    /// the reply is lost, the connection breaks or this future is dropped.
    pub(crate) async fn enlist(&self) -> Result<Enlisted, AcquireError> {
        let standby = self.session.stand_by();
        let last_turn = self.take_last_turn();
        let last = last_turn.number();
        let mut path_watch = None;
        let (node, listed) = match last_turn {
            LastTurn::Watched(..) => (self.create_node().await?, None),
            LastTurn::Successive(_) => {
                let (node, listed, watch) = self.create_list_and_watch().await?;
                path_watch = watch;
                (node, listed)
            }
            LastTurn::Unknown | LastTurn::Alone(_) => self.create_and_list().await?,
        };
        let mut enlisted = Enlisted {
            node,
            children: listed.unwrap_or_default(),
            turn: None,
            _standby: standby,
        };
        let number = self.layout().sequence_of(enlisted.name());
        if let Some(number) = number
            && let Some(watch) = self.is_alone_after(last_turn, number)
        {
            path_watch = Some(watch);
            enlisted.children = vec![enlisted.name().to_owned()];
        } else {
            // The list may not have been executed after the create: the parents were missing, the connection broke and
            // one of the two requests was repeated, or the queue is not as empty as it may have been.
            self.list_with(&mut enlisted).await?;
        }
        if let Some(number) = number
            && order::is_alone(&enlisted.children, enlisted.name(), self.layout())
        {
            enlisted.turn = self.begin_turn(last, number, path_watch);
        }
        Ok(enlisted)
    }

    /// Replaces our node by one at the end of the queue, in one transaction, and lists the queue behind it. The caller
    /// has to make sure that the list [has our node](Self::list_with).
    ///
    /// The transaction is given up after `limit`.
    pub(crate) async fn rejoin(
        &self,
        node: OwnedNode,
        limit: Duration,
    ) -> Result<Enlisted, ReplaceError> {
        let standby = self.session.stand_by();
        let create = self.start_create().sequential().timeout(limit);
        // They leave together, as those of an enlisting contender do.
        let list = self.session.list(&self.path).timeout(limit);
        let (replaced, listed) = future::join(node.replace_with(create), list.into_future()).await;
        let listed = listed.ok().map(|(names, _)| self.without_ignored(names));
        Ok(Enlisted {
            node: replaced?,
            children: listed.unwrap_or_default(),
            turn: None,
            _standby: standby,
        })
    }

    /// Lists the queue again if the last list does not have our node.
    pub(crate) async fn list_with(&self, enlisted: &mut Enlisted) -> Result<(), Error> {
        if enlisted.is_listed() {
            return Ok(());
        }
        self.relist(enlisted).await
    }

    /// Creates our node, and lists the queue behind it.
    async fn create_and_list(&self) -> Result<(OwnedNode, Option<Vec<String>>), AcquireError> {
        // The list leaves directly behind the create, and servers execute them in this order.
        let list = self.session.list(&self.path);
        let (created, listed) = future::join(self.create_node(), list.into_future()).await;
        let listed = listed.ok().map(|(names, _)| self.without_ignored(names));
        Ok((created?, listed))
    }

    /// Creates our node, lists the queue behind it, and watches the path of the queue, in which the node is then.
    async fn create_list_and_watch(
        &self,
    ) -> Result<(OwnedNode, Option<Vec<String>>, Option<PathWatch>), AcquireError> {
        let (created, watch) = future::join(self.create_and_list(), self.watch_path()).await;
        let (node, listed) = created?;
        Ok((node, listed, watch))
    }

    /// Creates one of our nodes, with missing parents. The server numbers it.
    pub(crate) async fn create_node(&self) -> Result<OwnedNode, Error> {
        let create = self.start_create().sequential();
        let create = if self.layout().has_persistent_path() {
            create.parents()
        } else {
            create.container_parents()
        };
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
