//! Joins the queue of an election and waits for the leadership, for latches and selectors.

use std::time::Duration;

use zk_core::{Acl, Error, ErrorClass, ErrorKind, IntoNodePath, NodePath, ParsePathError, Session};
use zk_lock::{AcquireError, Contender, FairLock, FencingToken, Guard, Inspector, Layout};

use crate::error::{LeadershipLoss, ParticipantEnd};
use crate::options::{ElectionOptions, Rejoin};
use crate::participant::Participant;
use crate::state::{ParticipantState, SharedState};
use crate::step_down::Inbox;

/// An election, and the settings of its participant.
#[derive(Debug, Clone)]
pub(crate) struct Election {
    lock: FairLock,
    rejoin: Rejoin,
    grace: Duration,
    acl: Option<Acl>,
    inbox: Inbox,
}

impl Election {
    pub(crate) fn new(
        session: &Session,
        path: impl IntoNodePath,
        options: &ElectionOptions,
        layout: Layout,
    ) -> Result<Self, ParsePathError> {
        let path = path.into_node_path()?;
        Ok(Self {
            inbox: Inbox::new(&path, options.acl(), options.step_down())?,
            lock: FairLock::with_options(session, path, options.for_lock(layout))?,
            rejoin: options.rejoin(),
            grace: options.grace(),
            acl: options.acl().cloned(),
        })
    }

    pub(crate) fn path(&self) -> &NodePath {
        self.lock.path()
    }

    pub(crate) fn session(&self) -> &Session {
        self.lock.session()
    }

    pub(crate) const fn grace(&self) -> Duration {
        self.grace
    }

    pub(crate) const fn acl(&self) -> Option<&Acl> {
        self.acl.as_ref()
    }

    /// Waits for the leadership. Joins as often as that takes.
    ///
    /// Each attempt has its own future and its own node, and ends before the next attempt begins, so that a late reply
    /// to an earlier attempt cannot affect a later one.
    /// A new attempt begins only when the current one has failed or lost its node. Actions of other participants, such
    /// as a reset, never make a participant give up its place.
    pub(crate) async fn win(&self, shared: &SharedState) -> Result<Guard, ParticipantEnd> {
        let mut pause = MIN_PAUSE;
        loop {
            let error = match self.attempt(shared).await {
                Ok(guard) => return Ok(guard),
                Err(error) => error,
            };
            match error {
                AcquireError::SessionLost { .. } => return Err(ParticipantEnd::SessionLost),
                AcquireError::NodeDeleted { path } if self.rejoin == Rejoin::Never => {
                    return Err(ParticipantEnd::NodeDeleted { path });
                }
                AcquireError::NodeDeleted { .. } => pause = MIN_PAUSE,
                // Perhaps offline: it joins as soon as there is a connection.
                _ if is_retryable(&error) => {}
                _ => return Err(ParticipantEnd::Refused(error)),
            }
            tracing::warn!(path = %self.path(), %error, "a participant is not in the queue, joining again");
            shared.set(ParticipantState::Joining { error: Some(error) });
            // The next attempt reports a lost session.
            self.session().pause(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    async fn attempt(&self, shared: &SharedState) -> Result<Guard, AcquireError> {
        let waiter = self.lock.enlist().await?;
        let token = waiter.fencing_token();
        shared.set(ParticipantState::Waiting { token });
        // A waiter of a lock would notice the deletion of its node only at its next wake-up. A participant may wait for
        // days, and must not report meanwhile that it is in the queue.
        let lost = waiter.lost();
        tokio::select! {
            biased;
            granted = waiter.granted() => granted,
            error = lost => Err(error),
        }
    }

    /// Returns the end of the participant, if it does not join again after this loss.
    pub(crate) fn end_after(
        &self,
        loss: LeadershipLoss,
        shared: &SharedState,
    ) -> Option<ParticipantEnd> {
        match (loss, self.rejoin) {
            (LeadershipLoss::SessionLost, _) => Some(ParticipantEnd::SessionLost),
            _ if shared.is_leaving() => Some(ParticipantEnd::Left),
            (_, Rejoin::Always) => None,
            (loss, Rejoin::Never) => Some(ParticipantEnd::LeadershipLost(loss)),
        }
    }

    pub(crate) async fn participants(&self) -> Result<Vec<Participant>, Error> {
        let contenders = self
            .lock
            .inspector()
            .contenders()
            .await?
            .into_iter()
            .enumerate();
        Ok(contenders
            .map(|(position, contender)| Participant::new(contender, position == 0))
            .collect())
    }

    /// Returns a handle to the inboxes of leaders.
    pub(crate) fn inboxes(&self) -> Inspector {
        self.inbox.inspector(self.session())
    }

    /// Returns the inbox of this participant while it leads.
    pub(crate) const fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    pub(crate) async fn first(&self) -> Result<Option<Contender>, Error> {
        self.lock.inspector().first_contender().await
    }

    pub(crate) async fn leader(&self) -> Result<Option<Participant>, Error> {
        let first = self.first().await?;
        Ok(first.map(|contender| Participant::new(contender, true)))
    }

    pub(crate) async fn leader_after(
        &self,
        before: Option<FencingToken>,
    ) -> Result<Participant, Error> {
        loop {
            let mut watch = match self.leader().await? {
                Some(leader) if Some(leader.fencing_token()) > before => return Ok(leader),
                Some(leader) => {
                    // Wakes when this leader's node is deleted, not when others join.
                    let path = self.child(leader.node_name());
                    match self.session().get(path).watched().await {
                        Ok((_, _, watch)) => watch,
                        Err(error) if error.is_no_node() => continue,
                        Err(error) => return Err(error),
                    }
                }
                None => match self.session().list(self.path()).watched().await {
                    Ok((_, _, watch)) => {
                        // A participant may have joined before the watch was set.
                        if self.leader().await?.is_some() {
                            continue;
                        }
                        watch
                    }
                    Err(error) if error.is_no_node() => {
                        match self.session().exists(self.path()).watched().await? {
                            (None, watch) => watch,
                            (Some(_), _) => continue,
                        }
                    }
                    Err(error) => return Err(error),
                },
            };
            // The next read shows what changed, or that the session is over.
            let _: zk_core::WatchEvent = watch.changed().await;
        }
    }

    pub(crate) fn child(&self, name: &str) -> String {
        let base = self.path();
        if base.is_root() {
            format!("/{name}")
        } else {
            format!("{base}/{name}")
        }
    }
}

/// Returns whether another attempt may succeed without intervention.
fn is_retryable(error: &AcquireError) -> bool {
    let AcquireError::Failed(error) = error else {
        return error.class() == ErrorClass::Recoverable;
    };
    // A server without a quorum refuses writes, and the servers may delete the parent container repeatedly.
    let is_temporary = matches!(error.kind(), ErrorKind::ReadOnlyServer | ErrorKind::NoNode);
    is_temporary || error.class() == ErrorClass::Recoverable
}

const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);
