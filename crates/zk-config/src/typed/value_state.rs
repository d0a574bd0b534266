//! The state behind a typed value: takes what sessions read, and publishes the newest good value and the problem.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use arc_swap::ArcSwapOption;
use tokio::sync::watch;
use zk_core::codec::DecodeError;
use zk_core::{NodePath, Session};

use super::current::Current;
use crate::node_watcher::{NodeWatcher, Observation};
use crate::problem::{FollowId, Problem, ValueHealth};
use crate::snapshot_check::{Extent, Reading};
use crate::subtree::Subtree;
use crate::value_file::{FileProblem, ValueFile};

pub(super) type Validation<T> = Box<dyn Fn(&T) -> Result<(), String> + Send + Sync>;
/// Decodes a value from the nodes, perhaps none; `None` if there is no value without nodes.
pub(super) type Decode<T> = Box<dyn Fn(&Subtree) -> Option<Result<T, DecodeError>> + Send + Sync>;

/// The nodes of a value, and how they are decoded and validated.
pub(super) struct ValueSource<T> {
    pub(super) path: NodePath,
    pub(super) extent: Extent,
    pub(super) decode: Decode<T>,
    pub(super) validation: Option<Validation<T>>,
}

pub(super) struct ValueState<T> {
    source: ValueSource<T>,
    file: Option<ValueFile>,
    current: ArcSwapOption<Current<T>>,
    /// Grows with each value.
    number: watch::Sender<u64>,
    problem: watch::Sender<Option<Arc<Problem>>>,
    /// Locked during every update.
    last: Mutex<LastRead>,
}

/// The last read of any session.
struct LastRead {
    /// The revision that was read last, whether or not its value was good. It stays when the node is deleted.
    revision: Option<i64>,
    /// The last read was that of a missing node.
    is_absence: bool,
    /// Grows with each read that shows another state, and with the value of the file.
    number: u64,
    /// The revision of the value from the file, until a session has read as new a state or caught up with the leader.
    saved_revision: Option<i64>,
    /// The nodes that the current value was decoded from, if a session has read them.
    current_from: Option<SourceVersion>,
    health: ValueHealth,
}

/// Identifies the nodes that a value was decoded from.
#[derive(PartialEq, Eq)]
enum SourceVersion {
    /// The revision of a node, or its absence. The data tell nodes of the same revision apart, because an ensemble that was
    /// set up anew may have given it to others.
    Node(Option<i64>, Arc<Subtree>),
    /// The whole subtree: its revision changes also with nodes that are left out.
    Subtree(Arc<Subtree>),
}

/// The result of taking a read.
enum Taken {
    /// It was current. The number is that of the newest read that the session has certainly reached.
    Accepted(u64),
    /// It may be older than the read with this number, which is that of another session or the value of the file.
    MaybeOutdated(u64),
}

/// One session that follows the value.
struct FollowState {
    id: FollowId,
    /// The number of the newest read that the session has certainly reached, see `LastRead::number`.
    known: u64,
}

impl<T> ValueState<T> {
    pub(super) fn new(
        source: ValueSource<T>,
        default: Option<Arc<Current<T>>>,
        file: Option<ValueFile>,
    ) -> Self {
        let health = ValueHealth::new(source.path.clone());
        Self {
            source,
            file,
            current: ArcSwapOption::new(default),
            number: watch::Sender::new(0),
            problem: watch::Sender::new(health.problem()),
            last: Mutex::new(LastRead {
                revision: None,
                is_absence: false,
                number: 0,
                saved_revision: None,
                current_from: None,
                health,
            }),
        }
    }

    pub(super) const fn path(&self) -> &NodePath {
        &self.source.path
    }

    pub(super) fn file_problem(&self) -> Option<Arc<FileProblem>> {
        self.file.as_ref()?.problem()
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
            let is_changed = match (published.as_deref(), now.as_deref()) {
                // It is found again and again while it lasts.
                (Some(Problem::Contended { .. }), Some(Problem::Contended { .. })) => false,
                (Some(published), Some(now)) => !std::ptr::eq(published, now),
                (published, now) => published.is_some() != now.is_some(),
            };
            if is_changed {
                if let Some(problem) = &now {
                    tracing::debug!(path = %self.source.path, %problem, "the value may differ from the published one");
                }
                *published = now;
            }
            is_changed
        });
    }

    fn stale(&self) -> Problem {
        Problem::Stale {
            path: self.path().clone(),
        }
    }
}

impl<T: Send + Sync + 'static> ValueState<T> {
    /// Takes what a session reads, until it is over.
    pub(super) async fn follow(&self, session: &Session) {
        let extent = self.source.extent.clone();
        let mut watcher = NodeWatcher::new(session, self.path(), extent);
        let guard = FollowGuard::new(self);
        let mut follow = FollowState {
            id: guard.id,
            known: 0,
        };
        loop {
            match watcher.next().await {
                Observation::Read(reading) => match self.take(&reading, &follow) {
                    Taken::Accepted(known) => follow.known = known,
                    Taken::MaybeOutdated(newer) => {
                        // What that read shows is committed, and so the server has it after the resync.
                        follow.known = newer;
                        watcher.resync();
                    }
                },
                Observation::Stale => self.mark_failing(follow.id, self.stale()),
                Observation::Contended => {
                    let path = self.path().clone();
                    self.mark_failing(follow.id, Problem::Contended { path });
                }
                Observation::Failed(error) => {
                    self.mark_failing(follow.id, Problem::Unreadable(error));
                }
                Observation::SessionLost => break,
            }
        }
        guard.end_with(Problem::SessionLost {
            path: self.path().clone(),
        });
    }

    /// Makes the value of a read the current one, unless the read may be older than the last one or the value is bad.
    ///
    /// If the last read found the node, a higher revision is certainly newer. Otherwise the order is unknown: a missing node
    /// has no revision, and an ensemble that was set up anew starts again with low ones. What a session reads after it has
    /// reached the last read (`FollowState::known`) is newer, whatever it is.
    fn take(&self, reading: &Reading, follow: &FollowState) -> Taken {
        let revision = reading.revision;
        let mut last = self.last();
        let newest = last.revision.max(last.saved_revision);
        let is_same = match revision {
            Some(_) => revision == newest && !last.is_absence,
            None => last.is_absence,
        };
        let is_certainly_newer = !last.is_absence && revision > newest;
        if !is_same && !is_certainly_newer && follow.known < last.number {
            return Taken::MaybeOutdated(last.number);
        }
        if !is_same {
            last.number += 1;
        }
        // The same absence may be that of an earlier time, before the last node was created.
        let known = if is_same && last.is_absence {
            follow.known
        } else {
            last.number
        };
        last.is_absence = revision.is_none();
        if revision.is_some() {
            last.revision = revision;
            last.saved_revision = None;
        }
        let nodes = Arc::new(Subtree::of_snapshot(&reading.snapshot));
        let problem = match self.decode_and_validate_catching(&nodes) {
            Ok(value) => {
                let version = Some(self.version(&nodes, revision));
                if version != last.current_from {
                    last.current_from = version;
                    if let Some(file) = &self.file {
                        file.save(revision, &nodes);
                    }
                    self.publish(value, &nodes, revision, None);
                }
                None
            }
            Err(problem) => Some(problem),
        };
        last.health.on_read(follow.id, problem);
        self.publish_problem(&last.health);
        Taken::Accepted(known)
    }

    /// Takes the value of the file if no session reads a good value in time.
    pub(super) async fn load_if_unread(&self) {
        let Some(file) = &self.file else {
            return;
        };
        let mut number = self.number.subscribe();
        let read = number.wait_for(|number| *number > 0);
        if tokio::time::timeout(file.wait(), read).await.is_ok() {
            return;
        }
        let Some(saved) = file.load().await else {
            return;
        };
        let mut last = self.last();
        if last.current_from.is_some() {
            return;
        }
        let nodes = Arc::new(saved.nodes);
        match self.decode_and_validate_catching(&nodes) {
            Ok(value) => {
                last.saved_revision = saved.revision;
                last.number += 1;
                self.publish(value, &nodes, saved.revision, Some(saved.at));
            }
            Err(problem) => file.report(FileProblem::Unusable {
                file: file.path().to_owned(),
                problem,
            }),
        }
    }

    /// Decodes and validates a value; a panic is a problem.
    fn decode_and_validate_catching(&self, nodes: &Subtree) -> Result<T, Problem> {
        // A panic in the caller's function or in the validation leaves the state consistent.
        let decoded = catch_unwind(AssertUnwindSafe(|| self.decode_and_validate(nodes)));
        decoded.unwrap_or_else(|panic| {
            Err(Problem::Panicked {
                path: self.path().clone(),
                message: panic_message(&*panic),
            })
        })
    }

    fn decode_and_validate(&self, nodes: &Subtree) -> Result<T, Problem> {
        let decoded = (self.source.decode)(nodes).ok_or_else(|| Problem::Absent {
            path: self.path().clone(),
        })?;
        let value = decoded.map_err(|error| Problem::Invalid(error.of_node(self.path())))?;
        if let Some(validate) = &self.source.validation {
            validate(&value).map_err(|reason| Problem::Rejected {
                path: self.path().clone(),
                reason,
            })?;
        }
        Ok(value)
    }

    fn version(&self, nodes: &Arc<Subtree>, revision: Option<i64>) -> SourceVersion {
        match self.source.extent {
            Extent::Node => SourceVersion::Node(revision, Arc::clone(nodes)),
            Extent::Subtree | Extent::Children(_) => SourceVersion::Subtree(Arc::clone(nodes)),
        }
    }

    /// Makes a value the current one. The caller holds the lock.
    fn publish(
        &self,
        value: T,
        nodes: &Arc<Subtree>,
        revision: Option<i64>,
        saved_at: Option<SystemTime>,
    ) {
        let subtree = (self.source.extent != Extent::Node).then(|| Arc::clone(nodes));
        self.current.store(Some(Arc::new(Current {
            value,
            revision,
            subtree,
            saved_at,
        })));
        self.number.send_modify(|number| *number += 1);
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

#[cfg(test)]
mod tests;
