//! The current value of a key or a subtree, typed, read without a round trip.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use arc_swap::ArcSwapOption;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Session;
use zk_core::codec::Codec;
use zk_core::codec::DecodeError;

use crate::plan::Found;
use crate::problem::Follower;
use crate::problem::Health;
use crate::problem::Problem;
use crate::sight::Below;
use crate::sight::Eye;
use crate::sight::Node;
use crate::sight::Scope;
use crate::sight::Sight;
use crate::subtree::Subtree;

/// The current value of a key or of a subtree, for as many readers as there are clones.
///
/// Reading it is lock-free and asks nobody.
/// It belongs to no session: [`follow`](Self::follow) lets one keep it current, and when that session is lost the value
/// stays, until the next session follows it.
/// What cannot be decoded, or is refused by the validation, leaves the last good value in place and is told as the
/// [`problem`](Self::problem).
///
/// Each clone has its own idea of which value it has [seen](Self::changed).
///
/// ```no_run
/// # async fn serve(_: zk_core::Session) -> Result<(), zk_core::Error> { Ok(()) }
/// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
/// use zk_config::Typed;
/// use zk_core::codec::Text;
/// use zk_core::{RetryPolicy, Session};
///
/// let motto = Typed::<String>::node("/app/motto", Text)?
///     .validated(|motto| if motto.is_empty() { Err("it is empty".to_owned()) } else { Ok(()) })
///     .build();
/// let reader = motto.clone();
/// Session::builder("zk1:2181,zk2:2181,zk3:2181")
///     .supervise(RetryPolicy::default(), async |session| {
///         let _following = motto.follow(&session);
///         serve(session).await
///     })
///     .await?;
/// println!("{:?} {:?}", reader.current().as_deref(), reader.problem());
/// # Ok(())
/// # }
/// ```
pub struct Typed<T> {
    shared: Arc<Shared<T>>,
    seen: watch::Receiver<u64>,
}

impl<T> Clone for Typed<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            seen: self.seen.clone(),
        }
    }
}

/// A value that was in force at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Current<T> {
    value: T,
    revision: Option<i64>,
}

impl<T> Current<T> {
    /// Returns the revision: the highest transaction that made any of what the value was made from.
    ///
    /// For one key that is the [`mzxid`](zk_core::Stat::mzxid) of its node.
    /// `None` for a value that nothing in ZooKeeper contributed to.
    pub fn revision(&self) -> Option<i64> {
        self.revision
    }
}

impl<T> Deref for Current<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Describes a [`Typed`].
#[must_use = "nothing is followed until it is built"]
pub struct TypedBuilder<T> {
    path: NodePath,
    source: Source<T>,
    validation: Option<Validation<T>>,
    default: Option<T>,
}

type Validation<T> = Box<dyn Fn(&T) -> Result<(), String> + Send + Sync>;
/// Makes a value of the data of a node, or of its absence, which may have none.
type FromNode<T> = Arc<dyn Fn(Option<&[u8]>) -> Option<Result<T, DecodeError>> + Send + Sync>;
type FromSubtree<T> = Arc<dyn Fn(&Subtree) -> Result<T, DecodeError> + Send + Sync>;

enum Source<T> {
    Node(FromNode<T>),
    Subtree(FromSubtree<T>),
}

/// What was read last.
struct Last {
    /// The highest revision, good or bad.
    revision: Option<i64>,
    /// What the value in force was made from.
    in_force: Option<Seen>,
    health: Health,
}

/// What became of a look.
enum Taken {
    /// It counts, or is older than what this session has seen itself.
    Believed(Option<i64>),
    /// It may be older than this revision, which another session has read.
    Doubted(Option<i64>),
}

/// What tells whether a value is another one.
#[derive(PartialEq, Eq)]
enum Seen {
    /// The revision of a node, or its absence.
    Node(Option<i64>),
    /// All there is: nodes that are left out move the revision of a subtree, too.
    Subtree(Subtree),
}

struct Shared<T> {
    path: NodePath,
    source: Source<T>,
    validation: Option<Validation<T>>,
    current: ArcSwapOption<Current<T>>,
    /// Grows with each value.
    number: watch::Sender<u64>,
    problem: watch::Sender<Option<Arc<Problem>>>,
    /// Whoever writes holds it.
    last: Mutex<Last>,
}

impl<T: Send + Sync + 'static> Typed<T> {
    /// Describes the value of one node.
    ///
    /// # Errors
    ///
    /// When `path` is not a path.
    pub fn node<P, C>(path: P, codec: C) -> Result<TypedBuilder<T>, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
        C: Codec<T> + 'static,
    {
        Self::made_by(path, move |data| Some(codec.decode(data?)))
    }

    /// Describes the value of one node, which may also follow from its absence.
    pub(crate) fn made_by<P>(
        path: P,
        make: impl Fn(Option<&[u8]>) -> Option<Result<T, DecodeError>> + Send + Sync + 'static,
    ) -> Result<TypedBuilder<T>, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Ok(TypedBuilder {
            path: path.try_into().map_err(Into::into)?,
            source: Source::Node(Arc::new(make)),
            validation: None,
            default: None,
        })
    }

    /// Describes one value made of a node and everything below it.
    ///
    /// The nodes are read as they were together at one moment: keys that were published in one transaction are seen all
    /// new or all old.
    /// While they change faster than they can be read, the value stays, and [`Problem::Moving`] says so.
    /// An absent node is an empty subtree.
    ///
    /// # Errors
    ///
    /// When `path` is not a path.
    pub fn subtree<P>(
        path: P,
        make: impl Fn(&Subtree) -> Result<T, DecodeError> + Send + Sync + 'static,
    ) -> Result<TypedBuilder<T>, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Ok(TypedBuilder {
            path: path.try_into().map_err(Into::into)?,
            source: Source::Subtree(Arc::new(make)),
            validation: None,
            default: None,
        })
    }

    /// Lets a session keep the value current, for as long as it lives and the answer does.
    ///
    /// Several sessions may follow it at the same time; what is older never takes the place of what is newer, and what
    /// happens to one of them is no [problem](Self::problem) as long as another one sees what there is.
    ///
    /// A task on the runtime of the session follows.
    pub fn follow(&self, session: &Session) -> Following {
        let shared = Arc::clone(&self.shared);
        let session = session.clone();
        let task = match &self.shared.source {
            Source::Node(_) => {
                let eye = Eye::new(&session, Node(shared.path.clone()));
                session.spawn(async move {
                    let take = |it: &Shared<T>, found: &Option<Found>, look: &Look| {
                        it.take_node(found.as_ref(), look)
                    };
                    shared.watch(eye, take).await;
                })
            }
            Source::Subtree(_) => {
                let eye = Eye::new(&session, Below(shared.path.clone()));
                session.spawn(async move {
                    shared.watch(eye, Shared::take_subtree).await;
                })
            }
        };
        Following { task }
    }

    /// Returns the value in force, or `None` while there has been no good one.
    ///
    /// Lock-free, and never waits.
    pub fn current(&self) -> Option<Arc<Current<T>>> {
        self.shared.current.load_full()
    }

    /// Returns why the value may not be what is wanted; `None` when it is what is published, as far as one can know.
    pub fn problem(&self) -> Option<Arc<Problem>> {
        self.shared.problem.borrow().clone()
    }

    /// Follows the [problem](Self::problem), beginning with that of now.
    pub fn problems(&self) -> watch::Receiver<Option<Arc<Problem>>> {
        self.shared.problem.subscribe()
    }

    /// Waits until there is a value in force.
    ///
    /// It waits for as long as there is none: bound it, and look at the [`problem`](Self::problem) then.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// Goes on waiting; another session may follow.
    pub async fn ready(&self) -> Arc<Current<T>> {
        let mut number = self.shared.number.subscribe();
        loop {
            if let Some(current) = self.current() {
                return current;
            }
            next(&mut number).await;
        }
    }

    /// Waits for a value that this handle has not seen, and answers the newest.
    ///
    /// Values that were replaced meanwhile are left out.
    /// A problem is no value: nothing happens here as long as the last good one stays.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing is missed.
    ///
    /// # Session loss
    ///
    /// Goes on waiting; another session may follow.
    pub async fn changed(&mut self) -> Arc<Current<T>> {
        loop {
            next(&mut self.seen).await;
            if let Some(current) = self.current() {
                return current;
            }
        }
    }
}

impl<T> fmt::Debug for Typed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Typed")
            .field("path", &self.shared.path)
            .field("problem", &*self.shared.problem.borrow())
            .finish_non_exhaustive()
    }
}

impl<T> TypedBuilder<T> {
    /// Refuses values for which `validation` answers why.
    ///
    /// It runs on the task that follows, and is not to wait.
    pub fn validated(
        mut self,
        validation: impl Fn(&T) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.validation = Some(Box::new(validation));
        self
    }

    /// Sets the value that is in force until a good one was read; by default there is none.
    pub fn with_default(mut self, value: T) -> Self {
        self.default = Some(value);
        self
    }

    /// Makes the handle. Nothing is read before a session [follows](Typed::follow) it.
    #[must_use]
    pub fn build(self) -> Typed<T> {
        let default = self.default.map(|value| {
            Arc::new(Current {
                value,
                revision: None,
            })
        });
        let health = Health::new(self.path.clone());
        let number = watch::Sender::new(0);
        Typed {
            seen: number.subscribe(),
            shared: Arc::new(Shared {
                path: self.path,
                source: self.source,
                validation: self.validation,
                current: ArcSwapOption::new(default),
                number,
                problem: watch::Sender::new(health.problem()),
                last: Mutex::new(Last {
                    revision: None,
                    in_force: None,
                    health,
                }),
            }),
        }
    }
}

impl<T> fmt::Debug for TypedBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedBuilder")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// A session follows a value; made by [`Typed::follow`].
///
/// # Dropping
///
/// Ends it; the value stays as it is, and its problem is [`Problem::Stale`].
#[derive(Debug)]
#[must_use = "dropping it ends the following"]
pub struct Following {
    task: JoinHandle<()>,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<T: Send + Sync + 'static> Shared<T> {
    /// Takes what is seen, until the session is over.
    async fn watch<S: Scope>(
        &self,
        mut eye: Eye<S>,
        take: impl Fn(&Self, &S::Snapshot, &Look) -> Taken,
    ) {
        let leaving = Leaving::new(self);
        let mut look = Look {
            follower: leaving.follower,
            known: None,
        };
        loop {
            match eye.next().await {
                Sight::Seen(snapshot) => match take(self, &snapshot, &look) {
                    Taken::Believed(revision) => look.known = look.known.max(revision),
                    Taken::Doubted(newer) => {
                        // It was committed before the server catches up.
                        look.known = newer;
                        eye.doubt();
                    }
                },
                Sight::Stale => self.trouble(look.follower, self.stale()),
                Sight::Moving => {
                    let path = self.path.clone();
                    self.trouble(look.follower, Problem::Moving { path });
                }
                Sight::Failed(error) => self.trouble(look.follower, Problem::Unreadable(error)),
                Sight::SessionLost => break,
            }
        }
        leaving.because(Problem::SessionLost {
            path: self.path.clone(),
        });
    }

    fn take_node(&self, found: Option<&Found>, look: &Look) -> Taken {
        let Source::Node(make) = &self.source else {
            unreachable!("a node is looked at for the sake of a node");
        };
        let revision = found.map(|found| found.stat.mzxid);
        let data = found.map(|found| found.data.as_slice());
        self.take(revision, look, Seen::Node(revision), || make(data))
    }

    fn take_subtree(&self, all: &BTreeMap<NodePath, Found>, look: &Look) -> Taken {
        let Source::Subtree(make) = &self.source else {
            unreachable!("a subtree is looked at for the sake of a subtree");
        };
        let stats = all.values().map(|found| found.stat);
        let revision = stats
            .map(|stat| stat.mzxid.max(stat.pzxid).max(stat.czxid))
            .max();
        let subtree = Subtree::new(self.path.clone(), all);
        let seen = Seen::Subtree(subtree.clone());
        self.take(revision, look, seen, || Some(make(&subtree)))
    }

    /// Puts what was read in force, unless it is older than what was read before, or bad.
    ///
    /// An absence has no revision: whether it is older than what another session has read is known only when the server
    /// has reached that, `known` of the look at least.
    fn take(
        &self,
        revision: Option<i64>,
        look: &Look,
        seen: Seen,
        make: impl FnOnce() -> Option<Result<T, DecodeError>>,
    ) -> Taken {
        let mut last = self.last();
        if revision < last.revision && look.known < last.revision {
            // Another session has seen more.
            return Taken::Doubted(last.revision);
        }
        if revision.is_some() && revision < last.revision {
            last.health.well(look.follower);
            self.tell(&last.health);
            return Taken::Believed(revision);
        }
        last.revision = revision.or(last.revision);
        // Nothing of ours is changed by what may panic.
        let made = catch_unwind(AssertUnwindSafe(|| self.made(make)));
        let made = made.unwrap_or_else(|panic| {
            Err(Problem::Panicked {
                path: self.path.clone(),
                message: message_of(&*panic),
            })
        });
        let problem = match made {
            Ok(value) => {
                let seen = Some(seen);
                if seen != last.in_force {
                    self.current
                        .store(Some(Arc::new(Current { value, revision })));
                    last.in_force = seen;
                    self.number.send_modify(|number| *number += 1);
                }
                None
            }
            Err(problem) => Some(problem),
        };
        last.health.read(look.follower, problem);
        self.tell(&last.health);
        Taken::Believed(revision)
    }

    /// Makes the value and lets it be judged.
    fn made(&self, make: impl FnOnce() -> Option<Result<T, DecodeError>>) -> Result<T, Problem> {
        let made = make().ok_or_else(|| Problem::Absent {
            path: self.path.clone(),
        })?;
        let value = made.map_err(|error| Problem::Invalid(error.of_node(&self.path)))?;
        if let Some(valid) = &self.validation {
            valid(&value).map_err(|reason| Problem::Rejected {
                path: self.path.clone(),
                reason,
            })?;
        }
        Ok(value)
    }

    /// Says that a session cannot see what there is.
    fn trouble(&self, follower: Follower, problem: Problem) {
        let mut last = self.last();
        last.health.trouble(follower, problem);
        self.tell(&last.health);
    }
}

impl<T> Shared<T> {
    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells those who follow the problem, if there is news; whoever calls holds the lock, so that they hear the last one
    /// last.
    fn tell(&self, health: &Health) {
        let now = health.problem();
        self.problem.send_if_modified(|told| {
            let is_news = match (&*told, &now) {
                (Some(told), Some(now)) => !Arc::ptr_eq(told, now),
                (told, now) => told.is_some() != now.is_some(),
            };
            if is_news {
                if let Some(problem) = &now {
                    tracing::debug!(path = %self.path, %problem, "the value in force may not be the one wanted");
                }
                *told = now;
            }
            is_news
        });
    }

    fn stale(&self) -> Problem {
        Problem::Stale {
            path: self.path.clone(),
        }
    }
}

/// Returns what a panic said, which is a text unless somebody went out of their way.
fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("something that is no text")
        .to_owned()
}

/// Waits for the next number. Whoever waits has a handle, which keeps the sender.
async fn next(number: &mut watch::Receiver<u64>) {
    if number.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Who looks.
struct Look {
    follower: Follower,
    /// The highest revision that this session has reached.
    known: Option<i64>,
}

/// Tells when a session follows no more, also when its task is dropped.
struct Leaving<'a, T> {
    shared: &'a Shared<T>,
    follower: Follower,
    reason: Option<Problem>,
}

impl<'a, T> Leaving<'a, T> {
    fn new(shared: &'a Shared<T>) -> Self {
        let follower = shared.last().health.join();
        Self {
            shared,
            follower,
            reason: None,
        }
    }

    fn because(mut self, reason: Problem) {
        self.reason = Some(reason);
    }
}

impl<T> Drop for Leaving<'_, T> {
    fn drop(&mut self) {
        let mut last = self.shared.last();
        last.health.leave(self.follower, self.reason.take());
        self.shared.tell(&last.health);
    }
}
