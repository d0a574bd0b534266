//! What all parts of the store share: the queue's session, paths, options and tokens, and the leader's time.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use zk_core::{
    Bytes, CommitError, Committed, Error, ErrorKind, IdempotencyTokens, NodePath, Session, Stat,
    Transaction,
};

use crate::deadline::Deadline;
use crate::leader_clock::{LeaderClock, whole_millis};
use crate::options::QueueOptions;
use crate::paths::QueuePaths;

/// One queue as one process accesses it.
#[derive(Debug)]
pub(crate) struct QueueContext {
    pub(crate) session: Session,
    pub(crate) paths: QueuePaths,
    pub(crate) options: QueueOptions,
    pub(crate) tokens: IdempotencyTokens,
    /// The moment from which durations of this process are counted.
    began: Instant,
}

impl QueueContext {
    pub(super) fn new(session: &Session, paths: QueuePaths, options: QueueOptions) -> Self {
        Self {
            tokens: IdempotencyTokens::new(session, paths.token()),
            began: Instant::now(),
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
        self.began.elapsed()
    }

    /// Commits a transaction exactly once.
    ///
    /// If this is dropped after the transaction was sent, it may be committed.
    pub(crate) async fn commit(
        &self,
        transaction: Transaction,
        deadline: Deadline,
    ) -> Result<Committed, CommitError> {
        let transaction = transaction.timeout(deadline.remaining());
        self.tokens.commit(transaction).await
    }

    /// Returns the time by which items are due, in milliseconds since 1970; zero if the layout has no delays and no items
    /// are left to other consumers for a time.
    ///
    /// It is the earliest time that the leader's clock can show, so no item is taken before it is due.
    pub(super) async fn time_for_delays(&self, deadline: Deadline) -> Result<u64, Error> {
        if self.options.layout.has_delays() || self.paths.is_shared {
            self.leader_time(deadline).await
        } else {
            Ok(0)
        }
    }

    /// Returns the earliest time that the leader's clock can show, in milliseconds since 1970.
    pub(crate) async fn leader_time(&self, deadline: Deadline) -> Result<u64, Error> {
        if !is_recent(&self.leader_clock(), self.moment()) {
            self.ask_for_time(deadline).await?;
        }
        Ok(self.known_time())
    }

    /// Returns the earliest time that the leader's clock can show, zero if it is not known. Sends nothing.
    pub(super) fn known_time(&self) -> u64 {
        self.leader_clock().at_least(self.moment()).unwrap_or(0)
    }

    /// Returns when an item is due that is delayed from now on, by the latest time that the leader's clock can show.
    pub(crate) async fn due_after(
        &self,
        delay: Duration,
        deadline: Deadline,
    ) -> Result<u64, Error> {
        let clock = self.leader_clock();
        if !is_recent(&clock, self.moment()) || clock.uncertainty() >= MAX_UNCERTAINTY {
            self.ask_for_time(deadline).await?;
        }
        let latest = self.leader_clock().at_most(self.moment()).unwrap_or(0);
        Ok(latest.saturating_add(whole_millis(delay)))
    }

    /// Returns the leader's clock, as the newest reply to a write of a token shows it.
    fn leader_clock(&self) -> LeaderClock {
        let mut clock = LeaderClock::default();
        if let Some(newest) = self.tokens.timestamp() {
            let moment = |at: Instant| at.saturating_duration_since(self.began);
            let millis = unix_millis(newest.time);
            clock.record(moment(newest.sent), moment(newest.received), millis);
        }
        clock
    }

    /// Writes a token and nothing else, because the reply has a timestamp.
    async fn ask_for_time(&self, deadline: Deadline) -> Result<(), Error> {
        self.commit(self.session.transaction(), deadline).await?;
        Ok(())
    }

    /// Reads a node.
    pub(super) async fn get(
        &self,
        path: &NodePath,
        deadline: Deadline,
    ) -> Result<(Bytes, Stat), Error> {
        self.session.get(path).timeout(deadline.remaining()).await
    }

    /// Returns the `Stat` of a node; `None` if it does not exist.
    pub(crate) async fn exists(
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
        self.create_container_with(path, String::new(), deadline)
            .await
    }

    /// Creates the parent of the claims; it is no error if it exists.
    pub(crate) async fn create_claims_node(
        &self,
        path: &NodePath,
        deadline: Deadline,
    ) -> Result<(), Error> {
        self.create_shared(path, String::new(), deadline).await
    }

    /// Creates a parent of nodes that other clients may create, too; it is no error if it exists.
    pub(super) async fn create_shared(
        &self,
        path: &NodePath,
        data: String,
        deadline: Deadline,
    ) -> Result<(), Error> {
        if !self.paths.is_shared && !self.options.layout.has_persistent_path() {
            return self.create_container_with(path, data, deadline).await;
        }
        let create = self.session.create(path, data).parents();
        match create.timeout(deadline.remaining()).await {
            Err(error) if error.is_node_exists() => Ok(()),
            // The caller's next attempt finds out whether it exists.
            Err(error) if error.is_outcome_unknown() && !error.is_fatal() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Creates a container node with data.
    pub(super) async fn create_container_with(
        &self,
        path: &NodePath,
        data: String,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let create = self.session.create(path, data.clone());
        let create = create.container().container_parents();
        let created = match create.timeout(deadline.remaining()).await {
            // Servers before 3.5 have no containers.
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                let plain = self.session.create(path, data).parents();
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

/// Returns whether the newest timestamp is recent enough to be relied on.
fn is_recent(clock: &LeaderClock, now: Duration) -> bool {
    clock.age(now).is_some_and(|age| age < MAX_AGE)
}

/// Returns a time in milliseconds since 1970.
pub(super) fn unix_millis(time: SystemTime) -> u64 {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// How long a timestamp of the leader is used.
const MAX_AGE: Duration = Duration::from_secs(10);
/// How exactly the leader's time has to be known for a delay, which the uncertainty prolongs.
const MAX_UNCERTAINTY: Duration = Duration::from_millis(250);
