//! Enters a round: join it, wait until it is opened, or withdraw.

use tokio::time::Instant;
use zk_core::{Error, ErrorClass, ErrorKind, OwnedNode, Session, Watch, WatchEvent};

use super::leave::wait_for_end;
use super::nodes::RoundNodes;
use crate::decision::{EnterStep, Opening, RoundCount, enter_step};
use crate::error::EnterError;
use crate::wait::{PAUSE, bounded, lost, repeated};

/// What entering needs to know.
#[derive(Debug)]
pub(crate) struct RoundEntering<'a> {
    pub(crate) session: &'a Session,
    pub(crate) nodes: &'a RoundNodes,
    pub(crate) threshold: u32,
    pub(crate) description: &'a [u8],
    pub(crate) deadline: Option<Instant>,
}

/// A member that passed.
#[derive(Debug)]
pub(crate) struct RoundEntered {
    pub(crate) node: OwnedNode,
    /// The transaction that created the round.
    pub(crate) round: i64,
    pub(crate) opening: Opening,
}

/// The round, as its nodes show it.
struct RoundView {
    /// The transaction that created it.
    round: i64,
    count: RoundCount,
    state: RoundState,
}

enum RoundState {
    Opened(Opening),
    /// Not opened; the state is watched.
    Filling(Watch),
}

impl RoundView {
    fn opening(&self) -> Option<&Opening> {
        match &self.state {
            RoundState::Opened(opening) => Some(opening),
            RoundState::Filling(_) => None,
        }
    }
}

impl RoundEntering<'_> {
    pub(crate) async fn enter(&self) -> Result<RoundEntered, EnterError> {
        loop {
            let Some((node, view)) = self.join().await? else {
                match bounded(self.deadline, self.nodes.create(self.session)).await {
                    Some(created) => created?,
                    None => return Err(self.timed_out(0)),
                }
                continue;
            };
            if let Some(entered) = self.advance(node, view).await? {
                return Ok(entered);
            }
        }
    }

    /// Joins the round; returns `None` if there is none.
    async fn join(&self) -> Result<Option<(OwnedNode, RoundView)>, EnterError> {
        let create = self
            .session
            .create(self.nodes.member(), self.description)
            .ephemeral()
            .owned();
        let (node, view) = tokio::join!(create.into_future(), self.view());
        let node = match node {
            Ok(node) => node,
            Err(error) if error.is_no_node() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let view = match view {
            Ok(Some(view)) if view.round < node.stat().czxid => view,
            // Read before the round was created, when it was over, or not at all.
            Ok(_) | Err(_) => self.view_with(&node).await?,
        };
        Ok(Some((node, view)))
    }

    /// Takes one step after the other until the member passes; returns `None` if the round is over without it.
    async fn advance(
        &self,
        node: OwnedNode,
        mut view: RoundView,
    ) -> Result<Option<RoundEntered>, EnterError> {
        let own = node.stat().czxid;
        loop {
            let round = view.round;
            match enter_step(own, view.opening(), view.count, self.threshold) {
                EnterStep::Pass => {}
                EnterStep::Validate => {
                    let RoundState::Opened(opening) = &view.state else {
                        continue;
                    };
                    if !self.is_in_with(&node, &opening.opener).await? {
                        self.wait_for_next(node, view).await?;
                        return Ok(None);
                    }
                }
                EnterStep::Open { withdrawals } => {
                    self.open(&node, withdrawals).await?;
                    view = self.view_with(&node).await?;
                    continue;
                }
                EnterStep::ReadAgain => {
                    view = self.view_with(&node).await?;
                    continue;
                }
                EnterStep::Wait => {
                    let RoundState::Filling(watch) = &mut view.state else {
                        continue;
                    };
                    match bounded(self.deadline, watch.changed()).await {
                        Some(WatchEvent::SessionLost) => return Err(lost(&node).await),
                        Some(_) => match self.opening(&node, round).await? {
                            Some(opening) => view.state = RoundState::Opened(opening),
                            None => view = self.view_with(&node).await?,
                        },
                        None => {
                            let (node, opening) = self.withdraw(node, &view).await?;
                            return Ok(Some(RoundEntered {
                                node,
                                round,
                                opening,
                            }));
                        }
                    }
                    continue;
                }
            }
            let RoundState::Opened(opening) = view.state else {
                continue;
            };
            return Ok(Some(RoundEntered {
                node,
                round,
                opening,
            }));
        }
    }

    /// Reads the round; returns `None` if there is none.
    async fn view(&self) -> Result<Option<RoundView>, Error> {
        loop {
            let (round, state) = tokio::join!(
                self.session.exists(&self.nodes.round).into_future(),
                self.session.get(&self.nodes.state).watched().into_future()
            );
            let (Some(round), state) = (round?, state) else {
                return Ok(None);
            };
            let (data, stat, watch) = match state {
                Err(error) if error.is_no_node() => return Ok(None),
                state => state?,
            };
            if stat.czxid != round.czxid {
                // One transaction creates both. Each read is repeated by itself, and they show two rounds.
                self.session.pause(PAUSE).await;
                continue;
            }
            return Ok(Some(RoundView {
                round: round.czxid,
                count: RoundNodes::count(&round),
                state: match self.nodes.opening(&data, &stat) {
                    Some(opening) => RoundState::Opened(opening),
                    None => RoundState::Filling(watch),
                },
            }));
        }
    }

    /// Reads the round of a member.
    async fn view_with(&self, node: &OwnedNode) -> Result<RoundView, EnterError> {
        let read = || async {
            tokio::try_join!(self.session.exists(node.path()).into_future(), self.view())
        };
        match repeated(self.session, read).await? {
            // A round with a member cannot be deleted: in a later one the member is gone.
            (Some(own), Some(view)) if view.round < own.czxid => Ok(view),
            _ => Err(lost(node).await),
        }
    }

    /// Reads whether the round is open, and that the member is still in it.
    async fn opening(&self, node: &OwnedNode, round: i64) -> Result<Option<Opening>, EnterError> {
        let read = || async {
            let (own, state) = tokio::join!(
                self.session.exists(node.path()).into_future(),
                self.session.get(&self.nodes.state).into_future()
            );
            let is_member = own?.is_some();
            match state {
                Ok((_, stat)) if stat.czxid != round => Ok(None),
                Ok((data, stat)) => Ok(is_member.then(|| self.nodes.opening(&data, &stat))),
                Err(error) if error.is_no_node() => Ok(None),
                Err(error) => Err(error),
            }
        };
        match repeated(self.session, read).await? {
            Some(opening) => Ok(opening),
            None => Err(lost(node).await),
        }
    }

    /// Opens the round, or finds out by the refusal that the nodes have changed.
    async fn open(&self, node: &OwnedNode, withdrawals: i32) -> Result<(), EnterError> {
        let open = self.nodes.open(self.session, node.path(), withdrawals);
        match open.commit().await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::BadVersion => Ok(()),
            Err(error) if error.is_no_node() => Err(lost(node).await),
            // The state shows the outcome.
            Err(error) if error.class() == ErrorClass::Recoverable => {
                self.session.sync(&self.nodes.round).with_quorum().await?;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether the opener is in the round together with this member.
    async fn is_in_with(&self, node: &OwnedNode, opener: &str) -> Result<bool, EnterError> {
        let opener = self.nodes.member_named(opener);
        let both = || RoundNodes::validate(self.session, node.path(), &opener).commit();
        match repeated(self.session, both).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_no_node() && error.failed_part() == Some(0) => Ok(false),
            Err(error) if error.is_no_node() => Err(lost(node).await),
            Err(error) => Err(error.into()),
        }
    }

    /// Leaves a round that was opened without this member and whose opener is gone, and waits for the next one.
    async fn wait_for_next(&self, node: OwnedNode, view: RoundView) -> Result<(), EnterError> {
        node.delete().await?;
        let RoundState::Opened(opening) = &view.state else {
            return Ok(());
        };
        let ended = wait_for_end(self.session, self.nodes, view.round, None, &opening.opener);
        match bounded(self.deadline, ended).await {
            Some(ended) => Ok(ended?),
            None => Err(self.timed_out(0)),
        }
    }

    /// Withdraws from a round that is not open at the deadline. Returns the member if it is open after all.
    async fn withdraw(
        &self,
        node: OwnedNode,
        view: &RoundView,
    ) -> Result<(OwnedNode, Opening), EnterError> {
        let session = self.session;
        loop {
            let withdraw = self.nodes.withdraw(session, node.path());
            let Err(error) = withdraw.commit().await else {
                break;
            };
            match error.kind() {
                ErrorKind::BadVersion => {
                    if let Some(opening) = self.opening(&node, view.round).await? {
                        return Ok((node, opening));
                    }
                }
                ErrorKind::NoNode => return Err(lost(&node).await),
                _ if error.class() != ErrorClass::Recoverable => return Err(error.into()),
                _ => {
                    session.sync(&self.nodes.round).with_quorum().await?;
                    if session.exists(node.path()).await?.is_none() {
                        break;
                    }
                }
            }
        }
        node.keep();
        Err(self.timed_out(view.count.members))
    }

    fn timed_out(&self, members: u32) -> EnterError {
        EnterError::TimedOut {
            path: self.nodes.path.clone(),
            members,
            threshold: self.threshold,
        }
    }
}
