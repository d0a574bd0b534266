//! Carrying out a publication: read, plan, commit, and find out what became of a lost answer.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::future::try_join_all;
use tokio::time::Instant;
use zk_core::Acl;
use zk_core::Changed;
use zk_core::CreateMode;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::NodePath;
use zk_core::Session;
use zk_core::Stat;

use crate::error::PublishError;
use crate::history;
use crate::history::Entry;
use crate::outcome::Mark;
use crate::outcome::Trace;
use crate::outcome::Verdict;
use crate::outcome::judge;
use crate::outcome::stat_of;
use crate::plan::Expected;
use crate::plan::Found;
use crate::plan::Key;
use crate::plan::Refusal;
use crate::plan::Step;
use crate::plan::plan;
use crate::publisher::Change;
use crate::publisher::PublishOptions;
use crate::publisher::Published;

/// Keys on their way to be published.
pub(crate) struct Publication {
    session: Session,
    history: usize,
    acl: Option<Acl>,
    keys: Vec<Key>,
    deadline: Instant,
    attempts: u32,
}

/// What was read of one key.
struct State {
    parent: Option<Stat>,
    found: Option<Found>,
    /// The access rules of the node, for the entry that keeps its data.
    acl: Option<Acl>,
    entries: Vec<Entry>,
    /// What the histories of its children have, if the node is to go: they go with it.
    below: Vec<NodePath>,
}

/// One attempt: what it rests on and what it is to do.
struct Attempt {
    states: Vec<State>,
    steps: Vec<Step>,
    /// The entries that the transaction makes.
    entries: Vec<Option<Entry>>,
}

/// What one operation of a transaction is for.
enum Part {
    /// The key of this number.
    Key(usize),
    /// A node between two keys that are both made.
    Between(NodePath),
    /// A node of the histories below a key that goes.
    History(NodePath),
}

impl Publication {
    pub(crate) fn new(session: &Session, options: &PublishOptions, keys: Vec<Key>) -> Self {
        Self {
            session: session.clone(),
            history: options.history,
            acl: options.acl.clone(),
            keys,
            deadline: options.deadline(session),
            attempts: 0,
        }
    }

    /// Publishes, again and again as long as others come between and what is expected holds.
    pub(crate) async fn run(mut self) -> Result<Vec<Published>, PublishError> {
        let Some(first) = self.keys.first().map(|key| key.path.clone()) else {
            return Ok(Vec::new());
        };
        // Whether the server has caught up since somebody else may have come between.
        let mut is_fresh = false;
        let mut has_places = false;
        loop {
            let attempt = match self.prepare().await {
                Ok(attempt)
                    if attempt.steps.iter().all(|step| *step == Step::Nothing) && is_fresh =>
                {
                    return Ok(self.unchanged(attempt));
                }
                Err(PublishError::Operation(error)) => return Err(error.into()),
                Err(refused) if is_fresh => return Err(refused),
                Ok(attempt) if attempt.steps.iter().any(|step| *step != Step::Nothing) => attempt,
                // It may be so because the server lags behind.
                Ok(_) | Err(_) => {
                    self.catch_up().await?;
                    is_fresh = true;
                    continue;
                }
            };
            if !has_places && self.lacks_a_parent(&attempt) {
                // A transaction that cannot be carried out would only be one more to be in doubt about.
                self.make_places(&attempt).await?;
                has_places = true;
                continue;
            }
            self.attempts += 1;
            match self.commit(&attempt).await {
                Ok(changed) => return self.published(&attempt, changed).await,
                Err(error) if error.is_outcome_unknown() => {
                    match self.settle(&attempt, &error).await? {
                        Some(published) => return Ok(published),
                        None => {
                            tracing::debug!(path = %first, "a publication whose answer was lost is made again");
                        }
                    }
                }
                Err(error) if error.is_no_node() => self.make_places(&attempt).await?,
                // Somebody has come between, and the next look shows what they did.
                Err(error) if is_overtaken(&error) => {
                    self.catch_up().await?;
                    is_fresh = true;
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

    /// Reads what is there and decides what is to be done.
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
                // No other attempt of this process has the number, and no other process the session.
                let number = NUMBER.fetch_add(1, Ordering::Relaxed);
                Entry::new(found.stat.mzxid, self.session.id(), number)
            }));
            steps.push(step);
        }
        Ok(Attempt {
            states,
            steps,
            entries,
        })
    }

    /// Makes the server show what was committed until now.
    async fn catch_up(&self) -> Result<(), Error> {
        let sync = self.session.sync(&self.keys[0].path);
        sync.timeout(self.remaining()).await
    }

    async fn read(&self) -> Result<Vec<State>, Error> {
        try_join_all(self.keys.iter().map(|key| self.read_one(key))).await
    }

    async fn read_one(&self, key: &Key) -> Result<State, Error> {
        let path = &key.path;
        let timeout = self.remaining();
        let has_history = self.history > 0;
        // The parent first: if it is the same afterwards, no child was made since.
        let parent = async {
            match path.parent() {
                // Whoever may not even look there is told less about lost answers.
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
                match self.session.acl(path).timeout(timeout).await {
                    Ok((acl, _)) => Ok(Some(acl)),
                    Err(error) if error.is_no_node() => Ok(None),
                    Err(error) => Err(error),
                }
            } else {
                Ok(None)
            }
        };
        let entries = async {
            if has_history {
                history::entries(&self.session, path, timeout).await
            } else {
                Ok(Vec::new())
            }
        };
        let (parent, found, acl, entries) =
            tokio::join!(biased; parent, found.into_future(), acl, entries);
        let found = match found {
            Ok((data, stat)) => Some(Found { data, stat }),
            Err(error) if error.is_no_node() => None,
            Err(error) => return Err(error),
        };
        let acl = acl?;
        // Without access rules it has gone since it was read.
        let found = found.filter(|_| !has_history || acl.is_some());
        let has_children = found
            .as_ref()
            .is_some_and(|found| found.stat.num_children > 0);
        let below = if key.wanted.is_none() && has_children {
            history::of_children(&self.session, path, timeout).await?
        } else {
            Vec::new()
        };
        Ok(State {
            parent,
            found,
            acl,
            entries: entries?,
            below,
        })
    }

    /// Makes all changes in one transaction.
    async fn commit(&self, attempt: &Attempt) -> Result<Vec<Changed>, Error> {
        let mut transaction = self.session.transaction();
        for part in self.parts(attempt) {
            let at = match part {
                Part::Key(at) => at,
                Part::Between(path) => {
                    transaction = transaction.create_as(path, "", PLAIN, None);
                    continue;
                }
                Part::History(path) => {
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
        for ((key, state), entry) in self.keys.iter().zip(&attempt.states).zip(&attempt.entries) {
            let (Some(entry), Some(found)) = (entry, &state.found) else {
                continue;
            };
            let place = history::directory(&key.path).expect("the root is no key");
            let node = |entry: Entry| place.join(&entry.to_string()).expect("a good name");
            let acl = state.acl.clone();
            transaction = transaction.create_as(node(*entry), found.data.clone(), PLAIN, acl);
            for old in history::surplus(&state.entries, self.history - 1) {
                transaction = transaction.delete(node(*old));
            }
        }
        transaction.timeout(self.remaining()).commit().await
    }

    /// Returns the keys that are to be made.
    fn created<'a>(&'a self, attempt: &'a Attempt) -> impl Iterator<Item = (usize, &'a Key)> {
        let keys = self.keys.iter().enumerate();
        keys.filter(|(at, _)| attempt.steps[*at] == Step::Create)
    }

    /// Returns the nearest node above a path that the same publication makes: what is between is not there either, and
    /// must not be there without it.
    fn nearest_created(&self, attempt: &Attempt, path: &NodePath) -> Option<NodePath> {
        let above = std::iter::successors(path.parent(), NodePath::parent);
        let mut above = above.filter(|above| !above.is_root());
        above.find(|above| self.created(attempt).any(|(_, key)| key.path == *above))
    }

    /// Whether the same publication removes a node above a key, and with it the place of its history.
    fn is_below_removed(&self, key: &Key) -> bool {
        let mut removed = self.keys.iter().filter(|other| other.wanted.is_none());
        removed.any(|removed| key.path.ancestors().any(|above| above == removed.path))
    }

    /// Whether a node is to be made below one that is not there, and that this publication does not make.
    fn lacks_a_parent(&self, attempt: &Attempt) -> bool {
        self.created(attempt).any(|(at, key)| {
            attempt.states[at].parent.is_none()
                && self.nearest_created(attempt, &key.path).is_none()
        })
    }

    /// Returns the operations of the transaction in their order: parents are made before their children, and removed
    /// after them.
    fn parts(&self, attempt: &Attempt) -> Vec<Part> {
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
                Step::Delete { .. } => (1, -depth, Part::Key(at)),
                _ => (0, depth, Part::Key(at)),
            }
        });
        let between = between.into_iter();
        let between = between.map(|path| (0, depth_of(&path), Part::Between(path)));
        let histories = attempt.states.iter().zip(&attempt.steps);
        let histories = histories
            .filter(|(_, step)| matches!(step, Step::Delete { .. }))
            .flat_map(|(state, _)| &state.below)
            .map(|path| (1, -depth_of(path), Part::History(path.clone())));
        let mut parts: Vec<_> = keys.chain(between).chain(histories).collect();
        parts.sort_by_key(|(order, depth, _)| (*order, *depth));
        parts.into_iter().map(|(_, _, part)| part).collect()
    }

    /// Makes the parents of the keys, unless they are to be published, and the places of their histories.
    async fn make_places(&self, attempt: &Attempt) -> Result<(), Error> {
        let parents = self
            .created(attempt)
            .filter(|(_, key)| self.nearest_created(attempt, &key.path).is_none())
            .filter_map(|(_, key)| key.path.parent());
        let histories = self
            .keys
            .iter()
            .zip(&attempt.entries)
            .filter(|(_, entry)| entry.is_some())
            .filter_map(|(key, _)| history::directory(&key.path));
        for place in parents.chain(histories).filter(|place| !place.is_root()) {
            let made = self.session.create(&place, "").parents().idempotent();
            match made.timeout(self.remaining()).await {
                Ok(_) => {}
                Err(error) if error.is_node_exists() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Finds out what became of a transaction whose answer was lost: what it published, or `None` when it did not and
    /// can be tried again.
    async fn settle(
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
        let after = match self.read_settled().await {
            Ok(after) => after,
            Err(error) => return Err(unknown(format!("and could not be found out: {error}"))),
        };
        let traces = self.keys.iter().enumerate();
        let traces = traces.map(|(at, key)| {
            let (before, after) = (&attempt.states[at], &after[at]);
            Trace {
                step: attempt.steps[at],
                wanted: key.wanted.as_deref(),
                before: before.found.as_ref(),
                parent_before: before.parent.as_ref(),
                after: after.found.as_ref(),
                parent_after: after.parent.as_ref(),
                mark: mark(attempt.entries[at], &after.entries),
            }
        });
        let traces: Vec<_> = traces.collect();
        let is_any_writer_right = self.keys.iter().all(|key| key.expected == Expected::Any);
        match judge(&traces, is_any_writer_right) {
            Verdict::NotApplied => Ok(None),
            Verdict::Unknown => Err(unknown(
                "the answer was lost, and what is there does not tell".to_owned(),
            )),
            Verdict::Applied => {
                let published = self.keys.iter().zip(&traces).map(|(key, trace)| Published {
                    path: key.path.clone(),
                    change: change_of(trace.step),
                    stat: stat_of(*trace),
                });
                Ok(Some(published.collect()))
            }
        }
    }

    /// Reads what is there, at a server that has caught up with all that was sent before.
    async fn read_settled(&self) -> Result<Vec<State>, Error> {
        loop {
            let read = match self.catch_up().await {
                Ok(()) => self.read_after().await,
                Err(error) => Err(error),
            };
            match read {
                Err(error)
                    if error.class() == ErrorClass::Recoverable && !self.remaining().is_zero() =>
                {
                    drop(tokio::time::timeout(PAUSE, self.session.lost()).await);
                }
                read => return read,
            }
        }
    }

    /// Reads each key before its parent, which then is at least as new.
    async fn read_after(&self) -> Result<Vec<State>, Error> {
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
        changed: Vec<Changed>,
    ) -> Result<Vec<Published>, PublishError> {
        let mut changed = changed.into_iter();
        let mut by_key: Vec<_> = self.keys.iter().map(|_| None).collect();
        for part in self.parts(attempt) {
            match part {
                Part::Key(at) if attempt.steps[at] == Step::Nothing => {}
                Part::Key(at) => by_key[at] = changed.next(),
                Part::Between(_) | Part::History(_) => drop(changed.next()),
            }
        }
        let mut all = Vec::new();
        for (at, (key, changed)) in self.keys.iter().zip(by_key).enumerate() {
            let (step, state) = (attempt.steps[at], &attempt.states[at]);
            let stat = match changed {
                Some(
                    Changed::Set(stat)
                    | Changed::Created {
                        stat: Some(stat), ..
                    },
                ) => Some(stat),
                Some(Changed::Created { stat: None, .. }) => self.stat_of_created(&key.path).await,
                Some(Changed::Checked) => state.found.as_ref().map(|found| found.stat),
                Some(Changed::Deleted) | None => None,
            };
            all.push(Published {
                path: key.path.clone(),
                change: change_of(step),
                stat,
            });
        }
        Ok(all)
    }

    /// Reads the stat that a server did not tell, unless the node has changed since.
    async fn stat_of_created(&self, path: &NodePath) -> Option<Stat> {
        let stat = self.session.exists(path).timeout(self.remaining()).await;
        stat.ok().flatten().filter(|stat| stat.version == 0)
    }

    fn unchanged(self, attempt: Attempt) -> Vec<Published> {
        let parts = self.keys.into_iter().zip(attempt.states);
        let unchanged = parts.map(|(key, state)| Published {
            path: key.path,
            change: Change::Unchanged,
            stat: state.found.map(|found| found.stat),
        });
        unchanged.collect()
    }

    fn remaining(&self) -> Duration {
        history::remaining(self.deadline)
    }
}

/// How many names a path has.
fn depth_of(path: &NodePath) -> i64 {
    let names = path.as_str().split('/').filter(|name| !name.is_empty());
    i64::try_from(names.count()).expect("a path is shorter than that")
}

/// What the history says of who replaced the data that our entry was to keep.
fn mark(ours: Option<Entry>, there: &[Entry]) -> Mark {
    match ours {
        Some(ours) if there.contains(&ours) => Mark::Ours,
        Some(ours) if there.iter().any(|entry| entry.revision == ours.revision) => Mark::Others,
        _ => Mark::None,
    }
}

fn change_of(step: Step) -> Change {
    match step {
        Step::Nothing | Step::Check { .. } => Change::Unchanged,
        Step::Create => Change::Created,
        Step::Set { .. } => Change::Replaced,
        Step::Delete { .. } => Change::Removed,
    }
}

/// Whether a transaction failed because what it rested on is no longer so.
fn is_overtaken(error: &Error) -> bool {
    use zk_core::ErrorKind::BadVersion;
    use zk_core::ErrorKind::NodeExists;
    matches!(error.kind(), BadVersion | NodeExists)
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

const PLAIN: CreateMode = CreateMode::Persistent {
    sequential: false,
    ttl: None,
};
/// Between two looks at what became of a lost answer; each of them waits for a connection by itself.
const PAUSE: Duration = Duration::from_millis(20);
