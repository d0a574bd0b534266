//! The state behind a typed value: takes what sessions read, and publishes the newest good value and the problem.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use arc_swap::ArcSwapOption;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use zk_cache::Node;
use zk_core::NodePath;
use zk_core::Session;
use zk_core::codec::DecodeError;

use super::current::Current;
use crate::node_watcher::NodeWatcher;
use crate::node_watcher::Observation;
use crate::problem::FollowId;
use crate::problem::Problem;
use crate::problem::ValueHealth;
use crate::snapshot_check::Extent;
use crate::snapshot_check::Reading;
use crate::subtree::Subtree;

pub(super) type Validation<T> = Box<dyn Fn(&T) -> Result<(), String> + Send + Sync>;
/// Makes a value from the data of a node, or from its absence; `None` if there is no value for an absent node.
type FromNode<T> = Box<dyn Fn(Option<&[u8]>) -> Option<Result<T, DecodeError>> + Send + Sync>;
type FromSubtree<T> = Box<dyn Fn(&Subtree) -> Result<T, DecodeError> + Send + Sync>;

pub(super) enum Source<T> {
    Node(FromNode<T>),
    Subtree(FromSubtree<T>),
}

pub(super) struct ValueState<T> {
    path: NodePath,
    source: Source<T>,
    validation: Option<Validation<T>>,
    current: ArcSwapOption<Current<T>>,
    /// Grows with each value.
    number: watch::Sender<u64>,
    problem: watch::Sender<Option<Arc<Problem>>>,
    /// Locked during every update.
    last: Mutex<LastRead>,
}

/// The last read of any session.
struct LastRead {
    /// The newest revision that was read, whether or not its value was good.
    revision: Option<i64>,
    /// The nodes that the current value was made from.
    current_from: Option<SourceVersion>,
    health: ValueHealth,
}

/// Identifies the nodes that a value was made from.
#[derive(PartialEq, Eq)]
enum SourceVersion {
    /// The revision of a node, or its absence.
    Node(Option<i64>),
    /// The whole subtree: its revision changes also with nodes that are left out.
    Subtree(Subtree),
}

/// The result of taking a read.
enum Taken {
    /// It was current, or older than a read of the same session. The revision is that of the read.
    Accepted(Option<i64>),
    /// It may be older than this revision, which another session has read.
    MaybeOutdated(Option<i64>),
}

/// One session that follows the value.
struct FollowState {
    id: FollowId,
    /// The newest revision that the session has reached.
    known: Option<i64>,
}

impl<T> ValueState<T> {
    pub(super) fn new(
        path: NodePath,
        source: Source<T>,
        validation: Option<Validation<T>>,
        default: Option<Arc<Current<T>>>,
    ) -> Self {
        let health = ValueHealth::new(path.clone());
        Self {
            path,
            source,
            validation,
            current: ArcSwapOption::new(default),
            number: watch::Sender::new(0),
            problem: watch::Sender::new(health.problem()),
            last: Mutex::new(LastRead {
                revision: None,
                current_from: None,
                health,
            }),
        }
    }

    pub(super) fn path(&self) -> &NodePath {
        &self.path
    }

    pub(super) fn current(&self) -> Option<Arc<Current<T>>> {
        self.current.load_full()
    }

    pub(super) const fn number(&self) -> &watch::Sender<u64> {
        &self.number
    }

    pub(super) const fn problems(&self) -> &watch::Sender<Option<Arc<Problem>>> {
        &self.problem
    }

    fn last(&self) -> MutexGuard<'_, LastRead> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the problem if it has changed. The caller holds the lock, so that the last update is published last.
    fn publish_problem(&self, health: &ValueHealth) {
        let now = health.problem();
        self.problem.send_if_modified(|published| {
            let is_changed = match (&*published, &now) {
                (Some(published), Some(now)) => !Arc::ptr_eq(published, now),
                (published, now) => published.is_some() != now.is_some(),
            };
            if is_changed {
                if let Some(problem) = &now {
                    tracing::debug!(path = %self.path, %problem, "the value may differ from the published one");
                }
                *published = now;
            }
            is_changed
        });
    }

    fn stale(&self) -> Problem {
        Problem::Stale {
            path: self.path.clone(),
        }
    }
}

impl<T: Send + Sync + 'static> ValueState<T> {
    /// Spawns the task that lets a session follow the value.
    pub(super) fn follow(this: &Arc<Self>, session: &Session) -> JoinHandle<()> {
        let extent = match &this.source {
            Source::Node(_) => Extent::Node,
            Source::Subtree(_) => Extent::Subtree,
        };
        let watcher = NodeWatcher::new(session, &this.path, extent);
        let state = Arc::clone(this);
        session.spawn(async move { state.watch(watcher).await })
    }

    /// Takes the observations of one session until it is over.
    async fn watch(&self, mut watcher: NodeWatcher) {
        let guard = FollowGuard::new(self);
        let mut follow = FollowState {
            id: guard.id,
            known: None,
        };
        loop {
            match watcher.next().await {
                Observation::Read(reading) => match self.take(&reading, &follow) {
                    Taken::Accepted(revision) => follow.known = follow.known.max(revision),
                    Taken::MaybeOutdated(newer) => {
                        // That revision is committed, and so the server has it after the resync.
                        follow.known = newer;
                        watcher.resync();
                    }
                },
                Observation::Stale => self.mark_failing(follow.id, self.stale()),
                Observation::Contended => {
                    let path = self.path.clone();
                    self.mark_failing(follow.id, Problem::Contended { path });
                }
                Observation::Failed(error) => {
                    self.mark_failing(follow.id, Problem::Unreadable(error));
                }
                Observation::SessionLost => break,
            }
        }
        guard.end_with(Problem::SessionLost {
            path: self.path.clone(),
        });
    }

    /// Makes the value of a read the current one, unless the read is older than the last one or the value is bad.
    ///
    /// A missing node has no revision. The absence may be older than the last read of another session, until this
    /// session has reached the revision of that read (`FollowState::known`).
    fn take(&self, reading: &Reading, follow: &FollowState) -> Taken {
        let revision = reading.revision;
        let mut last = self.last();
        if revision < last.revision && follow.known < last.revision {
            return Taken::MaybeOutdated(last.revision);
        }
        if revision.is_some() && revision < last.revision {
            last.health.mark_healthy(follow.id);
            self.publish_problem(&last.health);
            return Taken::Accepted(revision);
        }
        last.revision = revision.or(last.revision);
        // A panic in the source's function or in the validation leaves the state consistent.
        let made = catch_unwind(AssertUnwindSafe(|| self.make_valid(reading)));
        let made = made.unwrap_or_else(|panic| {
            Err(Problem::Panicked {
                path: self.path.clone(),
                message: panic_message(&*panic),
            })
        });
        let problem = match made {
            Ok((value, version)) => {
                let version = Some(version);
                if version != last.current_from {
                    self.current
                        .store(Some(Arc::new(Current { value, revision })));
                    last.current_from = version;
                    self.number.send_modify(|number| *number += 1);
                }
                None
            }
            Err(problem) => Some(problem),
        };
        last.health.on_read(follow.id, problem);
        self.publish_problem(&last.health);
        Taken::Accepted(revision)
    }

    /// Makes and validates a value.
    fn make_valid(&self, reading: &Reading) -> Result<(T, SourceVersion), Problem> {
        let (made, version) = match &self.source {
            Source::Node(make) => {
                let data = reading.snapshot.root().and_then(Node::data);
                (make(data), SourceVersion::Node(reading.revision))
            }
            Source::Subtree(make) => {
                let nodes = reading.snapshot.nodes();
                let nodes = nodes.filter_map(|node| Some((node.path(), node.data()?)));
                let subtree = Subtree::new(self.path.clone(), nodes);
                (Some(make(&subtree)), SourceVersion::Subtree(subtree))
            }
        };
        let made = made.ok_or_else(|| Problem::Absent {
            path: self.path.clone(),
        })?;
        let value = made.map_err(|error| Problem::Invalid(error.of_node(&self.path)))?;
        if let Some(validate) = &self.validation {
            validate(&value).map_err(|reason| Problem::Rejected {
                path: self.path.clone(),
                reason,
            })?;
        }
        Ok((value, version))
    }

    /// Takes that a session cannot read the current data.
    fn mark_failing(&self, id: FollowId, problem: Problem) {
        let mut last = self.last();
        last.health.mark_failing(id, problem);
        self.publish_problem(&last.health);
    }
}

/// Reports that a session no longer follows, also when its task is dropped.
struct FollowGuard<'a, T> {
    state: &'a ValueState<T>,
    id: FollowId,
    reason: Option<Problem>,
}

impl<'a, T> FollowGuard<'a, T> {
    fn new(state: &'a ValueState<T>) -> Self {
        let id = state.last().health.add();
        Self {
            state,
            id,
            reason: None,
        }
    }

    fn end_with(mut self, reason: Problem) {
        self.reason = Some(reason);
    }
}

impl<T> Drop for FollowGuard<'_, T> {
    fn drop(&mut self) {
        let mut last = self.state.last();
        last.health.remove(self.id, self.reason.take());
        self.state.publish_problem(&last.health);
    }
}

/// Returns the message of a panic, which is a text unless `panic_any` was used.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a text")
        .to_owned()
}
