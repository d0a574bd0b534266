//! Enters a round in the layout of the recipe: join it, and wait until `ready` is created.

use tokio::time::Instant;
use zk_core::{Error, ErrorClass, OwnedNode, Session, Stat, Watch, WatchEvent};

use super::RecipeNodes;
use crate::decision::{EnterStep, RoundCount, enter_step};
use crate::error::EnterError;
use crate::wait::{bounded, lost, repeated, wait_until_gone};

/// What entering needs to know.
#[derive(Debug)]
pub(crate) struct RecipeEntering<'a> {
    pub(crate) session: &'a Session,
    pub(crate) nodes: &'a RecipeNodes,
    pub(crate) threshold: u32,
    pub(crate) description: &'a [u8],
    pub(crate) deadline: Option<Instant>,
}

/// A member that passed.
#[derive(Debug)]
pub(crate) struct RecipeEntered {
    pub(crate) node: OwnedNode,
    /// The transaction that opened the round, unless another client has removed `ready` already.
    pub(crate) ready: Option<i64>,
}

/// The barrier, as its nodes show it.
struct RecipeView {
    ready: Option<Stat>,
    watch: Watch,
    count: RoundCount,
}

impl RecipeEntering<'_> {
    pub(crate) async fn enter(&self) -> Result<RecipeEntered, EnterError> {
        loop {
            let create = self
                .session
                .create(self.nodes.member(), self.description)
                .ephemeral()
                // kazoo creates the path once, and its `enter` returns as if it had passed when a container is gone later.
                .parents()
                .owned();
            let (node, view) = tokio::join!(create.into_future(), self.view());
            let node = node?;
            let view = match view {
                Ok(view) => view,
                Err(_) => self.view_with(&node).await?,
            };
            if let Some(entered) = self.advance(node, view).await? {
                return Ok(entered);
            }
        }
    }

    /// Takes one step after the other until the member passes; returns `None` if the round is over without it.
    async fn advance(
        &self,
        node: OwnedNode,
        mut view: RecipeView,
    ) -> Result<Option<RecipeEntered>, EnterError> {
        let own = node.stat().czxid;
        loop {
            let opening = view.ready.as_ref().map(RecipeNodes::opening);
            let ready = view.ready.map(|ready| ready.czxid);
            match enter_step(own, opening.as_ref(), view.count, self.threshold) {
                EnterStep::Pass => return Ok(Some(RecipeEntered { node, ready })),
                EnterStep::Validate => {
                    let ready = ready.unwrap_or_default();
                    if self.is_in_with_an_earlier_one(&node, ready).await? {
                        let ready = Some(ready);
                        return Ok(Some(RecipeEntered { node, ready }));
                    }
                    self.wait_for_next(node, ready).await?;
                    return Ok(None);
                }
                EnterStep::Open { .. } => {
                    let is_open = self.open(&node).await?;
                    view = self.view_with(&node).await?;
                    if is_open && view.ready.is_none() {
                        // Another client has already removed it.
                        return Ok(Some(RecipeEntered { node, ready: None }));
                    }
                }
                EnterStep::ReadAgain => view = self.view_with(&node).await?,
                EnterStep::Wait => match bounded(self.deadline, view.watch.changed()).await {
                    Some(WatchEvent::SessionLost) => return Err(lost(&node).await),
                    // B2: no other event lets it pass.
                    Some(WatchEvent::Created) => {
                        view = self.view_with(&node).await?;
                        if view.ready.is_none() {
                            return Ok(Some(RecipeEntered { node, ready: None }));
                        }
                    }
                    Some(_) => view = self.view_with(&node).await?,
                    None => {
                        node.delete().await?;
                        return Err(self.timed_out(view.count.members));
                    }
                },
            }
        }
    }

    /// Reads `ready`, which it watches, and how many members there are.
    async fn view(&self) -> Result<RecipeView, Error> {
        let (ready, path) = tokio::join!(
            self.session
                .exists(&self.nodes.ready)
                .watched()
                .into_future(),
            self.session.exists(&self.nodes.path).into_future()
        );
        let ((ready, watch), path) = (ready?, path?.unwrap_or_default());
        Ok(RecipeView {
            count: RoundCount {
                changed: path.pzxid,
                members: path.num_children - u32::from(ready.is_some() && path.num_children > 0),
                withdrawals: 0,
            },
            ready,
            watch,
        })
    }

    /// Reads the same for a member, which has to be there.
    async fn view_with(&self, node: &OwnedNode) -> Result<RecipeView, EnterError> {
        let read = || async {
            tokio::try_join!(self.session.exists(node.path()).into_future(), self.view())
        };
        match repeated(self.session, read).await? {
            (Some(_), view) => Ok(view),
            (None, _) => Err(lost(node).await),
        }
    }

    /// Creates `ready`. Returns whether it is or was there.
    async fn open(&self, node: &OwnedNode) -> Result<bool, EnterError> {
        let open = self.session.transaction().check(node.path());
        match open.create(&self.nodes.ready, "").commit().await {
            Ok(_) => Ok(true),
            Err(error) if error.is_node_exists() => Ok(true),
            Err(error) if error.is_no_node() => Err(lost(node).await),
            Err(error) if error.class() == ErrorClass::Recoverable => {
                self.session.sync(&self.nodes.path).with_quorum().await?;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether a member that came before the round was opened is in it together with this one.
    async fn is_in_with_an_earlier_one(
        &self,
        node: &OwnedNode,
        ready: i64,
    ) -> Result<bool, EnterError> {
        let session = self.session;
        let listed = repeated(session, || session.list(&self.nodes.path).into_future());
        let (names, _) = listed.await?;
        for name in RecipeNodes::members(names) {
            let path = self.nodes.member_named(&name);
            let stat = repeated(session, || session.exists(&path).into_future());
            if stat.await?.is_none_or(|stat| stat.czxid >= ready) {
                continue;
            }
            let both = || {
                let other = session.transaction().check(&path);
                other.check(node.path()).commit()
            };
            match repeated(session, both).await {
                Ok(_) => return Ok(true),
                Err(error) if error.is_no_node() && error.failed_part() == Some(0) => {}
                Err(error) if error.is_no_node() => return Err(lost(node).await),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// Leaves a round that was opened without this member and whose members of the beginning are all gone, and waits
    /// until `ready` is removed; removes it if no member is left to do so.
    async fn wait_for_next(&self, node: OwnedNode, ready: i64) -> Result<(), EnterError> {
        node.delete().await?;
        let session = self.session;
        let removed = async {
            loop {
                let found = repeated(session, || session.exists(&self.nodes.ready).into_future());
                if found.await?.is_none_or(|stat| stat.czxid != ready) {
                    return Ok(());
                }
                let listed = repeated(session, || session.list(&self.nodes.path).into_future());
                let members = match listed.await {
                    Ok((names, _)) => RecipeNodes::members(names),
                    Err(error) if error.is_no_node() => return Ok(()),
                    Err(error) => return Err(error),
                };
                if let Some(lowest) = members.iter().min() {
                    wait_until_gone(session, &self.nodes.member_named(lowest)).await?;
                    continue;
                }
                let delete = session.delete(&self.nodes.ready).created_by(ready);
                return match delete.await {
                    Err(error) if !error.is_no_node() => Err(error),
                    _ => Ok(()),
                };
            }
        };
        match bounded(self.deadline, removed).await {
            Some(removed) => Ok(removed?),
            None => Err(self.timed_out(0)),
        }
    }

    fn timed_out(&self, members: u32) -> EnterError {
        EnterError::TimedOut {
            path: self.nodes.path.clone(),
            members,
            threshold: self.threshold,
        }
    }
}
