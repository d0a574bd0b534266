//! Carries out a publication: reads, plans, commits, and finds out the outcome after a lost reply.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use tokio::time::Instant;
use zk_core::outcome::Verdict;
use zk_core::{
    Acl, Create, CreateMode, Error, ErrorClass, ErrorKind, MultiResult, NodePath, Session, Stat,
};

use crate::error::PublishError;
use crate::history::{self, EntryName};
use crate::options::PublishOptions;
use crate::outcome::{HistoryEvidence, WriteEvidence, judge, stat_of};
use crate::plan::{Expected, KeyRequest, NodeContent, Refusal, Step, plan};
use crate::published::{KeyChange, Published};

/// A publication in progress.
pub(crate) struct Publication {
    session: Session,
    history: usize,
    acl: Option<Acl>,
    keys: Vec<KeyRequest>,
    deadline: Instant,
    attempts: u32,
    /// Deletes the oldest entries, unless one of them has children.
    trims: bool,
}

/// One key as it was read.
struct KeyState {
    parent: Option<Stat>,
    found: Option<NodeContent>,
    /// The ACL of the node, for the history entry that keeps its data.
    acl: Option<Acl>,
    entries: Vec<EntryName>,
    /// The ACL of the directory of its history, if there is one.
    directory_acl: Option<Acl>,
    /// The nodes of the histories of its children, which are deleted with a removed node.
    histories_below: Vec<NodePath>,
}

/// One attempt: the nodes as they were read, and the plan.
struct Attempt {
    states: Vec<KeyState>,
    steps: Vec<Step>,
    /// The history entries that the transaction creates.
    entries: Vec<Option<EntryName>>,
}

/// The purpose of one operation of the transaction.
enum OpPurpose {
    /// The step of the key with this index.
    Key(usize),
    /// Creates a missing node between two keys that are both created.
    Parent(NodePath),
    /// Deletes a node of the histories below a removed key.
    History(NodePath),
}

impl Publication {
    pub(crate) fn new(session: &Session, options: &PublishOptions, keys: Vec<KeyRequest>) -> Self {
        Self {
            session: session.clone(),
            history: options.history,
            acl: options.acl.clone(),
            keys,
            deadline: options.deadline(session),
            attempts: 0,
            trims: true,
        }
    }

    /// Publishes, and repeats it while other clients write in between and the conditions hold.
    pub(crate) async fn run(mut self) -> Result<Vec<Published>, PublishError> {
        let Some(first) = self.keys.first().map(|key| key.path.clone()) else {
            return Ok(Vec::new());
        };
        // The server has caught up since the last write of another client.
        let mut has_synced = false;
        let mut has_parents = false;
        loop {
            let attempt = match self.prepare().await {
                Ok(attempt)
                    if attempt.steps.iter().all(|step| *step == Step::Nothing) && has_synced =>
                {
                    return Ok(self.unchanged(attempt));
                }
                Err(PublishError::Operation(error)) => return Err(error.into()),
                Err(refused) if has_synced => return Err(refused),
                Ok(attempt) if attempt.steps.iter().any(|step| *step != Step::Nothing) => attempt,
                // The result may come from a lagging server.
                Ok(_) | Err(_) => {
                    self.catch_up().await?;
                    has_synced = true;
                    continue;
                }
            };
            if !has_parents && self.is_parent_missing(&attempt) {
                // Created first: a transaction that fails for want of a parent could lose its reply, too.
                self.create_parents(&attempt).await?;
                has_parents = true;
                continue;
            }
            self.protect_histories(&attempt).await?;
            self.attempts += 1;
            match self.commit(&attempt).await {
                Ok(changed) => return self.published(&attempt, changed).await,
                Err(error) if error.is_outcome_unknown() => {
                    match self.resolve_lost_reply(&attempt, &error).await? {
                        Some(published) => return Ok(published),
                        None => {
                            tracing::debug!(path = %first, "repeating a publication whose reply was lost");
                        }
                    }
                }
                Err(error) if error.is_no_node() => self.create_parents(&attempt).await?,
                // An entry that another client has put into a history may have children.
                Err(error)
                    if error.kind() == ErrorKind::NotEmpty && self.trims && self.history > 0 =>
                {
                    self.trims = false;
                }
                // Another client has written in between; the next attempt reads its value.
                Err(error) if is_write_conflict(&error) => {
                    self.catch_up().await?;
                    has_synced = true;
                }
                Err(error) => return Err(error.into()),
            }
            if self.remaining().is_zero() {
                return Err(PublishError::Contended {
                    path: first,
                    attempts: self.attempts,
                });
            }
        }
    }

    /// Reads the keys and plans the transaction.
    async fn prepare(&self) -> Result<Attempt, PublishError> {
        let states = self.read().await?;
        let mut steps = Vec::new();
        let mut entries = Vec::new();
        for (key, state) in self.keys.iter().zip(&states) {
            let step = plan(key, state.found.as_ref()).map_err(|refusal| match refusal {
                Refusal::Conflict => PublishError::Conflict {
                    path: key.path.clone(),
                    expected: key.expected,
                    found: state.found.as_ref().map(|found| Box::new(found.stat)),
                },
                Refusal::VersionIsAny => PublishError::VersionIsAny {
                    path: key.path.clone(),
                },
            })?;
            let replaced = state.found.as_ref().filter(|_| step.replaces());
            let kept = replaced.filter(|_| self.history > 0 && !self.is_below_removed(key));
            let copied = match step {
                Step::Create => key.acl.as_ref(),
                _ => state.acl.as_ref().filter(|_| kept.is_some()),
            };
            if copied.is_some_and(history::is_masked) {
                return Err(PublishError::HiddenAcl {
                    path: key.path.clone(),
                });
            }
            entries.push(kept.map(|found| {
                // Unique: the number within this process, the session among processes.
                let number = NUMBER.fetch_add(1, Ordering::Relaxed);
                EntryName::new(found.stat.mzxid, self.session.id(), number)
            }));
            steps.push(step);
        }
        Ok(Attempt {
            states,
            steps,
            entries,
        })
    }

    /// Makes the server apply everything proposed so far: one of our own transactions may be among that.
    async fn catch_up(&self) -> Result<(), Error> {
        let sync = self.session.sync(&self.keys[0].path).with_quorum();
        sync.timeout(self.remaining()).await
    }

    async fn read(&self) -> Result<Vec<KeyState>, Error> {
        try_join_all(self.keys.iter().map(|key| self.read_one(key))).await
    }

    async fn read_one(&self, key: &KeyRequest) -> Result<KeyState, Error> {
        let path = &key.path;
        let timeout = self.remaining();
        let has_history = self.history > 0;
        // The parent first: if it is unchanged afterwards, no child was created since.
        let parent = async {
            match path.parent() {
                // Optional evidence: a client without the permission knows less after a lost reply.
                Some(parent) => self
                    .session
                    .exists(parent)
                    .timeout(timeout)
                    .await
                    .ok()
                    .flatten(),
                None => None,
            }
        };
        let found = self.session.get(path).timeout(timeout);
        let acl = async {
            if has_history {
                self.acl_of(path).await
            } else {
                Ok(None)
            }
        };
        let entries = async {
            if has_history {
                history::list(&self.session, path, timeout).await
            } else {
                Ok(Vec::new())
            }
        };
        let directory_acl = async {
            match history::directory(path).filter(|_| has_history) {
                Some(directory) => self.acl_of(&directory).await,
                None => Ok(None),
            }
        };
        let (parent, found, acl, entries, directory_acl) =
            tokio::join!(biased; parent, found.into_future(), acl, entries, directory_acl);
        let found = match found {
            Ok((data, stat)) => Some(NodeContent {
                data: data.into(),
                stat,
            }),
            Err(error) if error.is_no_node() => None,
            Err(error) => return Err(error),
        };
        let acl = acl?;
        // Without an ACL the node was deleted since it was read.
        let found = found.filter(|_| !has_history || acl.is_some());
        let has_children = found
            .as_ref()
            .is_some_and(|found| found.stat.num_children > 0);
        let histories_below = if key.wanted.is_none() && has_children {
            history::list_below(&self.session, path, timeout).await?
        } else {
            Vec::new()
        };
        Ok(KeyState {
            parent,
            found,
            acl,
            entries: entries?,
            directory_acl: directory_acl?,
            histories_below,
        })
    }

    /// Reads the ACL of a node; `None` if there is no node.
    async fn acl_of(&self, path: &NodePath) -> Result<Option<Acl>, Error> {
        match self.session.acl(path).timeout(self.remaining()).await {
            Ok((acl, _)) => Ok(Some(acl)),
            Err(error) if error.is_no_node() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives the directories of histories the ACLs that their keys have: another client may have made one, or changed
    /// the ACL of a key.
    async fn protect_histories(&self, attempt: &Attempt) -> Result<(), Error> {
        let keys = self.keys.iter().zip(&attempt.states);
        for ((key, state), (step, entry)) in keys.zip(attempt.steps.iter().zip(&attempt.entries)) {
            let is_created = *step == Step::Create;
            let wanted = match &state.acl {
                _ if is_created => key.acl.as_ref().or(self.acl.as_ref()),
                acl => acl.as_ref().filter(|_| entry.is_some()),
            };
            let wanted = match wanted {
                None if is_created => Some(self.session.default_acl()),
                wanted => wanted,
            };
            let (Some(found), Some(wanted)) = (&state.directory_acl, wanted) else {
                continue;
            };
            if found == wanted {
                continue;
            }
            let directory = history::directory(&key.path).expect("the root is not a key");
            tracing::debug!(%directory, "setting the acl of the history to that of its key");
            let set = self.session.set_acl(&directory, wanted.clone());
            match set.timeout(self.remaining()).await {
                Ok(_) => {}
                // The transaction fails, and creates it.
                Err(error) if error.is_no_node() => {}
                // The key is created without an entry. The next publication makes one, and fails here.
                Err(error) if is_created && error.kind() == ErrorKind::NoAuth => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Commits all steps in one transaction.
    async fn commit(&self, attempt: &Attempt) -> Result<Vec<MultiResult>, Error> {
        let mut transaction = self.session.transaction();
        for purpose in self.operations(attempt) {
            let at = match purpose {
                OpPurpose::Key(at) => at,
                OpPurpose::Parent(path) => {
                    transaction = transaction.create_as(path, "", PLAIN, None);
                    continue;
                }
                OpPurpose::History(path) => {
                    transaction = transaction.delete(path);
                    continue;
                }
            };
            let key = &self.keys[at];
            let data = || key.wanted.clone().unwrap_or_default();
            transaction = match attempt.steps[at] {
                Step::Nothing => transaction,
                Step::Check { version } => transaction.check_version(&key.path, version),
                Step::Create => {
                    let acl = key.acl.as_ref().or(self.acl.as_ref());
                    transaction.create_as(&key.path, data(), PLAIN, acl.cloned())
                }
                Step::Set { version } => transaction.set_version(&key.path, data(), version),
                Step::Delete { version } => transaction.delete_version(&key.path, version),
            };
        }
        for (at, (key, state)) in self.keys.iter().zip(&attempt.states).enumerate() {
            let (Some(entry), Some(found)) = (&attempt.entries[at], &state.found) else {
                continue;
            };
            let directory = history::directory(&key.path).expect("the root is not a key");
            let node = |entry: EntryName| {
                let node = directory.join(&entry.to_string());
                node.expect("the name of an entry is valid")
            };
            let acl = state.acl.clone();
            transaction = transaction.create_as(node(*entry), found.data.clone(), PLAIN, acl);
            if matches!(attempt.steps[at], Step::Delete { .. }) {
                // Its `mzxid` proves the removal, which leaves no revision.
                transaction = transaction.set(&directory, "");
            }
            if self.trims {
                let kept = self.history - 1;
                for old in history::surplus(&state.entries, found.stat.mzxid, kept) {
                    transaction = transaction.delete(node(old));
                }
            }
        }
        transaction.timeout(self.remaining()).commit().await
    }

    /// Returns the keys that the transaction creates.
    fn created<'a>(
        &'a self,
        attempt: &'a Attempt,
    ) -> impl Iterator<Item = (usize, &'a KeyRequest)> {
        let keys = self.keys.iter().enumerate();
        keys.filter(|(at, _)| attempt.steps[*at] == Step::Create)
    }

    /// Returns the nearest ancestor of a path that the same transaction creates. The nodes in between do not exist
    /// either, and must not be created without it.
    fn nearest_created(&self, attempt: &Attempt, path: &NodePath) -> Option<NodePath> {
        let above = std::iter::successors(path.parent(), NodePath::parent);
        let mut above = above.filter(|above| !above.is_root());
        above.find(|above| self.created(attempt).any(|(_, key)| key.path == *above))
    }

    /// Returns whether the same transaction removes a node above a key, and with it the history of the key.
    fn is_below_removed(&self, key: &KeyRequest) -> bool {
        let mut removed = self.keys.iter().filter(|other| other.wanted.is_none());
        removed.any(|removed| key.path.ancestors().any(|above| above == removed.path))
    }

    /// Returns whether a key is created below a missing node that the transaction does not create.
    fn is_parent_missing(&self, attempt: &Attempt) -> bool {
        self.created(attempt).any(|(at, key)| {
            attempt.states[at].parent.is_none()
                && self.nearest_created(attempt, &key.path).is_none()
        })
    }

    /// Returns the operations of the transaction in order: creates from the top down, then deletes from the bottom up.
    fn operations(&self, attempt: &Attempt) -> Vec<OpPurpose> {
        let mut between = BTreeSet::new();
        for (_, key) in self.created(attempt) {
            if let Some(nearest) = self.nearest_created(attempt, &key.path) {
                let above = std::iter::successors(key.path.parent(), NodePath::parent);
                between.extend(above.take_while(|above| *above != nearest));
            }
        }
        let keys = self.keys.iter().enumerate().map(|(at, key)| {
            let depth = depth_of(&key.path);
            match attempt.steps[at] {
                Step::Delete { .. } => (1, -depth, OpPurpose::Key(at)),
                _ => (0, depth, OpPurpose::Key(at)),
            }
        });
        let between = between.into_iter();
        let between = between.map(|path| (0, depth_of(&path), OpPurpose::Parent(path)));
        let histories = attempt.states.iter().zip(&attempt.steps);
        let histories = histories
            .filter(|(_, step)| matches!(step, Step::Delete { .. }))
            .flat_map(|(state, _)| &state.histories_below)
            .map(|path| (1, -depth_of(path), OpPurpose::History(path.clone())));
        let mut all: Vec<_> = keys.chain(between).chain(histories).collect();
        all.sort_by_key(|(order, depth, _)| (*order, *depth));
        all.into_iter().map(|(_, _, purpose)| purpose).collect()
    }

    /// Creates the parents of the keys, except those that the transaction creates, and the parents of history entries.
    async fn create_parents(&self, attempt: &Attempt) -> Result<(), Error> {
        let parents = self
            .created(attempt)
            .filter(|(_, key)| self.nearest_created(attempt, &key.path).is_none())
            .filter_map(|(_, key)| key.path.parent());
        for node in parents.filter(|node| !node.is_root()) {
            let create = self.session.create(&node, "").parents();
            self.create_missing(create).await?;
        }
        for ((key, state), entry) in self.keys.iter().zip(&attempt.states).zip(&attempt.entries) {
            let directory = history::directory(&key.path).filter(|_| entry.is_some());
            let (Some(directory), Some(acl)) = (directory, &state.acl) else {
                continue;
            };
            if state.directory_acl.is_none() {
                let above = directory.parent().expect("it is not the root");
                let create = self.session.create(&above, "");
                let of_parent = self.acl_of_histories(key, acl).await?;
                self.create_missing(create.acl(of_parent)).await?;
            }
            let create = self.session.create(&directory, "").acl(acl.clone());
            self.create_missing(create).await?;
        }
        Ok(())
    }

    /// Creates a node unless it exists.
    async fn create_missing(&self, create: Create) -> Result<(), Error> {
        let create = create.idempotent().timeout(self.remaining());
        match create.await {
            Err(error) if !error.is_node_exists() => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the ACL of the node with the histories of several keys.
    ///
    /// Who may create a key, and no other client, may create its history: if the session's ACL is open to all, it is that of
    /// the node above, or that of the key if the server does not return it.
    async fn acl_of_histories(&self, key: &KeyRequest, of_key: &Acl) -> Result<Acl, Error> {
        let default = self.session.default_acl();
        if *default != Acl::open() {
            return Ok(default.clone());
        }
        let above = key.path.parent().expect("the root is not a key");
        match self.acl_of(&above).await {
            Ok(Some(acl)) if !history::is_masked(&acl) => Ok(acl),
            Err(error) if error.kind() != ErrorKind::NoAuth => Err(error),
            _ => Ok(of_key.clone()),
        }
    }

    /// Finds out the outcome of a transaction whose reply was lost: what it published, or `None` if it was not applied
    /// and can be repeated.
    async fn resolve_lost_reply(
        &self,
        attempt: &Attempt,
        lost: &Error,
    ) -> Result<Option<Vec<Published>>, PublishError> {
        let unknown = |reason: String| PublishError::OutcomeUnknown {
            path: self.keys[0].path.clone(),
            reason,
            source: lost.clone(),
        };
        if lost.is_fatal() {
            return Err(unknown(
                "the session was lost with the request in flight".to_owned(),
            ));
        }
        let after = match self.read_after_sync().await {
            Ok(after) => after,
            Err(error) => {
                return Err(unknown(format!(
                    "the reply was lost, and the nodes cannot be read: {error}"
                )));
            }
        };
        let evidence = self.keys.iter().enumerate();
        let evidence = evidence.map(|(at, key)| {
            let (before, after) = (&attempt.states[at], &after[at]);
            WriteEvidence {
                step: attempt.steps[at],
                wanted: key.wanted.as_deref(),
                before: before.found.as_ref(),
                parent_before: before.parent.as_ref(),
                after: after.found.as_ref(),
                parent_after: after.parent.as_ref(),
                history: history_evidence(attempt.entries[at], &after.entries),
            }
        });
        let evidence: Vec<_> = evidence.collect();
        let is_applied = match judge(&evidence) {
            Verdict::NotApplied => return Ok(None),
            Verdict::Applied => true,
            // Without a condition it does not matter which client has published.
            Verdict::SameEffect => self.keys.iter().all(|key| key.expected == Expected::Any),
            Verdict::Unknown => false,
        };
        if !is_applied {
            return Err(unknown(
                "the reply was lost, and the nodes do not show the outcome".to_owned(),
            ));
        }
        let published = self.keys.iter().zip(&evidence);
        let published = published.map(|(key, evidence)| Published {
            path: key.path.clone(),
            change: change_of(evidence.step),
            stat: stat_of(*evidence),
        });
        Ok(Some(published.collect()))
    }

    /// Reads the keys from a server that has applied everything sent before, and retries until the deadline.
    async fn read_after_sync(&self) -> Result<Vec<KeyState>, Error> {
        loop {
            let read = match self.catch_up().await {
                Ok(()) => self.read_keys_then_parents().await,
                Err(error) => Err(error),
            };
            match read {
                Err(error)
                    if error.class() == ErrorClass::Recoverable && !self.remaining().is_zero() =>
                {
                    self.session.pause(PAUSE).await;
                }
                read => return read,
            }
        }
    }

    /// Reads each key and then its parent, so that the parent is at least as new.
    async fn read_keys_then_parents(&self) -> Result<Vec<KeyState>, Error> {
        let keys = self.keys.iter().map(|key| async {
            let mut state = self.read_one(key).await?;
            if let Some(parent) = key.path.parent() {
                let parent = self.session.exists(parent).timeout(self.remaining());
                state.parent = parent.await.ok().flatten();
            }
            Ok(state)
        });
        join_all(keys).await.into_iter().collect()
    }

    async fn published(
        &self,
        attempt: &Attempt,
        changed: Vec<MultiResult>,
    ) -> Result<Vec<Published>, PublishError> {
        let mut changed = changed.into_iter();
        let mut by_key: Vec<_> = self.keys.iter().map(|_| None).collect();
        for purpose in self.operations(attempt) {
            match purpose {
                OpPurpose::Key(at) if attempt.steps[at] == Step::Nothing => {}
                OpPurpose::Key(at) => by_key[at] = changed.next(),
                OpPurpose::Parent(_) | OpPurpose::History(_) => drop(changed.next()),
            }
        }
        let mut all = Vec::new();
        for (at, (key, changed)) in self.keys.iter().zip(by_key).enumerate() {
            let (step, state) = (attempt.steps[at], &attempt.states[at]);
            let stat = match changed {
                Some(
                    MultiResult::Set(stat)
                    | MultiResult::Created {
                        stat: Some(stat), ..
                    },
                ) => Some(stat),
                Some(MultiResult::Created { stat: None, .. }) => {
                    self.stat_of_created(&key.path).await
                }
                Some(MultiResult::Checked) => state.found.as_ref().map(|found| found.stat),
                Some(MultiResult::Deleted) | None => None,
            };
            all.push(Published {
                path: key.path.clone(),
                change: change_of(step),
                stat,
            });
        }
        Ok(all)
    }

    /// Reads the stat that an old server did not return, unless the node has changed since.
    async fn stat_of_created(&self, path: &NodePath) -> Option<Stat> {
        let stat = self.session.exists(path).timeout(self.remaining()).await;
        stat.ok().flatten().filter(|stat| stat.version == 0)
    }

    fn unchanged(self, attempt: Attempt) -> Vec<Published> {
        let all = self.keys.into_iter().zip(attempt.states);
        let unchanged = all.map(|(key, state)| Published {
            path: key.path,
            change: KeyChange::Unchanged,
            stat: state.found.map(|found| found.stat),
        });
        unchanged.collect()
    }

    fn remaining(&self) -> Duration {
        history::remaining(self.deadline)
    }
}

/// Returns the number of names in a path.
fn depth_of(path: &NodePath) -> i64 {
    let depth = path.depth_below(&NodePath::root()).unwrap_or_default();
    i64::try_from(depth).expect("the length of a path fits into i64")
}

/// Compares the entries of a history with the entry that the transaction creates.
fn history_evidence(own: Option<EntryName>, entries: &[EntryName]) -> HistoryEvidence {
    match own {
        Some(own) if entries.contains(&own) => HistoryEvidence::Own,
        Some(own) if entries.iter().any(|it| it.revision == own.revision) => HistoryEvidence::Other,
        _ => HistoryEvidence::Missing,
    }
}

fn change_of(step: Step) -> KeyChange {
    match step {
        Step::Nothing | Step::Check { .. } => KeyChange::Unchanged,
        Step::Create => KeyChange::Created,
        Step::Set { .. } => KeyChange::Replaced,
        Step::Delete { .. } => KeyChange::Removed,
    }
}

/// Returns whether a transaction failed because a node has changed since it was read.
fn is_write_conflict(error: &Error) -> bool {
    use zk_core::ErrorKind::{BadVersion, NodeExists};
    matches!(error.kind(), BadVersion | NodeExists)
}

/// Numbers the history entries of this process.
static NUMBER: AtomicU32 = AtomicU32::new(0);

const PLAIN: CreateMode = CreateMode::Persistent;
/// The pause between two reads after a lost reply. Each read also waits for a connection.
const PAUSE: Duration = Duration::from_millis(20);
