//! What all parts of the store share: the queue's session, paths, options and tokens, and the leader's time.

use std::sync::Arc;
use std::time::Duration;

use zk_core::Error;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::Session;
use zk_core::Stat;

use crate::deadline::Deadline;
use crate::idempotency::IdempotencyTokens;
use crate::leader_clock::whole_millis;
use crate::leader_time::LeaderTime;
use crate::options::QueueOptions;
use crate::paths::QueuePaths;

/// One queue as one process accesses it.
#[derive(Debug)]
pub(crate) struct QueueContext {
    pub(crate) session: Session,
    pub(crate) paths: QueuePaths,
    pub(crate) options: QueueOptions,
    pub(crate) tokens: IdempotencyTokens,
    leader_time: Arc<LeaderTime>,
}

impl QueueContext {
    pub(super) fn new(session: &Session, paths: QueuePaths, options: QueueOptions) -> Self {
        let leader_time = Arc::new(LeaderTime::new());
        Self {
            tokens: IdempotencyTokens::new(session, paths.token(), Arc::clone(&leader_time)),
            leader_time,
            session: session.clone(),
            paths,
            options,
        }
    }

    /// Returns the deadline of a call that begins now.
    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::after(self.session.operation_timeout())
    }

    /// Returns the present moment of this process, as a duration since a fixed one.
    pub(super) fn moment(&self) -> Duration {
        self.leader_time.moment()
    }

    /// Returns the time by which items are due, in milliseconds since 1970; zero if the layout has no delays.
    ///
    /// It is the earliest time that the leader's clock can show, so no item is taken before it is due.
    pub(super) async fn time_for_delays(&self, deadline: Deadline) -> Result<u64, Error> {
        if self.options.layout.has_delays() {
            self.leader_time(deadline).await
        } else {
            Ok(0)
        }
    }

    /// Returns the earliest time that the leader's clock can show, in milliseconds since 1970.
    pub(super) async fn leader_time(&self, deadline: Deadline) -> Result<u64, Error> {
        if !self.leader_time.is_recent() {
            self.ask_for_time(deadline).await?;
        }
        Ok(self.known_time())
    }

    /// Returns the earliest time that the leader's clock can show, zero if it is not known. Sends nothing.
    pub(super) fn known_time(&self) -> u64 {
        self.leader_time.earliest().unwrap_or(0)
    }

    /// Returns when an item is due that is delayed from now on, by the latest time that the leader's clock can show.
    pub(crate) async fn due_after(
        &self,
        delay: Duration,
        deadline: Deadline,
    ) -> Result<u64, Error> {
        if !self.leader_time.is_recent() || !self.leader_time.is_exact() {
            self.ask_for_time(deadline).await?;
        }
        let latest = self.leader_time.latest().unwrap_or(0);
        Ok(latest.saturating_add(whole_millis(delay)))
    }

    /// Writes a token and nothing else, because the reply has a timestamp.
    async fn ask_for_time(&self, deadline: Deadline) -> Result<(), Error> {
        let committed = self
            .tokens
            .commit_once(deadline, |nothing_else| nothing_else);
        committed.await.map(drop).map_err(|failure| failure.error)
    }

    /// Reads a node.
    pub(super) async fn get(
        &self,
        path: &NodePath,
        deadline: Deadline,
    ) -> Result<(Vec<u8>, Stat), Error> {
        self.session.get(path).timeout(deadline.remaining()).await
    }

    /// Returns the `Stat` of a node; `None` if it does not exist.
    pub(super) async fn exists(
        &self,
        path: &NodePath,
        deadline: Deadline,
    ) -> Result<Option<Stat>, Error> {
        let exists = self.session.exists(path);
        exists.timeout(deadline.remaining()).await
    }

    /// Lets the session's server catch up with the leader.
    pub(super) async fn sync(&self, path: &NodePath, deadline: Deadline) -> Result<(), Error> {
        self.session.sync(path).timeout(deadline.remaining()).await
    }

    /// Returns the names of the children of a node; none if it does not exist.
    pub(crate) async fn child_names(
        &self,
        path: &NodePath,
        deadline: Deadline,
    ) -> Result<Vec<String>, Error> {
        match self.session.list(path).timeout(deadline.remaining()).await {
            Ok((names, _)) => Ok(names),
            Err(error) if error.is_no_node() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Creates a container node; it is no error if the node exists.
    pub(crate) async fn create_container(
        &self,
        path: &NodePath,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let create = self.session.create(path, "");
        let create = create.container().container_parents();
        let created = match create.timeout(deadline.remaining()).await {
            // Servers before 3.5 have no containers.
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                let plain = self.session.create(path, "").parents();
                plain.timeout(deadline.remaining()).await
            }
            created => created,
        };
        match created {
            Err(error) if error.is_node_exists() => Ok(()),
            // The caller's next attempt finds out whether it exists.
            Err(error) if error.is_outcome_unknown() && !error.is_fatal() => Ok(()),
            other => other.map(drop),
        }
    }
}
