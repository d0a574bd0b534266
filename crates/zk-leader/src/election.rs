//! Getting in line, and leading when it is one's turn: what the latch and the selector share.

use std::time::Duration;

use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Session;
use zk_lock::AcquireError;
use zk_lock::FairLock;
use zk_lock::FencingToken;
use zk_lock::Guard;
use zk_lock::Layout;

use crate::error::End;
use crate::error::Loss;
use crate::options::ElectionOptions;
use crate::options::Rejoin;
use crate::participant::Participant;
use crate::state::Standing;
use crate::state::State;

/// An election, and how to take part in it.
#[derive(Debug, Clone)]
pub(crate) struct Election {
    lock: FairLock,
    rejoin: Rejoin,
    grace: Duration,
}

impl Election {
    pub(crate) fn new<P>(
        session: &Session,
        path: P,
        options: &ElectionOptions,
        layout: Layout,
    ) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Ok(Self {
            lock: FairLock::with_options(session, path, options.for_lock(layout))?,
            rejoin: options.rejoin(),
            grace: options.grace(),
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

    /// Waits in line until it is our turn, joining as often as that takes.
    ///
    /// Each attempt is a future of its own with a node of its own, and is gone before the next one begins, so that no
    /// answer to an old one can be taken for an answer to a new one.
    /// A new attempt begins only when the old one has failed or lost its node: nothing that others do, such as resetting
    /// themselves, makes anybody give up a place.
    pub(crate) async fn win(&self, standing: &Standing) -> Result<Guard, End> {
        let mut pause = SHORTEST_PAUSE;
        loop {
            let error = match self.attempt(standing).await {
                Ok(guard) => return Ok(guard),
                Err(error) => error,
            };
            match error {
                AcquireError::SessionLost { .. } => return Err(End::SessionLost),
                AcquireError::NodeLost { path } if self.rejoin == Rejoin::Never => {
                    return Err(End::NodeDeleted { path });
                }
                AcquireError::NodeLost { .. } => pause = SHORTEST_PAUSE,
                // Offline, perhaps: then it joins as soon as it can.
                _ if passes(&error) => {}
                _ => return Err(End::Refused(error)),
            }
            tracing::warn!(path = %self.path(), %error, "a participant has no place in line, joining again");
            standing.set(State::Joining { error: Some(error) });
            // A session that is over is for the next attempt to report.
            drop(tokio::time::timeout(pause, self.session().lost()).await);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn attempt(&self, standing: &Standing) -> Result<Guard, AcquireError> {
        let waiter = self.lock.enlist().await?;
        let token = waiter.fencing_token();
        standing.set(State::Waiting { token });
        // A lock's waiter would notice this at its next wake-up. A participant may wait for days, and is not to believe
        // meanwhile that it is in the race.
        let removed = waiter.removed();
        tokio::select! {
            biased;
            granted = waiter.granted() => granted,
            error = removed => Err(error),
        }
    }

    /// Tells whether it is over after a leadership that ended for this reason.
    pub(crate) fn end_after(&self, loss: Loss, standing: &Standing) -> Option<End> {
        match (loss, self.rejoin) {
            (Loss::SessionLost, _) => Some(End::SessionLost),
            _ if standing.is_leaving() => Some(End::Left),
            (_, Rejoin::Always) => None,
            (loss, Rejoin::Never) => Some(End::LeadershipLost(loss)),
        }
    }

    pub(crate) async fn participants(&self) -> Result<Vec<Participant>, Error> {
        let contenders = self.lock.contenders().await?.into_iter().enumerate();
        Ok(contenders
            .map(|(place, contender)| Participant::new(contender, place == 0))
            .collect())
    }

    pub(crate) async fn leader(&self) -> Result<Option<Participant>, Error> {
        let first = self.lock.first_contender().await?;
        Ok(first.map(|contender| Participant::new(contender, true)))
    }

    pub(crate) async fn leader_after(
        &self,
        before: Option<FencingToken>,
    ) -> Result<Participant, Error> {
        loop {
            let mut watch = match self.leader().await? {
                Some(leader) if Some(leader.token()) > before => return Ok(leader),
                Some(leader) => {
                    // Woken when this one goes, and not when anybody joins.
                    let path = self.child(leader.node_name());
                    match self.session().get(path).watched().await {
                        Ok((_, _, watch)) => watch,
                        Err(error) if error.is_no_node() => continue,
                        Err(error) => return Err(error),
                    }
                }
                None => match self.session().list(self.path()).watched().await {
                    Ok((_, _, watch)) => {
                        // Somebody may have come before the watch was set.
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
            // Whatever it is: the next look tells, also that the session is over.
            let _: zk_core::WatchEvent = watch.changed().await;
        }
    }

    fn child(&self, name: &str) -> String {
        let base = self.path();
        if base.is_root() {
            format!("/{name}")
        } else {
            format!("{base}/{name}")
        }
    }
}

/// Tells whether another attempt may succeed without anybody's help.
fn passes(error: &AcquireError) -> bool {
    let AcquireError::Failed(error) = error else {
        return error.class() == ErrorClass::Recoverable;
    };
    // A server without a quorum takes no writes, and a parent may be reaped again and again.
    let passes = matches!(error.kind(), ErrorKind::ReadOnlyServer | ErrorKind::NoNode);
    passes || error.class() == ErrorClass::Recoverable
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
