//! The node on which a leader receives requests to step down.
//!
//! It is a reader of a read/write lock beside the election, so that the requests are the lock's
//! [revocations](zk_lock::Revoke) and the election's own nodes have no other data than those of Curator.
//! Readers do not wait for each other: the inbox of a former leader, which may still be alive, does not delay that of its
//! successor. The label of the inbox has the fencing token of its leader.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use zk_core::{Acl, ErrorClass, IntoNodePath, NodePath, ParsePathError, Session};
use zk_lock::{Contender, FencingToken, Inspector, LockOptions, OwnerInfo, ReadGuard, RwLock};

use super::StepDownPolicy;
use crate::lease::LeadershipState;

/// Where the leaders of an election receive requests.
#[derive(Debug, Clone)]
pub(crate) struct Inbox {
    path: NodePath,
    acl: Option<Acl>,
    policy: Option<StepDownPolicy>,
}

impl Inbox {
    pub(crate) fn new(
        election: impl IntoNodePath,
        acl: Option<&Acl>,
        policy: Option<StepDownPolicy>,
    ) -> Result<Self, ParsePathError> {
        let election = election.into_node_path()?;
        let name = election.name().unwrap_or_default();
        Ok(Self {
            path: match election.parent() {
                Some(parent) => parent.join(&format!("{name}{SUFFIX}"))?,
                // The election of a chroot or a namespace.
                None => election.join(SUFFIX.trim_start_matches('-'))?,
            },
            acl: acl.cloned(),
            policy,
        })
    }

    /// Returns a handle to the inboxes of all leaders.
    pub(crate) fn inspector(&self, session: &Session) -> Inspector {
        let inspector = Inspector::new(session, &self.path);
        inspector.expect("the path is parsed already")
    }

    /// Creates the inbox of a leadership, and answers requests as its policy says. Does not end.
    ///
    /// The inbox stays in the state of the leadership, which removes it.
    pub(crate) async fn serve(&self, leadership: &Arc<LeadershipState>) -> Infallible {
        let Some(policy) = self.policy else {
            return std::future::pending().await;
        };
        let mut pause = MIN_PAUSE;
        loop {
            if let Some(inbox) = self.open(leadership).await {
                let lost = inbox.lost();
                leadership.set_inbox(inbox);
                let loss = tokio::select! {
                    biased;
                    loss = lost => loss,
                    () = answer(policy, leadership) => return std::future::pending().await,
                };
                tracing::warn!(path = %self.path, %loss, "a leader lost its inbox and opens another one");
            }
            leadership.session().pause(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    async fn open(&self, leadership: &LeadershipState) -> Option<ReadGuard> {
        let owner = OwnerInfo::this_process().with_label(leadership.token().to_string());
        let options = LockOptions::default().with_owner(owner);
        let options = match &self.acl {
            Some(acl) => options.with_acl(acl.clone()),
            None => options,
        };
        let lock = RwLock::with_options(leadership.session(), &self.path, options);
        let lock = lock.expect("the path is parsed already, and the layout has readers");
        match lock.reader().acquire().await {
            Ok(inbox) => Some(inbox),
            Err(error) => {
                tracing::warn!(path = %self.path, %error, "a leader has no inbox: requests to step down are not seen");
                if error.class() == ErrorClass::Outcome {
                    return std::future::pending().await;
                }
                None
            }
        }
    }
}

/// Answers requests as long as the leadership lasts.
async fn answer(policy: StepDownPolicy, leadership: &Arc<LeadershipState>) {
    match policy {
        StepDownPolicy::Application => std::future::pending().await,
        StepDownPolicy::Resign => {
            while let Ok(request) = leadership.step_down_requested().await {
                if let Err(error) = request.accept().await {
                    tracing::debug!(%error, "a leader resigns without an answer to the request");
                }
            }
        }
    }
}

/// Returns the leader that an inbox belongs to.
pub(super) fn leader_of(inbox: &Contender) -> Option<FencingToken> {
    let token = inbox.owner_info()?.label()?.parse().ok()?;
    Some(FencingToken::new(token))
}

/// What the path of an election ends with in the path of its leaders' inboxes.
const SUFFIX: &str = "-step-down";
const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(5);
